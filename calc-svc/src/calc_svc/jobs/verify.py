"""VERIFY STREAM: computes a stream's windows and its query as one batch, and compares with its output table.

The windows are cut by the code that cuts them again for late rows and history (``millrace_core.recalc``). The
results are calculated and put into rows by the code of the trigger loop; but nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import msgspec
import numpy as np
import pyarrow as pa

from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.counts import count_rows
from calc_svc.jobs.groups import GroupNames
from calc_svc.jobs.verify_rows import JudgedRows, rows_of_messages, stored_rows
from calc_svc.queries.running import Query
from calc_svc.spark.session import Runs
from calc_svc.store.catalog import CatalogView
from calc_svc.store.tables import TableStore
from millrace_core.calc import filling
from millrace_core.calc.conversion import scale
from millrace_core.calc.filling import WindowRun
from millrace_core.calc.job_size import EVENTS_PER_JOB
from millrace_core.calc.outcome import Outcome
from millrace_core.calc.results import SubTable, calculates, check_output, write_results
from millrace_core.calc.retraction import Ranges
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.plan import Plan
from millrace_core.recalc.judged import Judged, refusal
from millrace_core.recalc.verify import Cells, Difference, Key, Texts, cut_range, differences, farthest
from millrace_core.store.search import Ints
from millrace_core.timeline.precision import milliseconds
from millrace_core.trigger.groups import RANGE
from millrace_core.trigger.stream import Definition, compiled, essence
from millrace_core.trigger.types import Grid, type_of
from millrace_core.trigger.types.occurrences import Occurrences
from millrace_core.wire.events import Group, TriggerEvent
from millrace_core.wire.rows.decoder import RowDecoder

WAIT_SECONDS = 30.0
MOST_EVENTS = 100_000
SETTLE_SECONDS, SETTLE_PAUSE = 3.0, 0.25
"""How long the output may take to follow: rows that were just written may still be on their way."""


class VerifyRequest(msgspec.Struct):
    """``first``, ``last``: event times in ticks, both included. ``judged``: which rows the stream evaluated.
    ``limit``: how many differences are listed; ``seconds``: the longest time that the answer may take.
    ``catalog`` and ``wal``: what the answer must have seen, as exclusive end offsets. ``sql``, ``id`` and
    ``user``: how it is shown to others."""

    stream: int
    first: int
    last: int
    judged: Judged
    limit: int
    seconds: float
    timezone: str = "UTC"
    sql: str = ""
    id: str = ""
    user: str | None = None
    catalog: int = 0
    wal: dict[str, dict[int, int]] = {}


def verify(
    calculator: Calculator, catalog: CatalogView, store: TableStore, asked: VerifyRequest, query: Query
) -> pa.Table:
    """The differences: (kind, tbname, ts, column, expected, found), for the wire. ``query``: the user's query
    that this runs as.

    :raises MillraceError: UNKNOWN_STREAM, NOT_ALLOWED, UNKNOWN_TABLE if a table is gone, TYPE_MISMATCH if
        the output table was altered, TOO_LARGE for too many windows, TIMEOUT, and why the query is refused.
    """
    store.wait(asked.catalog, asked.wal, min(WAIT_SECONDS, asked.seconds))
    entry = catalog.stream(asked.stream)
    if entry is None:
        raise MillraceError(ErrorCode.UNKNOWN_STREAM, "the stream was dropped in the meantime")
    spec = entry.spec
    if (why := refusal(spec)) is not None:
        raise MillraceError(ErrorCode.NOT_ALLOWED, f"VERIFY STREAM {spec.full_name}: {why}")
    output = _output_table(catalog, spec)
    run = _Run(calculator, store, spec, output, asked, query)
    run.shared = any(
        (other.spec.output.db, other.spec.output.table) == (output.db, output.name)
        for other in catalog.streams()
        if other.spec.output is not None and other.spec.uid != spec.uid
    )
    return _as_table(run.differences(), output)


def _output_table(catalog: CatalogView, spec: StreamSpec) -> Table:
    assert spec.output is not None, "a stream without is refused"
    table = catalog.tables().get((spec.output.db, spec.output.table))
    if table is None:
        raise MillraceError(
            ErrorCode.UNKNOWN_TABLE, f"the output table {spec.output.db}.{spec.output.table} no longer exists"
        )
    check_output(spec, table)
    return table


@dataclass(slots=True)
class _Cut:
    """The events of a range."""

    judged: list[TriggerEvent] = field(default_factory=list)
    early: list[TriggerEvent] = field(default_factory=list)


@dataclass(slots=True)
class _Run:
    """One verification. ``shared``: whether other streams write to the output table as well: then nobody can
    say which stream a row is from."""

    calculator: Calculator
    store: TableStore
    spec: StreamSpec
    output: Table
    asked: VerifyRequest
    query: Query
    shared: bool = False
    homes: Mapping[int, SubTable] = field(default_factory=dict)
    """The sub-tables of the groups, by their ids."""
    _far: int = 0

    def differences(self) -> list[Difference]:
        """The differences that are left once the output table has had time to follow."""
        asked, source = self.asked, self.spec.source
        assert source is not None, "a stream without is refused"
        rows = JudgedRows(compiled(essence(self.spec)), self.store.table(source.table))
        groups = rows.groups(0, 1)
        with self.calculator.lane_of(self.query) as lane:
            plan = self.calculator.plans.of(self.spec)
            self.homes = GroupNames().resolve(self.spec, list(groups), lane)
            cut = self._cut(rows, groups, (asked.first, asked.last))
            expected = self._results(cut.judged, plan, lane)
            allowed = set(self._results(cut.early, plan, lane))
            if self.spec.filled is not None:
                filled, early = self._filled(rows, groups, lane)
                expected |= filled
                allowed |= early
            until = time.monotonic() + min(SETTLE_SECONDS, self.query.left)
            found = self._compared(expected, allowed, groups)
            while found and time.monotonic() < until:
                time.sleep(SETTLE_PAUSE)
                found = self._compared(expected, allowed, groups)
            if any(one.kind == "extra" for one in found):
                allowed |= self._from_outside(rows, groups, plan, lane, bool(expected))
                found = self._compared(expected, allowed, groups)
        return found

    # ------------------------------------------------------------------ what must be there

    def _cut(self, rows: JudgedRows, groups: dict[Group, list[int]], span: tuple[int, int]) -> _Cut:
        """The events of the windows of all groups that touch the range."""
        found = _Cut()
        _, newest = rows.bounds()
        for group, children in groups.items():
            self._check(len(found.judged) + len(found.early))
            read = rows.judged(group, children, self.asked.judged)
            ts = read(max(span[0], -RANGE), min(newest, RANGE)).rows.ts
            if not len(ts):
                continue  # without a row there nothing can have closed in the range
            until = int(ts[-1]) - rows.definition.clock.watermark
            definition = rows.definition
            showing = definition.showing
            cut = cut_range(
                definition.windower, span, until, read, delayed=definition.delay is not None,
                shows=showing is not None,
            )  # fmt: skip
            found.judged += self._events(definition, cut.judged, group)
            found.early += self._events(definition, cut.early, group)
            # what is shown with a delay after a row may not have been shown yet
            shown = self._events(definition, cut.shown, group)
            if showing is not None and showing.every:
                found.early += shown
            else:
                found.judged += shown
        return found

    def _filled(
        self, rows: JudgedRows, groups: dict[Group, list[int]], lane: Runs
    ) -> tuple[dict[Key, Cells], set[Key]]:
        """The filled rows of windows that have no rows of their own, between windows that touch the range or
        lie next to it; and the keys of such rows that may be there, but need not."""
        spec, source, found = self.spec, self.spec.source, list[tuple[TriggerEvent, Ranges]]()
        assert source is not None, "a stream without is refused"
        grid_of = type_of(spec.trigger).grid
        assert grid_of is not None, "FILL goes with INTERVAL"
        grid, early, bounds = grid_of(spec.trigger, source.table.precision), list(found), rows.bounds()
        mode = filling.mode_of(spec.emission.fill)
        for group, children in groups.items():
            around = self._around(grid, rows, group, children, bounds)
            if around is None:
                continue
            span = grid.start(around.bounds[0]), grid.end(around.bounds[-1]) - 1
            cut = self._cut(rows, {group: children}, span)
            shown = {event.start for event in cut.judged}
            for kept, starts in ((found, shown), (early, shown | {event.start for event in cut.early})):
                empty = filling.filled(grid, around, starts)
                for number in around.data if mode != "NULL" else ():
                    if grid.start(number) in starts:  # it may give NULL, and is filled then
                        empty.add(grid.start(number), grid.start(number))
                inside = self._in_range(grid, empty)
                if shown and len(inside):
                    kept.append((filling.over(grid, around, cut.judged[0]), inside))
        return self._results_of_filled(found, lane), set(self._results_of_filled(early, lane))

    def _in_range(self, grid: Grid, starts: Ranges) -> Ranges:
        """Those starts that are of windows that touch the range."""
        low, high = grid.start(grid.unclosed(self.asked.first)), grid.start(grid.last(self.asked.last))
        found = Ranges()
        for first, last in starts:
            found.add(max(first, low), min(last, high))
        return found

    def _around(
        self, grid: Grid, rows: JudgedRows, group: Group, children: list[int], bounds: tuple[int, int]
    ) -> WindowRun | None:
        """The windows with rows that touch the range, and the nearest ones around it; None if it has none."""
        read = rows.judged(group, children, self.asked.judged)

        def times(low: int, high: int) -> Ints:
            return np.asarray(read(low, high).rows.ts, dtype=np.int64)

        first, last = max(self.asked.first, bounds[0]), min(self.asked.last, bounds[1])
        if first > last:
            return None
        told = [(grid.unclosed(first), grid.last(last))]
        if filling.carries(filling.mode_of(self.spec.emission.fill)):
            # the windows beside the range may give NULL; what lies farther away is not looked at
            told = [(told[0][0] - filling.FARTHER[0], told[0][1] + filling.FARTHER[0])]
        around = filling.stretches(grid, told, filling.RowTimes(times, *bounds))
        return around[0] if around[0].bounds else None

    def _results_of_filled(
        self, wanted: Sequence[tuple[TriggerEvent, Ranges]], lane: Runs
    ) -> dict[Key, Cells]:
        if not wanted:
            return {}
        asked = filling.query_of(self.spec)
        plan, events = self.calculator.plans.of(asked), [event for event, _ in wanted]
        outcomes = self.calculator.calculate(asked, plan, events, lane)
        only = [filling.only(found, starts) for found, (_, starts) in zip(outcomes, wanted, strict=True)]
        return self._written(list(zip(events, only, strict=True)), plan)

    def _check(self, events: int) -> None:
        if events > MOST_EVENTS:
            raise MillraceError(
                ErrorCode.TOO_LARGE,
                f"VERIFY STREAM {self.spec.full_name}: the range has more than {MOST_EVENTS} windows: "
                "choose a shorter one",
            )
        if not self.query.left:
            raise MillraceError(
                ErrorCode.TIMEOUT,
                f"VERIFY STREAM {self.spec.full_name}: it took longer than {self.asked.seconds:g} s: "
                "choose a shorter range",
            )
        self.query.check()

    def _events(self, definition: Definition, found: Occurrences, group: Group) -> list[TriggerEvent]:
        found = definition.emission.arrange(found)
        found.step = np.zeros(len(found), dtype=np.int64)
        at = [milliseconds(time.time_ns())]
        events = definition.emission.events(found, lambda _: group, at)
        return [event for event in events if calculates(self.spec, event)]

    def _results(self, events: Sequence[TriggerEvent], plan: Plan, lane: Runs) -> dict[Key, Cells]:
        """The rows that these events write."""
        found: dict[Key, Cells] = {}
        for begin in range(0, len(events), EVENTS_PER_JOB):
            self._check(len(events))
            part = count_rows(self.calculator, self.spec, events[begin : begin + EVENTS_PER_JOB], plan, lane)
            outcomes = self.calculator.calculate(self.spec, plan, part, lane)
            pairs = list(zip(part, outcomes, strict=True))
            found |= self._written(pairs, plan)
            self._far = max(self._far, _farthest(pairs))
        return found

    def _written(self, pairs: Sequence[tuple[TriggerEvent, Outcome]], plan: Plan) -> dict[Key, Cells]:
        """The rows that these results are."""
        for _, outcome in pairs:
            if outcome.error is not None:
                raise outcome.error
        written = write_results(
            self.spec, self.output, plan.result, plan.precision, pairs,
            lambda group: self.homes[group.id], lambda _: True,
        )  # fmt: skip
        return rows_of_messages(written.messages, self.columns, RowDecoder(self.output))

    def _from_outside(
        self, rows: JudgedRows, groups: dict[Group, list[int]], plan: Plan, lane: Runs, known: bool
    ) -> set[Key]:
        """Keys of rows in the range that come from windows outside it."""
        asked = self.asked
        far = 1 + (self._far if known else asked.last - asked.first)
        span = max(asked.first - far, -RANGE), min(asked.last + far, RANGE)
        cut = self._cut(rows, groups, span)
        return set(self._results(cut.judged + cut.early, plan, lane))

    # ------------------------------------------------------------------ what is there

    @property
    def columns(self) -> Sequence[Column]:
        """The columns that the stream writes, time first, with the names of the output table."""
        assert self.spec.output is not None, "a stream without is refused"
        return self.spec.output.columns or self.output.columns

    @property
    def range(self) -> tuple[int, int]:
        """The range in ticks of the output table."""
        assert self.spec.source is not None, "a stream without is refused"
        up, down = scale(self.spec.source.table.precision, self.output.precision)
        return self.asked.first * up // down, (self.asked.last * up + up - 1) // down

    def _compared(
        self, expected: dict[Key, Cells], allowed: set[Key], groups: Iterable[Group]
    ) -> list[Difference]:
        self._check(len(expected))
        low, high = self.range
        times = [key[1] for key in expected]
        span = min([low, *times]), max([high, *times])
        tables = {self.homes[group.id].name for group in groups}
        there = stored_rows(self.store.table(self.output), tables, span, self.columns)
        found = {
            key: cells for key, cells in there.items()
            if key in expected or (low <= key[1] <= high and not self.shared)
        }  # fmt: skip
        texts = Texts(self.output.precision, self.asked.timezone)
        compared = differences(expected, found, allowed, self.columns[1:], texts)
        return list(islice(compared, self.asked.limit))


def _farthest(found: Sequence[tuple[TriggerEvent, Outcome]]) -> int:
    """How far the rows of these results lie from their windows, in ticks of the trigger table."""
    far = 0
    for event, outcome in found:
        ts = outcome.rows["r0"].drop_nulls().to_numpy() if outcome.count else ()
        if len(ts):
            far = max(far, farthest(event.start, event.end, np.asarray(ts, dtype=np.int64)))
    return far


def _as_table(found: Sequence[Difference], output: Table) -> pa.Table:
    columns: list[tuple[str, pa.DataType, str]] = [
        ("kind", pa.string(), "VARCHAR(16)"), ("tbname", pa.string(), "VARCHAR(192)"),
        ("ts", pa.int64(), "TIMESTAMP"), ("column", pa.string(), "VARCHAR(128)"),
        ("expected", pa.string(), "VARCHAR(4096)"), ("found", pa.string(), "VARCHAR(4096)"),
    ]  # fmt: skip
    fields = [
        pa.field(name, type_, metadata={"millrace.type": shown, "millrace.precision": output.precision})
        for name, type_, shown in columns
    ]
    cells = list(zip(*found, strict=True)) or [()] * len(columns)
    arrays = [pa.array(values, field.type) for values, field in zip(cells, fields, strict=True)]
    return pa.table(arrays, schema=pa.schema(fields))

"""FILL of a stream (``millrace_core.calc.filling`` has the rules): what is stored around the windows of a
stage, and the query over whole stretches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec
import numpy as np

from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.counts import members_of
from calc_svc.jobs.outputs import StoredTimes
from calc_svc.jobs.recalc_rows import TriggerRows
from calc_svc.spark.session import Runs
from millrace_core.calc import filling
from millrace_core.calc.conversion import scale
from millrace_core.calc.filling import RowTimes, WindowRun
from millrace_core.calc.job import Stage
from millrace_core.calc.outcome import Outcome
from millrace_core.calc.retraction import Ranges, Settled, settled
from millrace_core.model.schema import Table
from millrace_core.model.stream import StreamSpec
from millrace_core.plan import Plan
from millrace_core.store.place import end_of
from millrace_core.store.search import Ints
from millrace_core.timeline.precision import HIGHEST
from millrace_core.trigger.stream import compiled, essence
from millrace_core.trigger.types import Grid, type_of
from millrace_core.wire.events import Group, TriggerEvent

Outcomes = dict[int, Outcome]


@dataclass(frozen=True, slots=True)
class Filling:
    """``plan``: of the query over stretches. ``held``: what the output table ``output`` holds."""

    calculator: Calculator
    plan: Plan
    held: StoredTimes
    output: Table

    def of(
        self, spec: StreamSpec, stage: Stage, outcomes: Mapping[int, Outcome],
        name: Callable[[Group], str], lane: Runs,
    ) -> tuple[Stage, Outcomes]:  # fmt: skip
        """The stage and its outcomes, with what is filled and what is taken back. ``name``: gives the name of
        a group's sub-table."""
        assert spec.source is not None, "FILL is over a table"
        type_ = type_of(spec.trigger)
        assert type_.grid is not None, "FILL goes with INTERVAL"
        grid: Grid = type_.grid(spec.trigger, spec.source.table.precision)
        rows = TriggerRows(compiled(essence(spec)), self.calculator.store.readable(spec.source.table))
        bounds = rows.bounds()
        if spec.emission.when == "force_window_close":
            # rows that came too late for a window are stored all the same, and must not count here
            of_event = {
                id(event): _rows(spec, rows, event.group, bounds, end_of(event.written))
                for event in stage.asked
            }
            return self._closed_by_the_clock(spec, grid, stage, outcomes, of_event, name, lane)
        left = settled(spec, stage.events, outcomes)
        calculated = {key for key, outcome in outcomes.items() if outcome.error is None}
        found: list[_Around] = []
        for events in filling.by_group(stage.events).values():
            told = filling.spans(grid, events, calculated)
            if told:
                group = events[0].group
                nulls = self._nulls(spec, events, outcomes)
                around = _rows(spec, rows, group, bounds)
                found.append(_Around(grid, events, name(group), around, nulls, told))
        self._settle(spec, found, left, lane)
        results = dict(outcomes)
        taken_back: list[TriggerEvent] = []
        over: list[TriggerEvent] = []
        for one in found:
            taken_back += one.retractions()
            for event, outcome, starts in one.filled():
                over.append(event)
                results[id(event)] = filling.only(outcome, starts)
            results |= one.corrected(outcomes)
        return Stage([*stage.events, *taken_back, *over], [*stage.asked, *over]), results

    def _settle(self, spec: StreamSpec, groups: Sequence[_Around], left: Settled, lane: Runs) -> None:
        """Calculate the stretches. One with an end that gives NULL, where that matters, is widened and
        calculated again, as often as ``FARTHER`` says."""
        mode = filling.mode_of(spec.emission.fill)
        pending = list(groups)
        for farther in (*filling.FARTHER, 0):
            asked: list[TriggerEvent] = []
            for one in pending:
                one.look(partial(self._shown, spec, left, one))
                asked += one.asked(mode)
            if not asked:
                return
            found = self.calculator.calculate(filling.query_of(spec), self.plan, asked, lane)
            outcomes = {id(event): outcome for event, outcome in zip(asked, found, strict=True)}
            pending = [one for one in pending if one.take(outcomes, farther)]

    @staticmethod
    def _nulls(spec: StreamSpec, events: Sequence[TriggerEvent], outcomes: Mapping[int, Outcome]) -> set[int]:
        """The starts of windows told of now that give NULL, if FILL's mode puts something else there."""
        if filling.mode_of(spec.emission.fill) == "NULL":
            return set()
        given = (outcomes[id(event)] for event in events if id(event) in outcomes)
        return {start for outcome in given for start in filling.null_starts(outcome)}

    def _closed_by_the_clock(
        self, spec: StreamSpec, grid: Grid, stage: Stage, outcomes: Mapping[int, Outcome],
        rows: Mapping[int, RowTimes], name: Callable[[Group], str], lane: Runs,
    ) -> tuple[Stage, Outcomes]:  # fmt: skip
        """The stage with a filled result for each window that was told of although it has no rows (nobody is
        notified of these), or that gives NULL."""
        mode = filling.mode_of(spec.emission.fill)
        over: dict[int, TriggerEvent] = {}
        silent: dict[int, TriggerEvent] = {}
        for event in stage.asked:
            if (stretch := filling.closed_empty(grid, event, rows[id(event)])) is not None:
                over[id(event)] = stretch
                silent[id(event)] = msgspec.structs.replace(event, cause="DELAY")
            elif mode == "VALUE" and filling.null_starts(outcomes[id(event)]):
                over[id(event)] = event
        asked = list(over.values())
        found = self.calculator.calculate(filling.query_of(spec), self.plan, asked, lane) if asked else []
        made = dict(zip(over, found, strict=True))
        results = dict(outcomes)
        for event in stage.asked:
            own = Ranges()
            own.add(event.start, event.start)
            whole = made.get(id(event))
            outcome = results.pop(id(event)) if whole is None else filling.only(whole, own)
            if mode == "PREV":
                before = self._before(spec, grid, event, name(event.group))
                outcome = filling.carried(outcome, whole, before)
                self.held.last[event.group.id] = event.start, outcome
            results[id(silent.get(id(event), event))] = outcome
        events, asked = (
            [silent.get(id(event), event) for event in some] for some in (stage.events, stage.asked)
        )
        return Stage(events, asked), results

    def _before(
        self, spec: StreamSpec, grid: Grid, event: TriggerEvent, name: str
    ) -> Mapping[str, object] | None:
        """The result of the window before, as it was written, by the names of the result columns; None if
        there is none."""
        start = grid.start(grid.last(event.start) - 1)
        known, outcome = self.held.last.get(event.group.id, (None, None))
        if known == start and outcome is not None and outcome.error is None and outcome.count:
            return outcome.rows.row(0, named=True)
        assert spec.source is not None and spec.output is not None, "FILL is over a table, into another"
        up, down = scale(spec.source.table.precision, self.output.precision)
        columns = spec.output.columns or self.output.columns
        row = self.held.row(self.output, name, start * up // down)
        if row is None:
            return None
        found = {f"r{i}": row[column.name] for i, column in enumerate(columns)}
        for i, column in enumerate(columns):
            time = found[f"r{i}"]
            if column.type.name == "TIMESTAMP" and isinstance(time, int):
                found[f"r{i}"] = time * down // up
        return found

    def _shown(self, spec: StreamSpec, left: Settled, one: _Around, around: Sequence[WindowRun]) -> set[int]:
        """The starts of those of the windows ``around`` that have a result, stored or about to be written."""
        assert spec.source is not None
        up, down = scale(spec.source.table.precision, self.output.precision)
        starts = {one.grid.start(number) for stretch in around for number in stretch.bounds}
        asked = Ranges()
        for start in sorted(starts):
            asked.add(start * up // down, start * up // down)
        stored = set(self.held.of(self.output, {one.name: asked}).get(one.name, ()))
        gone = left.obsolete.get(one.group.id, Ranges())
        shown = {start for start in starts if start * up // down in stored and start not in gone}
        return shown | {event.start for event, _ in left.standing if event.group.id == one.group.id}


@dataclass(slots=True)
class _Around:
    """The windows of one group around those that ``events`` tell of. ``name``: of the group's sub-table;
    ``nulls``: starts of the windows told of that give NULL; ``spans``: which windows are to be calculated."""

    grid: Grid
    events: Sequence[TriggerEvent]
    name: str
    rows: RowTimes
    nulls: set[int]
    spans: list[tuple[int, int]]
    widened: bool = False
    stretches: list[WindowRun] = field(default_factory=list)
    shown: set[int] = field(default_factory=set)
    _over: dict[int, TriggerEvent] = field(default_factory=dict)
    _ends: dict[int, dict[str, TriggerEvent]] = field(default_factory=dict)
    _found: dict[int, Outcome] = field(default_factory=dict)

    @property
    def group(self) -> Group:
        return self.events[0].group

    def look(self, shown: Callable[[Sequence[WindowRun]], set[int]]) -> None:
        """Find out which windows with rows there are, and which of them are ``shown``."""
        self.stretches = filling.stretches(self.grid, sorted(self.spans), self.rows)
        self.shown = shown(self.stretches)

    def asked(self, mode: str) -> list[TriggerEvent]:
        """What is to be calculated: each stretch, and separately each end on which others may depend."""
        self._over, self._ends = {}, {}
        asked: list[TriggerEvent] = []
        for place, stretch in enumerate(self.stretches):
            seen = stretch.only(lambda number: self.grid.start(number) in self.shown)
            starts = {self.grid.start(number) for number in seen.bounds}
            lacking = filling.gaps(seen) or bool(self.nulls & starts)
            ways = filling.open_ends(mode, seen, lacking=lacking)
            if len(starts) and (lacking or self.widened):
                self._over[place] = filling.over(self.grid, seen, self.events[0])
                asked.append(self._over[place])
            for way in ways:
                number = seen.low if way == filling.BACK else seen.high
                assert number is not None, "an end that is there"
                alone = filling.over(self.grid, WindowRun(number, None, frozenset()), self.events[0])
                self._ends.setdefault(place, {})[way] = alone
                asked.append(alone)
        return asked

    def take(self, outcomes: Mapping[int, Outcome], farther: int) -> bool:
        """Take what was calculated. Returns whether a stretch has to be widened (by ``farther`` windows) and
        calculated again."""
        self._found = {place: outcomes[id(event)] for place, event in self._over.items()}
        goes_on = False
        for place, ends in self._ends.items():
            ways = frozenset(way for way, event in ends.items() if filling.null_starts(outcomes[id(event)]))
            if ways and farther:
                self.spans.append(filling.wider(self.stretches[place], ways, farther))
                goes_on = True
        self.widened |= goes_on
        return goes_on

    def retractions(self) -> Iterator[TriggerEvent]:
        for stretch in self.stretches:
            yield from filling.retractions(self.grid, stretch, self.events[0])

    def filled(self) -> Iterator[tuple[TriggerEvent, Outcome, Ranges]]:
        """What stretches give, and for which windows: those without rows, and, where values are carried past
        them, also windows with rows that are not told of now."""
        told = {event.start for event in self.events if event.kind != "RETRACT"}
        for place, outcome in self._found.items():
            stretch = self.stretches[place]
            starts = filling.filled(self.grid, stretch, self.shown)
            for number in stretch.bounds if self.widened else sorted(stretch.data):
                start = self.grid.start(number)
                if start in self.shown and start not in told:
                    starts.add(start, start)
            if len(starts):
                yield self._over[place], outcome, starts

    def corrected(self, outcomes: Mapping[int, Outcome]) -> Outcomes:
        """By event, what replaces results that are NULL."""
        found: Outcomes = {}
        for event in self.events:
            if id(event) not in outcomes or event.start not in self.nulls:
                continue
            own = Ranges()
            own.add(event.start, event.start)
            for outcome in self._found.values():
                only = filling.only(outcome, own)
                if only.error is None and only.count:
                    found[id(event)] = only
        return found


def _rows(
    spec: StreamSpec, rows: TriggerRows, group: Group, bounds: tuple[int, int], until: int = HIGHEST
) -> RowTimes:
    """The rows of a group that count for the stream; ``until``: as in :meth:`TriggerRows.reader`."""
    with rows.stored.lock:
        read = rows.reader(group, members_of(spec, rows.stored, group).tolist(), until)

    def times(low: int, high: int) -> Ints:
        return np.asarray(read(low, high).rows.ts, dtype=np.int64)

    return RowTimes(times, *bounds)

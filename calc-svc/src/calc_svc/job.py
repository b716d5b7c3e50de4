"""One stream's waiting events: from the definition and the stored rows to messages and notifications."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

import structlog

from calc_svc import metrics
from calc_svc.catalog import CatalogView
from calc_svc.compute import Calculator, Outcome
from calc_svc.counts import count_rows, without_beginning
from calc_svc.groups import GroupNames
from calc_svc.results import calculates, check_output, notices, scale, write_results
from calc_svc.session import SMALL_ROWS
from calc_svc.store import TableStore
from millrace_core.dialect.virtual import sources_of
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Table
from millrace_core.model.stream import StreamSpec
from millrace_core.plan import Plan
from millrace_core.store.family import Family
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.notices import Notice
from millrace_core.wire.registrations import OutputGone, OutputWanted
from millrace_core.wire.status import StreamFailure
from millrace_core.wire.topics import wal_topic
from millrace_wal import Message

SEEN_SECONDS = 30.0  # the longest wait for the store to reach what the trigger has seen
STUCK_SECONDS = 1.0  # the same for a stream that has waited in vain before
TRIES = 5
EVENTS_PER_JOB = 8_000
ROWS_PER_JOB = 450_000  # with their triggers they are few enough for a query that Spark has planned already
LARGE_JOBS = 2  # jobs of more rows than share one, whose rows are in memory at the same time


@dataclass(slots=True)
class Product:
    """What a stream's job gives: rows to write, then notifications and perhaps a change of status."""

    stream: int
    messages: list[Message] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    status: StreamFailure | None = None
    outputs_gone: list[OutputGone] = field(default_factory=list)
    """What to tell the gateway once the messages are written."""
    counts: Counter[str] = field(default_factory=Counter)
    """What was done, by counters of ``wire.counters``."""
    known: bool = True
    """Whether the stream exists."""


@dataclass(slots=True)
class StreamJobs:
    """Runs one stream's events. One thread at a time runs a stream's job; streams run side by side."""

    calculator: Calculator
    catalog: CatalogView
    store: TableStore
    pool: str = "triggers"
    """Where the jobs run, a pool of the engine."""
    names: GroupNames = field(default_factory=GroupNames)
    ask: Callable[[OutputWanted], None] | None = None
    """Asks the gateway for an output table that was dropped (None: nobody can)."""
    ends: Callable[[str], Mapping[int, int]] | None = None
    """How far a topic goes now: partition -> offset (None: nothing is written but what is stored)."""
    _plans: dict[int, tuple[int, Plan]] = field(default_factory=dict)
    _failed: set[int] = field(default_factory=set)
    _stuck: set[int] = field(default_factory=set)
    """Streams that were given up though trying again might have helped: they have one short try a round until
    it succeeds, for the others wait for them."""
    _large: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(LARGE_JOBS))
    _stop: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Wait no more between tries."""
        self._stop.set()

    def low_latency(self, uid: int) -> bool:
        entry = self.catalog.stream(uid)
        return entry is not None and entry.spec.options.low_latency_calc

    def run(self, uid: int, batches: Sequence[TriggerBatch]) -> Product:
        """Calculate the batches' events; errors end in the product's status, never here."""
        product = Product(uid)
        events = _not_missed([event for batch in batches for event in batch.events if event.kind != "GONE"])
        gone = [event.group for batch in batches for event in batch.events if event.kind == "GONE"]
        spec = self._spec(uid)
        if spec is None:
            metrics.EVENTS_DROPPED.labels("no such stream").inc(len(events))
            product.known = False
            return product
        seen: dict[int, int] = {}
        for batch in batches:
            for partition, offset in batch.seen.items():
                seen[partition] = max(offset, seen.get(partition, 0))
        for event in events:
            for partition, (_, end) in (event.written or {}).items():
                seen[partition] = max(end, seen.get(partition, 0))
        failure: MillraceError | None = None
        for part in job_sizes(events):
            failure = self._persist(spec, part, seen, product) or failure
        failure = self._take_leave(spec, gone, product) or failure
        product.counts["notices"] = len(product.notices)
        product.status = self._status(spec, failure)
        return product

    def _take_leave(self, spec: StreamSpec, gone: Sequence[Group], product: Product) -> MillraceError | None:
        """DELETE_OUTPUT_TABLE: the output tables of groups whose table was dropped; or the error."""
        if not gone or spec.output is None:
            return None
        try:
            with self.calculator.engine.lane(self.pool, SEEN_SECONDS) as lane:
                self.names.resolve(spec, gone, lane)
        except Exception as error:  # as in calculating
            return _as_millrace(spec, error)
        out = spec.output
        names = {self.names.of(spec, group).name for group in gone}
        product.outputs_gone = [OutputGone(out.db, out.table, name) for name in sorted(names)]
        return None

    def _status(self, spec: StreamSpec, failure: MillraceError | None) -> StreamFailure | None:
        if failure is not None:
            self._failed.add(spec.uid)
            return StreamFailure(spec.uid, failure.message)
        if spec.uid in self._failed or self.catalog.failure(spec.uid):
            self._failed.discard(spec.uid)
            return StreamFailure(spec.uid, "")
        return None

    def _spec(self, uid: int) -> StreamSpec | None:
        entry = self.catalog.stream(uid)
        return entry.spec if entry else None

    def _persist(
        self, spec: StreamSpec, events: Sequence[TriggerEvent], seen: dict[int, int], product: Product
    ) -> MillraceError | None:
        """Try until it works or is given up: the error for which it was."""
        pause = 0.2
        tries = 1 if spec.uid in self._stuck else TRIES
        for attempt in range(tries):
            try:
                found = self._calculate(spec, events, seen, product)
            except Exception as error:  # a broken plan must not stop the other streams
                last = _as_millrace(spec, error)
            else:
                self._stuck.discard(spec.uid)
                return found
            if not last.code.value.retry or attempt == tries - 1 or self._stop.wait(pause):
                break
            pause *= 2
        if last.code.value.retry:
            self._stuck.add(spec.uid)
        metrics.CALCULATION_FAILURES.labels(last.code.name).inc(len(events))
        product.counts["failures"] += len(events)
        structlog.get_logger("calc-svc").error(
            "calculation given up", stream=spec.full_name, events=len(events), error=str(last)
        )
        return last

    def _calculate(
        self, spec: StreamSpec, events: Sequence[TriggerEvent], seen: dict[int, int], product: Product
    ) -> MillraceError | None:
        if not self._reach(spec, seen):
            _count_dropped(product, "table", len(events))
            return None
        there = self._of_known_groups(spec, events)
        _count_dropped(product, "table", len(events) - len(there))
        events = there
        wanted = [event for event in events if calculates(spec, event)]
        outcomes: dict[int, Outcome] = {}
        with self._room(wanted), self.calculator.engine.lane(self.pool, SEEN_SECONDS) as lane:
            plan = self._plan(spec) if wanted else None
            if plan is not None:
                self._reach_others(spec, plan)
                counted = count_rows(self.calculator, spec, wanted, plan, lane)
                found = self.calculator.calculate(spec, plan, counted, lane)
                outcomes = {id(event): outcome for event, outcome in zip(wanted, found, strict=True)}
            self.names.resolve(spec, [event.group for event in events], lane)
        events = self._with_beginning(spec, events, product)
        self._deliver(spec, plan, events, outcomes, product)
        errors = [outcome.error for outcome in outcomes.values() if outcome.error is not None]
        for error in errors:
            metrics.CALCULATION_FAILURES.labels(error.code.name).inc()
        product.counts["failures"] += len(errors)
        product.counts["calculations"] += len(outcomes) - len(errors)
        return errors[0] if errors else None

    def _room(self, events: Sequence[TriggerEvent]) -> AbstractContextManager[object]:
        """Many streams side by side have few rows each, as far as their triggers know."""
        return self._large if sum(event.rownum for event in events) > SMALL_ROWS else nullcontext()

    def _reach(self, spec: StreamSpec, seen: dict[int, int]) -> bool:
        """Wait until the store has what the trigger has seen; False where the trigger table is gone."""
        if spec.source is None:
            return True
        wanted = spec.source.table
        table = self.catalog.tables().get((wanted.db, wanted.name))
        if table is None or table.uid != wanted.uid:
            return False
        seconds = STUCK_SECONDS if spec.uid in self._stuck else SEEN_SECONDS
        self.store.wait(0, {wal_topic(wanted.db, wanted.name): seen}, seconds)
        return True

    def _reach_others(self, spec: StreamSpec, plan: Plan) -> None:
        """Wait for what was written to the other tables that the query reads: whoever was told that a row is
        there, and writes what triggers after it, finds it in the result."""
        if self.ends is None:
            return
        own = None if spec.source is None else spec.source.table.uid
        tables = [use.table for use in plan.sources if use.table is not None and use.table.uid != own]
        names = set[tuple[str, str]]()
        for table in tables:
            names |= sources_of(table, self.catalog.catalog) if table.virtual else {(table.db, table.name)}
        if names:
            topics = sorted(wal_topic(*name) for name in names)
            self.store.wait(0, {topic: self.ends(topic) for topic in topics}, SEEN_SECONDS)

    def _plan(self, spec: StreamSpec) -> Plan:
        """The stream's plan, made anew when a definition has changed since."""
        definitions = self.catalog.definitions
        known = self._plans.get(spec.uid)
        if known is None or known[0] != definitions:
            known = (definitions, self.calculator.plan(spec))
            self._plans[spec.uid] = known
        return known[1]

    def _family(self, spec: StreamSpec) -> Family | None:
        return None if spec.source is None else self.store.readable(spec.source.table).family

    def _of_known_groups(self, spec: StreamSpec, events: Sequence[TriggerEvent]) -> list[TriggerEvent]:
        """Without the events of tables that were dropped since."""
        family = self._family(spec)
        if family is None:
            return list(events)
        return [e for e in events if e.group.table is None or e.group.table in family.numbers]

    def _with_beginning(
        self, spec: StreamSpec, events: Sequence[TriggerEvent], product: Product
    ) -> Sequence[TriggerEvent]:
        """Without the windows that were cut again and had ended by the time their rows were read: asked
        after that, for a delete between would not be noticed else."""
        if spec.source is None:
            return events
        gone = without_beginning(self.store.readable(spec.source.table), spec, events)
        there = [event for event in events if event.id not in gone] if gone else events
        _count_dropped(product, "window", len(events) - len(there))
        return there

    def _deliver(
        self, spec: StreamSpec, plan: Plan | None, events: Sequence[TriggerEvent],
        outcomes: dict[int, Outcome], product: Product,
    ) -> None:  # fmt: skip
        precision = spec.source.table.precision if spec.source else "ms"
        result = plan.result if plan else ()
        factor = (1, 1)
        stores = spec.output is not None and not spec.options.calc_notify_only
        if spec.output is not None:
            table = self._output_table(spec)
            factor = scale(precision, table.precision)
            if plan is not None and stores:
                family = self.store.table(table).family
                found = [(event, outcomes[id(event)]) for event in events if id(event) in outcomes]
                written = write_results(
                    spec, table, plan.result, plan.precision, found,
                    lambda group: self.names.of(spec, group), lambda name: name in family.numbers,
                )  # fmt: skip
                product.messages += written.messages
                metrics.RESULT_ROWS.inc(written.rows)
                metrics.NULL_KEYS.inc(written.null_keys)
                product.counts.update(result_rows=written.rows, null_key=written.null_keys)
        product.notices += notices(
            spec, result, [(event, outcomes.get(id(event))) for event in events],
            lambda group: self.names.of(spec, group).name if spec.output else None, factor,
        )  # fmt: skip

    def _wait_for_table(self, name: tuple[str, str]) -> Table | None:
        until = time.monotonic() + SEEN_SECONDS
        while time.monotonic() < until and not self._stop.wait(0.05):
            if (table := self.catalog.tables().get(name)) is not None:
                return table
        return None

    def _output_table(self, spec: StreamSpec) -> Table:
        assert spec.output is not None
        name = (spec.output.db, spec.output.table)
        table = self.catalog.tables().get(name)
        if table is None and self.ask is not None:
            # dropped under the stream: the next result makes it again (seed 000)
            self.ask(OutputWanted(spec.uid))
            table = self._wait_for_table(name)
        if table is None:
            raise MillraceError(
                ErrorCode.UNKNOWN_TABLE, f"the output table {spec.output.db}.{spec.output.table} is gone"
            )
        check_output(spec, table)
        # its topic may be there before the store has opened it
        self.store.wait(0, {}, SEEN_SECONDS, opened=wal_topic(table.db, table.name))
        return table


@dataclass(slots=True)
class JobSize:
    """How much of a job is taken: events, and the rows of their windows as far as the trigger knows them."""

    events: int = 0
    rows: int = 0

    def takes(self, event: TriggerEvent) -> bool:
        """Count the event in; False if it is the first of the next job."""
        more = max(event.rownum, 1)
        fits = not self.events or (self.events < EVENTS_PER_JOB and self.rows + more <= ROWS_PER_JOB)
        if not fits:
            self.events = self.rows = 0
        self.events += 1
        self.rows += more
        return fits


def job_sizes(events: Sequence[TriggerEvent]) -> list[list[TriggerEvent]]:
    """The events, in order, in parts that a job can take."""
    parts: list[list[TriggerEvent]] = [[]]
    size = JobSize()
    for event in events:
        if not size.takes(event):
            parts.append([])
        parts[-1].append(event)
    return parts if events else []


def _not_missed(events: Sequence[TriggerEvent]) -> list[TriggerEvent]:
    """Without the triggers of MAX_DELAY that came while a calculation ran for longer than it (seed 000): of
    several that wait for one window only the last one counts."""
    last = {(e.group.id, e.start): at for at, e in enumerate(events) if e.cause == "DELAY"}
    kept = [e for at, e in enumerate(events) if e.cause != "DELAY" or last[e.group.id, e.start] == at]
    if len(kept) < len(events):
        metrics.EVENTS_DROPPED.labels("max delay passed").inc(len(events) - len(kept))
    return kept


def _as_millrace(spec: StreamSpec, error: Exception) -> MillraceError:
    if isinstance(error, MillraceError):
        return error
    structlog.get_logger("calc-svc").error("calculation", stream=spec.full_name, exc_info=error)
    return MillraceError(ErrorCode.INTERNAL, f"{type(error).__name__}: {error}")


def _count_dropped(product: Product, what: Literal["table", "window"], events: int) -> None:
    """Events of a table that was dropped since, or of a window that is none any more."""
    if events:
        metrics.EVENTS_DROPPED.labels(f"no such {what}").inc(events)
        product.counts[f"{what}_gone"] += events

"""One stream's waiting events: from the definition and the stored rows to messages and notifications."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

import polars as pl
import structlog

from calc_svc import metrics
from calc_svc.jobs import conditions
from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.counts import count_rows, without_beginning
from calc_svc.jobs.groups import GroupNames
from calc_svc.jobs.waits import Waits
from calc_svc.spark.session import SMALL_ROWS, Lane
from calc_svc.store.catalog import CatalogView
from calc_svc.store.tables import TableStore, Wanted
from millrace_core.calc.job_size import job_sizes
from millrace_core.calc.outcome import Outcome
from millrace_core.calc.results import calculates, check_output, notices, scale, write_results
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

SECONDS = 30.0  # the longest wait of a job for what is not there yet, where nobody says otherwise
LANE_SECONDS = 30.0
ASK_SECONDS = 10.0  # between two requests for an output table
LARGE_JOBS = 2  # jobs of more rows than share one, whose rows are in memory at the same time


@dataclass(slots=True)
class Product:
    """What a stream's job gives: rows to write, then notifications and perhaps a change of status.

    ``waits``: something may still come that the job needs (rows, an output table, the broker): it gives
    nothing else, and is to be done again. That is no failure, however long it takes.
    """

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
    waits: MillraceError | None = None


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
    _asked: dict[int, float] = field(default_factory=dict)
    """When a stream's output table was asked for."""
    _large: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(LARGE_JOBS))
    _stop: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Wait no more."""
        self._stop.set()

    def low_latency(self, uid: int) -> bool:
        entry = self.catalog.stream(uid)
        return entry is not None and entry.spec.options.low_latency_calc

    def wanted(self, uid: int, batches: Sequence[TriggerBatch]) -> Wanted:
        """What the store must have read before these are calculated: what the triggers have seen."""
        source = self._trigger_table(spec) if (spec := self._spec(uid)) else None
        if source is None:
            return Wanted()
        seen: dict[int, int] = {}
        for batch in batches:
            for partition, offset in batch.seen.items():
                seen[partition] = max(offset, seen.get(partition, 0))
            for event in batch.events:
                for partition, (_, end) in (event.written or {}).items():
                    seen[partition] = max(end, seen.get(partition, 0))
        topic = wal_topic(source.db, source.name)
        return Wanted(wal={topic: seen}, uids={topic: source.uid})

    def run(self, uid: int, batches: Sequence[TriggerBatch], waits: Waits | None = None) -> Product:
        """Calculate the batches' events, whose rows are stored (:meth:`wanted`). An error of a query ends in
        the product's status, never here."""
        product = Product(uid)
        events = _not_missed([event for batch in batches for event in batch.events if event.kind != "GONE"])
        gone = [event.group for batch in batches for event in batch.events if event.kind == "GONE"]
        spec = self._spec(uid)
        if spec is None:
            metrics.EVENTS_DROPPED.labels("no such stream").inc(len(events))
            product.known = False
            return product
        waits = waits or Waits(time.monotonic() + SECONDS)
        failure: MillraceError | None = None
        try:
            if any(calculates(spec, event) for event in events):
                self._reach_others(spec, waits)
            for part in job_sizes(events):
                failure = self._attempt(spec, part, product, waits) or failure
            failure = self._take_leave(spec, gone, product) or failure
        except MillraceError as error:
            return Product(uid, waits=error)
        product.counts["notices"] = len(product.notices)
        product.status = self._status(spec, failure)
        return product

    def _take_leave(self, spec: StreamSpec, gone: Sequence[Group], product: Product) -> MillraceError | None:
        """DELETE_OUTPUT_TABLE: the output tables of groups whose table was dropped; or the error.

        :raises MillraceError: where trying again helps.
        """
        if not gone or spec.output is None:
            return None
        try:
            with self.calculator.engine.lane(self.pool, LANE_SECONDS) as lane:
                self._name_groups(spec, gone, lane)
        except Exception as error:  # as in calculating
            return _for_good(spec, error)
        out = spec.output
        names = {self.names.of(spec, group).name for group in gone}
        product.outputs_gone = [OutputGone(out.db, out.table, name) for name in sorted(names)]
        return None

    def _status(self, spec: StreamSpec, failure: MillraceError | None) -> StreamFailure | None:
        failure = failure or self.names.fault(spec.uid)
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

    def _attempt(
        self, spec: StreamSpec, events: Sequence[TriggerEvent], product: Product, waits: Waits
    ) -> MillraceError | None:
        """Calculate; or the error for which these are given up.

        :raises MillraceError: where trying again helps.
        """
        try:
            return self._calculate(spec, events, product, waits)
        except Exception as error:  # a broken plan must not stop the other streams
            last = _for_good(spec, error)
        metrics.CALCULATION_FAILURES.labels(last.code.name).inc(len(events))
        product.counts["failures"] += len(events)
        structlog.get_logger("calc-svc").error(
            "calculation given up", stream=spec.full_name, events=len(events), error=str(last)
        )
        return last

    def _calculate(
        self, spec: StreamSpec, events: Sequence[TriggerEvent], product: Product, waits: Waits
    ) -> MillraceError | None:
        if spec.source is not None and self._trigger_table(spec) is None:
            _count_dropped(product, "table", len(events))
            return None
        there = self._of_known_groups(spec, events)
        _count_dropped(product, "table", len(events) - len(there))
        events = there
        wanted = [event for event in events if calculates(spec, event)]
        outcomes: dict[int, Outcome] = {}
        with self._room(wanted), self.calculator.engine.lane(self.pool, LANE_SECONDS) as lane:
            plan = self._plan(spec) if wanted or conditions.has_condition(spec) else None
            met = conditions.met(self.calculator, spec, plan, events, lane)
            if plan is not None and wanted:
                counted = count_rows(self.calculator, spec, wanted, plan, lane)
                found = self.calculator.calculate(spec, plan, counted, lane)
                outcomes = {id(event): outcome for event, outcome in zip(wanted, found, strict=True)}
            self._name_groups(spec, [event.group for event in events], lane)
        self._refuse(spec, wanted, outcomes)
        events = self._with_beginning(spec, events, product)
        self._deliver(spec, plan, events, outcomes, product, waits, met)
        told = [outcome.error or outcome.partial for outcome in outcomes.values()]
        errors = [error for error in told if error is not None]
        for error in errors:
            metrics.CALCULATION_FAILURES.labels(error.code.name).inc()
        product.counts["failures"] += len(errors)
        product.counts["calculations"] += len(outcomes) - len(errors)
        return errors[0] if errors else None

    def _name_groups(self, spec: StreamSpec, groups: Sequence[Group], lane: Lane) -> None:
        known = self.catalog.catalog.databases.get(spec.output.db) if spec.output else None
        self.names.resolve(spec, groups, lane, known.precision if known else None)

    def _refuse(self, spec: StreamSpec, events: Sequence[TriggerEvent], outcomes: dict[int, Outcome]) -> None:
        """In place of results that cannot be written to their group's sub-table, the reason: the others go
        on, and the table that has the name is left alone."""
        if spec.output is None or spec.options.calc_notify_only:
            return
        with self.catalog.lock:
            refused = self.names.refusals(spec, [e.group for e in events], self.catalog.catalog)
        for event in events:
            if event.group.id in refused and outcomes[id(event)].error is None:
                outcomes[id(event)] = Outcome(pl.DataFrame(), refused[event.group.id])

    def _room(self, events: Sequence[TriggerEvent]) -> AbstractContextManager[object]:
        """Many streams side by side have few rows each, as far as their triggers know."""
        return self._large if sum(event.rownum for event in events) > SMALL_ROWS else nullcontext()

    def _trigger_table(self, spec: StreamSpec) -> Table | None:
        """As it is now; None where the stream has none, or it is gone."""
        if spec.source is None:
            return None
        wanted = spec.source.table
        table = self.catalog.tables().get((wanted.db, wanted.name))
        return None if table is None or table.uid != wanted.uid else table

    def _reach_others(self, spec: StreamSpec, waits: Waits) -> None:
        """Wait for what was written to the other tables that the query reads: whoever was told that a row is
        there, and writes what triggers after it, finds it in the result.

        :raises MillraceError: TIMEOUT if it does not come, UNAVAILABLE if the broker does not say what it is.
        """
        if self.ends is None or spec.uid in waits.known:
            return
        try:
            plan = self._plan(spec)
        except Exception:
            return  # the job says so
        own = None if spec.source is None else spec.source.table.uid
        tables = [use.table for use in plan.sources if use.table is not None and use.table.uid != own]
        names = set[tuple[str, str]]()
        for table in tables:
            names |= sources_of(table, self.catalog.catalog) if table.virtual else {(table.db, table.name)}
        there = self.catalog.tables()
        uids = {wal_topic(*name): there[name].uid for name in sorted(names) if name in there}
        if uids:
            self.store.reach(
                Wanted(wal={topic: self.ends(topic) for topic in uids}, uids=uids), waits.seconds
            )

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
        # an answer behind theirs may say that they are gone
        there = [event for event in events if event.id not in gone or event.kind == "INVALID"]
        _count_dropped(product, "window", len(events) - len(there))
        return there

    def _deliver(
        self, spec: StreamSpec, plan: Plan | None, events: Sequence[TriggerEvent],
        outcomes: dict[int, Outcome], product: Product, waits: Waits, met: Mapping[int, bool] | None,
    ) -> None:  # fmt: skip
        precision = spec.source.table.precision if spec.source else "ms"
        result = plan.result if plan else ()
        factor = times = (1, 1)
        stores = spec.output is not None and not spec.options.calc_notify_only
        if spec.output is not None:
            table = self._output_table(spec, waits)
            factor = scale(precision, table.precision)
            times = scale(plan.precision, table.precision) if plan is not None else times
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
            lambda group: self.names.of(spec, group).name if stores else None, factor, times,
            None if met is None else [met[id(event)] for event in events],
        )  # fmt: skip

    def _output_table(self, spec: StreamSpec, waits: Waits) -> Table:
        """:raises MillraceError: UNAVAILABLE while it was dropped and is not made again, TIMEOUT while it is
        not opened, UNKNOWN_TABLE where it cannot be made again."""
        assert spec.output is not None
        name = (spec.output.db, spec.output.table)
        table = self.catalog.tables().get(name)
        if table is None and self.ask is not None and self._may_be_made(*name):
            # dropped under the stream: the next result makes it again (seed 000)
            table = self._made_again(spec, name, waits)
        if table is None:
            raise MillraceError(ErrorCode.UNKNOWN_TABLE, f"the output table {'.'.join(name)} is gone")
        check_output(spec, table)
        # its topic may be there before the store has opened it
        self.store.reach(Wanted(opened=wal_topic(table.db, table.name)), waits.seconds)
        return table

    def _may_be_made(self, db: str, name: str) -> bool:
        with self.catalog.lock:
            catalog = self.catalog.catalog
            return db in catalog.databases and catalog.find(db, name) is None

    def _made_again(self, spec: StreamSpec, name: tuple[str, str], waits: Waits) -> Table:
        """The output table, which the gateway is asked for."""
        assert self.ask is not None
        now = time.monotonic()
        if now - self._asked.get(spec.uid, -ASK_SECONDS) >= ASK_SECONDS:
            self.ask(OutputWanted(spec.uid))
            self._asked[spec.uid] = now
        while not self._stop.is_set():
            if (table := self.catalog.tables().get(name)) is not None:
                del self._asked[spec.uid]
                return table
            if waits.seconds == 0:
                break
            self._stop.wait(0.05)
        message = f"the output table {'.'.join(name)} was dropped, and the gateway has not made it again yet"
        raise MillraceError(ErrorCode.UNAVAILABLE, message)


def _not_missed(events: Sequence[TriggerEvent]) -> list[TriggerEvent]:
    """Without the triggers of MAX_DELAY that came while a calculation ran for longer than it (seed 000): of
    several that wait for one window only the last one counts."""
    last = {(e.group.id, e.start): at for at, e in enumerate(events) if e.cause == "DELAY"}
    kept = [e for at, e in enumerate(events) if e.cause != "DELAY" or last[e.group.id, e.start] == at]
    if len(kept) < len(events):
        metrics.EVENTS_DROPPED.labels("max delay passed").inc(len(events) - len(kept))
    return kept


def _for_good(spec: StreamSpec, error: Exception) -> MillraceError:
    """The error for which a calculation is given up.

    :raises MillraceError: where trying again helps.
    """
    if isinstance(error, MillraceError):
        if error.code.value.retry:
            raise error
        return error
    structlog.get_logger("calc-svc").error("calculation", stream=spec.full_name, exc_info=error)
    return MillraceError(ErrorCode.INTERNAL, f"{type(error).__name__}: {error}")


def _count_dropped(product: Product, what: Literal["table", "window"], events: int) -> None:
    """Events of a table that was dropped since, or of a window that is none any more."""
    if events:
        metrics.EVENTS_DROPPED.labels(f"no such {what}").inc(events)
        product.counts[f"{what}_gone"] += events

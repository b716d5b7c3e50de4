"""One stream's waiting events: from the definition and the stored rows to messages and notifications."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from calc_svc import metrics
from calc_svc.jobs import conditions
from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.counts import count_rows, without_beginning
from calc_svc.jobs.filling import Filling
from calc_svc.jobs.groups import GroupNames
from calc_svc.jobs.outputs import OutputTables, StoredTimes
from calc_svc.jobs.waits import Waits
from calc_svc.limits.lane import Limits
from calc_svc.spark.session import SMALL_ROWS, Runs
from calc_svc.store.catalog import CatalogView
from calc_svc.store.tables import TableStore
from millrace_core.calc.filling import query_of
from millrace_core.calc.job import (
    Dropped,
    OutputTable,
    Stage,
    deliver,
    errors_of,
    job_of,
    of_known_tables,
    seen_by,
    with_refusals,
    writes,
)
from millrace_core.calc.outcome import Outcome
from millrace_core.calc.product import Product
from millrace_core.calc.results import SubTable
from millrace_core.calc.retraction import retracts
from millrace_core.calc.waiting import Wanted
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.language.virtual import sources_of
from millrace_core.model.schema import Table
from millrace_core.model.stream import StreamSpec
from millrace_core.plan import Plan
from millrace_core.store.family import Family
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.registrations import OutputGone
from millrace_core.wire.status import StreamFailure
from millrace_core.wire.topics import wal_topic

SECONDS = 30.0  # the longest that a job waits for what is not there yet, unless the caller says otherwise
LANE_SECONDS = 30.0
ASKED_AHEAD = 2  # how many stages of a job have their queries run while an earlier one becomes messages
LARGE_JOBS = 2  # how many jobs of more than SMALL_ROWS rows may have their rows in memory at the same time


@dataclass(frozen=True, slots=True)
class StageAnswers:
    """What a stage's queries gave. ``stage``: without the events of tables that are gone; ``homes``: the
    sub-tables of its groups (and of others), by their ids; ``outcomes``: by ``id()`` of the event; ``met``:
    whether each event meets NOTIFY's condition, if that has constants only."""

    stage: Stage
    homes: Mapping[int, SubTable]
    plan: Plan | None
    outcomes: dict[int, Outcome]
    met: dict[int, bool] | None


Asks = Callable[[], StageAnswers]
"""Waits for a stage's answers; raises what its queries raised."""


@dataclass(slots=True)
class StreamJobs:
    """Runs one stream's events. One thread at a time runs a stream's job; streams run side by side."""

    calculator: Calculator
    catalog: CatalogView
    store: TableStore
    pool: str = "triggers"
    """Where the jobs run, a pool of the engine."""
    names: GroupNames = field(default_factory=GroupNames)
    ends: Callable[[str], Mapping[int, int]] | None = None
    """How far a topic goes now: partition -> offset (None: all that is written is already stored)."""
    limits: Limits | None = None
    """What each query may take (None: as much as it wants)."""
    _failed: set[int] = field(default_factory=set)
    _large: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(LARGE_JOBS))
    outputs: OutputTables = field(init=False)

    def __post_init__(self) -> None:
        self.outputs = OutputTables(self.catalog, self.store)

    def stop(self) -> None:
        """Stop waiting."""
        self.outputs.stop()

    def low_latency(self, uid: int) -> bool:
        entry = self.catalog.stream(uid)
        return entry is not None and entry.spec.options.low_latency_calc

    def wanted(self, uid: int, batches: Sequence[TriggerBatch]) -> Wanted:
        """What the store must have read before these are calculated: what the triggers have seen."""
        source = self._trigger_table(spec) if (spec := self._spec(uid)) else None
        if source is None:
            return Wanted()
        topic = wal_topic(source.db, source.name)
        return Wanted(wal={topic: seen_by(batches)}, uids={topic: source.uid})

    def run(self, uid: int, batches: Sequence[TriggerBatch], waits: Waits | None = None) -> Product:
        """Calculate the batches' events, whose rows are stored (:meth:`wanted`). An error of a query ends in
        the product's status, never here."""
        product = Product(uid)
        spec = self._spec(uid)
        job = job_of(spec, batches)
        if job.missed:
            metrics.EVENTS_DROPPED.labels("max delay passed").inc(job.missed)
        if spec is None:
            metrics.EVENTS_DROPPED.labels("no such stream").inc(job.events)
            product.known = False
            return product
        waits = waits or Waits(time.monotonic() + SECONDS)
        failure: MillraceError | None = None
        try:
            if job.calculates:
                self._reach_others(spec, waits)
            if retracts(spec) and spec.output is not None:
                self.store.reach_own(wal_topic(spec.output.db, spec.output.table), waits.seconds)
            held = StoredTimes(self.store)
            with closing(self._asked(spec, job.stages)) as asked:
                for stage, asks in asked:
                    failure = self._attempt(spec, stage, asks, product, waits, held) or failure
            failure = self._take_leave(spec, job.gone, product) or failure
        except MillraceError as error:
            return Product(uid, waits=error)
        product.counts["notices"] = len(product.notices)
        product.status = self._status(spec, failure)
        return product

    def _take_leave(self, spec: StreamSpec, gone: Sequence[Group], product: Product) -> MillraceError | None:
        """DELETE_OUTPUT_TABLE: note the output tables of groups whose table was dropped; returns the error,
        if any.

        :raises MillraceError: where trying again helps.
        """
        if not gone or spec.output is None:
            return None
        try:
            with self._lane(spec) as lane:
                homes = self._name_groups(spec, gone, lane)
        except Exception as error:  # as in calculating
            return _for_good(spec, error)
        out = spec.output
        names = {homes[group.id].name for group in gone}
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

    def _asked(self, spec: StreamSpec, stages: Sequence[Stage]) -> Generator[tuple[Stage, Asks]]:
        """The stages, in order, each with what waits for its answers. While one stage's answers become
        messages, which is Python's work, the queries of the next ones run."""
        asks = deque(partial(self._ask, spec, stage) for stage in stages)
        # FILL's own queries depend on what the stage before has written
        if len(stages) < 2 or spec.filled is not None:
            yield from zip(stages, asks, strict=True)
            return
        with ThreadPoolExecutor(ASKED_AHEAD, thread_name_prefix="job-queries") as ahead:
            asked = deque[Future[StageAnswers]]()
            try:
                for stage in stages:
                    # no more at a time: their rows are in memory
                    while asks and len(asked) <= ASKED_AHEAD:
                        asked.append(ahead.submit(copy_context().run, asks.popleft()))
                    yield stage, asked.popleft().result
            finally:
                for one in asked:
                    one.cancel()

    def _attempt(
        self, spec: StreamSpec, stage: Stage, asks: Asks, product: Product, waits: Waits, held: StoredTimes
    ) -> MillraceError | None:
        """Calculate; returns the error for which the events are given up, if any.

        :raises MillraceError: where trying again helps.
        """
        try:
            return self._calculate(spec, stage, asks(), product, waits, held)
        except Exception as error:  # a broken plan must not stop the other streams
            last = _for_good(spec, error)
        events = len(stage.events)
        metrics.CALCULATION_FAILURES.labels(last.code.name).inc(events)
        product.counts["failures"] += events
        structlog.get_logger("calc-svc").error(
            "calculation given up", stream=spec.full_name, events=events, error=str(last)
        )
        return last

    def _calculate(
        self, spec: StreamSpec, stage: Stage, answers: StageAnswers, product: Product, waits: Waits,
        held: StoredTimes,
    ) -> MillraceError | None:  # fmt: skip
        there, homes, plan, outcomes = answers.stage, answers.homes, answers.plan, answers.outcomes
        _count_dropped(product, "table", len(stage.events) - len(there.events))
        if spec.source is not None and self._trigger_table(spec) is None:
            _count_dropped(product, "table", len(there.events))
            return None
        if spec.filled is not None and writes(spec):
            there, outcomes = self._filled(spec, there, outcomes, homes, waits, held)
            plan = self.calculator.plans.of(spec) if there.asked else plan
        if writes(spec):
            with self.catalog.lock:
                groups = [event.group for event in there.asked]
                refused = self.names.refusals(spec, groups, homes, self.catalog.catalog)
            outcomes = with_refusals(there.asked, outcomes, refused)
        events = self._with_beginning(spec, there.events, product)
        answers = replace(answers, plan=plan, outcomes=outcomes)
        self._deliver(spec, events, answers, product, waits, held)
        errors = errors_of(outcomes)
        for error in errors:
            metrics.CALCULATION_FAILURES.labels(error.code.name).inc()
        product.counts["failures"] += len(errors)
        product.counts["calculations"] += len(outcomes) - len(errors)
        return errors[0] if errors else None

    def _ask(self, spec: StreamSpec, stage: Stage) -> StageAnswers:
        """Run the stage's queries."""
        if spec.source is not None and self._trigger_table(spec) is None:
            return StageAnswers(Stage([], []), {}, None, {}, None)
        there = self._of_known_tables(spec, stage)
        outcomes: dict[int, Outcome] = {}
        with self._room(there), self._lane(spec) as lane:
            # first of all, for this may have to wait, and nothing should have been calculated by then
            homes = self._name_groups(spec, [event.group for event in there.events], lane)
            plan = self.calculator.plans.of(spec) if there.asked or conditions.has_condition(spec) else None
            met = conditions.met(self.calculator, spec, plan, there.events, lane)
            if plan is not None and there.asked:
                counted = count_rows(self.calculator, spec, there.asked, plan, lane)
                found = self.calculator.calculate(spec, plan, counted, lane)
                outcomes = {id(event): outcome for event, outcome in zip(there.asked, found, strict=True)}
        return StageAnswers(there, homes, plan, outcomes, met)

    def _filled(
        self, spec: StreamSpec, stage: Stage, outcomes: dict[int, Outcome], homes: Mapping[int, SubTable],
        waits: Waits, held: StoredTimes,
    ) -> tuple[Stage, dict[int, Outcome]]:  # fmt: skip
        """The stage with what FILL makes of it: results of windows without rows, and their outcomes."""
        table = self.outputs.of(spec, waits)
        filling = Filling(self.calculator, self.calculator.plans.of(query_of(spec)), held, table)
        with self._room(stage), self._lane(spec) as lane:
            return filling.of(spec, stage, outcomes, lambda group: homes[group.id].name, lane)

    def _name_groups(self, spec: StreamSpec, groups: Sequence[Group], lane: Runs) -> Mapping[int, SubTable]:
        known = self.catalog.catalog.databases.get(spec.output.db) if spec.output else None
        return self.names.resolve(spec, groups, lane, known.precision if known else None)

    @contextmanager
    def _lane(self, spec: StreamSpec) -> Iterator[Runs]:
        """What runs the stream's queries, within its limits."""
        with self.calculator.engine.lane(self.pool, LANE_SECONDS) as lane:
            yield lane if self.limits is None else self.limits.lane(spec, lane)

    def _room(self, stage: Stage) -> AbstractContextManager[object]:
        """Room for a stage's rows. Only one of many rows, as far as its triggers know, has to wait for it:
        many streams side by side have few rows each."""
        return self._large if stage.rows > SMALL_ROWS else nullcontext()

    def _trigger_table(self, spec: StreamSpec) -> Table | None:
        """The trigger table as it is now; None if the stream has none, or if it is gone."""
        if spec.source is None:
            return None
        wanted = spec.source.table
        table = self.catalog.tables().get((wanted.db, wanted.name))
        return None if table is None or table.uid != wanted.uid else table

    def _reach_others(self, spec: StreamSpec, waits: Waits) -> None:
        """Wait for what was written to the other tables that the query reads. A client that was told that a
        row is there, and then writes what triggers the stream, must find that row in the result.

        :raises MillraceError: TIMEOUT if it does not come, UNAVAILABLE if the broker does not say what it is.
        """
        if self.ends is None or spec.uid in waits.known:
            return
        try:
            plan = self.calculator.plans.of(spec)
        except Exception:
            return  # the job meets the same error, and reports it
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

    def _family(self, spec: StreamSpec) -> Family | None:
        return None if spec.source is None else self.store.readable(spec.source.table).family

    def _of_known_tables(self, spec: StreamSpec, stage: Stage) -> Stage:
        """The stage without the events of tables that have been dropped since."""
        family = self._family(spec)
        return stage if family is None else stage.of(of_known_tables(stage.events, family.numbers))

    def _with_beginning(
        self, spec: StreamSpec, events: Sequence[TriggerEvent], product: Product
    ) -> Sequence[TriggerEvent]:
        """The events without windows that were cut again and no longer existed when their rows were read.
        This is checked after the reading: a delete in between would go unnoticed otherwise."""
        if spec.source is None:
            return events
        gone = without_beginning(self.store.readable(spec.source.table), spec, events)
        # a later answer may say that they are gone, and that one must stay
        there = [event for event in events if event.id not in gone or event.kind == "INVALID"]
        _count_dropped(product, "window", len(events) - len(there))
        return there

    def _deliver(
        self, spec: StreamSpec, events: Sequence[TriggerEvent], answers: StageAnswers, product: Product,
        waits: Waits, held: StoredTimes,
    ) -> None:  # fmt: skip
        output, plan, homes = None, answers.plan, answers.homes
        if spec.output is not None:
            table = self.outputs.of(spec, waits)
            known = self.store.table(table).family.numbers if plan is not None and writes(spec) else {}
            output = OutputTable(
                table, lambda group: homes[group.id], known.__contains__,
                lambda wanted: held.of(table, wanted),
            )  # fmt: skip
        found = deliver(spec, plan, output, events, answers.outcomes, answers.met)
        held.add(found.times)
        product.messages += found.messages
        product.notices += found.notices
        product.counts.update(found.counts)
        metrics.RESULT_ROWS.inc(found.rows)
        metrics.NULL_KEYS.inc(found.null_keys)


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


def _count_dropped(product: Product, what: Dropped, events: int) -> None:
    """Count events of a table that has been dropped since, or of a window that no longer exists."""
    if events:
        metrics.EVENTS_DROPPED.labels(f"no such {what}").inc(events)
        product.counts[f"{what}_gone"] += events

"""Running plans: one job for many triggers, or one per trigger where the query or its size demands it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import InitVar, dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa
import structlog

from calc_svc.jobs.news import stream_news
from calc_svc.jobs.sources import (
    TID,
    Moment,
    moments_of,
    one_relation,
    set_relation,
    tids_of,
)
from calc_svc.planning.messages import PlannedQuery
from calc_svc.planning.planner import Planner
from calc_svc.planning.plans import Plans
from calc_svc.queries.lane import QueryLane
from calc_svc.queries.process import QueryProcess
from calc_svc.queries.running import Query
from calc_svc.spark.relations import Relation
from calc_svc.spark.session import Engine, Runs
from calc_svc.store.catalog import CatalogView
from calc_svc.store.columns import plain_arrow
from calc_svc.store.tables import TableStore
from millrace_core.calc.outcome import NOTIFY, Outcome, outcome_of, outcomes_of
from millrace_core.calc.parts import TOO_MUCH, Parts
from millrace_core.errors import MillraceError, PlanError
from millrace_core.model.stream import StreamSpec
from millrace_core.plan import Plan, SourceUse, system_rows, trigger_relation
from millrace_core.plan.windows.anomaly import FAILED
from millrace_core.store.place import Spans, spans_of_stretches
from millrace_core.store.run import TooManyRows
from millrace_core.wire.events import TriggerEvent
from millrace_core.wire.rows.decoded import polars_type
from millrace_service import timed

TRIG = "_trig"
SAME_ERRORS = 3  # after so many triggers in a row that fail alike, the rest is not tried
SET_ROWS = 1_000_000  # rows of one source for all triggers of a job


@dataclass(slots=True)
class Calculator:
    """Plans and runs. Thread-safe: every job has a lane of its own."""

    engine: Engine
    catalog: CatalogView
    store: TableStore
    result_rows: int
    never_set_wise: bool = False
    users: QueryProcess | None = None
    """What runs users' queries; None: this process, as in tests."""
    plans: Plans = field(init=False)
    """Of streams."""
    planner: Planner = field(init=False)
    """What plans users' statements."""
    planning: InitVar[QueryProcess | None] = None
    """The process in which it does so; None: this process."""

    def __post_init__(self, planning: QueryProcess | None) -> None:
        self.plans = Plans(self.catalog)
        self.planner = Planner(self.catalog, planning)

    def query(
        self, asked: Query, database: str | None, timezone: str, now: int
    ) -> tuple[PlannedQuery, pa.Table]:
        """Run a user's SELECT.

        :raises MillraceError: what the SQL is refused for, why the query was ended, or TOO_LARGE for too long
            a result.
        """
        asked.check()
        plan = self.planner.query(asked, database, timezone, now)
        relations = {
            source.relation: self._one_source(source, None, (), asked.user) for source in plan.sources
        }
        asked.check()
        with self.lane_of(asked) as lane:
            return plan, lane.run(plan.sql, relations, timezone, self.result_rows)

    def lane_of(self, asked: Query) -> AbstractContextManager[Runs]:
        """What runs a user's query."""
        if self.users is not None:
            return nullcontext(QueryLane(self.users, asked))
        return self.engine.lane("queries", asked.left)

    def calculate(
        self, spec: StreamSpec, plan: Plan, events: Sequence[TriggerEvent], lane: Runs
    ) -> list[Outcome]:
        """Each event's outcome. Retryable errors are raised; others are the outcome of the one event."""
        relation = trigger_relation(spec, events)
        moments = moments_of(spec, relation, events, self._skipped(spec))
        outcomes = self._outcomes(spec, plan, relation, moments, lane)
        return self._forced(spec, plan, relation, outcomes, lane)

    def _skipped(self, spec: StreamSpec) -> Spans:
        """Where in the log the rows lie that the stream was told to leave out."""
        entry = self.catalog.stream(spec.uid)
        return () if entry is None else spans_of_stretches(entry.skipped)

    def _outcomes(
        self, spec: StreamSpec, plan: Plan, relation: pl.DataFrame, moments: list[Moment], lane: Runs
    ) -> list[Outcome]:
        # even for a single trigger: the text of this query never changes, so Spark has it planned already
        if moments and plan.set_sql is not None and not self.never_set_wise:
            try:
                return self._set(spec, plan, relation, moments, lane)
            except TooManyRows:
                if len(moments) == 1:
                    return self._each(spec, plan, moments, lane)
                half = len(moments) // 2
                return [
                    *self._outcomes(spec, plan, relation[:half], moments[:half], lane),
                    *self._outcomes(spec, plan, relation[half:], moments[half:], lane),
                ]
            except PlanError as error:
                if error.code.value.retry:
                    raise
                if error.code in TOO_MUCH:
                    return self._in_parts(spec, plan, relation, moments, lane, error)
                # one trigger's rows may be at fault: find out which
                structlog.get_logger("calc-svc").warning(
                    "the job failed: its triggers are calculated one by one",
                    stream=spec.full_name,
                    error=str(error),
                )
        return self._each(spec, plan, moments, lane)

    def _in_parts(
        self, spec: StreamSpec, plan: Plan, relation: pl.DataFrame, moments: list[Moment], lane: Runs,
        error: PlanError,
    ) -> list[Outcome]:  # fmt: skip
        """Each event's outcome where all of them together take too much, as ``error`` says: tries fewer and
        fewer at a time, until those that take too much are alone."""
        parts, found = Parts(len(moments)), dict[int, Outcome]()
        found |= dict.fromkeys(parts.took_too_much(), _given_up(error))
        while (part := parts.next) is not None:
            some, own = moments[part.start : part.stop], relation[part.start : part.stop]
            try:
                outcomes = self._set(spec, plan, own, some, lane)
            except PlanError as again:
                if again.code.value.retry:
                    raise
                if again.code in TOO_MUCH:
                    found |= dict.fromkeys(parts.took_too_much(), _given_up(again))
                    continue
                outcomes = self._each(spec, plan, some, lane)
            found |= zip(part, outcomes, strict=True)
            parts.went()
        return [found[place] for place in range(len(moments))]

    def one_by_one(
        self, spec: StreamSpec, plan: Plan, events: Sequence[TriggerEvent], lane: Runs
    ) -> list[Outcome]:
        """The same with one job per trigger: the fallback, and the yardstick for the set-oriented plan."""
        relation = trigger_relation(spec, events)
        outcomes = self._each(spec, plan, moments_of(spec, relation, events, self._skipped(spec)), lane)
        return self._forced(spec, plan, relation, outcomes, lane)

    def _forced(
        self, spec: StreamSpec, plan: Plan, relation: pl.DataFrame, outcomes: list[Outcome], lane: Runs
    ) -> list[Outcome]:
        """The outcomes; with FORCE_OUTPUT those without a row get theirs, in one job for all."""
        if plan.forced_sql is None:
            return outcomes
        empty = [i for i, outcome in enumerate(outcomes) if outcome.error is None and not outcome.count]
        if not empty:
            return outcomes
        result = lane.run(plan.forced_sql, {TRIG: _read_of(relation[empty], plan)}, spec.timezone)
        rows = result_frame(result, plan, offset=1)
        places = {tid: place for place, tid in enumerate(result.column(0).to_pylist())}
        found = list(outcomes)
        for i in empty:
            place = places[relation[TID][i]]
            found[i] = Outcome(rows, own=(place, place + 1))
        return found

    def _each(self, spec: StreamSpec, plan: Plan, moments: list[Moment], lane: Runs) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for moment in moments:
            last = outcomes[-SAME_ERRORS:]
            errors = {str(outcome.error) for outcome in last if outcome.error}
            if len(last) == SAME_ERRORS and len(errors) == 1 and all(outcome.error for outcome in last):
                # it is the query, not one trigger's rows
                outcomes.append(last[-1])
            else:
                outcomes.append(self._one(spec, plan, moment, lane))
        return outcomes

    def _set(
        self, spec: StreamSpec, plan: Plan, relation: pl.DataFrame, moments: list[Moment], lane: Runs
    ) -> list[Outcome]:
        relations: dict[str, Relation] = {TRIG: _read_of(relation, plan)}
        with timed("job.rows"):
            for source in plan.sources:
                if source.kind == "system":
                    relations[source.relation] = self._system_for_all(source, moments)
                else:
                    relations[source.relation] = set_relation(
                        source, self.store, moments, spec.partition, SET_ROWS
                    )
        with timed("job.sql"):
            result = lane.run(plan.set_sql or "", relations, spec.timezone)
        tids = result.column(0).to_numpy().astype(np.int64)
        wanted = relation[TID].to_numpy().astype(np.int64)
        return outcomes_of(result_frame(result, plan, offset=1), tids, wanted, plan)

    def _one(self, spec: StreamSpec, plan: Plan, moment: Moment, lane: Runs) -> Outcome:
        try:
            with timed("job.rows"):
                relations = {s.relation: self._one_source(s, moment, spec.partition) for s in plan.sources}
            with timed("job.sql"):
                found = lane.run(plan.one_sql(moment.row), relations, spec.timezone)
            return outcome_of(result_frame(found, plan, offset=0), plan)
        except MillraceError as error:
            if error.code.value.retry:
                raise
            return Outcome(pl.DataFrame(), error)

    def _one_source(
        self, source: SourceUse, moment: Moment | None, partition: Sequence[str], user: str | None = None
    ) -> Relation:
        if source.kind == "system":
            return self._system(source, user)
        return one_relation(source, self.store, moment, partition)

    def _system(self, source: SourceUse, user: str | None = None) -> pa.Table:
        news = stream_news(self.catalog, self.store)
        with self.catalog.lock:
            rows = system_rows(source.relation, self.catalog.catalog, news, user)
        return plain_arrow(rows.select(source.columns))

    def _system_for_all(self, source: SourceUse, moments: Sequence[Moment]) -> pa.Table:
        rows = self._system(source)
        parts = [
            rows.append_column(TID, pa.array([tid] * rows.num_rows, pa.int32()))
            for tid in tids_of(moments).tolist()
        ]
        return pa.concat_tables(parts)


def _read_of(relation: pl.DataFrame, plan: Plan) -> pa.Table:
    """What the plan reads of a trigger relation: Spark converts every cell that it is given."""
    return plain_arrow(relation[[name for name in relation.columns if name in plan.of_triggers]])


def _given_up(error: PlanError) -> Outcome:
    return Outcome(pl.DataFrame(), error)


def result_frame(result: pa.Table, plan: Plan, offset: int) -> pl.DataFrame:
    """The result's columns (after ``offset`` others) as ``r0``, ``r1``, … in Millrace's types."""
    columns = []
    for place, column in enumerate(plan.result):
        series, wanted = pl.Series(f"r{place}", result.column(place + offset)), polars_type(column.type)
        columns.append(series if series.dtype == wanted else series.cast(wanted, strict=False))
    if plan.notify:
        last = pl.Series(NOTIFY, result.column(len(plan.result) + offset))
        columns.append(last.fill_null(False))
    if plan.failed:
        place = len(plan.result) + plan.notify + offset
        columns.append(pl.Series(FAILED, result.column(place)).cast(pl.String))
    return pl.DataFrame(columns)


def typed_result(plan: PlannedQuery, result: pa.Table) -> pa.Table:
    """A query's result for the wire: named as in the result, with the types as metadata of its fields."""
    fields = []
    for place, column in enumerate(plan.result):
        metadata = {b"millrace.type": str(column.type).encode()}
        if column.type.name == "TIMESTAMP":
            metadata[b"millrace.precision"] = plan.precision.encode()
        fields.append(pa.field(column.name, result.schema.field(place).type, metadata=metadata))
    return pa.table(list(result.columns), schema=pa.schema(fields))

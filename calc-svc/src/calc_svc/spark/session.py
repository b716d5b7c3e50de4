"""Spark as calc-svc uses it: one context, many sessions; small jobs are interpreted, large ones compiled."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from calc_svc import metrics
from calc_svc.spark import analyses
from calc_svc.spark.failures import refusal
from calc_svc.spark.heap import Collected
from calc_svc.spark.jvm import Jvm
from calc_svc.spark.prepared import Asked, PreparedQueries
from calc_svc.spark.relations import Relation
from calc_svc.spark.start import new_spark
from calc_svc.spark.usual import USUAL, usual_rows
from millrace_core.errors import ErrorCode, PlanError
from millrace_spark import SparkStart

# One partition and no exchange: the job is one task. Broadcasts cost more than they save there (measured on
# 600 rows and 10 triggers: 40 ms, against 90 ms with two partitions).
MEDIUM: dict[str, str] = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.join.preferSortMergeJoin": "false",
    # Spark does not know how few rows there are, and would spread them
    "spark.sql.defaultSizeInBytes": "1000",
    "spark.sql.maxSinglePartitionBytes": str(2**63 - 1),
    # queries that are kept planned have no exchanges, so there is nothing to reuse
    "spark.sql.exchange.reuse": "false",
}
# Compiling costs more than it saves on few rows.
SMALL: dict[str, str] = MEDIUM | {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # of few rows, looking for what is computed twice takes longer than to compute it twice
    "spark.sql.subexpressionElimination.enabled": "false",
    # rows that were sorted for a join are aggregated as they come, once, and not in two hash tables
    "spark.sql.execution.replaceHashWithSortAgg": "true",
}
CUT_OFF = (Py4JNetworkError, OSError, EOFError)
"""The errors of calls to a JVM that ends in the middle of the call, or has ended before."""
WARM_UP_SECONDS = 300.0
"""How long the first queries may keep the warm-up waiting."""
REHEARSALS = 300
"""A small job's SQL takes 20 ms at first, and 5 after so many (decision 0087)."""
REHEARSED_ROWS = 40
REHEARSAL_PAUSE = 0.01
"""Seconds between two rehearsals; whoever has something to calculate waits for one at most."""
SMALL_ROWS = 5_000
SMALL_BYTES = 4_000_000
MEDIUM_ROWS = 500_000


JobSize = Literal["small", "medium", "large"]


class Runs(Protocol):
    """What runs Spark SQL over relations, one query at a time."""

    def run(
        self, sql: str, relations: Mapping[str, Relation], timezone: str, limit: int | None = None
    ) -> pa.Table:
        """The rows; :raises PlanError: see :class:`Lane`."""


@dataclass(frozen=True, slots=True)
class PlanningSessions:
    """A place, where Spark plans one query at a time. One place does not see another's temporary views."""

    small: SparkSession
    medium: SparkSession
    large: SparkSession

    def run(
        self, kind: JobSize, pool: str, sql: str, relations: Mapping[str, Relation], timezone: str,
        limit: int | None, asked: Asked | None = None,
    ) -> pa.Table:  # fmt: skip
        """Plan and run it, in a job of its own; gives at most one row more than ``limit``. ``asked``: what it
        runs for, and under which name (None: as this thread's jobs are named).

        :raises PlanError: what Spark refuses.
        """
        session: SparkSession = getattr(self, kind)
        try:
            session.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
            if asked is not None:
                asked.check()
                asked.begin()
                session.sparkContext.setJobGroup(asked.name, "", interruptOnCancel=True)
            if session.conf.get("spark.sql.session.timeZone") != timezone:
                session.conf.set("spark.sql.session.timeZone", timezone)
            for name, relation in relations.items():
                frame = _frame(session, relation)
                (frame if kind == "large" else frame.coalesce(1)).createOrReplaceTempView(name)
            if analyses.called(sql):
                analyses.register(session)
            result = session.sql(sql)
            found: pa.Table = (result if limit is None else result.limit(limit + 1)).toArrow()
        except PySparkException as error:
            raise refusal(str(error), ErrorCode.INVALID_VALUE) from error
        except Py4JNetworkError:
            raise
        except Py4JError as error:
            raise refusal(str(error), ErrorCode.INTERNAL) from error
        finally:
            for name in relations:
                with suppress(Py4JError, *CUT_OFF):
                    session.catalog.dropTempView(name)
        return found


@dataclass(slots=True)
class Lane:
    """What runs the queries of one thread, one at a time.

    There may be more lanes than places: a small query that Spark keeps planned needs none. What is larger, or
    must be planned, waits for a place, so that no more rows are in Spark's heap than before.
    """

    pool: str
    places: queue.SimpleQueue[PlanningSessions]
    prepared: PreparedQueries | None
    """None: every query is planned anew, by a job that can be cancelled."""
    alive: Callable[[], bool]
    """Whether Spark's JVM runs: what fails without it says nothing about the query."""

    def run(
        self, sql: str, relations: Mapping[str, Relation], timezone: str, limit: int | None = None,
        asked: Asked | None = None,
    ) -> pa.Table:  # fmt: skip
        """Run Spark SQL over these relations.

        :raises PlanError: what Spark refuses, or TOO_LARGE for more than ``limit`` rows; UNAVAILABLE when its
            JVM has ended, which is not a query's fault.
        """
        began = time.monotonic()
        try:
            found = self._run(sql, relations, timezone, limit, asked)
        except Exception as error:
            if asked is not None and self.alive():
                asked.check()
            if isinstance(error, CUT_OFF) or not self.alive():
                why = f"Spark has ended: {type(error).__name__}"
                raise PlanError(ErrorCode.UNAVAILABLE, why) from error
            raise
        metrics.JOB_SECONDS.labels(self.pool).observe(time.monotonic() - began)
        if limit is not None and found.num_rows > limit:
            message = f"the result has more than {limit} rows (MILLRACE_CALC_RESULT_ROWS): add a LIMIT"
            raise PlanError(ErrorCode.TOO_LARGE, message)
        return found

    def rehearse(self, sql: str, relations: Mapping[str, Relation]) -> None:
        """Run it for nobody: it counts as no job."""
        self._run(sql, relations, "UTC", None, None)

    def _run(
        self, sql: str, relations: Mapping[str, Relation], timezone: str, limit: int | None,
        asked: Asked | None,
    ) -> pa.Table:  # fmt: skip
        kind = _kind(relations)
        tables = {name: one for name, one in relations.items() if isinstance(one, pa.Table)}
        table = None
        small = kind == "small" and sum(one.nbytes for one in tables.values()) <= SMALL_BYTES
        prepared = self.prepared if limit is None else None
        if small and prepared is not None:
            table = prepared.run(kind, self._small, sql, tables, timezone, asked)
        if table is None:
            if asked is not None:
                asked.check()
            with self._place() as place:
                if not small and kind != "large" and prepared is not None:
                    mine = nullcontext(place.medium if kind == "medium" else place.small)
                    table = prepared.run(kind, lambda: mine, sql, tables, timezone, asked)
                if table is None:
                    table = place.run(kind, self.pool, sql, relations, timezone, limit, asked)
        return table

    def _place(self) -> AbstractContextManager[PlanningSessions]:
        return _borrowed(self.places)

    @contextmanager
    def _small(self) -> Iterator[SparkSession]:
        with self._place() as place:
            yield place.small


def _kind(relations: Mapping[str, Relation]) -> JobSize:
    """By rows. What Spark reads from files is large."""
    arrow = [relation for relation in relations.values() if isinstance(relation, pa.Table)]
    rows = sum(table.num_rows for table in arrow)
    if len(arrow) < len(relations) or rows > MEDIUM_ROWS:
        return "large"
    return "small" if rows <= SMALL_ROWS else "medium"


def _frame(session: SparkSession, relation: Relation) -> DataFrame:
    if isinstance(relation, pa.Table):
        return session.createDataFrame(relation)
    found = session.read.schema(relation.schema).parquet(*relation.files)
    found = found.where((found[relation.key] >= relation.low) & (found[relation.key] <= relation.high))
    found = found.selectExpr(*(f"`{stored}` AS `{name}`" for stored, name in relation.columns))
    if relation.members is not None:
        members = session.createDataFrame(relation.members)
        found = found.join(members, on=relation.tbname, how="inner")
    return found


T = TypeVar("T")


@contextmanager
def _borrowed(free: queue.SimpleQueue[T]) -> Iterator[T]:
    one = free.get()
    try:
        yield one
    finally:
        free.put(one)


class Engine:
    """The Spark context and its lanes: ``triggers`` and ``queries`` run side by side in FAIR pools."""

    def __init__(
        self, places: Mapping[str, int], spark: SparkStart | None = None,
        lanes: Mapping[str, int] | None = None, *, keeps_planned: bool = True, starts: bool = True,
    ) -> None:  # fmt: skip
        """``places``: pool -> how many of its jobs run side by side; ``spark``: how it starts (None: small);
        ``lanes``: pool -> how many lanes share these places (otherwise one for each place);
        ``keeps_planned``: whether queries stay planned; ``starts``: whether to start now, and not only when
        :meth:`start` is called. No lane is free before the start."""
        self._spark = spark or new_spark()
        self._counts, self._keeps_planned = dict(places), keeps_planned
        self._numbers = {pool: (lanes or {}).get(pool, count) for pool, count in places.items()}
        self._lanes = {pool: queue.SimpleQueue[Lane]() for pool in places}
        self._places: dict[str, queue.SimpleQueue[PlanningSessions]] = {}
        self._jvm: Jvm | None = None
        self._warm = False
        if starts:
            self.start()

    def start(self) -> None:
        """Start Spark, unless it has been started."""
        if self._jvm is not None:
            return
        self._root = self._spark.session()
        self._root.sparkContext.setLogLevel("ERROR")
        jvm = self._jvm = Jvm(self._root.sparkContext)
        for pool, count in self._counts.items():
            free = self._places[pool] = queue.SimpleQueue[PlanningSessions]()
            for _ in range(count):
                free.put(PlanningSessions(self._session(SMALL), self._session(MEDIUM), self._session({})))
            prepared = PreparedQueries(jvm, count) if self._keeps_planned else None
            for _ in range(self._numbers[pool]):
                self._lanes[pool].put(Lane(pool, free, prepared, lambda: self.alive))

    def _session(self, settings: Mapping[str, str]) -> SparkSession:
        session = self._root.newSession()
        for key, value in settings.items():
            session.conf.set(key, value)
        return session

    def warm_up(self) -> None:
        """Run jobs of the usual kind, unless that has been done: the first jobs of a cold JVM take seconds,
        and the first ones of a new session still a moment."""
        if self._warm:
            return
        few, many = usual_rows(3), usual_rows(SMALL_ROWS + 1)
        first, *_ = self._counts
        # each turn borrows the next place; calculations that run meanwhile have the others
        for pool in (first, first, *(pool for pool, count in self._counts.items() for _ in range(count))):
            with _borrowed(self._places[pool]) as place:
                place.run("small", pool, USUAL, few, "UTC", SMALL_ROWS)
        with self.lane(first, WARM_UP_SECONDS) as lane:
            for relations in (few, few, few, many):
                lane.run(USUAL, relations, "UTC")
        self._warm = True

    def rehearse(self, stopping: threading.Event) -> None:
        """Run the usual small job some hundred times, whenever no other job runs, or until ``stopping`` is
        set. Java compiles what has run often: until then, a stream's small jobs take twice as long."""
        pool, *_ = self._counts
        relations = usual_rows(REHEARSED_ROWS)
        for _ in range(REHEARSALS):
            while not stopping.wait(REHEARSAL_PAUSE) and self._lanes[pool].qsize() < self._numbers[pool]:
                pass
            if stopping.is_set():
                return
            with suppress(PlanError, PySparkException, Py4JError, *CUT_OFF), self.lane(pool, 0) as lane:
                lane.rehearse(USUAL, relations)  # if it fails, nobody misses it

    @contextmanager
    def lane(self, pool: str, timeout: float) -> Iterator[Lane]:
        """A free lane; :raises PlanError: TIMEOUT when none comes free."""
        try:
            lane = self._lanes[pool].get(timeout=timeout)
        except queue.Empty:
            raise PlanError(ErrorCode.TIMEOUT, f"too many jobs for {pool} are running: try again") from None
        try:
            yield lane
        finally:
            self._lanes[pool].put(lane)

    @property
    def alive(self) -> bool:
        """Whether Spark's JVM runs."""
        return self._jvm is not None and self._jvm.alive

    def wait(self, seconds: float) -> int | None:
        """Wait until Spark's JVM has ended; returns its exit code, or None if it has not ended by then."""
        return self._started.wait(seconds)

    def collected(self) -> Collected:
        """What Spark's JVM has collected until now.

        :raises Exception: one of CUT_OFF if it has ended.
        """
        return self._started.collected()

    @property
    def _started(self) -> Jvm:
        assert self._jvm is not None, "start comes first"
        return self._jvm

    def name_jobs(self, name: str) -> None:
        """What this thread runs from now on has this name, until it gives another one."""
        self._root.sparkContext.setJobGroup(name, "", interruptOnCancel=True)

    def cancel(self, name: str) -> None:
        """Cancel what has this name, and whatever comes under it."""
        self._started.cancel(name)

    def kill(self) -> None:
        """End Spark's JVM, whatever it does: this process has to end then, too."""
        self._started.kill()

    def tasks(self, name: str) -> int:
        """How many tasks of this name are running. For Spark a cancelled job is over at once, but its tasks
        are over only when they notice."""
        tracker = self._root.sparkContext.statusTracker()
        jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(name))
        stages = {stage for job in jobs if job is not None for stage in job.stageIds}
        found = (tracker.getStageInfo(stage) for stage in stages)
        return sum(stage.numActiveTasks for stage in found if stage is not None)

    def stop(self) -> None:
        if self.alive:
            self._root.stop()

"""calc-svc put together: settings, start and stop in order, health."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

import structlog

from calc_svc.jobs.answers import Answers
from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.job import ASKED_AHEAD, StreamJobs
from calc_svc.limits.lane import Limits
from calc_svc.limits.note import Note
from calc_svc.limits.watch import Watch
from calc_svc.loops.aside import MOST
from calc_svc.loops.consumer import WalConsumer
from calc_svc.loops.flusher import Flusher
from calc_svc.loops.holding import AGAIN, LIVE, Share
from calc_svc.loops.one_writer import OneWriter
from calc_svc.loops.overtaking import Overtaking
from calc_svc.loops.recalc import RecalcLoop
from calc_svc.loops.triggers import TriggerLoop
from calc_svc.queries.process import PLANS, QueryProcess
from calc_svc.settings import CalcSettings
from calc_svc.spark.session import Engine
from calc_svc.store.catalog import CatalogView
from calc_svc.store.stored import StoredReport, store_id
from calc_svc.store.tables import TableStore
from millrace_core.admission import Admission
from millrace_core.recalc.requests import LANES
from millrace_core.recalc.told import Told
from millrace_core.wire import registrations
from millrace_core.wire.counters import RECALC
from millrace_core.wire.registrations import OutputWanted
from millrace_service import Health, Life, Lives, collect_seldom, instant, start_tracing
from millrace_spark import SparkStart
from millrace_wal import KafkaLog, Message

TRIGGERS_FIRST = 10.0
"""The most seconds for which what can wait is put off after a start, while triggers wait: after a crash of
everything the cores are better used for results."""
PLANS_AT_ONCE = 4
"""How many users' statements are planned side by side; one user has three at most."""


def calc_engine(spark: SparkStart) -> Engine:
    """The service's Spark, not started yet: starting takes seconds, in which other things can be done."""
    return Engine(
        {LIVE.pool: 2, AGAIN.pool: 1}, spark,
        # the pool for windows that are cut again also runs what is calculated where it is cut
        {LIVE.pool: ASKED_AHEAD * (LIVE.side_by_side + MOST),
         AGAIN.pool: ASKED_AHEAD * (AGAIN.side_by_side + MOST + 1)}, starts=False,
    )  # fmt: skip


class CalcService:
    """Everything that runs, and the order in which it starts and stops."""

    def __init__(self, settings: CalcSettings, engine: Engine) -> None:
        """``engine``: as :func:`calc_engine` makes it, started or not."""
        self._settings = settings
        self._logger = structlog.get_logger("calc-svc")
        self._log = KafkaLog(settings.broker, "calc-svc", settings.kafka.librdkafka)
        self._catalog = CatalogView()
        self.store = _store(settings, self._catalog)
        self._engine = engine
        users, planning = self._for_users = _query_process(settings), _planning(settings)
        self._limits = _limits(settings, self._engine, users)
        self.calculator = Calculator(
            self._engine, self._catalog, self.store, settings.calc_result_rows, settings.calc_one_by_one,
            users, planning,
        )  # fmt: skip
        self._consumer = WalConsumer(self._log, self._catalog, self.store)
        name = store_id(settings.tables.with_name("tables.id"))
        report = StoredReport(self._log, self._catalog, self.store, name)
        self._flusher = Flusher(self.store, report.step, expire_every=settings.calc_expire_seconds)
        self._jobs: list[StreamJobs] = []
        overtaking = Overtaking()
        self._tracing = start_tracing(settings, "calc-svc")
        self._loop = TriggerLoop(self._log, self._new_jobs(LIVE), overtaking, tracing=self._tracing)
        self._again = TriggerLoop(self._log, self._new_jobs(AGAIN), overtaking, AGAIN, self._loop)
        answers = Answers(self._catalog, self.store, Told(self._catalog), ends=self._log.end_offsets)
        before = self._loop, self._again
        writer = partial(OneWriter, self._log, self._new_jobs(AGAIN), overtaking, before)
        self._recalc = [
            RecalcLoop(self._log, answers, group, self._again.done, writer if group == RECALC else None)
            for group in LANES
        ]
        self._lives = Lives(self._logger, settings.stall_seconds)
        # the last added ends first, so the flusher ends last, except for the watch, which ends calculations
        watching = self._lives.add(self._limits.watch)
        flushing = self._lives.add(self._flusher, self._flusher.look)
        self._reading = self._lives.add(self._consumer, self._consumer.look)
        works: list[TriggerLoop | RecalcLoop] = [self._loop, self._again, *self._recalc]
        self._working = [watching, flushing, *(self._lives.add(work, work.look) for work in works)]
        self._planning = self._lives.add(planning, planning.look)
        self._users = self._lives.add(users, users.look)
        self._lives.watch("spark", self._spark)
        self._ready = threading.Event()
        self._starting = Start(
            self._engine,
            self._consumer.loaded,
            self._begin,
            self._loop.waits,
            self._begin_queries,
            self._warm,
        )
        self._starter = Life(self._starting, self._logger)

    def _new_jobs(self, share: Share) -> StreamJobs:
        """The jobs of one thread, in the share's pool."""
        jobs = StreamJobs(self.calculator, self._catalog, self.store, share.pool)
        jobs.outputs.ask, jobs.ends = self._ask, self._log.end_offsets
        jobs.limits = self._limits
        self._jobs.append(jobs)
        return jobs

    def _ask(self, wanted: OutputWanted) -> None:
        self._log.append([Message(*registrations.encode(wanted))])

    def start(self) -> None:
        """Begin to start; :meth:`health` tells when it is done."""
        # planning needs no Spark: CREATE STREAM is answered before that is up
        self._lives.start(self._reading, self._planning)
        self._starter.start()

    def _begin_queries(self) -> None:
        """Start the process for users' queries. It takes a core for seconds, so it must not start while this
        process's Spark does, nor while triggers wait for that."""
        self._lives.start(self._users)

    def _begin(self) -> None:
        """Start what can work once the catalog is read and Spark is there, warm or not."""
        collect_seldom()
        self._lives.start(*self._working)

    def _warm(self) -> None:
        self._ready.set()
        self._logger.info("ready", tables=len(self.store.tables()), rows=self.store.rows())

    def _spark(self) -> tuple[object, str]:
        """Nothing waits for Spark itself. :raises RuntimeError: if it has ended; then this process ends."""
        if self._ready.is_set() and not self._engine.alive:
            raise RuntimeError("Spark's process has ended")
        return None, ""

    def health(self) -> Health:
        started, spark = self._ready.is_set(), self._engine.alive
        detail: dict[str, object] = {"started": started, "spark": spark, "tables": len(self.store.tables())}
        if unusable := self.store.unusable():
            detail["problems"] = unusable
        if refused := {user: until for one in self._for_users for user, until in one.refused().items()}:
            detail["refused"] = refused
        if apart := self._limits.note.apart():
            detail["apart"] = {str(uid): instant(until) for uid, until in apart.items()}
        return self._lives.health(started and spark, detail)

    def stop(self) -> None:
        """Finish the jobs under way, stop reading, flush everything."""
        self._starter.stop(60)
        self._limits.watch.end_all()
        for jobs in self._jobs:
            jobs.stop()
        self._lives.stop(60)
        self._engine.stop()
        self._tracing.close()
        self._log.close()
        self._logger.info("stopped", pid=os.getpid())


def _store(settings: CalcSettings, catalog: CatalogView) -> TableStore:
    keep_seconds = settings.calc_keep_files_seconds
    return TableStore(catalog, settings.tables, settings.calc_memory_rows, keep_seconds)


def _limits(settings: CalcSettings, engine: Engine, process: QueryProcess) -> Limits:
    seconds, note = settings.calc_stream_seconds, Note(settings.data_dir)
    watch = Watch(engine, note, seconds, settings.calc_result_bytes, process.has_room)
    return Limits(seconds, settings.calc_result_rows, note, watch, engine.wait, process)


def _query_process(settings: CalcSettings) -> QueryProcess:
    lanes = settings.calc_query_lanes
    admission = Admission(lanes, settings.calc_query_ends, settings.calc_query_penalty_seconds)
    return QueryProcess(lanes, admission, spare=settings.calc_query_spare)


def _planning(settings: CalcSettings) -> QueryProcess:
    seconds = settings.calc_query_penalty_seconds
    return QueryProcess(
        PLANS_AT_ONCE, Admission(PLANS_AT_ONCE, settings.calc_query_ends, seconds), kind=PLANS
    )


class Warms(Protocol):
    """What is started, warmed up, and then rehearses."""

    def start(self) -> None: ...

    def warm_up(self) -> None: ...

    def rehearse(self, stopping: threading.Event) -> None: ...


class Start:
    """Starts Spark while the catalog is being read, has the others begin once both are done, and warms Spark
    up beside them, so that nothing has to wait for the warm-up. Triggers that wait go first. Once all is
    warm, it rehearses while nothing else runs, so that jobs soon take as long as they do later. A work of
    :class:`millrace_service.Life` that ends when it is done."""

    def __init__(
        self, engine: Warms, loaded: threading.Event, begin: Callable[[], None], waits: Callable[[], str],
        before: Callable[[], None], warm: Callable[[], None],
    ) -> None:  # fmt: skip
        """``begin``: called once Spark and the catalog are there; ``waits``: which triggers wait to be
        calculated, in words; ``before``: called before Spark is warmed up; ``warm``: once it is warm."""
        self.name, self.stopping = "starter", threading.Event()
        self._engine, self._loaded, self._waits = engine, loaded, waits
        self._begin, self._before, self._warm = begin, before, warm

    def begin(self) -> None:
        """There is nothing to open."""

    def step(self) -> None:
        self._engine.start()
        while not (self._loaded.wait(0.1) or self.stopping.is_set()):
            pass
        if self.stopping.is_set():
            return
        self._begin()
        until = time.monotonic() + TRIGGERS_FIRST
        while self._waits() and time.monotonic() < until and not self.stopping.wait(0.1):
            pass
        if self.stopping.is_set():
            return
        self._before()
        self._engine.warm_up()
        self._warm()
        self._engine.rehearse(self.stopping)
        self.stopping.set()

    def end(self) -> None:
        """There is nothing to close."""

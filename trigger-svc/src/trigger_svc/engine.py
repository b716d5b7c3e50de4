"""The query's life: started, warmed up, watched, restarted a few times when it fails."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from structlog.typing import FilteringBoundLogger

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire.topics import CLOCK, TOPICS
from millrace_service import OFF, Health, Lives, Tracing, behind, collect_seldom, instance
from millrace_wal import Log
from trigger_svc.ahead import Ahead
from trigger_svc.batches import Batches
from trigger_svc.clock import Clock, warm_up
from trigger_svc.evaluator import Evaluator
from trigger_svc.reporter import Reporter
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.query import start_query
from trigger_svc.spark.session import require_jars, start_session
from trigger_svc.traces import RowTraces
from trigger_svc.usable import Usable

SPARK_AFTER = 20.0
"""The most seconds from the reader's start to Spark's."""
RESTART_WINDOW = 600.0
START_SECONDS = 180.0
"""Seconds from the first thread's start to the query's first batch before that counts as stalled: Spark is
started late, and on a busy machine slowly."""
LARGE_SECONDS = 600.0
"""Seconds that a batch which went to workers may run before it counts as stalled."""
OF_THE_BROKER = re.compile(
    r"org\.apache\.kafka\.common\.errors\."
    r"(Timeout|Disconnect|Network|BrokerNotAvailable|LeaderNotAvailable|NotLeader\w*|FencedLeaderEpoch"
    r"|UnknownLeaderEpoch|OffsetNotAvailable|CoordinatorNotAvailable|CoordinatorLoadInProgress|NotCoordinator"
    r"|KafkaStorage|NotEnoughReplicas\w*)Exception"
)
"""What the text of a query's failure contains if the cause is that the broker is away, or just back."""


class Engine:
    """Runs the trigger query; a work of :class:`millrace_service.Life`, with ``lives`` for all that goes on
    beside it. A step is one run of the query. ``evaluator``: used by both the query and the reader.
    """

    def __init__(
        self, settings: TriggerSettings, log: Log, logger: FilteringBoundLogger, lives: Lives,
        tracing: Tracing = OFF, session: SparkSession | None = None,
    ) -> None:  # fmt: skip
        """``session``: None if it is still to be started."""
        self.name, self.stopping = "trigger-query", threading.Event()
        self._settings = settings
        self._log = log
        self._logger = logger
        self._lives = lives
        self._session = session
        self.evaluator = evaluator = Evaluator(settings, log, logger)
        self._left_out: frozenset[str] = frozenset()
        self.batches = self._batches()
        clock = Clock(log, logger, lambda: evaluator.delays_due, lead=lambda: evaluator.lead.time)
        self._usable = Usable(settings, log, logger, self.stopping)
        self._life = lives.add(self, self._look)
        reporter = Reporter(log, lambda: evaluator.sealed, instance())
        traces = RowTraces(tracing, settings.slots)
        self._ahead = Ahead(log, evaluator, traces) if settings.judge_ahead else None
        works = (clock, reporter) if self._ahead is None else (self._ahead, clock, reporter)
        self._beside = [lives.add(work) for work in works]
        self._warm = False
        self._began = float("-inf")
        """When :meth:`begin` was called, by the monotonic clock."""
        self._failures: deque[float] = deque()
        self.query: Any = None

    def _batches(self) -> Batches:
        return Batches(self._settings, self.evaluator, self._needs_others)

    def start(self) -> None:
        self._lives.start(self._life)

    def stop(self) -> None:
        """Let the running batch finish, then stop query and session."""
        self.stopping.set()
        self.batches.leave()
        for life in self._beside:
            life.stop(self._settings.stop_seconds)
        self._end_query()
        self._life.stop(self._settings.stop_seconds)
        self.evaluator.close()
        if self._session is not None:
            self._session.stop()

    def _end_query(self) -> None:
        if self.query is not None and self.query.isActive:
            self.query.stop()

    @property
    def _running(self) -> bool:
        """Whether rows are evaluated. The reader does that even before there is a query."""
        return self._warm if self._ahead is None else self._ahead.reads

    def health(self) -> Health:
        # a query that begins again counts as running
        running = self._warm or (self.query is not None and bool(self.query.isActive))
        detail: dict[str, object] = {"query": "running" if running else "down", "warm": self._warm}
        if self._usable.problem:
            detail["problem"] = self._usable.problem
        return self._lives.health(self._running and not self._usable.problem, detail)

    def _look(self) -> tuple[object, str]:
        """The last batch that was done, and what the query still has to read after it."""
        evaluator = self.evaluator
        done = evaluator.sealed  # never changed, only replaced
        ends = self._log.ends_of(done or [CLOCK.name])
        waits = (behind(topic, found, done.get(topic, {0: 0})) for topic, found in ends.items())
        now = time.monotonic()
        # there is no way to see how far Spark's start is, or workers are with a large batch
        starts = self.batches.done < 0 and self._began > now - START_SECONDS
        busy = int(now) if starts or evaluator.large_since > now - LARGE_SECONDS else 0
        return (id(self.batches), self.batches.done, busy), next(filter(None, waits), "")

    def _needs_others(self) -> bool:
        """Whether the query should begin again: to read topics that streams want and it leaves out, or
        because it reads too many that none wants."""
        use = self.evaluator.use
        if not self._left_out.isdisjoint(use.wanted):
            return True
        return len(use.needless - self._left_out) > self._settings.trigger_needless_topics

    def begin(self) -> None:
        self._began = time.monotonic()
        require_jars(self._settings)  # now, not only when Spark starts
        self._log.ensure_topics(TOPICS)
        self._usable.wait()
        if self.stopping.is_set():
            return
        self.evaluator.ready()
        collect_seldom()
        for life in self._beside:
            life.start()
        if self._session is None and self._ahead is not None:
            # when everything starts at once, results wait for calc-svc's Spark, and this one takes its cores
            self._ahead.wait_until_it_stands_back(SPARK_AFTER, self.stopping)
        if self._session is None and not self.stopping.is_set():
            self._session = start_session(self._settings)
            collect_seldom()  # Spark's modules, too

    def step(self) -> None:
        """Run the query until it ends.
        :raises MillraceError: INTERNAL if it has failed too often: then the process ends, and the next one
            goes on from the slots' positions; UNAVAILABLE or TIMEOUT if the broker was the cause, however
            often.
        """
        try:
            self._run_once()
        except StreamingQueryException as error:
            if not self.batches.leaves and not self.stopping.is_set():
                self._failed(error)

    def end(self) -> None:
        self._end_query()

    def _failed(self, error: StreamingQueryException) -> None:
        cause = self.batches.failure
        if cause is not None and cause.code.value.retry:
            raise cause
        if OF_THE_BROKER.search(str(error)):
            self._logger.warning("the trigger query is waiting for the broker", cause=str(error))
            raise MillraceError(ErrorCode.UNAVAILABLE, "the trigger query lost its connection to the broker")
        now = time.monotonic()
        self._failures.append(now)
        while self._failures[0] < now - RESTART_WINDOW:
            self._failures.popleft()
        count = len(self._failures)
        self._logger.error("the trigger query failed", cause=str(error), failures=count)
        if count > self._settings.trigger_restarts:
            raise MillraceError(
                ErrorCode.INTERNAL, f"the trigger query failed {count} times (MILLRACE_TRIGGER_RESTARTS)"
            ) from error
        self.stopping.wait(min(2.0**count / 2, 10))

    def _run_once(self) -> None:
        if self._session is None:
            return  # it is to stop
        began = time.monotonic()
        self._usable.wait()
        if self.stopping.is_set():
            return
        self.evaluator.ready()
        self._left_out = self.evaluator.use.needless
        self.batches = self._batches()
        self._logger.info("topics that the trigger query does not read", left_out=len(self._left_out))
        self.query = start_query(self._session, self._settings, self.batches, self._left_out)
        if self.stopping.is_set():
            self.query.stop()
        elif not self._warm and self._ahead is None:
            warm_up(self._log, self.query, lambda: self.evaluator.positions)
        self._warm = self._warm or bool(self.query.isActive)
        self._logger.info("the trigger query is running", seconds=round(time.monotonic() - began, 1))
        self.query.awaitTermination()

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
from millrace_service import Health, Lives, behind, instance
from millrace_wal import Log
from trigger_svc.batches import Batches
from trigger_svc.clock import Clock, idle_tick, warm_up
from trigger_svc.reporter import Reporter
from trigger_svc.rest import Rest
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.query import start_query
from trigger_svc.spark.session import start_session
from trigger_svc.topic_choice import TopicChoice
from trigger_svc.usable import Usable

RESTART_WINDOW = 600.0
LARGE_SECONDS = 600.0
"""For so long a batch that went to workers may go on without being taken for one that has stalled."""
OF_THE_BROKER = re.compile(
    r"org\.apache\.kafka\.common\.errors\."
    r"(Timeout|Disconnect|Network|BrokerNotAvailable|LeaderNotAvailable|NotLeader\w*|FencedLeaderEpoch"
    r"|UnknownLeaderEpoch|OffsetNotAvailable|CoordinatorNotAvailable|CoordinatorLoadInProgress|NotCoordinator"
    r"|KafkaStorage|NotEnoughReplicas\w*)Exception"
)
"""What stands in the text of a query's failure whose cause is that the broker is away, or just back."""


class Engine:
    """Runs the trigger query; a work of :class:`millrace_service.Life`, with ``lives`` for all that goes on
    beside it. A step is one run of the query."""

    def __init__(
        self, settings: TriggerSettings, log: Log, logger: FilteringBoundLogger, lives: Lives
    ) -> None:
        self.name, self.stopping = "trigger-query", threading.Event()
        self._settings = settings
        self._log = log
        self._logger = logger
        self._lives = lives
        self._session: SparkSession | None = None
        self._rest = Rest(log)
        self._choice = TopicChoice(
            log, settings.checkpoint, settings.trigger_needless_topics, logger, self._begin_again
        )
        self.batches = self._batches()
        self._clock = Clock(log, logger, lambda: self.batches.delays_due, lead=lambda: self.batches.lead.time)
        self._usable = Usable(settings, log, logger, self.stopping)
        self._life = lives.add(self, self._look)
        self._beside = [
            lives.add(work)
            for work in (self._clock, Reporter(log, self._last_progress, instance()), self._choice)
        ]
        self._warm = False
        self._failures: deque[float] = deque()
        self.query: Any = None

    def _batches(self) -> Batches:
        return Batches(
            self._settings,
            self._log,
            self._rest,
            lambda: self._clock.written,
            self._choice.touched,
        )

    def start(self) -> None:
        self._lives.start(self._life)

    def stop(self) -> None:
        """Let the running batch end, then stop query and session."""
        self.stopping.set()
        self._rest.end()
        for life in self._beside:
            life.stop(self._settings.stop_seconds)
        self._end_query()
        self._life.stop(self._settings.stop_seconds)
        self._rest.close()
        if self._session is not None:
            self._session.stop()

    def _end_query(self) -> None:
        if self.query is not None and self.query.isActive:
            self.query.stop()

    def _last_progress(self) -> Any:
        """The last report of the query, while it runs and is warm."""
        query = self.query
        return query.lastProgress if self._warm and query is not None and query.isActive else None

    def health(self) -> Health:
        # one that begins again is as good as running
        running = self._warm or (self.query is not None and bool(self.query.isActive))
        detail: dict[str, object] = {"query": "running" if running else "down", "warm": self._warm}
        if self._usable.problem:
            detail["problem"] = self._usable.problem
        return self._lives.health(self._warm and not self._usable.problem, detail)

    def _look(self) -> tuple[object, str]:
        """The last batch that was done; what lies behind it in what the query reads."""
        batches = self.batches
        ends = self._log.ends_of(batches.done or [CLOCK.name])
        waits = (behind(topic, found, batches.done.get(topic, {0: 0})) for topic, found in ends.items())
        now = time.monotonic()
        # how far workers are with a large batch cannot be seen
        large = int(now) if batches.large_since > now - LARGE_SECONDS else 0
        return (id(batches), batches.judged, large), next(filter(None, waits), "")

    def _begin_again(self) -> None:
        """Have the query end before its next batch; a tick sees to it that there is one.

        :raises MillraceError: UNAVAILABLE if the broker does not take the tick.
        """
        self.batches.leaves = True
        idle_tick(self._log)

    def begin(self) -> None:
        self._log.ensure_topics(TOPICS)
        if self._session is None:
            self._session = start_session(self._settings)

    def step(self) -> None:
        """Run the query until it ends.

        :raises MillraceError: INTERNAL if it has failed once too often: the process ends, and the checkpoint
            says where to go on; UNAVAILABLE or TIMEOUT if the broker was the cause, however often.
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
            self._logger.warning("the trigger query waits for the broker", cause=str(error))
            raise MillraceError(ErrorCode.UNAVAILABLE, "the trigger query lost the broker")
        now = time.monotonic()
        self._failures.append(now)
        while self._failures[0] < now - RESTART_WINDOW:
            self._failures.popleft()
        count = len(self._failures)
        self._logger.error("the trigger query failed", cause=str(error), failures=count)
        if count > self._settings.trigger_restarts:
            raise MillraceError(ErrorCode.INTERNAL, f"the trigger query failed {count} times") from error
        self.stopping.wait(min(2.0**count / 2, 10))

    def _run_once(self) -> None:
        assert self._session is not None, "begin comes first"
        began = time.monotonic()
        # what a run that ended had in memory is worth nothing
        self.batches.close()
        self.batches = self._batches()
        self._usable.wait()
        if self.stopping.is_set():
            return
        # after that: what changes from here on finds these batches
        left_out = self._choice.choose()
        self.query = start_query(self._session, self._settings, self.batches, left_out)
        if self.stopping.is_set():
            self.query.stop()
        elif not self._warm:
            warm_up(self._log, self.query)
        self.batches.rests = True
        self._warm = self._warm or bool(self.query.isActive)
        for life in self._beside:
            life.start()
        self._logger.info("the trigger query runs", seconds=round(time.monotonic() - began, 1))
        self.query.awaitTermination()

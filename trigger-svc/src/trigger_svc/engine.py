"""The query's life: started, warmed up, watched, restarted a few times when it fails."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from structlog.typing import FilteringBoundLogger

from millrace_core.errors import MillraceError
from millrace_core.wire.topics import TOPICS
from millrace_service import Health, instance
from millrace_wal import Log
from trigger_svc.batches import Batches
from trigger_svc.clock import Clock, idle_tick, warm_up
from trigger_svc.query import start_query
from trigger_svc.reporter import Reporter
from trigger_svc.rest import Rest
from trigger_svc.session import start_session
from trigger_svc.settings import TriggerSettings
from trigger_svc.topic_choice import TopicChoice
from trigger_svc.usable import Usable

RESTART_WINDOW = 600.0


class Engine:
    """Runs the trigger query in a thread of its own. ``on_end`` is called if it fails once too often."""

    def __init__(
        self, settings: TriggerSettings, log: Log, logger: FilteringBoundLogger, on_end: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._log = log
        self._logger = logger
        self._on_end = on_end
        self._session: SparkSession | None = None
        self._stopping = threading.Event()
        self._rest = Rest(log)
        self.batches = self._batches()
        self._clock = Clock(log, logger, lambda: self.batches.delays_due, lead=lambda: self.batches.lead.time)
        self._reporter = Reporter(log, self._last_progress, instance(), logger)
        self._choice = TopicChoice(
            log, settings.checkpoint, settings.trigger_needless_topics, logger, self._begin_again
        )
        self._usable = Usable(settings, log, logger, self._stopping)
        self._warm = False
        self.query: Any = None
        self.failed = False
        self._thread = threading.Thread(target=self._run, name="trigger-query", daemon=True)

    def _batches(self) -> Batches:
        return Batches(self._settings, self._log, self._rest, lambda: self._clock.written)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let the running batch end, then stop query and session."""
        self._stopping.set()
        self._rest.end()
        self._clock.stop()
        self._reporter.stop()
        self._choice.stop()
        if self.query is not None and self.query.isActive:
            self.query.stop()
        self._thread.join(self._settings.stop_seconds)
        self._rest.close()
        if self._session is not None:
            self._session.stop()

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
        return Health(self._warm and not self._usable.problem, detail)

    def _left_out(self) -> frozenset[str]:
        """See :meth:`TopicChoice.begin`; a broker that is away for a moment is no failure of the query.

        :raises MillraceError: what waiting does not help against, or when the service stops.
        """
        while True:
            try:
                return self._choice.begin()
            except MillraceError as error:
                if not error.code.value.retry or self._stopping.is_set():
                    raise
                self._logger.warning("the trigger query waits for the broker", cause=str(error))
                self._stopping.wait(1)

    def _begin_again(self) -> None:
        """Have the query end before its next batch; a tick sees to it that there is one.

        :raises MillraceError: UNAVAILABLE if the broker does not take the tick.
        """
        self.batches.leaves = True
        idle_tick(self._log)

    def _run(self) -> None:
        try:
            self._log.ensure_topics(TOPICS)
            self._session = start_session(self._settings)
            self._keep_running(self._session)
        except Exception:
            # whatever it is, the supervisor restarts the process; the checkpoint says where to go on
            self._logger.exception("the trigger query cannot run")
            self.failed = True
        if self.failed and not self._stopping.is_set():
            self._on_end()

    def _keep_running(self, session: SparkSession) -> None:
        failures: deque[float] = deque()
        while not self._stopping.is_set():
            try:
                self._run_once(session)
                return
            except StreamingQueryException as error:
                if self.batches.leaves:
                    continue
                now = time.monotonic()
                failures.append(now)
                while failures[0] < now - RESTART_WINDOW:
                    failures.popleft()
                self._warm = False
                self._logger.error("the trigger query failed", cause=str(error), failures=len(failures))
                if len(failures) > self._settings.trigger_restarts:
                    self.failed = True
                    return
                self._stopping.wait(min(2.0 ** len(failures) / 2, 10))

    def _run_once(self, session: SparkSession) -> None:
        began = time.monotonic()
        # what a run that ended had in memory is worth nothing
        self.batches.close()
        self.batches = self._batches()
        self._usable.wait()
        if self._stopping.is_set():
            return
        # after that: what changes from here on finds these batches
        left_out = self._left_out()
        self.query = start_query(session, self._settings, self.batches, left_out)
        if self._stopping.is_set():
            self.query.stop()
        elif not self._warm:
            warm_up(self._log, self.query)
        self.batches.rests = True
        self._warm = True
        self._clock.start()
        self._reporter.start()
        self._choice.start()
        self._logger.info("the trigger query runs", seconds=round(time.monotonic() - began, 1))
        self.query.awaitTermination()

"""Whether the query can start: the slots' states must be undamaged, and belong to this deployment."""

from __future__ import annotations

import threading

from structlog.typing import FilteringBoundLogger

from millrace_core.errors import MillraceError
from millrace_core.wire import status
from millrace_core.wire.status import Problem
from millrace_core.wire.topics import STATUS
from millrace_wal import Log, Message
from trigger_svc.ledger.states import SlotStates, StateError
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.checkpoint import taken_over

SERVICE, WHAT = "trigger-svc", "state"
PAUSE = 5.0
"""Seconds until states that could not be used are looked at again: somebody may have repaired them."""


class Usable:
    """``problem``: why the query cannot start; empty while nothing is known against it."""

    def __init__(
        self, settings: TriggerSettings, log: Log, logger: FilteringBoundLogger, stopping: threading.Event
    ) -> None:
        self._settings, self._log, self._logger = settings, log, logger
        self._stopping = stopping
        self._told: str | None = None
        self.problem = ""

    def wait(self, pause: float = PAUSE) -> None:
        """Wait until the query can start, or the service stops. What is in the way is logged, shown in health
        and told to whoever asks for the streams. A restart would not help, so the process stays."""
        while not self._stopping.is_set():
            self.problem = self._look()
            self._tell()
            if not self.problem and self._told == "":
                return
            self._stopping.wait(pause)

    def _look(self) -> str:
        try:
            found = SlotStates(self._settings.slot_states, self._settings.slots).check()
            if found.number >= 0 and found.positions is None:
                taken_over(self._settings.checkpoint, found.number)
        except StateError as error:
            return error.message
        return ""

    def _tell(self) -> None:
        if self.problem == self._told:
            return
        if self.problem:
            self._logger.error("the trigger query cannot start", cause=self.problem)
        news = Problem(SERVICE, WHAT, self.problem, everything=True)
        try:
            self._log.append(
                [Message(STATUS.name, status.key(news), status.encode(news) if self.problem else None)]
            )
        except MillraceError as error:
            self._logger.warning("the trigger query is waiting for the broker", cause=str(error))
            return
        self._told = self.problem

"""Threads that read a topic for as long as the service runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from millrace_core.errors import MillraceError

POLL_SECONDS = 0.5
RETRY_SECONDS = 1.0


class Follower(threading.Thread):
    """Calls ``step`` again and again until told to stop; after an error, which is logged, a second later."""

    def __init__(self, name: str, step: Callable[[], None], logger: FilteringBoundLogger) -> None:
        super().__init__(name=name, daemon=True)
        self._step = step
        self._logger = logger
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._step()
            except MillraceError as error:
                self._logger.warning(
                    "will try again", thread=self.name, code=error.code.name, reason=str(error)
                )
                self._stopped.wait(RETRY_SECONDS)
            except Exception:
                # a thread that died would go unnoticed: what it reads would just never come
                self._logger.exception("unexpected; will try again", thread=self.name)
                self._stopped.wait(RETRY_SECONDS)

    def stop(self) -> None:
        """Ask it to stop; ``join`` waits until it has."""
        self._stopped.set()

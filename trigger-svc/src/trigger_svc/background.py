"""What goes on beside the trigger query, each in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from structlog.typing import FilteringBoundLogger

from millrace_core.errors import MillraceError


class Background(ABC):
    """Does its work from :meth:`start` to :meth:`stop`, again whenever it returns or fails.

    ``trouble``: what is logged of a failure, ``pause``: the seconds until the next try; ``leave``: for how
    many seconds :meth:`stop` waits for the work to end.
    """

    def __init__(
        self, name: str, logger: FilteringBoundLogger, trouble: str, leave: float, pause: float = 1
    ) -> None:
        self._logger = logger
        self._trouble, self._leave, self._pause = trouble, leave, pause
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; nothing happens if it has begun."""
        if not self._thread.is_alive() and not self._stopping.is_set():
            self._thread.start()

    def stop(self) -> None:
        """End, for good."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(self._leave)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._work()
            except MillraceError as error:
                self._logger.warning(self._trouble, cause=str(error))
                self._stopping.wait(self._pause)

    @abstractmethod
    def _work(self) -> None:
        """Returns soon after ``_stopping`` is set."""

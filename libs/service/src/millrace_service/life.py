"""The life of a service's threads: all threads work the same way (decision 0033).

A thread's work begins where commits stand and goes on step by step. After a failure that can be retried, the
work ends and begins anew after a pause. Any other failure is a bug, or will not go away by itself: it is
logged with its traceback and ends the *process*, which its supervisor restarts. No thread dies alone.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from millrace_core.errors import MillraceError

PAUSE = 1.0
"""Seconds until work that failed begins anew."""
AGAIN = 10.0
"""A failure within this many seconds of the last one counts as the same trouble, even if all went well in
between."""
REMIND = 60.0
"""Seconds after which the same failure is logged once more."""
GRACE = 60.0
"""Seconds that a process may take to stop cleanly when a failure ends it."""


class Work(Protocol):
    """What a thread does. None of it needs a thread: tests and models call it step by step.

    ``name``: the thread's name, in logs and in ``/healthz``. ``stopping``: set when the work is to end; a
    step then returns soon, because whatever it waits for, it waits on this event.
    """

    @property
    def name(self) -> str: ...

    @property
    def stopping(self) -> threading.Event: ...

    def begin(self) -> None:
        """Open what the steps need, where commits stand. Called before the first step and again after each
        failure: then nothing in memory may be relied on, as after the start of the process."""

    def step(self) -> None:
        """Do some of the work; if there is nothing to do, wait for work, for about a second at most.

        :raises MillraceError: if its code says ``retry``, the work ends and begins anew; any other exception
        ends the process.
        """

    def end(self) -> None:
        """Close what is open; also called if :meth:`begin` or :meth:`step` has failed half way."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """``since``: seconds since the epoch; ``why``: the last failure, in its own words."""

    since: float
    why: str


_ended = threading.Event()


def process_failed() -> bool:
    """Whether this process is ending because of :func:`end_process`."""
    return _ended.is_set()


def end_process() -> None:
    """Have this process stop as on SIGTERM, and end it for certain after :data:`GRACE` seconds."""
    _ended.set()
    last = threading.Timer(GRACE, os._exit, (1,))
    last.daemon = True
    last.start()
    os.kill(os.getpid(), signal.SIGTERM)


class Life:
    """One thread with its work. ``on_end``: called, in the thread, when the work cannot go on."""

    def __init__(
        self, work: Work, logger: FilteringBoundLogger, on_end: Callable[[], None] = end_process,
        pause: float = PAUSE,
    ) -> None:  # fmt: skip
        self.work = work
        self._logger, self._on_end, self._pause = logger, on_end, pause
        self._thread = threading.Thread(target=self._run, name=work.name, daemon=True)
        self._trouble: Trouble | None = None
        self._failed_at = self._logged_at = float("-inf")
        self.failed = False
        """Whether a failure that must not be retried has ended it."""

    @property
    def name(self) -> str:
        return self.work.name

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def trouble(self) -> Trouble | None:
        """What has been failing, and since when; None while all is well."""
        found = self._trouble
        return None if found is not None and self._over() else found

    def start(self) -> None:
        """Begin; does nothing if it has begun already."""
        if not self._thread.is_alive() and not self.work.stopping.is_set():
            self._thread.start()

    def stop(self, seconds: float | None = None) -> None:
        """End for good; waits this long for the current step, or, for None, as long as it takes."""
        self.work.stopping.set()
        self.join(seconds)

    def join(self, seconds: float | None = None) -> None:
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self.work.stopping.is_set():
            try:
                self._live()
            except MillraceError as error:
                if not error.code.value.retry:
                    return self._end(error)
                self._again(error)
                self.work.stopping.wait(self._pause)
            except Exception as error:
                return self._end(error)
        return None

    def _live(self) -> None:
        try:
            self.work.begin()
            while not self.work.stopping.is_set():
                self.work.step()
                if self._trouble is not None and self._over():
                    self._logger.info("has recovered", thread=self.name, after=self._trouble.why)
                    self._trouble = None
        finally:
            self.work.end()

    def _over(self) -> bool:
        return time.monotonic() - self._failed_at > AGAIN

    def _again(self, error: MillraceError) -> None:
        now, before = time.monotonic(), self._trouble
        news = before is None or before.why != str(error) or now - self._logged_at > REMIND
        self._failed_at = now
        self._trouble = Trouble(time.time() if before is None else before.since, str(error))
        if news:
            self._logged_at = now
            self._logger.warning(
                "is starting again", thread=self.name, code=error.code.name, reason=str(error)
            )

    def _end(self, error: Exception) -> None:
        if self.work.stopping.is_set():
            self._logger.warning("failed while stopping", thread=self.name, reason=str(error))
            return
        self.failed = True
        self._logger.error("cannot continue: the process ends", thread=self.name, exc_info=error)
        self._on_end()

"""A work's life without its thread, step by step: as ``millrace_service.Life`` lives it, kills included."""

from __future__ import annotations

from collections.abc import Callable

from millrace_core.errors import MillraceError
from millrace_service.life import Work
from millrace_wal.flaky import Killed


class Steps:
    """``make``: what the start of the process makes. An error that is to be tried again ends the work and
    begins it anew, a kill makes another one; any other exception is a fault of the work and goes through.
    ``on_kill``: frees what a work that was killed holds of this process."""

    def __init__(self, make: Callable[[], Work], on_kill: Callable[[Work], None] = lambda work: None) -> None:
        self._make, self._on_kill = make, on_kill
        self._work: Work | None = None
        self._begun = False

    def step(self) -> None:
        """Begin if that is to be done, and do one step."""
        try:
            if self._work is None:
                self._work = self._make()
            if not self._begun:
                self._begun = True
                self._work.begin()
            self._work.step()
        except MillraceError as error:
            if not error.code.value.retry:
                raise
            self.end()
        except Killed:
            self.kill()

    def end(self) -> None:
        """The work ends; the next step begins it anew."""
        if self._work is not None:
            self._begun = False
            try:
                self._work.end()
            except Killed:
                self.kill()

    def kill(self) -> None:
        """Nothing of its memory is left."""
        if self._work is not None:
            self._on_kill(self._work)
        self._work, self._begun = None, False

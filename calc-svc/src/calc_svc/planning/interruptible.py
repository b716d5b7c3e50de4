"""Work that another thread can end at any moment."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Found = TypeVar("Found")
THREAD = "interruptible"
_AGREED = threading.Lock()
"""Held where such a thread begins or is interrupted: the number of a thread that has ended is used again."""


class Interrupted(SystemExit):
    """Not an Exception, so that the work does not take it for a failure of its own. A thread that it reaches
    in its last steps ends without a message, as after any SystemExit."""


class Interruptible(Generic[Found]):
    """One piece of work, in a thread of its own. Python interrupts it between any two instructions, so it
    must not leave anything half done that others use.

    ``then``: called in that thread after the work, unless the thread is interrupted at that moment.
    """

    def __init__(self, work: Callable[[], Found], then: Callable[[], None]) -> None:
        self._work, self._then = work, then
        self._found: list[Found] = []
        self._failed: BaseException = Interrupted()
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)

    def start(self) -> None:
        with _AGREED:
            self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()

    def interrupt(self) -> None:
        """Have it end. Call this again while it is alive: code that C calls back may swallow the exception,
        and C code itself is not interrupted."""
        with _AGREED:
            if self._thread.is_alive():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread.ident or 0), ctypes.py_object(Interrupted)
                )

    def result(self) -> Found:
        """What the work gave, once it is not alive.

        :raises BaseException: what the work raised; Interrupted if that is why it ended.
        """
        if not self._found:
            raise self._failed
        return self._found[0]

    def _run(self) -> None:
        try:
            self._found.append(self._work())
        except BaseException as error:
            self._failed = error
        finally:
            self._then()

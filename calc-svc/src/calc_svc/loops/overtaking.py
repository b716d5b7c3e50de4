"""The turns of all loops of a process (``millrace_core.calc.overtaking``), each of which is a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from millrace_core.calc.overtaking import Batches, Turn, Turns
from millrace_core.wire.events import TriggerBatch


@dataclass(frozen=True, slots=True)
class OneTurn:
    """A loop's turn, from before rows are read until their results are in the log."""

    _lock: threading.Lock
    _turns: Turns
    _turn: Turn

    def written(self, batches: Batches) -> dict[int, list[TriggerBatch]]:
        """See :meth:`Turns.written`."""
        with self._lock:
            return self._turns.written(self._turn, batches)

    def part(self) -> OneTurn:
        """See :meth:`Turns.part`; it is over when its results are :meth:`written`, or at its :meth:`end`."""
        with self._lock:
            return OneTurn(self._lock, self._turns, self._turns.part(self._turn))

    def end(self) -> None:
        """See :meth:`Turns.end`."""
        with self._lock:
            self._turns.end(self._turn)


class Overtaking:
    """Thread-safe. There is one for all loops of a process."""

    def __init__(self) -> None:
        self._lock, self._turns = threading.Lock(), Turns()
        self._writers: dict[int, threading.Lock] = {}
        self._kept: set[int] = set()

    @contextmanager
    def turn(self) -> Iterator[OneTurn]:
        with self._lock:
            turn = self._turns.begin()
        try:
            yield OneTurn(self._lock, self._turns, turn)
        finally:
            with self._lock:
                self._turns.end(turn)

    @contextmanager
    def alone(self, streams: Collection[int], seconds: float) -> Iterator[set[int]]:
        """Nobody else may write for these streams meanwhile. Yields those for which another thread is still
        writing after ``seconds``."""
        until, busy = time.monotonic() + seconds, set[int]()
        with ExitStack() as mine:
            for stream in sorted(streams):
                with self._lock:
                    lock = self._writers.setdefault(stream, threading.Lock())
                if lock.acquire(timeout=max(until - time.monotonic(), 0.0)):
                    mine.callback(self._leave, stream)
                else:
                    busy.add(stream)
            yield busy

    def _leave(self, stream: int) -> None:
        if stream not in self._kept:
            self._writers[stream].release()

    def keep(self, stream: int) -> None:
        """This thread, which is :meth:`alone` with a stream, stays its only writer until :meth:`let_go`."""
        self._kept.add(stream)

    def let_go(self, stream: int) -> None:
        """Others may write for a stream that was kept; nothing happens if it was not."""
        if stream in self._kept:
            self._kept.discard(stream)
            self._writers[stream].release()

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


class Overtaking:
    """Thread-safe. One for all loops of a process."""

    def __init__(self) -> None:
        self._lock, self._turns = threading.Lock(), Turns()
        self._writers: dict[int, threading.Lock] = {}

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
        """Nobody else may write of these streams meanwhile. Gives those of which another one still writes
        after ``seconds``."""
        until, busy = time.monotonic() + seconds, set[int]()
        with ExitStack() as mine:
            for stream in sorted(streams):
                with self._lock:
                    lock = self._writers.setdefault(stream, threading.Lock())
                if lock.acquire(timeout=max(until - time.monotonic(), 0.0)):
                    mine.callback(lock.release)
                else:
                    busy.add(stream)
            yield busy

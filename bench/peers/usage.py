"""What processes cost: processor time, and memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress

import psutil

from bench.stage import family

PAUSE = 0.5


def cpu_seconds(processes: Sequence[psutil.Process]) -> float:
    """Processor time so far, what has ended below them included."""
    found = 0.0
    for one in (below for process in processes for below in family(process)):
        with suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            found += times.user + times.system + times.children_user + times.children_system
    return found


def memory(processes: Sequence[psutil.Process]) -> int:
    """Bytes: pages that processes share are counted once in all (proportional set size)."""
    found = 0
    for one in (below for process in processes for below in family(process)):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            found += one.memory_full_info().pss
    return found


class Watch:
    """While the block runs: ``peak`` is the most memory of two readings a second, ``cpu`` the processor time
    that the processes used, in seconds."""

    def __init__(self, processes: Sequence[psutil.Process]) -> None:
        self._processes = processes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._before = 0.0
        self.peak = 0
        self.cpu = 0.0

    def _run(self) -> None:
        while not self._stop.wait(PAUSE):
            self.peak = max(self.peak, memory(self._processes))

    def __enter__(self) -> Watch:
        self._before = cpu_seconds(self._processes)
        self.peak = memory(self._processes)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu = cpu_seconds(self._processes) - self._before
        self._stop.set()
        self._thread.join(10)
        self.peak = max(self.peak, memory(self._processes))

"""What processes cost: processor time, and memory."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psutil

from bench.stage import family

PAUSE = 0.5
RESTING_SECONDS, RESTING_PAUSE, RESTING_CORES = 60.0, 3.0, 0.15


class Times:
    """Processor time of processes and of all below them. What was last read of one that has ended still
    counts: the kernel adds it to its parent's only if the parent waits for it, and not all parents do."""

    def __init__(self, processes: Sequence[psutil.Process]) -> None:
        self._processes = processes
        self._last: dict[psutil.Process, float] = {}
        self._parts: dict[psutil.Process, str] = {}

    def read(self) -> float:
        """Seconds so far."""
        for one in (below for process in self._processes for below in family(process)):
            with suppress(psutil.NoSuchProcess):
                times = one.cpu_times()
                self._last[one] = times.user + times.system
                if one not in self._parts:
                    self._parts[one] = part_of(one)
        return sum(self._last.values())

    @property
    def by_part(self) -> Counter[str]:
        """The seconds that were read last, by part."""
        found: Counter[str] = Counter()
        for process, seconds in self._last.items():
            found[self._parts.get(process, "?")] += seconds
        return found


def part_of(process: psutil.Process) -> str:
    """The module that Python runs, or the program's name and the module that began it."""
    command = process.cmdline()
    if "-m" in command[:-1]:
        return " ".join(command[command.index("-m") + 1 :][:2])
    parent = process.parent()
    name = process.name()
    return name if parent is None or "-m" not in parent.cmdline()[:-1] else f"{part_of(parent)} {name}"


def memory(processes: Sequence[psutil.Process]) -> int:
    """Bytes: pages that processes share are counted once in all (proportional set size)."""
    found = 0
    for one in (below for process in processes for below in family(process)):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            found += one.memory_full_info().pss
    return found


def rest(processes: Sequence[psutil.Process]) -> None:
    """Wait until these processes do next to nothing, a minute at most: what goes on behind a start (a spare
    that warms up, a compiler) is not what is measured."""
    times, deadline = Times(processes), time.monotonic() + RESTING_SECONDS
    before = times.read()
    while time.monotonic() < deadline:
        time.sleep(RESTING_PAUSE)
        now = times.read()
        if now - before < RESTING_CORES * RESTING_PAUSE:
            return
        before = now


def _busy() -> float:
    """Processor seconds that the whole machine has spent so far."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


class Watch:
    """While the block runs: ``peak`` is the most memory of two readings a second, ``cpu`` the processor time
    that the processes used, in seconds, ``seconds`` the time that passed. ``others``: cores that neither they
    nor those ``beside`` them (the broker; the bench itself is known) used, so other work on the machine."""

    def __init__(self, processes: Sequence[psutil.Process], beside: Sequence[psutil.Process] = ()) -> None:
        self._processes = processes
        self._times = Times(processes)
        self._beside = [*beside, psutil.Process(os.getpid())]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._before = (0.0, 0.0, 0.0, 0.0)
        self.peak = 0
        self.cpu = 0.0
        self.seconds = 0.0
        self.others = 0.0
        self._parts_before: Counter[str] = Counter()

    def _run(self) -> None:
        while not self._stop.wait(PAUSE):
            self._times.read()
            self.peak = max(self.peak, memory(self._processes))

    def _spent(self) -> tuple[float, float, float, float]:
        """Time; processor seconds of the processes, of those beside them, of the machine."""
        own = sum(map(_alone, self._beside))
        return time.monotonic(), self._times.read(), own, _busy()

    def __enter__(self) -> Watch:
        self._before = self._spent()
        self._parts_before = self._times.by_part
        self.peak = memory(self._processes)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.seconds, self.cpu, beside, busy = (
            after - before for after, before in zip(self._spent(), self._before, strict=True)
        )
        self.others = max(0.0, busy - beside - self.cpu) / self.seconds
        self.peak = max(self.peak, memory(self._processes))

    def figures(self, rows: int, seconds: float) -> dict[str, Any]:
        """The cost of this many rows, done in ``seconds`` (to read the results here may take longer), and how
        much of the machine others took meanwhile. ``cpu_by_part``: what the processor time went into."""
        spent = self._times.by_part - self._parts_before
        return {
            "cpu_by_part": {part: round(cpu / rows * 1e6, 2) for part, cpu in spent.most_common()},
            "cores": round(self.cpu / seconds, 2),
            "cpu_seconds_per_million_rows": round(self.cpu / rows * 1e6, 2),
            "peak_memory_bytes": self.peak,
            "others_cores": round(self.others, 2),
        }


def _alone(process: psutil.Process) -> float:
    """Processor time of a process without what is below it."""
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0

"""Carries a schedule out on the processes of a stack, which a supervisor starts again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import psutil
from bench.stage import family, hold
from tests.chaos.schedule import Disturbance

from millrace import processes
from millrace.processes import RunFolder
from millrace.stack import NAMES, Stack
from millrace.supervision.supervisor import Pauses, Supervisor

PAUSES = Pauses(first=1.0, longest=4.0, steady=20.0)
"""A run is short: a part that is killed three times in it must not stay away for the rest of it."""
Say = Callable[[str], None]


@contextmanager
def supervised(stack: Stack, say: Say) -> Iterator[None]:
    """Parts that end meanwhile are started again."""
    ended = threading.Event()
    watch = Supervisor(stack.place, NAMES, lambda name: stack.start(name, ended), say, PAUSES)
    watch.start()
    try:
        yield
    finally:
        ended.set()
        watch.stop()


class Disturber(threading.Thread):
    """Kills and pauses. ``done``: what was hit, in words."""

    def __init__(self, place: RunFolder, schedule: Sequence[Disturbance], say: Say) -> None:
        super().__init__(daemon=True)
        self._place, self._say = place, say
        self._ended = threading.Event()
        self._held: list[tuple[float, Disturbance, list[psutil.Process]]] = []
        self._due = list(schedule)
        self.kills = self.pauses = 0

    def run(self) -> None:
        began = time.monotonic()
        while (self._due or self._held) and not self._ended.wait(0.02):
            now = time.monotonic() - began
            while self._due and self._due[0].at <= now:
                self._begin(self._due.pop(0))
            for one in [held for held in self._held if held[0] <= now]:
                self._let_go(*one)

    def stop(self) -> None:
        """Nothing more is killed; what is held goes on."""
        self._ended.set()
        self.join()
        for one in list(self._held):
            self._let_go(*one)

    def _begin(self, one: Disturbance) -> None:
        hit = victims(self._place, one)
        if not hit:
            self._say(f"{one.at:7.2f} s  {one.victim} does not run, so it is not hit")
            return
        pids = ", ".join(str(process.pid) for process in hit)
        if one.kind == "kill":
            self.kills += 1
            self._say(f"{one.at:7.2f} s  kill -9 of {one.victim} ({pids})")
            for process in hit:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        else:
            self.pauses += 1
            self._say(f"{one.at:7.2f} s  {one.victim} held for {one.seconds:g} s ({pids})")
            for process in hit:
                with suppress(psutil.NoSuchProcess):
                    hold(process)
            # all by themselves: what is below a part goes on though the part is killed meanwhile
            held = [each for root in hit for each in family(root)]
            self._held.append((one.end, one, held))

    def _let_go(self, end: float, one: Disturbance, hit: list[psutil.Process]) -> None:
        self._held.remove((end, one, hit))
        for process in reversed(hit):
            with suppress(psutil.NoSuchProcess):
                process.resume()


def victims(place: RunFolder, one: Disturbance) -> list[psutil.Process]:
    """The processes that a disturbance hits; none if there are none at the moment."""
    root = processes.running(place, one.part)
    if root is None:
        return []
    if one.victim == one.part:
        return [root]
    below = [process for process in family(root) if process.pid != root.pid]
    java = [process for process in below if _is_java(process)]
    if one.victim.endswith("/jvm"):
        return java
    return [process for jvm in java for process in family(jvm) if not _is_java(process)]


def _is_java(process: psutil.Process) -> bool:
    try:
        return process.name() == "java"
    except psutil.NoSuchProcess:
        return False

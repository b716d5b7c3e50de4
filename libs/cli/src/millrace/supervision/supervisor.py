"""Restarts parts of a stack that crash, after a pause that doubles with every crash in a row.

A part that somebody stopped or killed with this package is left alone: its pid file says so, or is gone. So
tests and people may stop, kill and start parts while a supervisor runs.

For some parts the next process stands by: it takes the place of a crashed one without a pause.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from millrace import processes
from millrace.processes import RunFolder

NAME = "supervisor"


@dataclass(frozen=True)
class Restarts:
    """What the supervisor has done for a part: how often it was started again, and ``cause``: how it
    ended the last time."""

    count: int
    cause: str


@dataclass(frozen=True)
class Pauses:
    """All in seconds. ``first``: the pause before the first new start; ``longest``: the longest
    pause; ``steady``: a part that has run this long begins with the first pause again; ``look``:
    between two looks."""

    first: float = 1.0
    longest: float = 30.0
    steady: float = 60.0
    look: float = 0.5

    def after(self, crashes: int) -> float:
        """The pause after this many crashes in a row (at least 1)."""
        return min(self.first * 2.0 ** min(crashes - 1, 30), self.longest)


def _file(place: RunFolder) -> Path:
    return place.pid_file(NAME).with_suffix(".restarts")


def restarts(place: RunFolder) -> dict[str, Restarts]:
    """What the current or last supervisor has done: part -> restarts. Parts that never crashed are not in
    it."""
    try:
        found = json.loads(_file(place).read_text())
        return {name: Restarts(count, cause) for name, (count, cause) in found.items()}
    except (FileNotFoundError, ValueError):
        return {}


class Following(Protocol):
    """Whoever keeps next processes standing by."""

    def keep_next(self, name: str) -> None:
        """Has the next process of this part stand by, if it is to have one."""

    def has_next(self, name: str) -> bool:
        """Whether its next process stands by."""


class Supervisor:
    """Watches the parts ``names``; ``start`` starts one and returns once it is ready, or raises."""

    def __init__(
        self, place: RunFolder, names: Sequence[str], start: Callable[[str], None],
        report: Callable[[str], None], pauses: Pauses = Pauses(), following: Following | None = None,
    ) -> None:  # fmt: skip
        self._following = following
        self._place, self._start, self._report, self._pauses = place, start, report, pauses
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._restarts: dict[str, Restarts] = {}
        self._guards = [threading.Thread(target=self._guard, args=(name,), daemon=True) for name in names]

    def start(self) -> None:
        """Begin to watch; what an earlier supervisor has done is forgotten."""
        self._write()
        for guard in self._guards:
            guard.start()

    def stop(self, seconds: float = 10) -> None:
        """Stops starting parts. A part that is being started at the moment may still become
        ready by itself."""
        self._stop.set()
        until = time.monotonic() + seconds
        for guard in self._guards:
            guard.join(max(until - time.monotonic(), 0))

    def _guard(self, name: str) -> None:
        crashes, since = 0, time.monotonic()
        while not self._stop.wait(self._pauses.look):
            processes.rotate(self._place.log_file(name))
            if not processes.crashed(self._place, name):
                self._keep_next(name)
                continue
            crashes = 1 if time.monotonic() - since > self._pauses.steady else crashes + 1
            pause, cause = self._pauses.after(crashes), processes.last_words(self._place, name)
            if crashes == 1 and self._following is not None and self._following.has_next(name):
                pause = 0.0
            self._say(f"{name} ended unexpectedly and will be restarted in {pause:g} s: {cause}")
            if self._stop.wait(pause):
                return
            if processes.crashed(self._place, name):  # else somebody else has dealt with it
                self._start_again(name, cause)
            since = time.monotonic()

    def _keep_next(self, name: str) -> None:
        if self._following is None:
            return
        try:
            self._following.keep_next(name)
        except Exception as error:  # it is missed only if the part crashes, which then starts afresh
            self._say(f"the standby {name} did not start: {error}")

    def _start_again(self, name: str, cause: str) -> None:
        with self._lock:
            known = self._restarts.get(name)
            self._restarts[name] = Restarts(known.count + 1 if known else 1, cause)
            self._write()
        try:
            self._start(name)
            self._say(f"{name} is running again")
        except Exception as error:  # whatever it is, the next attempt may succeed
            self._say(f"{name} did not start: {error}")

    def _say(self, line: str) -> None:
        with self._lock:  # rotate its own log too: a part that keeps crashing keeps writing to it
            processes.rotate(self._place.log_file(NAME))
        self._report(line)

    def _write(self) -> None:
        file = _file(self._place)
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".new_restarts")
        draft.write_text(json.dumps({name: (one.count, one.cause) for name, one in self._restarts.items()}))
        draft.replace(file)

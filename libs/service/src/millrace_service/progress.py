"""Health by progress: a part that has something waiting, but has not moved for a while, is stalled (0034)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from structlog.typing import FilteringBoundLogger

from millrace_core.errors import MillraceError
from millrace_service.health import Health
from millrace_service.life import Life, Work, end_process

LOOK_EVERY = 5.0
"""Seconds between two looks at everything watched; each look asks the broker."""

Look = Callable[[], tuple[object, str]]
"""Returns where a part of the service stands, and what waits for it (empty if nothing does).

:raises MillraceError: if that cannot be found out; the error's text then says what is being waited for."""


@dataclass(frozen=True, slots=True)
class Stall:
    """``part`` of a service has not moved since ``since`` (seconds since the epoch) although
    something waits."""

    part: str
    since: float
    waits_for: str

    def __str__(self) -> str:
        return f"{self.part} has been stalled since {instant(self.since)}: {self.waits_for}"

    def to_wire(self) -> dict[str, str]:
        """The stall as ``/healthz`` shows it."""
        return {"part": self.part, "since": instant(self.since), "waits_for": self.waits_for}

    @staticmethod
    def from_wire(wire: Mapping[str, str]) -> Stall:
        """:raises ValueError, KeyError: if it is not one."""
        return Stall(wire["part"], datetime.fromisoformat(wire["since"]).timestamp(), wire["waits_for"])


def instant(seconds: float) -> str:
    """Seconds since the epoch as people read them, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass(slots=True)
class _Seen:
    position: object
    since: float
    waits_for: str


class Progress:
    """Looks every few seconds at what is watched; a work of :class:`millrace_service.Life`. ``seconds``: how
    long something may wait for a part that does not move. ``now``: returns seconds since the epoch."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.time) -> None:
        self.name, self.stopping = "progress", threading.Event()
        self._seconds, self._now = seconds, now
        self._looks: dict[str, Look] = {}
        self._seen: dict[str, _Seen] = {}

    def watch(self, part: str, look: Look) -> None:
        """From now on, ask ``look`` where the part stands."""
        self._looks[part] = look

    def begin(self) -> None:
        """Nothing is open."""

    def step(self) -> None:
        for part, look in self._looks.items():
            self._take(part, look)
        self.stopping.wait(LOOK_EVERY)

    def end(self) -> None:
        """Nothing is open."""

    def _take(self, part: str, look: Look) -> None:
        before = self._seen.get(part)
        try:
            position, waits_for = look()
        except MillraceError as error:
            # a part that cannot be asked counts as one that did not move
            position, waits_for = (before.position if before else None), str(error)
        stays = before is not None and before.waits_for and waits_for and before.position == position
        since = before.since if before is not None and stays else self._now()
        self._seen[part] = _Seen(position, since, waits_for)

    def stalls(self) -> list[Stall]:
        """The parts that have not moved for too long although something waits."""
        now = self._now()
        return [
            Stall(part, seen.since, seen.waits_for)
            for part, seen in list(self._seen.items())
            if seen.waits_for and now - seen.since > self._seconds
        ]


class Lives:
    """All threads of a service: begun together, ended in reverse order, with one health for them all.

    ``stall_seconds``: see :class:`Progress`; ``on_end``: called when one of them cannot go on.
    """

    def __init__(
        self, logger: FilteringBoundLogger, stall_seconds: float, on_end: Callable[[], None] = end_process
    ) -> None:
        self._logger, self._on_end, self._seconds = logger, on_end, stall_seconds
        self._progress = Progress(stall_seconds)
        self._lives: list[Life] = [Life(self._progress, logger, on_end)]

    def add(self, work: Work, look: Look | None = None) -> Life:
        """A thread for this work, which :meth:`start` starts; ``look``: as :class:`Progress` wants it."""
        life = Life(work, self._logger, self._on_end)
        self._lives.append(life)
        if look is not None:
            self.watch(work.name, look)
        return life

    def watch(self, part: str, look: Look) -> None:
        """Watch a part of the service that is not one of these threads."""
        self._progress.watch(part, look)

    def start(self, *which: Life) -> None:
        """Start these threads, or all that have not begun, and begin to watch."""
        for life in (self._lives[0], *(which or self._lives)):
            life.start()

    def stop(self, seconds: float | None = None) -> None:
        """End all threads, the last one first; each may take that long."""
        for life in reversed(self._lives):
            life.stop(seconds)

    def stalls(self) -> list[Stall]:
        """The parts that do not move although something waits, and the threads that have failed for
        too long."""
        found = self._progress.stalls()
        known = {stall.part for stall in found}
        for life in self._lives:
            trouble = life.trouble
            long = trouble is not None and time.time() - trouble.since > self._seconds
            if trouble is not None and long and life.name not in known:
                found.append(Stall(life.name, trouble.since, trouble.why))
        return found

    def health(self, ready: bool, detail: dict[str, object]) -> Health:
        """The health of the service: ``ready`` and ``detail`` as it sees them itself, and what its
        threads say."""
        alive = {life.name: life.alive for life in self._lives[1:]}
        stalls = self.stalls()
        return Health(
            ready and all(alive.values()) and not stalls,
            {"threads": alive, **detail, "stalled": [stall.to_wire() for stall in stalls]},
        )


def behind(topic: str, ends: Mapping[int, int], positions: Mapping[int, int]) -> str:
    """What waits in a topic for a reader that stands at ``positions`` (partition -> offset); empty if nothing
    does."""
    waiting = {p: ends.get(p, 0) - at for p, at in positions.items() if ends.get(p, 0) > at}
    if not waiting:
        return ""
    first = min(waiting)
    records = sum(waiting.values())
    what = f"1 record of topic {topic} is" if records == 1 else f"{records} records of topic {topic} are"
    return f"{what} waiting, from offset {positions[first]} of partition {first} on"

"""How long streams' queries may take in calc-svc's own Spark: each is cancelled once its time is over, and if
that does not help, Spark itself is ended. One that others wait for leaves its place earlier, if it can."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Protocol

import structlog

from calc_svc.limits.note import Note
from millrace_core.errors import ErrorCode, PlanError

TICK = 0.1
"""Seconds between two looks at the running queries."""
REST = 1.0
"""Seconds that it waits for a query to begin."""
AGAIN = 0.3
"""Seconds until a query is cancelled once more: it may not have had a job the first time."""
GRACE = 5.0
"""Seconds that a query may take to end when it is cancelled because its time is over."""
WAITING = 1.0
"""Seconds after which a query that has no place yet counts as waiting for one."""
LONG, SHARE = 15.0, 0.25
"""Seconds, and share of its time, after which a query that others wait for leaves its place to them and goes
on apart: whichever is less."""


class Cancels(Protocol):
    """What is needed of the engine here."""

    def cancel(self, name: str) -> None:
        """Have whatever runs under this name end."""

    def kill(self) -> None:
        """End Spark."""


class Watched:
    """One query of a stream, from its first wait for a place to its end. ``name``: of its jobs; ``pool``: the
    pool in which it has its place."""

    def __init__(self, name: str, stream: int, pool: str, seconds: float, most_bytes: int) -> None:
        self.name, self.stream, self.pool = name, stream, pool
        self.seconds, self.most_bytes = seconds, most_bytes
        self.came = time.monotonic()
        self.begun: float | None = None
        self.told_first = self.told_last = 0.0
        """When it was first and last told to end (monotonic)."""
        self.killed = self.late = self.moves = False
        """``killed``: whether Spark was ended because of it; ``late``: whether its time is over; ``moves``:
        whether it was told to end because others wait. Then it may go on elsewhere, if it ends in time."""

    def begin(self) -> None:
        """It has its place."""
        self.begun = time.monotonic()

    def check(self) -> None:
        """:raises PlanError: why it was told to end, if it was: QUERY_TIMEOUT, or UNAVAILABLE if that is not
        its own fault."""
        if self.told_first:
            raise (
                too_long(self.seconds)
                if self.late
                else PlanError(ErrorCode.UNAVAILABLE, "the query was cancelled to make room for others")
            )


def too_long(seconds: float) -> PlanError:
    """The error for a stream's query that takes longer than that."""
    return PlanError(
        ErrorCode.QUERY_TIMEOUT,
        f"the stream's query ran for more than {seconds:g} s (MILLRACE_CALC_STREAM_SECONDS) and was "
        "cancelled: read fewer rows, or use shorter windows",
    )


class Watch:
    """Looks at all queries of streams; a work of :class:`millrace_service.Life`."""

    def __init__(
        self, engine: Cancels, note: Note, seconds: float, most_bytes: int, has_room: Callable[[], bool]
    ) -> None:
        """``seconds``: how long each query may take; ``most_bytes``: how large a result may be; ``has_room``:
        whether a query could go on apart at once."""
        self.name, self.stopping = "watch", threading.Event()
        self._engine, self._note, self._seconds, self._bytes = engine, note, seconds, most_bytes
        self._has_room = has_room
        self._numbers, self._lock, self._begins = count(), threading.Lock(), threading.Event()
        self._running: dict[str, Watched] = {}
        self.stops = threading.Event()
        self._logger = structlog.get_logger("calc-svc")

    @contextmanager
    def watched(self, stream: int, pool: str) -> Iterator[Watched]:
        """A query of a stream runs meanwhile."""
        one = Watched(f"stream-{stream}-{next(self._numbers)}", stream, pool, self._seconds, self._bytes)
        with self._lock:
            self._running[one.name] = one
        self._begins.set()
        try:
            yield one
        finally:
            with self._lock:
                del self._running[one.name]

    def end_all(self) -> None:
        """The service stops: no query is waited for any more."""
        self.stops.set()

    def begin(self) -> None:
        """There is nothing to open."""

    def step(self) -> None:
        with self._lock:
            running = list(self._running.values())
        soon = time.monotonic() - WAITING
        waiting = {(one.pool, one.stream) for one in running if one.begun is None and one.came < soon}
        for one in running:
            if one.begun is not None:
                # a stream may wait for itself
                others = any(pool == one.pool and stream != one.stream for pool, stream in waiting)
                self._look(one, others)
        if running:
            self.stopping.wait(TICK)
        else:
            self._begins.wait(REST)
            self._begins.clear()

    def _look(self, one: Watched, others_wait: bool) -> None:
        assert one.begun is not None
        now = time.monotonic()
        late = now - one.begun > self._seconds
        if self.stops.is_set():
            if not one.told_first or one.moves:
                one.moves, one.told_first = False, now
        elif late and not one.late:
            one.late, one.moves, one.told_first = True, False, now
            self._say(one, now)
            self._note.take_apart(one.stream)
        elif not one.told_first and others_wait and self._may_move(one, now):
            one.moves, one.told_first = True, now
            self._say(one, now)
        if not one.told_first or one.killed:
            return
        # one that is only to make room may take its time: planning cannot be cancelled, and is slow on a
        # busy machine
        if now - one.told_first > GRACE and not one.moves:
            one.killed = True
            self._logger.error("a stream's query could not be cancelled: Spark is killed", stream=one.stream)
            self._engine.kill()
        elif now - one.told_last >= AGAIN:
            one.told_last = now
            self._engine.cancel(one.name)

    def _may_move(self, one: Watched, now: float) -> bool:
        # where the whole machine is busy, beginning anew elsewhere would only make that worse
        return now - (one.begun or now) > min(LONG, self._seconds * SHARE) and self._has_room()

    def _say(self, one: Watched, now: float) -> None:
        seconds = round(now - (one.begun or now), 1)
        self._logger.warning(
            "a stream's query is taking long", stream=one.stream, seconds=seconds, moves=one.moves
        )

    def end(self) -> None:
        """There is nothing to close."""

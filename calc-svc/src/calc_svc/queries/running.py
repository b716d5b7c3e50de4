"""Which users' queries are running, and how each is told to end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from millrace_core.errors import ErrorCode, MillraceError, PlanError


class Shown(msgspec.Struct):
    """A running query, as it is shown to users. ``began``: nanoseconds since the epoch; ``took``:
    microseconds until now."""

    id: str
    user: str | None
    sql: str
    began: int
    took: int


class Query:
    """One query, from the request to the answer. It ends itself: whatever waits for it, or works for it, asks
    now and then whether it is :meth:`over`."""

    def __init__(
        self, sql: str, seconds: float, name: str = "", user: str | None = None, waits: float | None = None
    ) -> None:
        """``seconds``: how long it may take, including its wait for a turn. With ``waits``, that wait has its
        own limit (seconds) and does not count. ``name``: the name under which it can be killed."""
        self.sql, self.name, self.user, self._runs = sql, name, user, seconds
        self._waits = waits is not None
        self.seconds = seconds if waits is None else waits
        self.began = time.time_ns()
        self._begin = time.monotonic()
        self._ended: MillraceError | None = None

    def end(self, why: MillraceError) -> None:
        """Have it end with this error, unless it has one already."""
        self._ended = self._ended or why

    def runs(self) -> None:
        """Its wait for a turn is over."""
        if self._waits:
            self._begin, self.seconds = time.monotonic(), self._runs

    @property
    def left(self) -> float:
        """Seconds that it may still take."""
        return max(0.0, self._begin + self.seconds - time.monotonic())

    def over(self) -> MillraceError | None:
        """Why it is to end; None while it is not."""
        if self._ended is None and not self.left:
            self.end(
                PlanError(
                    ErrorCode.QUERY_TIMEOUT,
                    f"the query took longer than {self.seconds:g} s (MILLRACE_QUERY_SECONDS) and was "
                    "cancelled: read fewer rows, or a shorter range",
                )
            )
        return self._ended

    def check(self) -> None:
        """:raises MillraceError: why it is to end."""
        if (why := self.over()) is not None:
            raise why

    def shown(self) -> Shown:
        took = int((time.monotonic() - self._begin) * 1e6)
        return Shown(self.name, self.user, self.sql, self.began, took)


class RunningQueries:
    """All users' queries that this process has been asked. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[Query] = []

    @contextmanager
    def run(self, query: Query) -> Iterator[Query]:
        """The query is running meanwhile."""
        with self._lock:
            self._running.append(query)
        try:
            yield query
        finally:
            with self._lock:
                self._running.remove(query)

    def kill(self, name: str, user: str | None, by: str) -> None:
        """End the queries of this name. ``user``: whose they must be (None: anybody's); ``by``: who kills
        them.

        :raises MillraceError: UNKNOWN_QUERY if there is none.
        """
        found = [one for one in self._all() if one.name == name and user in (None, one.user)]
        if not found:
            raise MillraceError(
                ErrorCode.UNKNOWN_QUERY, f"no query {name} is running: SHOW QUERIES lists those that are"
            )
        for one in found:
            one.end(PlanError(ErrorCode.QUERY_KILLED, f"the query was killed by {by}"))

    def shown(self) -> Sequence[Shown]:
        return [one.shown() for one in self._all()]

    def _all(self) -> list[Query]:
        with self._lock:
            return list(self._running)

"""The process that runs users' queries, as calc-svc holds it: begun, asked, ended when it cannot be stopped.

It has a Spark and a heap of its own, so that no query takes cores, memory or the JVM from what is calculated
for streams (decision 0066).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pyarrow as pa
import structlog

from calc_svc import metrics
from calc_svc.queries.messages import OUT_OF_MEMORY, Answered, Cancel, ask, rows_of
from calc_svc.queries.running import Query
from calc_svc.spark.session import Relation
from millrace_core.errors import ErrorCode, MillraceError, PlanError

STARTUP = 120.0
"""Seconds that the process may take until it is ready."""
TICK = 0.05
"""Seconds between two looks at whether a query is over."""
GRACE = 3.0
"""Seconds that a query may take to end when it is told to; after that its process is ended."""
TRIES = 3
"""How often a query is begun whose process ends, but for want of memory."""


class _Ended(Exception):
    """The process is gone. ``memory``: its queries needed more than there is; else none of them is known
    to be at fault."""

    def __init__(self, why: str, *, memory: bool = False) -> None:
        super().__init__(why)
        self.memory = memory


@dataclass(slots=True)
class _Life:
    """One process, from its start to its end. ``blamed``: why calc-svc has ended it; ``over``: it takes no
    more queries."""

    process: subprocess.Popen[bytes]
    control: Connection
    lanes: list[_Line]
    busy: int = 0
    together: int = 0
    """The queries that it had when it ended."""
    blamed: str = ""
    over: bool = False
    sending: threading.Lock = field(default_factory=threading.Lock)

    def kill(self, why: str = "") -> None:
        self.over, self.blamed = True, self.blamed or why
        # its group is its own; the number is not given anew before it was waited for
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def cancel(self, line: _Line) -> None:
        with self.sending, suppress(OSError):
            self.control.send(Cancel(line.place, line.number))

    def ended(self) -> _Ended:
        """Why, once it is."""
        self.over = True
        self.together = self.together or self.busy
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.kill("it answered no more")
        if self.blamed:
            return _Ended(self.blamed)
        memory = self.process.returncode == OUT_OF_MEMORY
        return _Ended(f"ended with code {self.process.returncode}", memory=memory)

    def close(self, free: Iterable[_Line]) -> None:
        """End it. Whoever has a lane that is not free closes its pipe: the number of one that is closed may
        be another's at once."""
        self.kill()
        self.process.wait()
        for line in free:
            line.pipe.close()
        with self.sending:
            self.control.close()


@dataclass(slots=True)
class _Line:
    """A lane of a process. ``number``: of the query that it has, or had last."""

    place: int
    pipe: Connection
    number: int = 0


class QueryProcess:
    """Begins the process, and anew when it has ended; a work of :class:`millrace_service.Life`."""

    def __init__(self, lanes: int, environment: Mapping[str, str] | None = None) -> None:
        """``lanes``: queries that run side by side."""
        self.name, self.stopping = "queries", threading.Event()
        self._count, self._environment = lanes, environment
        self._logger = structlog.get_logger("calc-svc")
        self._changed = threading.Condition()
        self._life: _Life | None = None
        self._free: list[_Line] = []
        self._lives = self._waiting = 0

    # ------------------------------------------------------------------ the process

    def begin(self) -> None:
        """:raises PlanError: UNAVAILABLE if it does not come up."""
        life = self._start()
        until = time.monotonic() + STARTUP
        while not self.stopping.is_set():
            with suppress(EOFError, OSError):
                if life.control.poll(0.1):
                    life.control.recv()
                    break
            if life.process.poll() is not None or time.monotonic() > until:
                life.close(life.lanes)
                raise PlanError(ErrorCode.UNAVAILABLE, "the process for queries does not start")
        with self._changed:
            self._life, self._free = life, list(life.lanes)
            self._lives += 1
            self._changed.notify_all()

    def _start(self) -> _Life:
        pairs = [Pipe() for _ in range(1 + self._count)]
        theirs = [pair[1] for pair in pairs]
        process = subprocess.Popen(
            [
                sys.executable, "-m", "calc_svc.queries", str(int(self._lives > 0)),
                *(str(pipe.fileno()) for pipe in theirs),
            ],
            pass_fds=[pipe.fileno() for pipe in theirs], stdin=subprocess.DEVNULL, start_new_session=True,
            env=self._environment,
        )  # fmt: skip
        for pipe in theirs:
            pipe.close()
        ours = [pair[0] for pair in pairs]
        return _Life(process, ours[0], [_Line(place, pipe) for place, pipe in enumerate(ours[1:])])

    def step(self) -> None:
        """Wait a second for its end.

        :raises PlanError: UNAVAILABLE if it does not come up again.
        """
        life = self._life
        if life is None:
            return
        try:
            code = life.process.wait(0.2)
        except subprocess.TimeoutExpired:
            return
        if not self.stopping.is_set():
            self._logger.warning("the process for queries has ended", code=code, why=life.blamed)
            metrics.QUERY_PROCESSES_ENDED.labels(_cause(life)).inc()
            self.end()
            self.begin()

    def end(self) -> None:
        with self._changed:
            life, free, self._life, self._free = self._life, self._free, None, []
            self._changed.notify_all()
        if life is not None:
            life.close(free)

    def look(self) -> tuple[object, str]:
        """How often it has begun, and what waits for that."""
        waits = self._life is None and self._waiting
        return self._lives, f"{self._waiting} queries wait for their process" if waits else ""

    # ------------------------------------------------------------------ queries

    def lane(self, query: Query) -> QueryLane:
        """What runs the query."""
        return QueryLane(self, query)

    def run(
        self, query: Query, sql: str, relations: Mapping[str, Relation], timezone: str, limit: int | None
    ) -> pa.Table:
        """See :meth:`QueryLane.run`."""
        for again in range(TRIES):
            life, line = self._take(query)
            try:
                return self._run(life, line, query, sql, relations, timezone, limit)
            except _Ended as ended:
                if ended.memory or again == TRIES - 1:
                    raise _blame(ended, life.together) from None
            finally:
                self._give(life, line)
        raise AssertionError("the last try returns or raises")

    def _take(self, query: Query) -> tuple[_Life, _Line]:
        with self._changed:
            self._waiting += 1
            try:
                while self._life is None or self._life.over or not self._free:
                    self._check_turn(query)
                    self._changed.wait(min(TICK, query.left or TICK))
                self._life.busy += 1
                return self._life, self._free.pop()
            finally:
                self._waiting -= 1

    def _check_turn(self, query: Query) -> None:
        """:raises MillraceError: why a query that waits for a lane is over."""
        why = query.over()
        if why is None:
            return
        if why.code is not ErrorCode.QUERY_TIMEOUT:
            raise why
        # not its own fault: others have the lanes, or have ended the process
        if self._life is None or self._life.over:
            raise PlanError(
                ErrorCode.UNAVAILABLE, "the process for queries is being started: try again"
            ) from why
        raise PlanError(
            ErrorCode.TIMEOUT, f"all places for queries were taken for {query.seconds:g} s: try again"
        ) from why

    def _give(self, life: _Life, line: _Line) -> None:
        with self._changed:
            life.busy -= 1
            if life is self._life:
                self._free.append(line)
                self._changed.notify()
            else:
                line.pipe.close()

    def _run(
        self, life: _Life, line: _Line, query: Query, sql: str, relations: Mapping[str, Relation],
        timezone: str, limit: int | None,
    ) -> pa.Table:  # fmt: skip
        line.number += 1
        query.check()
        try:
            line.pipe.send(ask(line.number, sql, relations, timezone, limit))
            while not line.pipe.poll(TICK):
                if (why := query.over()) is not None:
                    self._stop(life, line)
                    raise why
            answered: Answered = line.pipe.recv()
        except (EOFError, OSError):
            raise life.ended() from None
        return rows_of(answered)

    def _stop(self, life: _Life, line: _Line) -> None:
        """Have the query end; the lane is free then, or the process gone."""
        until = time.monotonic() + GRACE
        while time.monotonic() < until:
            # what has not begun a job yet is told again
            life.cancel(line)
            with suppress(EOFError, OSError):
                if line.pipe.poll(0.3):
                    line.pipe.recv()
                    return
        life.kill("another query could not be stopped")


@dataclass(frozen=True, slots=True)
class QueryLane:
    """Runs what one query of a user needs, one after the other."""

    process: QueryProcess
    query: Query

    def run(
        self, sql: str, relations: Mapping[str, Relation], timezone: str, limit: int | None = None
    ) -> pa.Table:
        """As :meth:`calc_svc.spark.session.Lane.run`, in the process for queries.

        :raises PlanError: besides, why the query is over; TOO_LARGE where it takes all memory.
        """
        with metrics.JOB_SECONDS.labels("queries").time():
            return self.process.run(self.query, sql, relations, timezone, limit)


def _cause(life: _Life) -> str:
    if life.blamed:
        return "a query could not be stopped"
    return "memory" if life.process.returncode == OUT_OF_MEMORY else "other"


def _blame(ended: _Ended, together: int) -> MillraceError:
    """What is told to a query whose process has ended; so many had it."""
    if ended.memory and together == 1:
        return PlanError(
            ErrorCode.TOO_LARGE,
            "the query needs more memory than all queries may take (MILLRACE_CALC_QUERY_MEMORY): read fewer "
            "rows, or return less",
        )
    if ended.memory:
        why = (
            f"{together} queries together needed more memory than they may take (MILLRACE_CALC_QUERY_MEMORY)"
        )
    else:
        why = f"the process for queries: {ended}"
    return PlanError(ErrorCode.UNAVAILABLE, f"{why}: try again")

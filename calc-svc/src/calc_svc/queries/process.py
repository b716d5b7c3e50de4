"""A process that works for users' queries, as calc-svc sees it: calc-svc starts it, asks it, and ends it when
a query cannot be stopped. A spare process may wait to follow it.

One such process runs queries, with a Spark and a heap of its own, so that no query takes cores, memory or the
JVM from what is calculated for streams (decision 0066); another plans them (decision 0079). A spare that
stands ready takes the place of one that ends at once (decision 0072). Until the first query comes, none can
end the process, and there is no spare.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from calc_svc import metrics
from calc_svc.queries.child import Child, Line
from calc_svc.queries.control import As, Said
from calc_svc.queries.running import Query
from millrace_core.admission import Admission, User
from millrace_core.errors import ErrorCode, MillraceError, PlanError
from millrace_service import instant

TICK = 0.05
"""Seconds between two looks at whether a query is over."""
LOOK = 0.5
"""Seconds between two looks at whether the process has ended."""
TRIES = 3
"""How often a query is begun if its process keeps ending, other than from a lack of memory."""
SPARE_PAUSE = 30.0
"""Seconds after which a spare process that has ended is started again."""
SPARE_AFTER = 60.0
"""Seconds from the first process to the start of the spare, at least: streams that begin, or catch up after a
restart, have the cores first."""
STOP = 8.0
"""Seconds that a query may take to end when it is told to: its lane is free again within ten seconds."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Kind:
    """``name``: for logs and ``/healthz``; ``words``: for errors; ``program``: what each process runs."""

    name: str
    words: str
    program: Sequence[str]
    stop: float = STOP


RUNS = Kind("queries", "the process for queries", (sys.executable, "-m", "calc_svc.queries"))
PLANS = Kind("planning", "the process that plans queries", (sys.executable, "-m", "calc_svc.planning"))


class _Ended(Exception):
    """The process is gone."""


class QueryProcess:
    """Starts the process, and another one when it has ended; a work of :class:`millrace_service.Life`."""

    def __init__(
        self, lanes: int, admission: Admission, environment: Mapping[str, str] | None = None, *,
        spare: bool = False, kind: Kind = RUNS,
    ) -> None:  # fmt: skip
        """``lanes``: how many queries run side by side; ``admission``: decides whose queries may begin;
        ``spare``: whether another process is to stand ready to follow."""
        self.name, self.stopping = kind.name, threading.Event()
        self._count, self._environment, self._kind = lanes, environment, kind
        self._logger = structlog.get_logger("calc-svc")
        self._changed = threading.Condition()
        self._admission = admission
        self._child: Child | None = None
        self._free: list[Line] = []
        self._spare: Child | None = None
        self._wants_spare, self._spare_from = spare, 0.0
        self._begun = self._waiting = 0
        self._asked = False
        """Whether any query has come yet."""

    # ------------------------------------------------------------------ the processes

    def begin(self) -> None:
        """:raises PlanError: UNAVAILABLE if it does not come up."""
        with self._changed:
            child, self._spare = self._spare, None
        if child is not None and not child.alive:
            child.close()
            child = None
        child = child or self._start(As.NEXT if self._begun else As.FIRST)
        while not child.look(0.1):
            if not child.alive or child.late or self.stopping.is_set():
                child.close()
                if self.stopping.is_set():
                    return
                raise PlanError(ErrorCode.UNAVAILABLE, f"{self._kind.words} did not start")
        if not self._begun:
            self._spare_from = time.monotonic() + SPARE_AFTER
        with self._changed:
            self._child, self._free = child, list(child.lanes)
            self._begun += 1
            self._changed.notify_all()

    def _start(self, as_: As) -> Child:
        return Child.start(self._count, as_, self._kind.program, self._environment)

    def step(self) -> None:
        """Wait a moment for its end.

        :raises PlanError: UNAVAILABLE if none follows it.
        """
        child = self._child
        if child is None:
            return
        self._keep_spare()
        self.stopping.wait(LOOK)  # Popen.wait looks far more often
        code = child.process.poll()
        if code is None:
            return
        if not self.stopping.is_set():
            why = child.blamed[0] if child.blamed else ""
            self._logger.warning(f"{self._kind.words} has ended", code=code, why=why)
            metrics.QUERY_PROCESSES_ENDED.labels(self.name, child.cause).inc()
            self._note_end(child)
            self._close()
            self.begin()

    def _keep_spare(self) -> None:
        """See to it that a spare process is waiting, if one is wanted, and from the first query on."""
        spare = self._spare
        if spare is None:
            if self._wants_spare and self._asked and time.monotonic() >= self._spare_from:
                self._spare = self._start(As.SPARE)
        elif spare.becomes_warm():
            with self._changed:
                self._changed.notify_all()
        elif not spare.alive or spare.late:
            self._logger.warning("the standby process for queries has ended", code=spare.process.poll())
            self._spare, self._spare_from = None, time.monotonic() + SPARE_PAUSE
            spare.close()

    def _note_end(self, child: Child) -> None:
        """Remember whose queries were running then."""
        with self._changed:
            child.last = child.users.copy() if child.last is None else child.last
            if not (suspects := child.suspects):
                return
            refused = self._admission.ended(suspects, time.monotonic())
        for user in refused:
            self._logger.warning("queries of a user are refused", user=user, until=self.refused()[user])

    def _close(self) -> None:
        with self._changed:
            child, free, self._child, self._free = self._child, self._free, None, []
            self._changed.notify_all()
        if child is not None:
            child.close(free)

    def end(self) -> None:
        self._close()
        with self._changed:
            spare, self._spare = self._spare, None
            self._changed.notify_all()
        if spare is not None:
            spare.close()

    @property
    def spared(self) -> bool:
        """Whether another process stands ready, and would answer at once."""
        spare = self._spare
        return spare is not None and spare.warm

    def has_room(self) -> bool:
        """Whether a query could begin at once."""
        with self._changed:
            return self._open is not None

    def look(self) -> tuple[object, str]:
        """How often a process has begun, and what waits for the next one."""
        waits = self._child is None and self._waiting
        return self._begun, f"{self._waiting} queries are waiting for {self._kind.words}" if waits else ""

    def refused(self) -> dict[str, str]:
        """The users whose queries are refused, and until when."""
        now, ahead = time.monotonic(), time.time()
        with self._changed:
            found = self._admission.all_refused(now)
        return {user: instant(one.until - now + ahead) for user, one in found.items()}

    # ------------------------------------------------------------------ queries

    def talk(self, query: Query, exchange: Callable[[Talk], Answer]) -> Answer:
        """What ``exchange`` finds out from the process for the query. If the process ends, ``exchange`` may
        be called again, with the next process.

        :raises PlanError: why the query is over; UNAVAILABLE, TIMEOUT or TOO_MANY if it cannot begin;
            TOO_LARGE if it takes all memory.
        """
        for again in range(TRIES):
            child, line = self._take(query)
            talk = Talk(line, query)
            try:
                return self._talk(child, talk, exchange)
            except _Ended:
                if child.out_of_memory or again == TRIES - 1:
                    raise self._blame(child) from None
            finally:
                if talk.goes_on:  # the caller need not wait until it ends
                    threading.Thread(target=self._stop, args=(child, line, query.user), daemon=True).start()
                else:
                    self._give(child, line, query.user)
        raise AssertionError("the last try returns or raises")

    def _take(self, query: Query) -> tuple[Child, Line]:
        with self._changed:
            self._asked = True
            self._waiting += 1
            try:
                while (child := self._open_to(query)) is None:
                    self._check_turn(query)
                    self._changed.wait(min(TICK, query.left or TICK))
                child.users[query.user] += 1
                return child, self._free.pop()
            finally:
                self._waiting -= 1

    @property
    def _open(self) -> Child | None:
        """The process, while it has a lane free."""
        child = self._child
        return child if child is not None and not child.over and self._free else None

    def _open_to(self, query: Query) -> Child | None:
        """The process, if it has a lane for the query.

        :raises PlanError: TOO_MANY while queries of its user are refused.
        """
        now = time.monotonic()
        if (refused := self._admission.refused(query.user, now)) is not None:
            metrics.QUERIES_REFUSED.inc()
            raise PlanError(
                ErrorCode.TOO_MANY,
                f"queries of {query.user} are refused until {instant(refused.until - now + time.time())}: "
                f"{refused.ends} of them brought down {self._kind.words} (MILLRACE_CALC_QUERY_ENDS)",
            )
        if (child := self._open) is None:
            return None
        spared = self.spared or not self._wants_spare
        return child if self._admission.may_begin(query.user, child.users, now, spared=spared) else None

    def _check_turn(self, query: Query) -> None:
        """:raises MillraceError: why a query that waits for a lane is over."""
        if self.stopping.is_set():
            raise PlanError(ErrorCode.UNAVAILABLE, "calc-svc is stopping: try again")
        why = query.over()
        if why is None:
            return
        if why.code is not ErrorCode.QUERY_TIMEOUT:
            raise why
        # it is not the query's own fault: others have the lanes, or have ended the process
        if self._child is None or self._child.over:
            raise PlanError(ErrorCode.UNAVAILABLE, f"{self._kind.words} is starting: try again") from why
        taken = "as many queries were running as may run at the same time (MILLRACE_CALC_QUERY_LANES)"
        if self._free:
            taken = (
                f"other queries of {query.user} were running, as many as one user may have, or had been "
                f"running when {self._kind.words} ended"
            )
        raise PlanError(
            ErrorCode.TIMEOUT,
            f"the query could not begin within {query.seconds:g} s, because {taken}: try again",
        ) from why

    def _give(self, child: Child, line: Line, user: User) -> None:
        with self._changed:
            child.users[user] -= 1
            child.users += Counter()  # drops users without a query
            if child is self._child:
                self._free.append(line)
                self._changed.notify_all()
            else:
                line.pipe.close()

    def _talk(self, child: Child, talk: Talk, exchange: Callable[[Talk], Answer]) -> Answer:
        talk.query.check()
        talk.query.runs()
        try:
            return exchange(talk)
        except (EOFError, OSError):
            talk.goes_on = False
            with self._changed:
                child.last = child.users.copy() if child.last is None else child.last
            child.await_end()
            raise _Ended from None

    def _blame(self, child: Child) -> MillraceError:
        """The error for a query whose process has ended."""
        together = (child.last or Counter()).total()
        if child.out_of_memory and together == 1:
            return PlanError(
                ErrorCode.TOO_LARGE,
                "the query needs more memory than all queries together may use "
                "(MILLRACE_CALC_QUERY_MEMORY): read fewer rows, or return less",
            )
        if child.out_of_memory:
            why = (
                f"{together} queries together needed more memory than they may use "
                "(MILLRACE_CALC_QUERY_MEMORY)"
            )
        else:
            said = child.blamed[0] if child.blamed else f"exited with code {child.process.returncode}"
            why = f"{self._kind.words} has ended ({said})"
        return PlanError(ErrorCode.UNAVAILABLE, f"{why}: try again")

    def _stop(self, child: Child, line: Line, user: User) -> None:
        """Have the query end: after this, its lane is free, or the process is gone."""
        if not self._has_stopped(child, line):
            child.kill("another query could not be stopped", user)
        self._give(child, line, user)

    def _has_stopped(self, child: Child, line: Line) -> bool:
        until = time.monotonic() + self._kind.stop
        while time.monotonic() < until:
            # told again and again: the query may not have had a job the first time
            child.cancel(line)
            try:
                if line.pipe.poll(0.3) and line.pipe.recv().last:
                    return True
            except (EOFError, OSError):
                child.await_end()
                return True
        return False


@dataclass(slots=True)
class Talk:
    """The conversation for one query over its lane. ``goes_on``: the process works for the query."""

    line: Line
    query: Query
    goes_on: bool = False

    def ask(self, question: object) -> None:
        """Begin."""
        self.line.number += 1
        self.reply(question)
        self.goes_on = True

    def reply(self, message: object) -> None:
        self.line.pipe.send(Said(self.line.number, message))

    def receive(self) -> Any:
        """What the process says next.

        :raises MillraceError: why the query is over, if it is before that.
        """
        while not self.line.pipe.poll(TICK):
            self.query.check()
        said: Said = self.line.pipe.recv()
        self.goes_on = not said.last
        return said.message

"""One process that works for users' queries (``python -m calc_svc.queries``), from its start to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from calc_svc.queries.control import OUT_OF_MEMORY, As, Cancel, Ready, Warm
from millrace_core.admission import User

STARTUP = 300.0
"""Seconds that a process may take until it is ready. At its low priority, Spark takes long to start on a busy
machine, and to end it half way would be worse."""
GRACE = 3.0
"""Seconds that a query, or a process, may take to end when it is told to."""
_ALREADY_OVER = 1
"""The exit code of a process whose Spark has ended, other than from a lack of memory."""


@dataclass(slots=True)
class Line:
    """A lane of a process. ``number``: of the query on it now, or of the last one."""

    place: int
    pipe: Connection
    number: int = 0


@dataclass(slots=True)
class Child:
    """``users``: whose queries have its lanes; ``last``: ``users`` as it was when the process ended;
    ``blamed``: why calc-svc has ended it, and because of which user; ``over``: it takes no more queries."""

    process: subprocess.Popen[bytes]
    control: Connection
    lanes: list[Line]
    began: float = field(default_factory=time.monotonic)
    ready: bool = False
    warm: bool = False
    users: Counter[User] = field(default_factory=Counter)
    last: Counter[User] | None = None
    blamed: tuple[str, User] | None = None
    over: bool = False
    sending: threading.Lock = field(default_factory=threading.Lock)

    @staticmethod
    def start(count: int, as_: As, program: Sequence[str], environment: Mapping[str, str] | None) -> Child:
        """``count``: how many lanes it has."""
        pairs = [Pipe() for _ in range(1 + count)]
        theirs = [pair[1] for pair in pairs]
        numbers = [str(pipe.fileno()) for pipe in theirs]
        process = subprocess.Popen(
            [*program, as_, *numbers],
            pass_fds=[pipe.fileno() for pipe in theirs], stdin=subprocess.DEVNULL, start_new_session=True,
            env=environment,
        )  # fmt: skip
        for pipe in theirs:
            pipe.close()
        ours = [pair[0] for pair in pairs]
        return Child(process, ours[0], [Line(place, pipe) for place, pipe in enumerate(ours[1:])])

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def late(self) -> bool:
        """Whether it has taken too long to be ready."""
        return not self.ready and time.monotonic() > self.began + STARTUP

    def look(self, seconds: float) -> bool:
        """Whether it takes queries; waits up to ``seconds`` for that."""
        with suppress(EOFError, OSError):
            while not self.warm and self.control.poll(0 if self.ready else seconds):
                told = self.control.recv()
                self.ready |= isinstance(told, Ready)
                self.warm |= isinstance(told, Warm)
        return self.ready

    def becomes_warm(self) -> bool:
        """Whether it has become warm since the last look."""
        before = self.warm
        self.look(0)
        return self.warm and not before

    def kill(self, why: str = "", by: User = None) -> None:
        self.over, self.blamed = True, self.blamed or ((why, by) if why else None)
        # it has a process group of its own, whose number is not reused before the process was waited for
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def cancel(self, line: Line) -> None:
        with self.sending, suppress(OSError):
            self.control.send(Cancel(line.place, line.number))

    def await_end(self) -> None:
        """It does not answer any more: wait for its end, or end it."""
        self.over = True
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()

    @property
    def out_of_memory(self) -> bool:
        return self.blamed is None and self.process.returncode == OUT_OF_MEMORY

    @property
    def suspects(self) -> frozenset[User]:
        """Once it has ended: the users whose queries may have ended it; none if somebody else killed it."""
        if self.blamed is not None:
            return frozenset({self.blamed[1]})
        by_itself = self.process.returncode in (OUT_OF_MEMORY, _ALREADY_OVER)
        return frozenset(self.last or ()) if by_itself else frozenset()

    @property
    def cause(self) -> str:
        """Why it has ended, in the words of the metrics."""
        if self.blamed:
            return "a query could not be stopped"
        return "memory" if self.out_of_memory else "other"

    def close(self, free: Iterable[Line] | None = None) -> None:
        """End it, and close the pipes of the lanes that are ``free`` (None: all are). The pipe of any other
        lane is closed by whoever has that lane: once closed, its number may be reused at once."""
        self.kill()
        self.process.wait()
        for line in self.lanes if free is None else free:
            line.pipe.close()
        with self.sending:
            self.control.close()

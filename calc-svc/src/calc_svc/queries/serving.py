"""What the process that runs users' queries does: works of :class:`millrace_service.Life`, each in a thread
of its own. If one cannot go on, it ends the process, and calc-svc has another one follow."""

from __future__ import annotations

import os
import queue
import threading
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection

import structlog

from calc_svc.queries.answering import WAIT, LaneEnd
from calc_svc.queries.control import OUT_OF_MEMORY, Cancel, Warm
from calc_svc.queries.messages import Answered, Asked, ipc_stream, relations_of
from calc_svc.spark.heap import Exhaustion
from calc_svc.spark.jvm import JVM_OUT_OF_MEMORY
from calc_svc.spark.session import CUT_OFF, Engine, Lane
from millrace_core.errors import ErrorCode, MillraceError

POOL = "queries"
SOON = 0.1
"""Seconds between two looks at tasks that are to end; calc-svc does not wait for them for ever."""


class Serving:
    """Runs the queries of one lane."""

    def __init__(self, engine: Engine, number: int, exhaustion: Exhaustion) -> None:
        self._engine, self._number, self._exhaustion = engine, number, exhaustion
        self._open = ExitStack()
        self._lane: Lane | None = None

    def begin(self) -> None:
        self._lane = self._open.enter_context(self._engine.lane(POOL, 1))

    def serve(self, lane: LaneEnd, question: Asked) -> None:
        assert self._lane is not None, "begun"
        name = job_name(self._number, lane.number)
        self._engine.name_jobs(name)
        began = time.monotonic()
        answered = _answer(self._lane, question)
        if answered.code == ErrorCode.UNAVAILABLE.name:
            raise EOFError("the JVM has ended: the exit code of this process will say why")
        while answered.code and self._engine.tasks(name):
            # a task that has not ended keeps its core, so the lane is not free before
            time.sleep(SOON)
        self._exhaustion.ended(time.monotonic() - began)
        lane.answer(answered)

    def end(self) -> None:
        self._open.close()


class Cancelling:
    """Cancels queries, one after the other, in a thread of its own: a JVM that hangs must not keep this
    process from noticing that calc-svc has ended. If it hangs, the process is ended from outside."""

    def __init__(self, engine: Engine) -> None:
        self.name, self.stopping = "cancelling", threading.Event()
        self._engine = engine
        self._told = queue.SimpleQueue[Cancel]()

    def tell(self, cancel: Cancel) -> None:
        """Have this query end."""
        self._told.put(cancel)

    def begin(self) -> None:
        """There is nothing to open."""

    def step(self) -> None:
        try:
            told = self._told.get(timeout=WAIT)
        except queue.Empty:
            return
        self._engine.cancel(job_name(told.lane, told.number))

    def end(self) -> None:
        """There is nothing to close."""


class Warming:
    """Warms Spark up once, beside any queries that come meanwhile. Nobody waits for a process that stands by,
    so it has the time; and its first query is to be answered soon."""

    def __init__(self, engine: Engine, control: Connection) -> None:
        self.name, self.stopping = "warming", threading.Event()
        self._engine, self._control = engine, control

    def begin(self) -> None:
        """There is nothing to open."""

    def step(self) -> None:
        self._engine.warm_up()
        self._control.send(Warm())
        self.stopping.set()

    def end(self) -> None:
        """There is nothing to close."""


class Watching:
    """Ends the process when Spark's JVM has ended, or does nothing but look for memory. Without the JVM there
    is nothing to be done, and the next process answers sooner."""

    def __init__(self, engine: Engine, exhaustion: Exhaustion) -> None:
        self.name, self.stopping = "watching", threading.Event()
        self._engine, self._exhaustion = engine, exhaustion

    def begin(self) -> None:
        """There is nothing to open."""

    def step(self) -> None:
        code = self._engine.wait(WAIT)
        if code is not None:
            os._exit(OUT_OF_MEMORY if code == JVM_OUT_OF_MEMORY else 1)
        try:
            collected = self._engine.collected()
        except CUT_OFF:
            return  # the JVM has ended meanwhile: the next step finds its exit code
        if self._exhaustion.seen(time.monotonic(), collected):
            structlog.get_logger("calc-svc-queries").warning("the heap is full", **collected._asdict())
            self._engine.kill()  # the JVM itself would be slow to notice that this process is gone
            os._exit(OUT_OF_MEMORY)

    def end(self) -> None:
        """There is nothing to close."""


def job_name(lane: int, number: int) -> str:
    """The name of a query's jobs."""
    return f"query-{lane}-{number}"


def _answer(lane: Lane, asked: Asked) -> Answered:
    try:
        found = lane.run(asked.sql, relations_of(asked), asked.timezone, asked.limit)
        return Answered(ipc_stream(found))
    except MillraceError as error:
        return Answered(b"", error.code.name, error.message)
    # calc-svc waits for an answer, whatever happens here
    except Exception as error:
        return Answered(b"", ErrorCode.INTERNAL.name, f"{type(error).__name__}: {error}")

"""How a process answers what calc-svc asks on each lane: the other side of ``process.py``."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol

from calc_svc.queries.control import Cancel, Said

WAIT = 1.0
"""Seconds that a step waits for something to do."""


class LaneEnd:
    """The process's end of a lane. Its errors are EOFError and OSError: calc-svc is gone.

    ``number``: of the query on the lane now, or of the last one.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self.number = pipe, 0

    def question(self, seconds: float) -> Any:
        """What calc-svc asks next; None if that does not come within ``seconds``."""
        if not self._pipe.poll(seconds):
            return None
        said: Said = self._pipe.recv()
        if said.number <= self.number:
            return None  # a reply that came when its query was over
        self.number = said.number
        return said.message

    def reply(self, seconds: float) -> Any:
        """What calc-svc says to what :meth:`say` has told it; None as above."""
        return self._pipe.recv().message if self._pipe.poll(seconds) else None

    def say(self, message: object) -> None:
        self._pipe.send(Said(self.number, message))

    def answer(self, message: object) -> None:
        """The last that is said about this query."""
        self._pipe.send(Said(self.number, message, last=True))


class Desk(Protocol):
    """Who answers on a lane."""

    def begin(self) -> None:
        """Open what the answers need."""

    def serve(self, lane: LaneEnd, question: Any) -> None:
        """Answer the question.

        :raises EOFError: the process can answer nothing any more, and ends.
        """

    def end(self) -> None:
        """Close what is open."""


class Answering:
    """Answers what comes over one lane's pipe; a work of :class:`millrace_service.Life`."""

    def __init__(self, number: int, pipe: Connection, desk: Desk) -> None:
        self.name, self.stopping = f"lane-{number}", threading.Event()
        self._lane, self._desk = LaneEnd(pipe), desk

    def begin(self) -> None:
        self._desk.begin()

    def step(self) -> None:
        try:
            if (question := self._lane.question(WAIT)) is not None:
                self._desk.serve(self._lane, question)
        except (EOFError, OSError):
            self.stopping.set()  # calc-svc is gone, and so is this process in a moment

    def end(self) -> None:
        self._desk.end()


def heed(control: Connection, cancel: Callable[[Cancel], None]) -> None:
    """Pass on which queries are to end. The process ends when calc-svc is gone, and its JVM with it."""
    try:
        while True:
            cancel(control.recv())
    except (EOFError, OSError):
        os._exit(0)

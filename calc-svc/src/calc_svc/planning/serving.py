"""What the process that plans does on each of its lanes: works of :class:`millrace_service.Life`."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from multiprocessing.connection import Connection

import structlog

from calc_svc.planning.messages import Asked, Columns, PlannedQuery, Refused, Wanted
from millrace_core.catalog import Catalog
from millrace_core.errors import ErrorCode, MillraceError

WAIT = 1.0
"""Seconds that a step waits for something to do."""


class _Abandoned(Exception):
    """Nobody waits for the plan any more: another question has come instead."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked


class _Asking:
    """The catalog, which is asked for over the pipe."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def part(self, wanted: Iterable[tuple[str, str]], *, families: bool) -> Catalog:
        self._pipe.send(Wanted(tuple(wanted), families))
        answer: Catalog | Asked = self._pipe.recv()
        if not isinstance(answer, Catalog):
            raise _Abandoned(answer)
        return answer


class Planning:
    """Answers what comes over one lane's pipe."""

    def __init__(self, number: int, pipe: Connection) -> None:
        self.name, self.stopping = f"lane-{number}", threading.Event()
        self._pipe, self._definitions = pipe, _Asking(pipe)
        self._logger = structlog.get_logger("calc-svc-planning")

    def begin(self) -> None:
        """There is nothing to open."""

    def step(self) -> None:
        try:
            if self._pipe.poll(WAIT):
                self._serve(self._pipe.recv())
        except (EOFError, OSError):
            self.stopping.set()  # calc-svc is gone, and so is this process in a moment

    def _serve(self, asked: Asked) -> None:
        while True:
            try:
                answer = self._answer(asked)
                break
            except _Abandoned as instead:
                asked = instead.asked
        self._pipe.send(answer)

    def _answer(self, asked: Asked) -> PlannedQuery | Columns | Refused:
        try:
            return asked.answer(self._definitions)
        except (_Abandoned, EOFError, OSError):
            raise
        except MillraceError as error:
            return Refused(error.to_wire())
        # calc-svc waits for an answer, whatever happens here
        except Exception as error:
            self._logger.exception("a statement could not be planned")
            told = MillraceError(ErrorCode.INTERNAL, f"{type(error).__name__}: {error}")
            return Refused(told.to_wire())

    def end(self) -> None:
        """There is nothing to close."""

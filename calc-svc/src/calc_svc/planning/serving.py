"""What the process that plans does on each of its lanes."""

from __future__ import annotations

import queue
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import structlog

from calc_svc.planning.interruptible import Interrupted, Interruptible
from calc_svc.planning.messages import Asked, Columns, PlannedQuery, Refused, Wanted
from calc_svc.queries.answering import LaneEnd
from calc_svc.queries.control import Cancel
from millrace_core.catalog import Catalog
from millrace_core.errors import ErrorCode, MillraceError

TICK = 0.05
"""Seconds between two looks at the pipe and at what is to be planned no longer."""

Answer = PlannedQuery | Columns | Refused


class _Done(NamedTuple):
    """From the thread that plans: it ends now."""


_Events = queue.SimpleQueue[Wanted | Cancel | _Done]


class _Asking:
    """The catalog, for the thread that plans: the lane's own asks calc-svc for it."""

    def __init__(self, events: _Events) -> None:
        self._events = events
        self.parts = queue.SimpleQueue[Catalog | None]()

    def part(self, wanted: Iterable[tuple[str, str]], *, families: bool) -> Catalog:
        self._events.put(Wanted(tuple(wanted), families))
        if (found := self.parts.get()) is None:
            raise Interrupted
        return found


class Planning:
    """Plans the statements of one lane, each in a thread of its own, which ends where nobody waits for the
    plan any more. Otherwise a statement that takes too long would go on beside the next try."""

    def __init__(self) -> None:
        self._events = _Events()
        self._logger = structlog.get_logger("calc-svc-planning")

    def cancel(self, told: Cancel) -> None:
        """Have this statement end; called by another thread, again and again until it has."""
        self._events.put(told)

    def begin(self) -> None:
        """There is nothing to open."""

    def serve(self, lane: LaneEnd, question: Asked) -> None:
        events = self._events = _Events()
        definitions = _Asking(events)
        planning = Interruptible[PlannedQuery | Columns](
            partial(question.answer, definitions), partial(events.put, _Done())
        )
        planning.start()
        asking = ends = False
        while planning.alive:
            with suppress(queue.Empty):
                match events.get(timeout=0 if asking else TICK):
                    case Wanted() as wanted if not ends:
                        lane.say(wanted)
                        asking = True
                    case Cancel(number=lane.number):
                        ends, asking = True, False
                    case _Done():
                        planning.join()
            if ends:
                definitions.parts.put(None)
                planning.interrupt()
            elif asking and (part := lane.reply(TICK)) is not None:
                definitions.parts.put(part)
                asking = False
        lane.answer(self._outcome(planning))

    def end(self) -> None:
        """There is nothing to close."""

    def _outcome(self, planning: Interruptible[PlannedQuery | Columns]) -> Answer:
        try:
            return planning.result()
        except MillraceError as error:
            return Refused(error.to_wire())
        except Interrupted:
            return Refused(MillraceError(ErrorCode.QUERY_KILLED, "planning was interrupted").to_wire())
        # calc-svc waits for an answer, whatever has happened
        except Exception as error:
            self._logger.exception("a statement could not be planned")
            told = MillraceError(ErrorCode.INTERNAL, f"{type(error).__name__}: {error}")
            return Refused(told.to_wire())

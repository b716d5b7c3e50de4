"""Which streams wait for processing time, and when the next tick is due: what the clock of trigger-svc knows.

The agenda learns of PERIOD streams from the control records, as the slots do, and of open windows with
MAX_DELAY from the due times that the slots report. The slots decide for themselves what a tick means. The
agenda only says when a tick is worth writing, and for which WAL topics it must state the ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from millrace_core.errors import MillraceError
from millrace_core.timeline import Schedule
from millrace_core.trigger.stream.definition import Definition, compiled, essence
from millrace_core.trigger.stream.delay import APART, FAR
from millrace_core.wire import control

PATIENCE = 1_000_000_000
"""ns until a tick is repeated if what was due still is: the query was busy, or failed."""


@dataclass(slots=True)
class _Planned:
    """A PERIOD stream that runs: its next instant (ns), its trigger table's topic ("": none)."""

    schedule: Schedule
    topic: str
    next: int


class Agenda:
    """Instants are planned from ``since`` (ns) on."""

    def __init__(self, since: int) -> None:
        self.since = since
        self._known: dict[int, Definition] = {}
        self._planned: dict[int, _Planned] = {}
        self._delays_due: Sequence[int] = ()
        self._lead = 0
        self._ticked = self._reached = -FAR

    def apply(self, record: control.AnyControl, at: int) -> None:
        """Take in a control record that was written at ``at`` (ns)."""
        match record:
            case control.DefineStream(spec=spec):
                try:
                    self._known[spec.uid] = compiled(essence(spec))
                except MillraceError:
                    return  # the slots report the error
                self._start(spec.uid, at)
            case control.StartStream(uid=uid) if uid in self._known:
                self._start(uid, at)
            case control.StopStream(uid=uid):
                self._stop(uid)
            case control.DropStream(uid=uid):
                self._stop(uid)
                self._known.pop(uid, None)
            case control.DropTable(uid=uid):
                for stream, definition in list(self._known.items()):
                    if definition.table.uid == uid:
                        self._stop(stream)
                        del self._known[stream]
            case _:
                pass

    def _start(self, uid: int, at: int) -> None:
        definition = self._known[uid]
        if definition.schedule is not None:
            following = definition.schedule.after(max(at, self.since))
            self._planned[uid] = _Planned(definition.schedule, definition.topic, following)

    def _stop(self, uid: int) -> None:
        self._planned.pop(uid, None)

    def expect(self, delays_due: Sequence[int], lead: int = 0) -> None:
        """Open windows are due by MAX_DELAY at these times (ns, ascending). Each needs a tick ``lead`` ns
        before, unless the tick of an earlier one covers it."""
        self._delays_due, self._lead = delays_due, lead

    @property
    def early(self) -> int:
        """How far a tick written now reaches (ns): to what is due within :data:`APART` after the first
        window."""
        return self._lead + APART

    def watch_from(self, since: int) -> None:
        """The clock did not watch until ``since``: instants planned up to then are missed."""
        self.since = since
        for planned in self._planned.values():
            if planned.next <= since:
                planned.next = planned.schedule.after(since)

    @property
    def due(self) -> int:
        """When (ns) the next tick is worth writing; FAR if nobody waits."""
        instants = [planned.next for planned in self._planned.values()]
        passed = bisect_right(self._delays_due, self._reached)
        instants += [due - self._lead for due in self._delays_due[passed : passed + 1]]
        if passed:  # what was due at the last tick is under way; if that takes too long, the tick is repeated
            instants.append(self._ticked + PATIENCE)
        return min(instants, default=FAR)

    def take(self, now: int) -> set[str] | None:
        """The WAL topics whose ends a tick at ``now`` (ns) must state; None if no tick is due.

        After that, what was due counts as done.
        """
        if self.due > now:
            return None
        topics: set[str] = set()
        for planned in self._planned.values():
            if planned.next <= now:
                topics.add(planned.topic)
                try:
                    planned.next = planned.schedule.after(now)
                except (ArithmeticError, ValueError):
                    planned.next = FAR  # it has no further instants; the slots report the error
        self._ticked, self._reached = now, now + self.early
        return topics - {""}

    def again(self, topics: Collection[str], at: int) -> None:
        """A tick did not state the ends of these topics: the instants that it was for are due once more at
        ``at`` (ns)."""
        for planned in self._planned.values():
            if planned.topic in topics:
                planned.next = min(planned.next, at)

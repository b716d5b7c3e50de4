"""EVENT_WINDOW: from a row that meets one condition to the next that meets another (seed 000; SEMANTICS).

A window opens with the first row that meets the start condition and closes with the first one from there on
that meets the end condition: the same row may do both. A row that closes an open window never opens the next.
Further start rows change nothing; rows that meet neither condition are counted. TRUE_FOR drops windows whose
end - start is shorter; a window is told as opened with the row that makes it long enough.

Late rows. The memory keeps the rows since the last closed window that meet a condition; no other row moves a
window. For a late row after that window, these rows are cut again: it may open a window earlier, or close
one. A row at or before the last closed window's end changes closed windows: REDO. If that row is the window's
closing one and no longer closes it, the window is open again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from millrace_core.model.expression import Field
from millrace_core.model.stream import Condition
from millrace_core.trigger.groups.columns import Columns
from millrace_core.trigger.groups.watermark import NEVER, RANGE, Evaluated
from millrace_core.trigger.rows.signals import Signal
from millrace_core.trigger.types.event.arrays import END, START, EventRule, in_order
from millrace_core.trigger.types.event.reach import EventReach
from millrace_core.trigger.types.kept import (
    ALWAYS,
    MOST_KEPT,
    UNSURE,
    Cut,
    plus,
    redo,
    split,
    tell_again,
    waits_for_true_for,
)
from millrace_core.trigger.types.occurrences import (
    CLOSE,
    OPEN,
    RETRACT,
    Occurrence,
    Occurrences,
    Row,
    SoFar,
)  # fmt: skip
from millrace_core.trigger.types.windower import Span, Windower
from millrace_core.wire.diagnosis import OpenWindow, Wait

CELL = "cell "
"""The prefix that makes a signal's name from the name of the column that it reads: no condition has such a
name."""


class EventRow(msgspec.Struct, array_like=True):
    """A row that meets a condition. ``flags``: which; ``cells``: its values in the conditions' columns, if
    somebody is told of them."""

    ts: int
    flags: int
    cells: Any = None


class EventMemory(msgspec.Struct, array_like=True):
    """The open window's ``start`` (NEVER: none is open), the number of its ``rows``, whether its opening was
    ``told``, the opening row's ``cells``. ``last``: the newest row evaluated.

    ``closed_start``: the start of the last closed window, if it is known. ``floor``: rows up to this time are
    not in ``kept``: it is the time of that window's last row, or of the newest forgotten one. ``redo``: the
    earliest late row among the forgotten rows of the open window.
    """

    start: int = NEVER
    last: int = NEVER
    rows: int = 0
    told: int = 0
    cells: Any = None
    closed_start: int = NEVER
    floor: int = NEVER
    redo: int = ALWAYS
    kept: list[EventRow] = []


TOLD, UNKNOWN = 1, 2
"""Values of :attr:`EventMemory.told`. UNKNOWN: deleted rows may have belonged to the window; nothing more is
told of it, and what closes is cut again from the stored rows."""


class EventWindower(Windower):
    """Windows between two conditions."""

    memory = EventMemory
    shows_open = False

    def __init__(self, start: Condition, end: Condition, rule: EventRule, most_kept: int = MOST_KEPT) -> None:
        assert start.expression is not None and end.expression is not None, "lowered conditions have them"
        flags = Signal("start", start.expression, "flag"), Signal("end", end.expression, "flag")
        self.signals = (*flags, *(Signal(CELL + name, Field(name)) for name in rule.names))
        self.rule = rule
        self.most_kept = most_kept

    def _cells(self, cells: Mapping[str, Any]) -> Any:
        return {name: cells[CELL + name] for name in self.rule.names} if self.rule.told else None

    # ------------------------------------------------------------------ rows in order

    def on_row(self, memory: EventMemory, row: Row) -> Iterator[Occurrence]:
        one = UNSURE if row.unsure else 1
        flags = _flags(row)
        memory.last = row.ts
        if memory.start == NEVER and not flags & START:
            self._keep(memory, row, flags)
            return
        cells = self._cells(row.cells)
        if memory.start == NEVER:
            memory.start, memory.rows, memory.told, memory.cells = row.ts, one, 0, cells
        else:
            memory.rows = plus(memory.rows, one)
        yield from self._reach(memory)
        if not flags & END:
            self._keep(memory, row, flags)
            return
        if memory.told == TOLD:
            detail = self.rule.closing(cells)
            yield Occurrence(CLOSE, memory.start, row.ts, memory.rows, detail=detail)
        memory.closed_start = memory.start
        if memory.redo != ALWAYS:
            yield redo(memory.redo, row.ts)
            memory.redo, memory.closed_start = ALWAYS, NEVER
        memory.floor, memory.kept = row.ts, []
        memory.start, memory.rows, memory.told, memory.cells = NEVER, 0, 0, None

    def _reach(self, memory: EventMemory) -> Iterator[Occurrence]:
        """The open window reaches the newest row: it is told as opened if it is now long enough."""
        if memory.told or memory.last - memory.start < self.rule.true_for:
            return
        memory.told = TOLD
        detail = self.rule.opening(memory.cells)
        yield Occurrence(OPEN, memory.start, memory.last, memory.rows, detail=detail)

    def _keep(self, memory: EventMemory, row: Row, flags: int) -> None:
        if flags:
            self._put(memory, [*memory.kept, EventRow(row.ts, flags, self._cells(row.cells))])

    def _put(self, memory: EventMemory, kept: list[EventRow]) -> None:
        """Keep the newest of these."""
        gone = max(0, len(kept) - self.most_kept)
        if gone:
            memory.floor, memory.closed_start = kept[gone - 1].ts, NEVER
        memory.kept = kept[gone:]

    # ------------------------------------------------------------------ late rows, deleted rows

    def is_over(self, memory: EventMemory, row: Row, before: int) -> bool:
        ts, flags = row.ts, _flags(row)
        if memory.told == UNKNOWN:
            return ts < memory.redo
        if memory.start != NEVER and ts >= memory.start:
            return False
        if ts <= memory.floor:
            return True
        # the window that it would open has closed if a later row has met the end condition
        closed = flags & END or any(one.flags & END for one in memory.kept if one.ts > ts)
        return bool(flags & START and closed)

    def on_delete(self, memory: EventMemory, first: int, last: int) -> Iterator[Occurrence]:
        yield redo(first, last)
        memory.closed_start = NEVER
        if last >= memory.floor or self._older(memory):
            self._lose(memory, first)

    def _lose(self, memory: EventMemory, since: int) -> None:
        """From now on only the stored rows know which window is open; it may have begun before ``since``."""
        open_ = memory.start != NEVER
        memory.redo = min(memory.redo, since, memory.start if open_ else since)
        memory.start = memory.start if open_ else since
        memory.rows, memory.told, memory.cells, memory.kept = UNSURE, UNKNOWN, None, []
        memory.floor, memory.closed_start = max(memory.floor, memory.last, memory.start), NEVER

    def on_late(self, memory: EventMemory, row: Row, before: int) -> Iterator[Occurrence]:
        ts, flags = row.ts, _flags(row)
        if memory.told == UNKNOWN:
            yield redo(ts, ts)
            memory.redo, memory.last = min(memory.redo, ts), max(memory.last, ts)
            return
        told = {memory.start: memory.last} if memory.told and self.rule.openings else {}
        start = memory.start if self._older(memory) else NEVER
        if ts <= memory.floor:
            if start != NEVER:
                yield from self._forgotten(memory, ts, flags)
                return
            if ts < memory.floor or self.rule.shared or flags & END or memory.closed_start == NEVER:
                yield redo(ts, ts)
                if ts == memory.floor and not flags & END:
                    self._lose(memory, ts)
                if flags or ts <= memory.closed_start:
                    memory.closed_start = NEVER
                return
            # the closing row no longer closes
            if ts == memory.closed_start:
                # it was the window's only row: nothing before it is now separated from what follows
                yield redo(ts, ts)
                self._lose(memory, ts)
                return
            start = memory.closed_start
            yield from self._taken_back(start)
            told |= {start: ts} if ts - start >= self.rule.true_for else {}
        kept = list(memory.kept)
        place = bisect_left(kept, ts, key=lambda one: one.ts)
        known = not self.rule.shared and place < len(kept) and kept[place].ts == ts
        if known:
            del kept[place]
        if flags:
            kept.insert(
                bisect_right(kept, ts, key=lambda one: one.ts), EventRow(ts, flags, self._cells(row.cells))
            )
        memory.last = max(memory.last, ts)
        if known or flags or ts <= memory.floor:
            yield from self._cut_again(memory, kept, told, start)
        elif memory.start != NEVER and ts > memory.start:
            memory.rows = UNSURE
            yield from self._reach(memory)

    def _taken_back(self, start: int) -> Iterator[Occurrence]:
        """The window that begins there had closed, and is open again."""
        if self.rule.retracts:
            yield Occurrence(RETRACT, start, start, UNSURE)

    def _older(self, memory: EventMemory) -> bool:
        """Whether a window is open whose opening row is not kept."""
        return memory.start != NEVER and memory.start <= memory.floor

    def _forgotten(self, memory: EventMemory, ts: int, flags: int) -> Iterator[Occurrence]:
        """A late row among the open window's forgotten rows, or before them."""
        if ts < memory.start:
            yield redo(ts, ts)
        else:
            memory.rows = UNSURE
        # a row at or before the start may have closed an earlier window, and may no longer close it
        if flags & END or ts <= memory.start:
            memory.redo = min(memory.redo, ts)

    def _cut_again(
        self, memory: EventMemory, kept: list[EventRow], told: dict[int, int], start: int
    ) -> Iterator[Occurrence]:
        """Cut the windows after ``floor`` again; ``start``: that of a window that is open there."""
        rule, cells, closed = self.rule, memory.cells if start == memory.start else None, list[Cut]()
        for row in kept:
            if start == NEVER and row.flags & START:
                start, cells = row.ts, row.cells
            if start != NEVER and row.flags & END:
                closed.append(Cut(start, row.ts, rule.opening(cells), rule.closing(row.cells)))
                start = NEVER
        open_ = Cut(start, memory.last, rule.opening(cells), None) if start != NEVER else None
        yield from tell_again(told, closed, open_, rule.true_for)
        if closed:
            memory.floor, memory.closed_start = closed[-1].end, closed[-1].start
            if memory.redo != ALWAYS:
                yield redo(memory.redo, closed[0].end)
                memory.redo, memory.closed_start = ALWAYS, NEVER
            kept = [row for row in kept if row.ts > memory.floor]
        memory.start = start
        memory.rows, memory.cells = (UNSURE, cells) if open_ is not None else (0, None)
        memory.told = int(open_ is not None and open_.end - open_.start >= rule.true_for)
        self._put(memory, kept)

    def on_time(self, memory: EventMemory, before: int, now: int) -> tuple[Occurrence, ...]:
        return ()

    def so_far(self, memory: EventMemory) -> Iterator[SoFar]:
        if memory.start != NEVER and memory.told != UNKNOWN:
            yield SoFar(memory.start, memory.last, memory.rows)

    def vague(self, memory: EventMemory) -> Span | None:
        if memory.told != UNKNOWN and memory.redo == ALWAYS:
            return None
        return Span(max(min(memory.redo, memory.start), -RANGE), RANGE)

    def waits(self, memory: EventMemory, watermark: int) -> tuple[list[OpenWindow], list[Wait]]:
        idle = [Wait("start")]
        if memory.start == NEVER:
            return [], idle
        waits = [Wait("end"), *waits_for_true_for(self.rule.true_for, memory.start, memory.last)]
        if memory.told == UNKNOWN:
            waits.append(Wait("again"))
        return [OpenWindow(memory.start, memory.last, memory.rows, waits)], idle

    def reach(self, origin: int | None = None) -> EventReach:
        return EventReach()

    # ------------------------------------------------------------------ over arrays

    def on_rows(self, memory: Columns, evaluated: Evaluated) -> Occurrences:
        """Evaluate groups without late rows all at once, the others row by row."""
        special = memory.singles["redo"] != ALWAYS
        special[evaluated.group[evaluated.unsure]] = True
        plain, odd = split(evaluated, special)
        cells = {name: plain.columns[CELL + name] for name in self.rule.names}
        parts = [in_order(self.rule, self.most_kept, memory, plain, cells)] if len(plain.group) else []
        if len(odd.group) or not parts:
            parts.append(super().on_rows(memory, odd))
        return Occurrences.join(parts)


def _flags(row: Row) -> int:
    return START * bool(row.cells["start"]) + END * bool(row.cells["end"])

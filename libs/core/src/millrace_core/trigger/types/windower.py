"""What every trigger type is to the slot: it takes evaluated rows and moves of T, and gives occurrences.

A windower is defined by three functions over one group's memory: :meth:`Windower.on_row`,
:meth:`~Windower.on_late` and :meth:`~Windower.on_time`. :meth:`~Windower.on_rows` does the same for a batch
of many groups. Types override it with a version over arrays, and a property test proves the two equal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from millrace_core.trigger.groups.columns import Columns, Ints
from millrace_core.trigger.groups.watermark import Bools, Evaluated
from millrace_core.trigger.rows.signals import Signal
from millrace_core.trigger.types.occurrences import (
    CORRECT,
    RECALC,
    REDO,
    Occurrence,
    Occurrences,
    Row,
    SoFar,
    as_arrays,
)  # fmt: skip
from millrace_core.trigger.types.reach import Reach
from millrace_core.wire.diagnosis import OpenWindow, Wait

WAITS_FOR_ROW = Wait("row")


class Span(NamedTuple):
    """Times of rows, both included."""

    first: int
    last: int

    def holds(self, other: Span) -> bool:
        """Whether all of the other lies in this one."""
        return self.first <= other.first and other.last <= self.last

    def hull(self, other: Span) -> Span:
        """The smallest span that holds both."""
        return Span(min(self.first, other.first), max(self.last, other.last))


NEVER_CALM = Span(1, 0)
"""No row lies in it."""


class Windower(ABC):
    """The root of the trigger types' windowers. It has no state of its own: memories are passed in."""

    memory: ClassVar[type[msgspec.Struct]]
    signals: tuple[Signal, ...] = ()
    """What it reads from each row, besides the time."""
    shows_open: ClassVar[bool] = True
    """Whether its open windows may be shown before they close."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its signals: the columns of the rows that it gets."""
        return tuple(signal.name for signal in self.signals)

    @abstractmethod
    def on_row(self, memory: Any, row: Row) -> Iterable[Occurrence]:
        """A row is evaluated in order."""

    @abstractmethod
    def on_late(self, memory: Any, row: Row, before: int) -> Iterable[Occurrence]:
        """A late row is evaluated: T (``before``) had passed it when it came."""

    def is_over(self, memory: Any, row: Row, before: int) -> bool:
        """Whether all windows that a late row falls into, or would open, have closed (T is ``before``)."""
        return False

    def reaches_closed(self, memory: Any, row: Row, before: int) -> bool:
        """Whether any of the windows that a late row falls into, or would open, has closed (T is
        ``before``)."""
        return self.is_over(memory, row, before)

    def on_late_in_open(self, memory: Any, row: Row, before: int) -> Iterable[Occurrence] | None:
        """As :meth:`on_late`, but only windows that are still open take in the row; None: there is no such
        window."""
        return None if self.is_over(memory, row, before) else self.on_late(memory, row, before)

    def on_rewritten(self, memory: Any, ts: int) -> Iterable[Occurrence]:
        """A row came too late for its windows; if it has rewritten another, they are cut again."""
        for one in self.on_delete(memory, ts, ts):
            yield one._replace(kind=CORRECT, next=ts) if one.kind == REDO else one

    @abstractmethod
    def on_time(self, memory: Any, before: int, now: int) -> Iterable[Occurrence]:
        """T moved; all rows up to ``now`` have been evaluated."""

    def on_delete(self, memory: Any, first: int, last: int) -> Iterable[Occurrence]:
        """Stored rows in ``[first, last]`` are gone; T is at ``last`` or later.

        Closed windows there are cut again now. An open window that may have had one of the rows is cut again
        from the stored rows when it closes.
        """
        yield Occurrence(REDO, first, last, -1, RECALC)

    def on_unknown(self, memory: Any, ts: int, now: int) -> Iterable[Occurrence]:
        """A row was written at ``ts``, which T (``now``) has reached. Only the stored rows know what it is
        and whether it counts. It may have been evaluated before in another version, or never.

        Closed windows there are cut again now; an open window that may contain the row is cut again when it
        closes.
        """
        return self.on_delete(memory, ts, ts)

    def so_far(self, memory: Any) -> Iterable[SoFar]:
        """The windows of a group that are open now (MAX_DELAY triggers on them); instants are not windows."""
        return ()

    def vague(self, memory: Any) -> Span | None:
        """The span of times in which only the stored rows know what is open, or will be told as closed; None:
        everything is known."""
        return None

    def origin_of(self, memory: Any) -> int | None:
        """A time from which the group's windows are counted, if each group has its own; None: all groups have
        the same one, or it is not known."""
        return None

    def of_group(self, origin: int | None, first: Callable[[], int]) -> Windower:
        """The windower of a single group, whose windows are counted from ``origin`` or, if that is None, from
        its first stored row on (``first`` gives that row's time)."""
        return self

    def skipped(self, memory: Any, before: int, now: int) -> int:
        """How many windows :meth:`on_time` is about to leave out because they are too many."""
        return 0

    def unused(self, evaluated: Evaluated) -> dict[str, int]:
        """How many of these rows mean nothing to it, by cause (a counter of ``wire.counters``)."""
        return {}

    def waits(self, memory: Any, watermark: int) -> tuple[list[OpenWindow], list[Wait]]:
        """For DIAGNOSE: the open windows of a group with what each waits for, in order, and what the group
        waits for while none is open. ``watermark``: how far T lies behind the newest row, in ticks."""
        return [OpenWindow(*window, [WAITS_FOR_ROW]) for window in self.so_far(memory)], [WAITS_FOR_ROW]

    def calm(self, memory: Columns, seen: Bools, until: Ints) -> Span:
        """The span of values of T within which rows mean nothing to any group that has rows (``seen``), so
        that a slot need not look at them yet. ``until``: T of each such group. Only a type that reads nothing
        but times can tell."""
        return NEVER_CALM

    def reach(self, origin: int | None = None) -> Reach:
        """How far a change of stored rows reaches. ``origin``: that of the group, as in :meth:`origin_of`.

        :raises TypeError: for a type that has nothing to do with the times of rows.
        """
        raise TypeError(f"{type(self).__name__} is never cut again")

    def on_rows(self, memory: Columns, evaluated: Evaluated) -> Occurrences:
        """Evaluate all rows and moves of a batch, and update the memories."""
        groups = np.unique(np.concatenate((evaluated.group, evaluated.moves.group))).tolist()
        memories = {group: memory.get(group) for group in groups}
        found: list[tuple[int, int, Occurrence]] = []
        skipped = over = 0
        on_late = self.on_late_in_open if evaluated.open_only else self.on_late
        for group, step, happening in _happenings(evaluated):
            mine = memories[group]
            match happening:
                case (int(before), int(now)):
                    skipped += self.skipped(mine, before, now)
                    found += [(group, step, o) for o in self.on_time(mine, before, now)]
                case (Row() as row, None):
                    found += [(group, step, o) for o in self.on_row(mine, row)]
                case (Row() as row, int(before)):
                    corrects = evaluated.corrects and self.reaches_closed(mine, row, before)
                    told = on_late(mine, row, before)
                    over += told is None
                    found += [(group, step, o) for o in told or ()]
                    found += [(group, step, o) for o in self.on_rewritten(mine, row.ts)] if corrects else []
        memory.put(memories)
        return as_arrays(found, skipped, over)


def _happenings(evaluated: Evaluated) -> Iterator[tuple[int, int, tuple[Any, Any]]]:
    """(group, step, (row, None) | (late row, T) | (T before, T now)), in order."""
    moves = evaluated.moves
    names = list(evaluated.columns)
    cells = [
        dict(zip(names, values, strict=True)) for values in zip(*evaluated.columns.values(), strict=True)
    ]
    happenings: list[tuple[int, int, int, tuple[Any, Any]]] = []
    for i, (group, step) in enumerate(zip(evaluated.group.tolist(), evaluated.step.tolist(), strict=True)):
        row = Row(int(evaluated.ts[i]), bool(evaluated.unsure[i]), cells[i] if cells else {})
        happenings.append((group, step, 0, (row, int(evaluated.before[i]) if evaluated.late[i] else None)))
    arrays = (moves.group, moves.step, moves.before, moves.now)
    for group, step, before, now in zip(*(array.tolist() for array in arrays), strict=True):
        happenings.append((group, step, 1, (before, now)))
    happenings.sort(key=lambda item: item[:3])  # stable: rows of one step stay in order
    for group, step, _, happening in happenings:
        yield group, step, happening

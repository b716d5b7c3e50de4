"""What every trigger type is to the slot: judged rows and moves of T in, occurrences out.

A windower is three functions over one group's memory, :meth:`Windower.on_row`, :meth:`~Windower.on_late` and
:meth:`~Windower.on_time`: its definition. :meth:`~Windower.on_rows` does the same for a batch of many groups;
a type that overrides it does so over arrays, and a property test proves the two equal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from millrace_core.trigger.groups.columns import Array, Columns, Ints, objects
from millrace_core.trigger.groups.watermark import Judged
from millrace_core.trigger.rows.signals import Signal

CLOSE, OPEN, ON_TIME, INVALID, REDO = range(5)
"""Kinds of occurrences; at one instant a window closes before the next opens. ON_TIME: an instant of SLIDING
or PERIOD came. INVALID: a window that was told of is none any more (cause RECALC: it had closed before).
REDO: the closed windows that touch ``[start, end]`` must be cut again from the stored rows."""

LIVE, RECALC, DELAY, HISTORY = range(4)
"""Causes of occurrences: rows in order (or late ones in a window still open), disorder, MAX_DELAY, rows older
than the stream (or written while it was stopped)."""


class Row(NamedTuple):
    """A judged row; ``unsure``: it may be another version of one judged before; ``cells``: what the trigger
    reads of it."""

    ts: int
    unsure: bool
    cells: dict[str, Any]


class SoFar(NamedTuple):
    """A window that is open, with the rows so far; ``end``: its ``_twend`` if it closed now."""

    start: int
    end: int
    rownum: int


class Occurrence(NamedTuple):
    """Something happened to a window, or an instant came.

    ``start``, ``end``, ``next``: as in ``wire.events.TriggerEvent``; ``rownum`` -1: the table must be asked.
    ``detail``: fields of the notification that only the windower knows (prevState, triggerCondition, …).
    """

    kind: int
    start: int
    end: int
    rownum: int
    cause: int = LIVE
    next: int = 0
    detail: dict[str, object] | None = None


@dataclass(slots=True)
class Occurrences:
    """Occurrences of many groups, in any order; ``step``: the arrival that caused each.

    ``skipped``: empty windows that were left out because one move of T closed too many.
    """

    group: Ints
    step: Ints
    kind: Ints
    start: Ints
    end: Ints
    rownum: Ints
    cause: Ints
    next: Ints
    detail: Array
    """object[]: a dict or None."""
    skipped: int = 0

    @staticmethod
    def of(
        group: Ints, step: Ints, kind: int, start: Ints, end: Ints, rownum: int | Ints, cause: int = LIVE
    ) -> Occurrences:
        """Occurrences of one kind and cause, without details."""
        count = len(group)
        detail = np.full(count, None, dtype=object)
        zeros = np.zeros(count, dtype=np.int64)
        return Occurrences(
            group, step, zeros + kind, start, end, zeros + rownum, zeros + cause, zeros, detail
        )

    def __len__(self) -> int:
        return len(self.group)

    def take(self, index: npt.NDArray[Any]) -> Occurrences:
        """Those at these places (or under this mask)."""
        arrays = {f.name: getattr(self, f.name)[index] for f in fields(self) if f.name != "skipped"}
        return Occurrences(**arrays, skipped=self.skipped)

    @staticmethod
    def join(parts: Iterable[Occurrences]) -> Occurrences:
        """All of several."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0]
        names = [f.name for f in fields(Occurrences) if f.name != "skipped"]
        arrays: dict[str, Any] = {n: np.concatenate([getattr(part, n) for part in parts]) for n in names}
        return Occurrences(**arrays, skipped=sum(part.skipped for part in parts))


class Windower(ABC):
    """The root of the trigger types' windowers. Without state of its own: memories are passed in."""

    memory: ClassVar[type[msgspec.Struct]]
    signals: tuple[Signal, ...] = ()
    """What it reads of each row, besides the time."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its signals: the columns of the rows that it gets."""
        return tuple(signal.name for signal in self.signals)

    @abstractmethod
    def on_row(self, memory: Any, row: Row) -> Iterable[Occurrence]:
        """A row is judged in order."""

    @abstractmethod
    def on_late(self, memory: Any, row: Row, before: int) -> Iterable[Occurrence]:
        """A row is judged that T (``before``) had passed when it came."""

    @abstractmethod
    def on_time(self, memory: Any, before: int, now: int) -> Iterable[Occurrence]:
        """T moved; all rows up to ``now`` have been judged."""

    def on_delete(self, memory: Any, first: int, last: int) -> Iterable[Occurrence]:
        """Stored rows in ``[first, last]`` are gone; T is at ``last`` or later.

        What closed there is cut again now. An open window that may have had one of them is cut again from the
        stored rows when it closes.
        """
        yield Occurrence(REDO, first, last, -1, RECALC)

    def on_unknown(self, memory: Any, ts: int, now: int) -> Iterable[Occurrence]:
        """A row was written at ``ts``, which T (``now``) has reached, and only the stored rows know what it
        is and whether it counts. It may have been judged before in another version, or never.

        What closed there is cut again now; an open window that may have it, when it closes.
        """
        return self.on_delete(memory, ts, ts)

    def so_far(self, memory: Any) -> Iterable[SoFar]:
        """The windows of a group that are open now (MAX_DELAY triggers on them); instants are no windows."""
        return ()

    def origin_of(self, memory: Any) -> int | None:
        """A time from which the group has its windows, where that is its own; None: all groups have the same,
        or nobody knows."""
        return None

    def skipped(self, memory: Any, before: int, now: int) -> int:
        """How many windows :meth:`on_time` is about to leave out because they are too many."""
        return 0

    def unused(self, judged: Judged) -> dict[str, int]:
        """How many of these rows mean nothing to it, by cause (a counter of ``wire.counters``)."""
        return {}

    def on_rows(self, memory: Columns, judged: Judged) -> Occurrences:
        """The same for all rows of a batch; the memories move on."""
        groups = np.unique(np.concatenate((judged.group, judged.moves.group))).tolist()
        memories = {group: memory.get(group) for group in groups}
        found: list[tuple[int, int, Occurrence]] = []
        skipped = 0
        for group, step, happening in _happenings(judged):
            mine = memories[group]
            match happening:
                case (int(before), int(now)):
                    skipped += self.skipped(mine, before, now)
                    found += [(group, step, o) for o in self.on_time(mine, before, now)]
                case (Row() as row, None):
                    found += [(group, step, o) for o in self.on_row(mine, row)]
                case (Row() as row, int(before)):
                    found += [(group, step, o) for o in self.on_late(mine, row, before)]
        memory.put(memories)
        return as_arrays(found, skipped)


def _happenings(judged: Judged) -> Iterator[tuple[int, int, tuple[Any, Any]]]:
    """(group, step, (row, None) | (late row, T) | (T before, T now)), in order."""
    moves = judged.moves
    names = list(judged.columns)
    cells = [dict(zip(names, values, strict=True)) for values in zip(*judged.columns.values(), strict=True)]
    happenings: list[tuple[int, int, int, tuple[Any, Any]]] = []
    for i, (group, step) in enumerate(zip(judged.group.tolist(), judged.step.tolist(), strict=True)):
        row = Row(int(judged.ts[i]), bool(judged.unsure[i]), cells[i] if cells else {})
        happenings.append((group, step, 0, (row, int(judged.before[i]) if judged.late[i] else None)))
    arrays = (moves.group, moves.step, moves.before, moves.now)
    for group, step, before, now in zip(*(array.tolist() for array in arrays), strict=True):
        happenings.append((group, step, 1, (before, now)))
    happenings.sort(key=lambda item: item[:3])  # stable: rows of one step stay in order
    for group, step, _, happening in happenings:
        yield group, step, happening


def as_arrays(found: list[tuple[int, int, Occurrence]], skipped: int) -> Occurrences:
    """Of (group, step, occurrence)."""

    def array(values: Iterable[int]) -> Ints:
        return np.array(list(values), dtype=np.int64)

    return Occurrences(
        array(group for group, _, _ in found),
        array(step for _, step, _ in found),
        array(o.kind for _, _, o in found),
        array(o.start for _, _, o in found),
        array(o.end for _, _, o in found),
        array(o.rownum for _, _, o in found),
        array(o.cause for _, _, o in found),
        array(o.next for _, _, o in found),
        objects([o.detail for _, _, o in found]),
        skipped,
    )

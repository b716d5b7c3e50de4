"""COUNT_WINDOW: a window of a number of rows, and a new one every number of rows
(seed 000; SEMANTICS, "Windows").

The counted rows of a group have numbers 0, 1, 2, …; window ``k`` is the rows ``[k * sliding, k * sliding +
count)``. It opens with its first row and closes with its last one, which is its end. Disorder means nothing
to it: the clock drops late rows. A row that still comes here as late has the same time as the row before it,
in a group where such rows are different rows: it counts.

Where deletes count (DELETE_RECALC), the rows after a deleted one get other numbers. The memory does not know
these numbers: from there on the stored rows are counted again, starting with the group's first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from millrace_core.model.expression import AnyExpression, Call, Field
from millrace_core.trigger.groups.columns import OWNER, Columns, Ints, starts_of
from millrace_core.trigger.groups.watermark import NEVER, RANGE, Evaluated
from millrace_core.trigger.rows.signals import Signal
from millrace_core.trigger.types.count.reach import CountedReach, CountReach
from millrace_core.trigger.types.kept import ALWAYS, redo, split
from millrace_core.trigger.types.occurrences import CLOSE, OPEN, Occurrence, Occurrences, Row, SoFar
from millrace_core.trigger.types.windower import WAITS_FOR_ROW, Span, Windower
from millrace_core.wire.diagnosis import OpenWindow, Wait

COUNTS = "counts"
"""The signal that says whether a row counts."""


class Begun(msgspec.Struct, array_like=True):
    """An open window: the time of its first row."""

    start: int


class CountMemory(msgspec.Struct, array_like=True):
    """How many rows have counted, the time of the last one, and the open windows in order.

    There are at most count / sliding open windows, rounded up. ``first``: the first row's time, if deletes
    count. From ``lost`` on only the stored rows know the windows.
    """

    counted: int = 0
    last: int = 0
    open: list[Begun] = []
    first: int = NEVER
    lost: int = ALWAYS


def any_given(columns: Sequence[str]) -> AnyExpression:
    """An expression that is true if at least one of the columns is not NULL."""
    first, *others = (Call("is_not_null", (Field(name),)) for name in columns)
    for other in others:
        first = Call("or", (first, other))
    return first


class CountWindower(Windower):
    """Windows of ``count`` rows, ``sliding`` (1 to ``count``) apart.

    With ``columns`` a row counts only if one of them is not NULL. ``follows``: deletes count.
    """

    memory = CountMemory

    def __init__(
        self, count: int, sliding: int, columns: Sequence[str] = (), *, follows: bool = False
    ) -> None:
        self.count = count
        self.sliding = sliding
        self.follows = follows
        self.signals = (Signal(COUNTS, any_given(columns), "flag"),) if columns else ()

    # ------------------------------------------------------------------ the definition, group by group

    def on_row(self, memory: CountMemory, row: Row) -> Iterator[Occurrence]:
        if not row.cells.get(COUNTS, True):
            return
        if memory.lost != ALWAYS:
            yield redo(row.ts, row.ts)
            memory.last = row.ts
            return
        if memory.counted == 0 and self.follows:
            memory.first = row.ts
        if memory.counted % self.sliding == 0:
            memory.open = [*memory.open, Begun(row.ts)]
            yield Occurrence(OPEN, row.ts, row.ts, 1)
        memory.counted += 1
        memory.last = row.ts
        if memory.counted >= self.count and (memory.counted - self.count) % self.sliding == 0:
            full, *memory.open = memory.open
            yield Occurrence(CLOSE, full.start, row.ts, self.count)

    def on_late(self, memory: CountMemory, row: Row, before: int) -> Iterator[Occurrence]:
        return self.on_row(memory, row)

    def on_time(self, memory: CountMemory, before: int, now: int) -> Iterator[Occurrence]:
        return iter(())

    def on_delete(self, memory: CountMemory, first: int, last: int) -> Iterator[Occurrence]:
        if self.follows and memory.counted and last >= memory.first:
            yield redo(max(first, memory.first), last)
            memory.lost, memory.open = min(memory.lost, first), []

    def vague(self, memory: CountMemory) -> Span | None:
        return None if memory.lost == ALWAYS else Span(max(memory.lost, -RANGE), RANGE)

    def origin_of(self, memory: CountMemory) -> int | None:
        return None if memory.first == NEVER else memory.first

    def so_far(self, memory: CountMemory) -> Iterator[SoFar]:
        oldest = max(0, (memory.counted - self.count) // self.sliding + 1)
        for window, begun in enumerate(memory.open, oldest):
            yield SoFar(begun.start, memory.last, memory.counted - window * self.sliding)

    def waits(self, memory: CountMemory, watermark: int) -> tuple[list[OpenWindow], list[Wait]]:
        if memory.lost != ALWAYS:
            return [], [Wait("again")]
        open_ = [
            OpenWindow(start, last, rows, [Wait("rows", self.count - rows)])
            for start, last, rows in self.so_far(memory)
        ]
        return open_, [WAITS_FOR_ROW]

    def reach(self, origin: int | None = None) -> CountReach | CountedReach:
        return CountedReach(origin) if self.follows else CountReach()

    # ------------------------------------------------------------------ the same over arrays

    def unused(self, evaluated: Evaluated) -> dict[str, int]:
        counts = evaluated.columns.get(COUNTS)
        return {} if counts is None else {"null_columns": len(counts) - int(counts.sum())}

    def on_rows(self, memory: Columns, evaluated: Evaluated) -> Occurrences:
        lost = memory.singles["lost"] != ALWAYS
        if not lost.any():
            return self._in_order(memory, evaluated)
        known, unknown = split(evaluated, lost)
        return Occurrences.join((self._in_order(memory, known), super().on_rows(memory, unknown)))

    def _in_order(self, memory: Columns, evaluated: Evaluated) -> Occurrences:
        group, ts, step = evaluated.group, evaluated.ts, evaluated.step
        if COUNTS in evaluated.columns:
            counts = evaluated.columns[COUNTS]
            group, ts, step = group[counts], ts[counts], step[counts]
        if not len(group):
            return Occurrences.of(group, step, OPEN, ts, ts, 1)
        heads = starts_of(group)
        sizes = np.diff(np.append(heads, len(group)))
        owner = group[heads]
        known = memory.singles["counted"][owner]
        number = np.arange(len(group)) + np.repeat(known - heads, sizes)
        opening = np.flatnonzero(number % self.sliding == 0)
        closing = np.flatnonzero((number + 1 >= self.count) & ((number + 1 - self.count) % self.sliding == 0))
        opened = Occurrences.of(group[opening], step[opening], OPEN, ts[opening], ts[opening], 1)
        if self.follows:
            memory.singles["first"][owner[known == 0]] = ts[heads[known == 0]]
        memory.singles["counted"][owner] = known + sizes
        memory.singles["last"][owner] = ts[np.append(heads[1:], len(group)) - 1]
        start = self._take_over(memory, owner, (group[opening], ts[opening]), group[closing])
        closed = Occurrences.of(group[closing], step[closing], CLOSE, start, ts[closing], self.count)
        return Occurrences.join((opened, closed))

    def _take_over(self, memory: Columns, owner: Ints, opened: tuple[Ints, Ints], closing: Ints) -> Ints:
        """The open windows after this batch, and the starts of those that close.

        ``owner``: the groups with rows; ``opened``: groups and starts of the windows that opened;
        ``closing``: groups of those that close, one entry for each.
        """
        table = memory.lists["open"]
        touched = np.zeros(memory.count, dtype=bool)
        touched[owner] = True
        mine = touched[table[OWNER]]
        group = np.concatenate((table[OWNER][mine], opened[0]))
        order = np.argsort(group, kind="stable")
        group = group[order]
        start = np.concatenate((table["start"][mine], opened[1]))[order]
        # the windows of a group close in the order in which they opened
        gone = np.bincount(closing, minlength=memory.count)
        first = np.searchsorted(group, group, side="left")
        closes = np.arange(len(group)) - first < gone[group]
        memory.replace("open", owner, {OWNER: group[~closes], "start": start[~closes]})
        closed: Ints = start[closes]
        return closed

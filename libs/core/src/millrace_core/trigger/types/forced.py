"""Windows that the clock closes (``Emission.when`` "force_window_close"): what was written by a window's end
counts in it, and nothing that comes later.

A window is known from its first row on. A row counts if it was written before its window ended: its message
says when that was, so a replay decides the same. A window that ended while nobody watched is told of when
somebody does again, in order. With FILL a group's windows go on without rows from its first one on.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.timeline.precision import NS_PER_SECOND
from millrace_core.trigger.groups.columns import OWNER, Columns, Ints
from millrace_core.trigger.types.occurrences import CLOSE, Occurrences
from millrace_core.trigger.types.trigger_type import Grid
from millrace_core.wire.events import ROWNUM_FROM_STORE

NS_PER_MS = NS_PER_SECOND // 1000
FAR = (1 << 63) - 1


class Pending(msgspec.Struct, array_like=True):
    """A window, by its number in the grid, that the clock will close at ``due`` (ns)."""

    number: int
    due: int


class PendingMemory(msgspec.Struct, array_like=True):
    """The windows of a group, in order."""

    windows: list[Pending] = []


@dataclass(frozen=True, slots=True)
class Forced:
    """Keeps them in :class:`Columns` of :class:`PendingMemory`. ``go_on``: windows without rows are told of
    as well, from a group's first one on."""

    grid: Grid
    precision: Precision
    go_on: bool

    @property
    def _factor(self) -> int:
        return NS_PER_SECOND // TICKS_PER_SECOND[self.precision]

    def _due(self, number: int) -> int:
        return min(self.grid.end(number) * self._factor, FAR)

    def take(self, memory: Columns, group: Ints, ts: Ints, written: Ints) -> tuple[int, int]:
        """Rows have come; ``written``: when (ms). How many of them are too late for their window, and how
        many lie where no clock gets to."""
        inside = np.abs(ts) < FAR // self._factor // 2
        number = self.grid.last(np.where(inside, ts, 0))
        end = self.grid.end(number)
        late = inside & (end * self._factor <= written * NS_PER_MS)
        counted = np.flatnonzero(inside & ~late & (np.where(inside, ts, 0) < end))
        found: dict[int, set[int]] = {}
        for place, window in zip(group[counted].tolist(), number[counted].tolist(), strict=True):
            found.setdefault(place, set()).add(window)
        changed: dict[int, msgspec.Struct] = {}
        for place, windows in found.items():
            known = memory.get(place)
            assert isinstance(known, PendingMemory)
            before = {window.number for window in known.windows}
            after = sorted(windows | before)
            if self.go_on:
                after = after[:1]  # the others come of themselves, one after the other
            if set(after) != before:
                changed[place] = PendingMemory([Pending(window, self._due(window)) for window in after])
        memory.put(changed)
        return int(late.sum()), int((~inside).sum())

    def forget(self, memory: Columns, now: int) -> None:
        """What ended up to ``now`` (ns) is nobody's."""
        changed: dict[int, msgspec.Struct] = {}
        for place in self._ready(memory, now):
            _, rest = self._split(memory, place, now)
            changed[place] = PendingMemory(rest)
        memory.put(changed)

    def fire(self, memory: Columns, now: int) -> Occurrences:
        """The windows that ended up to ``now`` (ns), all at step 0."""
        groups: list[int] = []
        numbers: list[int] = []
        changed: dict[int, msgspec.Struct] = {}
        for place in self._ready(memory, now):
            ended, rest = self._split(memory, place, now)
            groups += [place] * len(ended)
            numbers += ended
            changed[place] = PendingMemory(rest)
        memory.put(changed)
        group, number = np.array(groups, dtype=np.int64), np.array(numbers, dtype=np.int64)
        start, end = self.grid.start(number), self.grid.end(number)
        return Occurrences.of(group, np.zeros_like(group), CLOSE, start, end, ROWNUM_FROM_STORE)

    def _split(self, memory: Columns, place: int, now: int) -> tuple[list[int], list[Pending]]:
        known = memory.get(place)
        assert isinstance(known, PendingMemory)
        ended = [window.number for window in known.windows if window.due <= now]
        rest = [window for window in known.windows if window.due > now]
        if self.go_on and ended:
            following = ended[-1] + 1
            while self._due(following) <= now:
                ended.append(following)
                following += 1
            rest = [Pending(following, self._due(following))]
        return ended, rest

    @staticmethod
    def _ready(memory: Columns, now: int) -> list[int]:
        table = memory.lists["windows"]
        found: list[int] = np.unique(table[OWNER][table["due"] <= now]).tolist()
        return found

    @staticmethod
    def all_due(memory: Columns) -> Ints:
        """When each window ends, ns, in no order."""
        due: Ints = memory.lists["windows"]["due"]
        return due

"""Windows that the clock closes (``Emission.when`` "force_window_close"): what has been written by a window's
end counts in it, and nothing that comes later.

A window is known from its first row on. A row counts if it was written before its window ended. Its message
says when that was, so a replay decides the same. Windows that ended while the clock was not watched are told
of, in order, when it is watched again. With FILL, a group's windows continue without rows from its first
window on.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.timeline.precision import NS_PER_MS, NS_PER_SECOND
from millrace_core.trigger.groups.columns import OWNER, Columns, Ints
from millrace_core.trigger.groups.watermark import Bools, Log
from millrace_core.trigger.types.occurrences import CLOSE, Occurrences
from millrace_core.trigger.types.trigger_type import Grid
from millrace_core.wire.events import ROWNUM_FROM_STORE

FAR = (1 << 63) - 1


Windows = dict[int, set[int]]
"""Place of a group -> numbers of windows."""


class Pending(msgspec.Struct, array_like=True):
    """A window, by its number in the grid, that the clock will close at ``due`` (ns). Its rows lie in this
    ``partition`` of the log (-1: not known), before the offset ``upto`` (0: nothing has come after them)."""

    number: int
    due: int
    partition: int = -1
    upto: int = 0


class PendingMemory(msgspec.Struct, array_like=True):
    """The windows of a group, in order."""

    windows: list[Pending] = []


@dataclass(frozen=True, slots=True)
class _Come:
    """Rows that have come: the ``number`` of each row's window, when the row was ``written`` (ns), and
    where."""

    number: Ints
    written: Ints
    partition: Ints
    offset: Ints

    def of(self, which: Bools) -> _Come:
        return _Come(self.number[which], self.written[which], self.partition[which], self.offset[which])

    def moved(self, window: Pending) -> Pending:
        """The window, updated with where its rows end now. Producers' clocks may differ: a row that is in
        time counts, even if it lies after one that came too late."""
        over = self.written >= window.due
        last = int(self.offset[~over & (self.number == window.number)].max(initial=-1))
        behind = self.offset[over & (self.offset > last)]
        upto = window.upto if window.upto > last else 0
        if not upto and len(behind):
            upto = int(behind.min())
        return Pending(window.number, window.due, int(self.partition[0]), upto)


def _by_group(group: Ints, number: Ints, which: Bools) -> Windows:
    found: Windows = {}
    for place, window in zip(group[which].tolist(), number[which].tolist(), strict=True):
        found.setdefault(place, set()).add(window)
    return found


@dataclass(frozen=True, slots=True)
class Forced:
    """Keeps the pending windows in :class:`Columns` of :class:`PendingMemory`. ``go_on``: windows without
    rows are told of as well, from a group's first window on."""

    grid: Grid
    precision: Precision
    go_on: bool

    @property
    def _factor(self) -> int:
        return NS_PER_SECOND // TICKS_PER_SECOND[self.precision]

    def _due(self, number: int) -> int:
        return min(self.grid.end(number) * self._factor, FAR)

    def take(
        self, memory: Columns, group: Ints, ts: Ints, written: Ints, log: Log | None = None
    ) -> tuple[int, int]:
        """Rows have come; ``written``: when (ms), ``log``: where in the log. Returns how many are too late
        for their window, and how many have times that no clock reaches."""
        inside = np.abs(ts) < FAR // self._factor // 2
        number = self.grid.last(np.where(inside, ts, 0))
        end = self.grid.end(number)
        late = inside & (end * self._factor <= written * NS_PER_MS)
        lies = inside & (np.where(inside, ts, 0) < end)
        self._expect(memory, _by_group(group, number, lies & ~late), _by_group(group, number, lies & late))
        if log is not None:
            self._follow(memory, group, _Come(number, written * NS_PER_MS, *log))
        return int(late.sum()), int((~inside).sum())

    def _expect(self, memory: Columns, timely: Windows, late: Windows) -> None:
        """Note the windows that rows have come for, in time or too late. Where windows go on without rows,
        those with only late rows are pending too, but without these rows."""
        changed: dict[int, msgspec.Struct] = {}
        for place in timely.keys() | (late.keys() if self.go_on else ()):
            known = memory.get(place)
            assert isinstance(known, PendingMemory)
            before = {window.number: window for window in known.windows}
            after = timely.get(place, set()) | before.keys()
            if self.go_on and after:
                after |= {window for window in late.get(place, ()) if window > min(after)}
            if after != before.keys():
                changed[place] = PendingMemory(
                    [before.get(window) or Pending(window, self._due(window)) for window in sorted(after)]
                )
        memory.put(changed)

    def _follow(self, memory: Columns, group: Ints, rows: _Come) -> None:
        """Update where the rows of each window end in the log, now that these rows have come."""
        changed: dict[int, msgspec.Struct] = {}
        for place in np.unique(group).tolist():
            known = memory.get(place)
            assert isinstance(known, PendingMemory)
            mine = rows.of(group == place)
            windows = [mine.moved(window) for window in known.windows]
            if windows != known.windows:
                changed[place] = PendingMemory(windows)
        memory.put(changed)

    def forget(self, memory: Columns, now: int) -> None:
        """Forget the windows that ended up to ``now`` (ns): they belong to nobody."""
        changed: dict[int, msgspec.Struct] = {}
        for place in self._ready(memory, now):
            _, rest = self._split(memory, place, now)
            changed[place] = PendingMemory(rest)
        memory.put(changed)

    def fire(self, memory: Columns, now: int) -> tuple[Occurrences, list[Pending]]:
        """The windows that ended up to ``now`` (ns), each at its own step."""
        groups: list[int] = []
        windows: list[Pending] = []
        changed: dict[int, msgspec.Struct] = {}
        for place in self._ready(memory, now):
            ended, rest = self._split(memory, place, now)
            groups += [place] * len(ended)
            windows += ended
            changed[place] = PendingMemory(rest)
        memory.put(changed)
        group = np.array(groups, dtype=np.int64)
        number = np.array([window.number for window in windows], dtype=np.int64)
        start, end = self.grid.start(number), self.grid.end(number)
        step = np.arange(len(group))
        return Occurrences.of(group, step, CLOSE, start, end, ROWNUM_FROM_STORE), windows

    def _split(self, memory: Columns, place: int, now: int) -> tuple[list[Pending], list[Pending]]:
        known = memory.get(place)
        assert isinstance(known, PendingMemory)
        ended = [window for window in known.windows if window.due <= now]
        rest = [window for window in known.windows if window.due > now]
        if self.go_on and ended:
            others = {window.number: window for window in known.windows}
            following, partition = ended[0].number, ended[0].partition
            ended = []
            while (due := self._due(following)) <= now:
                ended.append(others.pop(following, Pending(following, due, partition)))
                following += 1
            others.setdefault(following, Pending(following, due, partition))
            rest = [others[number] for number in sorted(others)]
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

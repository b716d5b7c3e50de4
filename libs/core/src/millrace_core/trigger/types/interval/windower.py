"""INTERVAL: windows of fixed length at fixed distances, empty ones included (seed 000; SEMANTICS, "Windows").

A window ``[start, end)`` opens with the first row evaluated in it and closes when T >= end. From the first
row of a group on every window closes, empty ones too (an empty one is told as opened when it closes). A late
row changes windows that are still open; closed ones are recalculated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from millrace_core.trigger.groups.columns import OWNER, Columns, Ints, Table, starts_of, take
from millrace_core.trigger.groups.watermark import Bools, Evaluated, Moves
from millrace_core.trigger.types.interval.grid import IntervalGrid
from millrace_core.trigger.types.interval.reach import IntervalReach
from millrace_core.trigger.types.occurrences import (
    CLOSE,
    CORRECT,
    LIVE,
    OPEN,
    RECALC,
    REDO,
    Occurrence,
    Occurrences,
    Row,
    SoFar,
    nothing,
)
from millrace_core.trigger.types.windower import NEVER_CALM, WAITS_FOR_ROW, Span, Windower
from millrace_core.wire.diagnosis import OpenWindow, Wait

MOST_EMPTY = 100_000
"""When T moves, only this many windows before its new position may fire empty; further empty windows are left
out and counted. One row with a wrong time, years ahead, must not fire billions of empty windows."""


NONE = (1 << 63) - 1
"""No window yet."""
LOST = 2
"""A value of :attr:`Filled.unsure`."""


class Filled(msgspec.Struct, array_like=True):
    """A window with rows. ``unsure``: 1 if ``rows`` may count one row twice; LOST if only the stored rows
    know whether there are any, because some were deleted, or some came that the trigger knows only in
    part."""

    window: int
    rows: int
    unsure: int


class IntervalMemory(msgspec.Struct, array_like=True):
    """The windows of a group that have rows and are ``open``, in order; ``first``: its very first window."""

    open: list[Filled] = []
    first: int = NONE


@dataclass(slots=True)
class _Windows:
    """Windows that got rows, in a batch or before it (``step`` -1); one or more entries for each."""

    group: Ints
    window: Ints
    step: Ints
    rows: Ints
    unsure: Ints


class IntervalWindower(Windower):
    """Windows of a :class:`IntervalGrid`."""

    memory = IntervalMemory

    def __init__(self, grid: IntervalGrid, empty: bool = True, most_empty: int = MOST_EMPTY) -> None:
        """``empty``: windows without rows fire too (IGNORE_NODATA_TRIGGER switches that off)."""
        self.grid = grid
        self.empty = empty
        self.most_empty = most_empty

    # ------------------------------------------------------------------ the definition, group by group

    def on_row(self, memory: IntervalMemory, row: Row) -> Iterator[Occurrence]:
        memory.first = min(memory.first, self.grid.unclosed(row.ts))
        for window in range(self.grid.unclosed(row.ts), self.grid.last(row.ts) + 1):
            yield from self._add(memory, window, row.unsure)

    def on_late(self, memory: IntervalMemory, row: Row, before: int) -> Iterator[Occurrence]:
        memory.first = min(memory.first, self.grid.unclosed(row.ts))
        closed = self.grid.unclosed(before)
        for window in range(self.grid.unclosed(row.ts), self.grid.last(row.ts) + 1):
            if window >= closed:
                yield from self._add(memory, window, row.unsure)
            else:
                yield self._occur(OPEN, window, -1, RECALC)
                yield self._occur(CLOSE, window, -1, RECALC)

    def on_late_in_open(self, memory: IntervalMemory, row: Row, before: int) -> Iterable[Occurrence] | None:
        """With SLIDING, the row may count in some of its windows and not in others."""
        first, last = self.grid.unclosed(row.ts), self.grid.last(row.ts)
        closed = self.grid.unclosed(before)
        if first <= last < closed:
            return None
        first = max(first, closed)
        memory.first = min(memory.first, first)
        return [found for window in range(first, last + 1) for found in self._add(memory, window, row.unsure)]

    def reaches_closed(self, memory: IntervalMemory, row: Row, before: int) -> bool:
        return self.grid.unclosed(row.ts) < self.grid.unclosed(before)

    def on_rewritten(self, memory: IntervalMemory, ts: int) -> Iterator[Occurrence]:
        yield Occurrence(CORRECT, ts, ts, -1, RECALC, next=ts)

    def on_time(self, memory: IntervalMemory, before: int, now: int) -> Iterator[Occurrence]:
        first, end = self.grid.unclosed(before), self.grid.unclosed(now)
        closing = [open_ for open_ in memory.open if open_.window < end]
        memory.open = memory.open[len(closing) :]
        for open_ in closing:
            if open_.unsure == LOST and not self.empty:
                yield self._redo(open_.window)
            else:
                yield self._occur(CLOSE, open_.window, -1 if open_.unsure else open_.rows)
        if self.empty:
            full = {open_.window for open_ in closing}
            for window in range(max(first, end - self.most_empty), end):
                if window not in full:
                    yield self._occur(OPEN, window, 0)
                    yield self._occur(CLOSE, window, 0)

    def on_delete(self, memory: IntervalMemory, first: int, last: int) -> Iterator[Occurrence]:
        for open_ in memory.open:
            if self.grid.start(open_.window) <= last and first < self.grid.end(open_.window):
                open_.unsure = LOST
        yield from super().on_delete(memory, first, last)

    def on_unknown(self, memory: IntervalMemory, ts: int, now: int) -> Iterator[Occurrence]:
        for window in range(max(self.grid.unclosed(ts), self.grid.unclosed(now)), self.grid.last(ts) + 1):
            memory.first = min(memory.first, window)
            if all(open_.window != window for open_ in memory.open):
                opened = list(self._add(memory, window, unsure=True))
                # with ``empty`` the window fires even without rows
                yield from opened if self.empty else []
        yield from self.on_delete(memory, ts, ts)

    def origin_of(self, memory: IntervalMemory) -> int | None:
        """Where the group's first window starts: from there on all windows have fired, if empty ones do."""
        return self.grid.start(memory.first) if self.empty and memory.first != NONE else None

    def so_far(self, memory: IntervalMemory) -> Iterator[SoFar]:
        for open_ in memory.open:
            start, end = self.grid.start(open_.window), self.grid.end(open_.window)
            yield SoFar(start, end, -1 if open_.unsure else open_.rows)

    def vague(self, memory: IntervalMemory) -> Span | None:
        lost = [] if self.empty else [open_.window for open_ in memory.open if open_.unsure == LOST]
        return Span(self.grid.start(lost[0]), self.grid.end(lost[-1]) - 1) if lost else None

    def waits(self, memory: IntervalMemory, watermark: int) -> tuple[list[OpenWindow], list[Wait]]:
        open_ = [
            OpenWindow(start, end, rows, [Wait("row_at", end + watermark)])
            for start, end, rows in self.so_far(memory)
        ]
        return open_, [WAITS_FOR_ROW]

    def calm(self, memory: Columns, seen: Bools, until: Ints) -> Span:
        """The span of the one window that all groups are in: no row in it touches a closed window, and T
        stays before its end."""
        window = self.grid.unclosed(until)
        only = int(window[0])
        if (window != only).any():
            return NEVER_CALM
        return Span(self.grid.end(only - 1), self.grid.end(only) - 1)

    def reach(self, origin: int | None = None) -> IntervalReach:
        return IntervalReach(self.grid, self.empty, origin)

    def skipped(self, memory: IntervalMemory, before: int, now: int) -> int:
        """The number of empty windows that this move of T leaves out."""
        first, end = self.grid.unclosed(before), self.grid.unclosed(now) - self.most_empty
        if not self.empty or end <= first:
            return 0
        return end - first - sum(open_.window < end for open_ in memory.open)

    def _add(self, memory: IntervalMemory, window: int, unsure: bool) -> Iterator[Occurrence]:
        place = bisect_left(memory.open, window, key=lambda open_: open_.window)
        if place < len(memory.open) and memory.open[place].window == window:
            found = memory.open[place]
            found.rows += 1
            found.unsure = max(found.unsure, int(unsure))
            return
        memory.open = [*memory.open[:place], Filled(window, 1, int(unsure)), *memory.open[place:]]
        yield self._occur(OPEN, window, 1)

    def _occur(self, kind: int, window: int, rownum: int, cause: int = LIVE) -> Occurrence:
        start = self.grid.start(window)
        return Occurrence(kind, start, self.grid.end(window), rownum, cause)

    def _redo(self, window: int) -> Occurrence:
        """Have the window cut again: only the stored rows know whether it still has rows."""
        start = self.grid.start(window)
        return Occurrence(REDO, start, self.grid.end(window) - 1, -1, RECALC)

    # ------------------------------------------------------------------ the same over arrays

    def unused(self, evaluated: Evaluated) -> dict[str, int]:
        """Counts the rows that lie in no window, because SLIDING is larger than INTERVAL."""
        if self.grid.sliding <= self.grid.interval:
            return {}
        return {"in_gap": int((self.grid.last(evaluated.ts) < self.grid.unclosed(evaluated.ts)).sum())}

    def on_rows(self, memory: Columns, evaluated: Evaluated) -> Occurrences:
        if self._adds_only(memory, evaluated):
            return nothing()
        touched = np.zeros(memory.count, dtype=bool)
        touched[evaluated.group] = True
        touched[evaluated.moves.group] = True
        open_ = memory.lists["open"]
        before = take(open_, touched[open_[OWNER]])
        parts = [
            _Windows(
                before[OWNER],
                before["window"],
                np.full(len(before[OWNER]), -1),
                before["rows"],
                before["unsure"],
            )
        ]
        found: list[Occurrences] = []
        first, last = self.grid.unclosed(evaluated.ts), self.grid.last(evaluated.ts)
        over = 0
        if evaluated.open_only and evaluated.late.any():
            closed = self.grid.unclosed(evaluated.before)
            if evaluated.corrects:
                found.append(_corrections(evaluated, first < closed))
            over = int((evaluated.late & (first <= last) & (last < closed)).sum())
            first = np.where(evaluated.late, np.maximum(first, closed), first)
        earlier = first < memory.singles["first"][evaluated.group]
        if earlier.any():
            np.minimum.at(memory.singles["first"], evaluated.group[earlier], first[earlier])
        for back in range(self.grid.overlap):
            window = last - back
            inside = window >= first
            if evaluated.late.any():
                gone = inside & evaluated.late & (window < self.grid.unclosed(evaluated.before))
                found += self._again(evaluated.group[gone], window[gone], evaluated.step[gone])
                inside &= ~gone
            parts.append(_runs(evaluated, window, inside))
        windows = _merge(parts)
        fresh = windows.step >= 0
        found.append(
            self._occurrences(OPEN, windows.group[fresh], windows.window[fresh], windows.step[fresh], 1)
        )
        closes = self._close(memory.count, windows, evaluated.moves, found)
        memory.replace("open", np.flatnonzero(touched), _as_table(windows, ~closes))
        told = Occurrences.join(found)
        told.over = over
        return told

    def _adds_only(self, memory: Columns, evaluated: Evaluated) -> bool:
        """Count the rows if all of them lie in windows that are open and stay so, as most rows do. Otherwise
        nothing has changed."""
        moves, open_ = evaluated.moves, memory.lists["open"]
        if self.grid.overlap > 1 or not len(open_[OWNER]) or evaluated.late.any():
            return False
        if (self.grid.unclosed(moves.now) != self.grid.unclosed(moves.before)).any():
            return False
        window = self.grid.last(evaluated.ts)
        place = np.minimum(np.searchsorted(open_[OWNER], evaluated.group), len(open_[OWNER]) - 1)
        same = (open_[OWNER][place] == evaluated.group) & (open_["window"][place] == window)
        # windows with gaps between them: the last one that began may be over
        if evaluated.unsure.any() or not (same & (self.grid.end(window) > evaluated.ts)).all():
            return False
        np.add.at(open_["rows"], place, 1)
        return True

    def _close(self, groups: int, windows: _Windows, moves: Moves, found: list[Occurrences]) -> Bools:
        """Which of the windows close; their closings, and those of empty ones, are added to ``found``.

        All windows that the moves close are numbered, group after group. A window's number then shows which
        move closed it, without a search through the windows (there may be very many).
        """
        first, end = self.grid.unclosed(moves.before), self.grid.unclosed(moves.now)
        some = end > first
        if not some.any():
            return np.zeros(len(windows.group), dtype=bool)
        group, step, first, end = moves.group[some], moves.step[some], first[some], end[some]
        upto = np.cumsum(end - first)
        heads = starts_of(group)
        tails = np.append(heads[1:], len(group)) - 1
        low, number = np.zeros(groups, dtype=np.int64), np.zeros(groups, dtype=np.int64)
        high = np.full(groups, np.iinfo(np.int64).min)
        low[group[heads]], high[group[heads]] = first[heads], end[tails]
        number[group[heads]] = (upto - (end - first))[heads]
        closing = windows.window < high[windows.group]
        owner, window = windows.group[closing], windows.window[closing]
        place = number[owner] + window - low[owner]
        move = np.searchsorted(upto, place, side="right")
        rownum = np.where(windows.unsure[closing] > 0, -1, windows.rows[closing])
        closed = self._occurrences(CLOSE, owner, window, step[move], rownum)
        lost = (windows.unsure[closing] == LOST) & (not self.empty)
        closed.kind[lost], closed.cause[lost] = REDO, RECALC
        closed.end[lost] -= 1
        found.append(closed)
        if self.empty and int(upto[-1]) > len(window):
            found += self._empty((group, step, first, end), move, window)
        return closing

    def _empty(
        self, moves: tuple[Ints, Ints, Ints, Ints], move: Ints, window: Ints
    ) -> tuple[Occurrences, Occurrences]:
        """Openings and closings of the windows without rows that moves (group, step, first, end) close.

        ``window[i]``, closed by move ``move[i]``, has rows.
        """
        group, step, first, end = moves
        begin = np.maximum(first, end - self.most_empty)
        count = end - begin
        offset = np.cumsum(count) - count
        full = np.zeros(int(count.sum()), dtype=bool)
        fires = window >= begin[move]
        full[(offset[move] + window - begin[move])[fires]] = True
        by = np.repeat(np.arange(len(group)), count)[~full]
        windows = (np.arange(len(full)) - np.repeat(offset - begin, count))[~full]
        opened = self._occurrences(OPEN, group[by], windows, step[by], 0)
        closed = self._occurrences(CLOSE, group[by], windows, step[by], 0)
        closed.skipped = int((begin - first).sum()) - int((~fires).sum())
        return opened, closed

    def _again(self, group: Ints, window: Ints, step: Ints) -> tuple[Occurrences, Occurrences]:
        return (
            self._occurrences(OPEN, group, window, step, -1, RECALC),
            self._occurrences(CLOSE, group, window, step, -1, RECALC),
        )

    def _occurrences(
        self, kind: int, group: Ints, window: Ints, step: Ints, rownum: int | Ints, cause: int = LIVE
    ) -> Occurrences:
        start = self.grid.start(window)
        return Occurrences.of(group, step, kind, start, self.grid.end(window), rownum, cause)


def _corrections(evaluated: Evaluated, reaches: Bools) -> Occurrences:
    """Corrections for late rows that reach closed windows: these windows change if the rows have rewritten
    others."""
    mine = evaluated.late & reaches
    ts = evaluated.ts[mine]
    found = Occurrences.of(evaluated.group[mine], evaluated.step[mine], CORRECT, ts, ts, -1, RECALC)
    found.next = ts
    return found


def _runs(evaluated: Evaluated, window: Ints, inside: Bools) -> _Windows:
    """Counts rows that follow each other in the same window."""
    whole = inside.all()
    group, step = (
        (evaluated.group, evaluated.step) if whole else (evaluated.group[inside], evaluated.step[inside])
    )
    unsure = evaluated.unsure if whole else evaluated.unsure[inside]
    window = window if whole else window[inside]
    if not len(group):
        return _Windows(group, window, step, group, group)
    heads = starts_of(group, window)
    rows = np.diff(np.append(heads, len(group)))
    repeated = np.logical_or.reduceat(unsure, heads).astype(np.int64)
    return _Windows(group[heads], window[heads], step[heads], rows, repeated)


def _merge(parts: list[_Windows]) -> _Windows:
    """One entry for each window, with the step of its first row."""
    group, window, step, rows, unsure = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("group", "window", "step", "rows", "unsure")
    )
    if not len(group):
        return _Windows(group, window, step, rows, unsure)
    order = np.lexsort((step, window, group))
    group, window = group[order], window[order]
    heads = starts_of(group, window)
    rows = np.add.reduceat(rows[order], heads)
    unsure = np.maximum.reduceat(unsure[order], heads)
    return _Windows(group[heads], window[heads], step[order][heads], rows, unsure)


def _as_table(windows: _Windows, which: Bools) -> Table:
    return {
        OWNER: windows.group[which],
        "window": windows.window[which],
        "rows": windows.rows[which],
        "unsure": windows.unsure[which],
    }

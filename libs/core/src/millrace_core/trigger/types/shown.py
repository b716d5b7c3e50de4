"""Windows that are shown before they close (``Emission.when``: at once, or some time after a row).

What is shown is what would be told if the rows that wait for T had been evaluated, and nothing else came: the
windows that a copy of the group's memory closes with these rows, and those that are then open in it. So a
window is shown with all of its rows, and is still closed by T. If a window was shown and no longer exists,
its result is retracted. If only the stored rows know what is open (because rows were deleted), they are
asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from millrace_core.timeline.precision import NS_PER_MS
from millrace_core.trigger.groups.columns import OWNER, Columns, Ints, take
from millrace_core.trigger.groups.watermark import Evaluated, Moves
from millrace_core.trigger.rows.signals import typed
from millrace_core.trigger.types.occurrences import (
    CLOSE,
    DELAY,
    LIVE,
    RECALC,
    REDO,
    RETRACT,
    Occurrence,
    Occurrences,
    SoFar,
    as_arrays,
)
from millrace_core.trigger.types.windower import Span, Windower

FAR = (1 << 63) - 1
"""A processing time that never comes."""
Spans = Mapping[int, tuple[Ints, Ints]]
"""By group: the first and last times of the rows that came or went."""
Doubts = Mapping[int, Span]
"""By group: the span of times in which it is not known which of the rows that wait for T still exist."""
NO_DOUBTS: Doubts = {}


class Shown(msgspec.Struct, array_like=True):
    """A window that has not closed. ``told``: it was shown; ``due``: when it is shown next, ns."""

    start: int
    end: int
    told: int = 0
    due: int = FAR


class ShownMemory(msgspec.Struct, array_like=True):
    """The windows of a group that have not closed."""

    windows: list[Shown] = []


@dataclass(frozen=True, slots=True)
class Showing:
    """Follows the windows of a stream's groups in :class:`Columns` of :class:`ShownMemory`. ``every``: how
    long (ns) a row waits at most until its window is shown; 0: each batch is shown at once."""

    every: int
    windower: Windower

    def follow(
        self, memory: Columns, kept: tuple[Columns, Columns], spans: Spans, found: Occurrences,
        written: Ints, doubts: Doubts = NO_DOUBTS,
    ) -> Occurrences:  # fmt: skip
        """A batch touched these groups. ``kept``: memories of the windower and of the clock; ``found``: what
        was told of the batch; ``written[step]``: Kafka's timestamp (ms) of a step's cause."""
        step = len(written) - 1
        due = int(written.max()) * NS_PER_MS + self.every
        told: list[tuple[int, int, Occurrence]] = []
        changed: dict[int, msgspec.Struct] = {}
        over = (found.kind == CLOSE) & (found.cause == LIVE)
        closed = set(zip(found.group[over].tolist(), found.start[over].tolist(), strict=True))
        for group, span in spans.items():
            before = memory.get(group)
            assert isinstance(before, ShownMemory)
            windows, vague = windows_of(self.windower, *kept, group, doubts.get(group))
            after, obsolete = self._after(before, group, (windows, vague), span, closed, due)
            told += [(group, step, Occurrence(RETRACT, key, key, -1, DELAY)) for key in obsolete]
            if not self.every:
                told += [(group, step, one) for one in self._show(after, vague)]
            changed[group] = ShownMemory([window for window, _ in after])
        memory.put(changed)
        return as_arrays(told, 0)

    def _after(
        self, before: ShownMemory, group: int, now: tuple[list[SoFar], Span | None], span: tuple[Ints, Ints],
        closed: set[tuple[int, int]], due: int,
    ) -> tuple[list[tuple[Shown, int]], list[int]]:  # fmt: skip
        """The windows with their numbers of rows, and the starts of those that no longer exist. ``now``: as
        given by :func:`windows_of`."""
        known = {window.start: window for window in before.windows}
        windows, vague = now
        after: list[tuple[Shown, int]] = []
        for window in windows:
            was = known.get(window.start)
            touched = was is None or was.end != window.end or _touches(window.start, window.end, span)
            told, waits = (was.told, was.due) if was is not None else (0, FAR)
            after.append(
                (Shown(window.start, window.end, told, min(waits, due) if touched else waits), window.rownum)
            )
        starts = {window.start for window in windows}
        left = [known[key] for key in known.keys() - starts if (group, key) not in closed]
        doubtful = [
            one for one in left if vague is not None and one.end >= vague.first and one.start <= vague.last
        ]
        if vague is not None:
            # the stored rows may give a window with another start: so one of these windows keeps the due time
            if not doubtful:
                doubtful = [Shown(vague.first, vague.first)]
            for one in doubtful:
                one.due = min(one.due, due)
            after += [(one, -1) for one in doubtful]
        obsolete = [one.start for one in left if one.told and one not in doubtful]
        return after, sorted(obsolete)

    def _show(self, windows: Iterable[tuple[Shown, int]], vague: Span | None) -> Iterable[Occurrence]:
        """Tell the windows that are due, and mark them as told."""
        asked = False
        for window, rows in windows:
            if window.due == FAR:
                continue
            window.due, window.told = FAR, 1
            if vague is not None and window.end >= vague.first and window.start <= vague.last:
                asked = True
            else:
                yield Occurrence(CLOSE, window.start, window.end, rows, DELAY)
        if asked and vague is not None:
            yield Occurrence(REDO, vague.first, vague.last, -1, RECALC)

    # ------------------------------------------------------------------ processing time

    def due(self, memory: Columns) -> int:
        """When the next window is shown; FAR if none waits."""
        due = memory.lists["windows"]["due"]
        return int(due.min()) if len(due) else FAR

    @staticmethod
    def all_due(memory: Columns) -> Ints:
        """When each window is shown next, ns, in no order."""
        due: Ints = memory.lists["windows"]["due"]
        waiting: Ints = due[due != FAR]
        return waiting

    def fire(
        self, memory: Columns, kept: tuple[Columns, Columns], reach: int, doubts: Doubts = NO_DOUBTS
    ) -> Occurrences:
        """What is due up to ``reach`` (ns), all at step 0."""
        table = memory.lists["windows"]
        told: list[tuple[int, int, Occurrence]] = []
        changed: dict[int, msgspec.Struct] = {}
        for group in np.unique(table[OWNER][table["due"] <= reach]).tolist():
            mine = memory.get(group)
            assert isinstance(mine, ShownMemory)
            windows, vague = windows_of(self.windower, *kept, group, doubts.get(group))
            rows = {window.start: window.rownum for window in windows}
            ready = [(one, rows.get(one.start, -1)) for one in mine.windows if one.due <= reach]
            told += [(group, 0, one) for one in self._show(ready, vague)]
            changed[group] = mine
        if changed:
            memory.put(changed)
        return as_arrays(told, 0)


def windows_of(
    windower: Windower, memory: Columns, clock: Columns, group: int, doubt: Span | None = None
) -> tuple[list[SoFar], Span | None]:
    """The windows of a group that have not closed, including the rows that wait for T; and the times whose
    windows only the stored rows know. ``doubt``: the span in which some waiting rows may no longer exist."""
    one = Columns(windower.memory)
    one.grow(1)
    one.put({0: memory.get(group)})
    vague = windower.vague(one.get(0))
    if doubt is not None:
        vague = doubt if vague is None else vague.hull(doubt)
    waiting = clock.lists["waiting"]
    low, high = np.searchsorted(waiting[OWNER], (group, group + 1))
    closed: list[SoFar] = []
    if high > low:
        rows = take(waiting, np.arange(low, high))
        found = windower.on_rows(one, _in_order(windower, rows))
        found = found.take(found.kind == CLOSE)
        arrays = (found.start, found.end, found.rownum)
        closed = [SoFar(*cells) for cells in zip(*(array.tolist() for array in arrays), strict=True)]
    open_ = windower.so_far(one.get(0)) if windower.shows_open else ()
    windows = [*closed, *open_]
    if vague is not None:
        windows = [w for w in windows if w.end < vague.first or w.start > vague.last]
    return windows, vague


def _in_order(windower: Windower, rows: Mapping[str, Ints]) -> Evaluated:
    ts = rows["ts"]
    group, no = np.zeros(len(ts), dtype=np.int64), np.zeros(len(ts), dtype=bool)
    step = np.arange(len(ts), dtype=np.int64)
    before = np.append(ts[:1], ts[:-1])
    columns = {signal.name: typed(signal, rows[signal.name]) for signal in windower.signals}
    return Evaluated(group, ts, step, no, no, before, Moves(group, step, before, ts), columns)


def _touches(start: int, end: int, span: tuple[Ints, Ints]) -> bool:
    first, last = span
    return bool(((first <= end) & (last >= start)).any())

"""The answer to a part of a request: the closed windows around its range, and those that are gone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from millrace_core.recalc.cut import Cutter, in_order, with_openings
from millrace_core.recalc.reach import Read, of_group, settle
from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.groups.watermark import RANGE
from millrace_core.trigger.types.occurrences import (
    CLOSE,
    DELAY,
    INVALID,
    OPEN,
    RECALC,
    RETRACT,
    Occurrences,
    SoFar,
)  # fmt: skip
from millrace_core.trigger.types.reach import Reach, Rows
from millrace_core.trigger.types.windower import Windower
from millrace_core.wire.events import ROWNUM_FROM_STORE
from millrace_core.wire.recalc import Part

Window = tuple[int, int]
"""Start and end of a window that was told of as closed."""


@dataclass(slots=True)
class Answer:
    """``found``: what to tell, as group 0, by step. ``rows``: how many were read. ``starts``: the range of
    starts (both included) for which the answer says which windows exist, open ones included; None: for
    none."""

    found: Occurrences
    rows: int
    starts: tuple[int, int] | None = None


def cut_again(
    windower: Windower, part: Part, read: Read, *, changed: bool, told: Collection[Window] = (),
    retracts: bool = False,
) -> Answer:  # fmt: skip
    """Cut the windows around the part's ``[first, last]`` that are closed when T is ``until``.

    ``changed``: rows in the range were added, changed or deleted (otherwise the user wants its windows
    calculated again as they are). ``told``: the windows that were told of before. One of these that touches
    the range and is no longer a window is told of as invalid. ``retracts``: results in the range that are no
    longer valid are retracted before their replacements are told. If the part asks for ``open`` windows,
    those that have not closed are told as they are shown.
    """
    horizon = RANGE if part.open else part.until
    first, last = part.first, min(part.last, horizon)
    if first > last:
        return Answer(none_found(), 0)
    windower = of_group(windower, part.origin, part.until, read)
    reach = windower.reach(part.origin)
    stretch = settle(reach, first, last, horizon, read)
    if changed:
        first, last = reach.affected(stretch, first, last)
    cutter = Cutter(windower, 1, reach.began(stretch, part.first))
    # everything up to ``high`` is known, so T may advance to one tick after it
    upto = np.array([min(part.until, stretch.high + 1)], dtype=np.int64)
    judged = stretch.rows.ts <= part.until
    cut = in_order([cutter.feed(stretch.rows.only(judged)), cutter.advance(upto)])
    open_ = list(windower.so_far(cutter.memory.get(0)))
    begun = {window.start for window in open_}
    found = with_openings(cut, _touching(reach, cut, first, last))
    found.cause = np.full(len(found), RECALC, dtype=np.int64)
    whole = _whole(reach, cut, open_, first, last)
    kept = [found]
    if changed and not reach.fixed:
        low, high = reach.around(found, first, last)
        # a window that began before the rows that were read belongs to another change
        known = [window for window in told if window[0] >= stretch.low]
        kept.insert(0, _gone(known, begun.union(cut.start.tolist()), low, high, part.until))
    if retracts:
        low, high = reach.keys(stretch, whole if part.lost else found, first, last)
        # nothing is known here of windows that begin after the rows that were read and the requested range
        newest = int(stretch.rows.ts.max(initial=max(part.until, last)))
        high = min(high, newest if part.open else reach.last_closed(part.until))
        kept.insert(0, _retracted(low, high, () if part.open or part.lost else begun))
    if part.open:
        shown = shown_windows(cutter, stretch.rows.only(~judged))
        # check the touching of all windows together: alone, none would be known to follow another. The rows
        # with which the last one goes on may not have been read
        every = Occurrences.join((cut.take(cut.kind != OPEN), shown))
        touching = reach.touches(every.start, every.end, first, last)
        kept.append(shown.take(touching[len(every) - len(shown) :]))
    return Answer(Occurrences.join(kept), len(stretch.rows), reach.keys(stretch, whole, first, last))


def shown_windows(cutter: Cutter, behind: Rows) -> Occurrences:
    """The windows that have not closed, as if the rows ``behind`` T had been evaluated."""
    windower, memory = cutter.windower, cutter.memory
    later = cutter.feed(behind) if len(behind) else none_found()
    closed = later.take(later.kind == CLOSE)
    open_ = list(windower.so_far(memory.get(0))) if windower.shows_open else []
    start, end, rows = (np.array([window[i] for window in open_], dtype=np.int64) for i in range(3))
    group = np.zeros(len(open_), dtype=np.int64)
    found = Occurrences.join((closed, Occurrences.of(group, group, CLOSE, start, end, rows, DELAY)))
    found.cause = np.full(len(found), DELAY, dtype=np.int64)
    found.step = np.full(len(found), RANGE, dtype=np.int64)  # after what has closed
    return found


def _retracted(low: int, high: int, open_: Collection[int]) -> Occurrences:
    """Retractions of everything that begins in ``[low, high]``, except for the ``open_`` windows: the live
    path tells of these, and may have done so before this answer."""
    bounds = [low - 1, *sorted(start for start in open_ if low <= start <= high), high + 1]
    pieces = [(one + 1, next_ - 1) for one, next_ in pairwise(bounds) if one + 1 < next_]
    start, end = (np.array([piece[i] for piece in pieces], dtype=np.int64) for i in (0, 1))
    group = np.zeros(len(pieces), dtype=np.int64)
    return Occurrences.of(group, group - 2, RETRACT, start, end, ROWNUM_FROM_STORE, RECALC)


def _touching(reach: Reach, cut: Occurrences, first: int, last: int) -> set[tuple[int, int]]:
    """The closed windows (and instants) of ``cut`` that are told again, as (group, start)."""
    closed = cut.take(cut.kind != OPEN)
    touching = closed.take(reach.touches(closed.start, closed.end, first, last))
    return set(zip(touching.group.tolist(), touching.start.tolist(), strict=True))


def _whole(reach: Reach, cut: Occurrences, open_: Sequence[SoFar], first: int, last: int) -> Occurrences:
    """The windows that touch the range, open ones too."""
    start, end = (np.array([window[i] for window in open_], dtype=np.int64) for i in (0, 1))
    group = np.zeros(len(start), dtype=np.int64)
    closed = cut.take(cut.kind != OPEN)
    every = Occurrences.join((closed, Occurrences.of(group, group, OPEN, start, end, ROWNUM_FROM_STORE)))
    return every.take(reach.touches(every.start, every.end, first, last))


def _gone(told: Collection[Window], starts: set[int], low: int, high: int, until: int) -> Occurrences:
    """The windows in ``[low, high]`` that were told of and no longer begin where they did."""
    gone = sorted(
        (start, end)
        for start, end in told
        if start <= high and end >= low and end <= until and start not in starts
    )
    group = np.zeros(len(gone), dtype=np.int64)
    start, end = (np.array([window[i] for window in gone], dtype=np.int64) for i in (0, 1))
    step = np.full(len(gone), -1, dtype=np.int64)
    return Occurrences.of(group, step, INVALID, start, end, ROWNUM_FROM_STORE, RECALC)


def none_found() -> Occurrences:
    """Nothing to tell."""
    none: Ints = np.empty(0, dtype=np.int64)
    return Occurrences.of(none, none, CLOSE, none, none, 0)

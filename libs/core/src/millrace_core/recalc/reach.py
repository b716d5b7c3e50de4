"""The stored rows from which windows are cut again: they are read, and the range is widened until the cut is
certain on both sides."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from millrace_core.model.stream import StreamSpec
from millrace_core.trigger.groups.watermark import RANGE
from millrace_core.trigger.stream.definition import windower_of
from millrace_core.trigger.types import type_of
from millrace_core.trigger.types.reach import Reach, Stretch
from millrace_core.trigger.types.windower import Windower

WIDER = 4
"""The factor by which each further widening of a stretch is larger than the one before."""

Read = Callable[[int, int], Stretch]
"""The rows of a group in a range, ends included."""


def of_group(windower: Windower, origin: int | None, until: int, read: Read) -> Windower:
    """The windower of one group. If each group counts from a time of its own, this one counts from ``origin``
    (None: from the day of the first stored row up to ``until``)."""

    def first() -> int:
        ts = read(-RANGE, until).rows.ts
        return int(ts[0]) if len(ts) else until

    return windower.of_group(origin, first)


def may_vanish(spec: StreamSpec) -> bool:
    """Whether a recalculation may find that a window of the stream no longer exists: this is so where windows
    are made of rows."""
    return not type_of(spec.trigger).by_clock and not windower_of(spec).reach().fixed


def from_block(block: Stretch, read: Read) -> Read:
    """A reader that takes ranges inside this ``block``, which has been read already, from there, and reads
    others by ``read``."""
    ts = block.rows.ts

    def ranged(low: int, high: int) -> Stretch:
        if low < block.low or high > block.high:
            return read(low, high)
        # not NumPy's search: it gives way to other threads each time
        begin, end = bisect_left(ts, low), bisect_right(ts, high)
        return Stretch(block.rows.between(begin, end), low, high, block.first and begin == 0)

    return ranged


def settle(reach: Reach, first: int, last: int, until: int, read: Read) -> Stretch:
    """Read the rows that are needed to cut ``[first, last]``, none of them after ``until``."""
    low, high = reach.span(first, last)
    low, high = max(low, -RANGE), min(high, until)
    wider = max(high - low, 1)
    while True:
        stretch = read(low, high)
        back = not stretch.first and not reach.begins(stretch, first)
        on = high < until and not reach.ends(stretch, last)
        if not back and not on:
            return stretch
        low, high = max(low - wider * back, -RANGE), min(high + wider * on, until)
        wider *= WIDER

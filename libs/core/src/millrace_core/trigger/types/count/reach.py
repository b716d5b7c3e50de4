"""Which windows a change of rows reaches under COUNT_WINDOW."""

from __future__ import annotations

from bisect import bisect_left

from millrace_core.trigger.groups.watermark import RANGE
from millrace_core.trigger.types.reach import Reach, Stretch


class CountReach(Reach):
    """The rows of the range alone: windows are divided anew from its first row on (seed 000)."""

    fixed = True
    anew = True

    def span(self, first: int, last: int) -> tuple[int, int]:
        return first, last

    def begins(self, stretch: Stretch, first: int) -> bool:
        return True

    def ends(self, stretch: Stretch, last: int) -> bool:
        return True


class CountedReach(Reach):
    """All rows from the group's first one on (``origin``; None: from the first stored one), because all rows
    after a deleted row belong to other windows."""

    onward = True

    def __init__(self, origin: int | None) -> None:
        self.origin = -RANGE if origin is None else origin

    def span(self, first: int, last: int) -> tuple[int, int]:
        return self.origin, RANGE

    def begins(self, stretch: Stretch, first: int) -> bool:
        return True

    def ends(self, stretch: Stretch, last: int) -> bool:
        return True

    def affected(self, stretch: Stretch, first: int, last: int) -> tuple[int, int]:
        ts = stretch.rows.ts
        place = bisect_left(ts, first)
        there = place < len(ts) and int(ts[place]) == first
        # the window of a row that is gone may now end with the row before it
        return (first if there or not place else int(ts[place - 1])), RANGE

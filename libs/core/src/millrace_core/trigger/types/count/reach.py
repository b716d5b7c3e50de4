"""What a change of rows reaches under COUNT_WINDOW."""

from __future__ import annotations

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

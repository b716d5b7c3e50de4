"""What a change of rows reaches if rows have no windows."""

from __future__ import annotations

from millrace_core.trigger.types.reach import Reach, Stretch


class RowsReach(Reach):
    """The rows of the range alone."""

    fixed = True

    def span(self, first: int, last: int) -> tuple[int, int]:
        return first, last

    def begins(self, stretch: Stretch, first: int) -> bool:
        return True

    def ends(self, stretch: Stretch, last: int) -> bool:
        return True

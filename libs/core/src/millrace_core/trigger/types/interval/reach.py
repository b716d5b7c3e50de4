"""Which windows a change of rows reaches under INTERVAL."""

from __future__ import annotations

import numpy as np

from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.types.interval.grid import IntervalGrid
from millrace_core.trigger.types.occurrences import Occurrences
from millrace_core.trigger.types.reach import Reach, Stretch


class IntervalReach(Reach):
    """Whole windows. Empty windows are told from the group's first window on. If that window is not known,
    they are told only after a row, so the rows that are read must include one before the range."""

    def __init__(self, grid: IntervalGrid, empty: bool, origin: int | None = None) -> None:
        """``empty``: windows without rows fire too; ``origin``: where the group's first window starts."""
        self.grid, self.empty, self.origin = grid, empty, origin
        self.fixed = empty

    def span(self, first: int, last: int) -> tuple[int, int]:
        grid = self.grid
        low = min(first, grid.start(grid.unclosed(first)))
        return low, max(last, grid.end(grid.last(last)) - 1)

    def begins(self, stretch: Stretch, first: int) -> bool:
        opening = self.grid.end(self.grid.unclosed(first))
        known = not self.empty or (self.origin is not None and self.origin < opening)
        return known or bool((stretch.rows.ts < opening).any())

    def ends(self, stretch: Stretch, last: int) -> bool:
        return True

    def began(self, stretch: Stretch, first: int) -> int | None:
        if not self.empty or self.origin is None:
            return None
        window = max(self.grid.last(self.origin), self.grid.unclosed(first))
        closed = self.grid.end(window - 1)
        return None if len(stretch.rows) and stretch.rows.ts[0] < closed else closed

    def touches(self, start: Ints, end: Ints, first: int, last: int) -> np.ndarray:
        return super().touches(start, end - 1, first, last)

    def around(self, found: Occurrences, first: int, last: int) -> tuple[int, int]:
        return first, last

    def last_closed(self, until: int) -> int:
        return self.grid.start(self.grid.unclosed(until) - 1)

    def keys(self, stretch: Stretch, found: Occurrences, first: int, last: int) -> tuple[int, int]:
        return self.grid.start(self.grid.unclosed(first)), self.grid.start(self.grid.last(last))

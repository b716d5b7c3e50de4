"""Which instants a change of rows reaches under SLIDING."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.types.reach import Reach, Stretch


class SlidingReach(Reach):
    """Instants, each with the rows since the instant before it."""

    fixed = True

    def __init__(self, at_or_before: Callable[[int], int], after: Callable[[int], int], empty: bool) -> None:
        """``at_or_before``: the last instant up to a time; ``after``: the first one after it; ``empty``:
        instants without rows fire too."""
        self.at_or_before, self.after, self.empty = at_or_before, after, empty

    def span(self, first: int, last: int) -> tuple[int, int]:
        return self.at_or_before(first - 1) + 1, self.after(last - 1)

    def begins(self, stretch: Stretch, first: int) -> bool:
        return not self.empty or bool((stretch.rows.ts <= self.after(first - 1)).any())

    def ends(self, stretch: Stretch, last: int) -> bool:
        return True

    def touches(self, start: Ints, end: Ints, first: int, last: int) -> np.ndarray:
        return super().touches(start + 1, end, first, last)

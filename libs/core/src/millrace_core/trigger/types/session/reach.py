"""Which windows a change of rows reaches under SESSION."""

from __future__ import annotations

import numpy as np

from millrace_core.trigger.types.reach import Reach, Stretch


class SessionReach(Reach):
    """From a gap before the range to a gap after it."""

    def __init__(self, gap: int) -> None:
        self.gap = gap

    def span(self, first: int, last: int) -> tuple[int, int]:
        return first - self.gap, last + self.gap + 1

    def begins(self, stretch: Stretch, first: int) -> bool:
        ts = stretch.rows.ts
        if not len(ts) or ts[0] - stretch.low >= self.gap:
            return True
        before = ts[: np.searchsorted(ts, first)]
        after = np.append(before[1:], first if len(before) == len(ts) else ts[len(before)])
        return bool((after[: len(before)] - before > self.gap).any())

    def ends(self, stretch: Stretch, last: int) -> bool:
        ts = np.append(stretch.rows.ts, stretch.high + 1)
        ts = ts[max(0, int(np.searchsorted(ts, last, side="right")) - 1) :]
        return bool((ts[1:] - ts[:-1] > self.gap).any()) or len(ts) < 2

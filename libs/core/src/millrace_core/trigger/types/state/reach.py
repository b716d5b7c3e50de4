"""Which windows a change of rows reaches under STATE_WINDOW."""

from __future__ import annotations

import numpy as np

from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.types.occurrences import Occurrences
from millrace_core.trigger.types.reach import Reach, Stretch
from millrace_core.trigger.types.state.arrays import STATE


class StateReach(Reach):
    """From a change of state before the range to the second one after it: a change of rows moves the ends of
    neighbouring windows, and the window after the range is cut again too (SEMANTICS, "Recalculation")."""

    def span(self, first: int, last: int) -> tuple[int, int]:
        return first, last

    def _changes(self, stretch: Stretch) -> tuple[Ints, Ints]:
        """The times of the rows with a state, and the places of those whose state differs from that of the
        row before."""
        states = stretch.rows.columns[STATE]
        given = np.array([state is not None for state in states.tolist()], dtype=bool)
        states, ts = states[given], stretch.rows.ts[given]
        changes = np.flatnonzero(np.array(states[1:] != states[:-1], dtype=bool)) + 1
        return ts, changes

    def begins(self, stretch: Stretch, first: int) -> bool:
        ts, changes = self._changes(stretch)
        # the row before the range must lie in a window that is cut from its first row
        before = int(np.searchsorted(ts, first)) - 1
        return before >= 0 and bool((changes <= before).any())

    def ends(self, stretch: Stretch, last: int) -> bool:
        ts, changes = self._changes(stretch)
        after = int(np.searchsorted(ts, last, side="right"))
        return int((changes > after).sum()) > 1

    def affected(self, stretch: Stretch, first: int, last: int) -> tuple[int, int]:
        ts, _ = self._changes(stretch)
        before, after = np.searchsorted(ts, first) - 1, np.searchsorted(ts, last, side="right")
        low = int(ts[before]) if before >= 0 else first
        return low, int(ts[after]) if after < len(ts) else last

    def keys(self, stretch: Stretch, found: Occurrences, first: int, last: int) -> tuple[int, int]:
        """Includes windows that are now too short to be told of (TRUE_FOR): they may have been longer
        before."""
        low, high = super().keys(stretch, found, first, last)
        ts, changes = self._changes(stretch)
        mine = changes[changes < np.searchsorted(ts, first, side="right")]
        begins = int(ts[mine[-1] - 1]) + 1 if len(mine) else int(ts.min(initial=low))
        return min(low, begins), high

    def touches(self, start: Ints, end: Ints, first: int, last: int) -> np.ndarray:
        touching = super().touches(start, end, first, last)
        following = start[start > last]
        return touching | ((start > last) & (start == following.min())) if len(following) else touching

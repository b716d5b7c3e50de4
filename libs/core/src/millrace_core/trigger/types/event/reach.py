"""Which windows a change of rows reaches under EVENT_WINDOW."""

from __future__ import annotations

from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.types.reach import Reach, Stretch


class EventReach(Reach):
    """From a closing row before the range to one after it: at such a row no window is open, whatever came
    before."""

    def span(self, first: int, last: int) -> tuple[int, int]:
        return first, last

    def _closing(self, stretch: Stretch) -> Ints:
        closing: Ints = stretch.rows.ts[stretch.rows.columns["end"].astype(bool)]
        return closing

    def begins(self, stretch: Stretch, first: int) -> bool:
        return bool((self._closing(stretch) < first).any())

    def ends(self, stretch: Stretch, last: int) -> bool:
        return bool((self._closing(stretch) > last).any())

    def affected(self, stretch: Stretch, first: int, last: int) -> tuple[int, int]:
        closing = self._closing(stretch)
        before, after = closing[closing < first], closing[closing > last]
        return (
            int(before[-1]) + 1 if len(before) else stretch.low,
            int(after[0]) if len(after) else stretch.high,
        )

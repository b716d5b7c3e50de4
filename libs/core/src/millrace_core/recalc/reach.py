"""How far around a range of time rows must be read, and which windows a change there can touch.

One class for each type of windower. A *stretch* is the rows of one group in ``[low, high]``; it is widened
until the cut of the range is certain on both sides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from millrace_core.recalc.cut import Rows
from millrace_core.trigger.count import CountWindower
from millrace_core.trigger.event import EventWindower
from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.groups.watermark import RANGE
from millrace_core.trigger.interval import IntervalWindower
from millrace_core.trigger.session import SessionWindower
from millrace_core.trigger.sliding import SlidingWindower
from millrace_core.trigger.state import STATE, StateWindower
from millrace_core.trigger.windower import Occurrences, Windower

WIDER = 4
"""By how much more than before a stretch is widened that is not certain yet."""


@dataclass(slots=True)
class Stretch:
    """Rows of one group with ``low <= ts <= high``. ``first``: no row of the group lies before it."""

    rows: Rows
    low: int
    high: int
    first: bool


Read = Callable[[int, int], Stretch]
"""The rows of a group in a range, ends included."""


class Reach(ABC):
    """What a type of windows needs of the rows around the range ``[first, last]``.

    ``fixed``: where windows may begin does not depend on the rows, so none is ever invalid.
    """

    fixed = False

    @abstractmethod
    def span(self, first: int, last: int) -> tuple[int, int]:
        """What to read at first."""

    @abstractmethod
    def begins(self, stretch: Stretch, first: int) -> bool:
        """Whether all windows that touch ``first`` or what follows are cut rightly from these rows."""

    @abstractmethod
    def ends(self, stretch: Stretch, last: int) -> bool:
        """Whether all windows that touch the range, and those that a change in it can touch, end in here."""

    def affected(self, stretch: Stretch, first: int, last: int) -> tuple[int, int]:
        """The range that windows touch which a change of rows in ``[first, last]`` may have changed."""
        return first, last

    def touches(self, start: Ints, end: Ints, first: int, last: int) -> np.ndarray:
        """Which windows are cut again for ``[first, last]``."""
        touching: np.ndarray = (start <= last) & (end >= first)
        return touching

    def began(self, stretch: Stretch, first: int) -> int | None:
        """Up to where T had come before the first row that matters, None: to that row."""
        return None

    def around(self, found: Occurrences, first: int, last: int) -> tuple[int, int]:
        """Where windows lie that may be none any more: ``found`` was cut again for ``[first, last]``."""
        return int(found.start.min(initial=first)), int(found.end.max(initial=last))


class IntervalReach(Reach):
    """Whole windows. Empty ones are told from the group's first window on; where nobody knows that, only
    behind a row, so there must be one before."""

    def __init__(self, windower: IntervalWindower, origin: int | None = None) -> None:
        """``origin``: where the group's first window starts."""
        self.grid, self.empty, self.origin = windower.grid, windower.empty, origin
        self.fixed = windower.empty

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


class SlidingReach(Reach):
    """Instants, each with the rows since the one before."""

    fixed = True

    def __init__(self, windower: SlidingWindower) -> None:
        self.windower, self.empty = windower, windower.empty

    def span(self, first: int, last: int) -> tuple[int, int]:
        return self.windower.at_or_before(first - 1) + 1, self.windower.after(last - 1)

    def begins(self, stretch: Stretch, first: int) -> bool:
        return not self.empty or bool((stretch.rows.ts <= self.windower.after(first - 1)).any())

    def ends(self, stretch: Stretch, last: int) -> bool:
        return True

    def touches(self, start: Ints, end: Ints, first: int, last: int) -> np.ndarray:
        return super().touches(start + 1, end, first, last)


class SessionReach(Reach):
    """To a gap on both sides."""

    def __init__(self, windower: SessionWindower) -> None:
        self.gap = windower.gap

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


class StateReach(Reach):
    """From a change of state before the range to the second one behind it: a change of rows moves the ends of
    its neighbours, and the window after the range is cut again too (SEMANTICS, "Recalculation")."""

    def span(self, first: int, last: int) -> tuple[int, int]:
        return first, last

    def _changes(self, stretch: Stretch) -> tuple[Ints, Ints]:
        """Times of the rows with a state, and the places of those with another one than the row before."""
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

    def touches(self, start: Ints, end: Ints, first: int, last: int) -> np.ndarray:
        touching = super().touches(start, end, first, last)
        following = start[start > last]
        return touching | ((start > last) & (start == following.min())) if len(following) else touching


class EventReach(Reach):
    """From a closing row before the range to one behind it: whatever was before, no window is open there."""

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


class CountReach(Reach):
    """The rows of the range alone: windows are divided anew from its first row on (seed 000)."""

    fixed = True

    def span(self, first: int, last: int) -> tuple[int, int]:
        return first, last

    def begins(self, stretch: Stretch, first: int) -> bool:
        return True

    def ends(self, stretch: Stretch, last: int) -> bool:
        return True


def reach_of(windower: Windower, origin: int | None = None) -> Reach:
    """What windows of this kind need. ``origin``: of the group, as :meth:`Windower.origin_of`.

    :raises TypeError: for PERIOD, which has nothing to do with the times of rows.
    """
    match windower:
        case IntervalWindower():
            return IntervalReach(windower, origin)
        case SlidingWindower():
            return SlidingReach(windower)
        case SessionWindower():
            return SessionReach(windower)
        case StateWindower():
            return StateReach()
        case EventWindower():
            return EventReach()
        case CountWindower():
            return CountReach()
    raise TypeError(f"{type(windower).__name__} is never cut again")


def of_group(windower: Windower, origin: int | None, until: int, read: Read) -> Windower:
    """The windower of one group: where groups count from times of their own, from ``origin`` (None: from the
    day of the first stored row up to ``until``)."""
    if not isinstance(windower, SlidingWindower) or not windower.counts_by_group:
        return windower
    if origin is None:
        ts = read(-RANGE, until).rows.ts
        origin = windower.origin_at(int(ts[0]) if len(ts) else until)
    return windower.counted_from(origin)


def settle(reach: Reach, first: int, last: int, until: int, read: Read) -> Stretch:
    """Read the rows that the cut of ``[first, last]`` needs, none after ``until``."""
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

"""The windows of an INTERVAL as numbered intervals: window ``i`` is ``[start(i), end(i))``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.model.stream import Duration
from millrace_core.timeline import ticks
from millrace_core.timeline.precision import CALENDAR_MONTHS
from millrace_core.trigger.types.interval.spec import Interval

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Grid:
    """Window 0 starts at ``offset``, each next one ``sliding`` later (seed 000).

    ``interval`` and ``sliding`` are counted in ticks, or, where ``month`` is set (to the ticks of a
    millisecond), in months of the calendar (UTC); ``offset`` in ticks.
    """

    interval: int
    sliding: int
    offset: int = 0
    month: int = 0

    @staticmethod
    def of(trigger: Interval, precision: Precision) -> Grid:
        """:raises MillraceError: for a length that is not a whole number of ticks."""
        offset = ticks(trigger.offset, precision) if trigger.offset else 0
        if trigger.interval.unit in CALENDAR_MONTHS:
            per_ms = TICKS_PER_SECOND[precision] // 1000
            return Grid(_months(trigger.interval), _months(trigger.sliding), offset, per_ms)
        return Grid(ticks(trigger.interval, precision), ticks(trigger.sliding, precision), offset)

    @property
    def overlap(self) -> int:
        """How many windows contain a row, at most."""
        return -(-self.interval // self.sliding)

    @overload
    def last(self, ts: int) -> int: ...
    @overload
    def last(self, ts: Ints) -> Ints: ...
    def last(self, ts: int | Ints) -> int | Ints:
        """The last window that starts at or before ``ts``; where windows leave gaps it may end before."""
        return self._position(ts) // self.sliding

    @overload
    def unclosed(self, ts: int) -> int: ...
    @overload
    def unclosed(self, ts: Ints) -> Ints: ...
    def unclosed(self, ts: int | Ints) -> int | Ints:
        """The first window that ends after ``ts``: at T = ``ts`` all before it are closed (T >= end)."""
        return (self._position(ts) - self.interval) // self.sliding + 1

    @overload
    def start(self, window: int) -> int: ...
    @overload
    def start(self, window: Ints) -> Ints: ...
    def start(self, window: int | Ints) -> int | Ints:
        """Where a window starts, in ticks."""
        return self._time(window * self.sliding)

    @overload
    def end(self, window: int) -> int: ...
    @overload
    def end(self, window: Ints) -> Ints: ...
    def end(self, window: int | Ints) -> int | Ints:
        """Where a window ends (the first time that is not in it), in ticks."""
        return self._time(window * self.sliding + self.interval)

    def _position(self, ts: int | Ints) -> int | Ints:
        """How many ticks, or whole months, lie between the offset and ``ts``."""
        if not self.month:
            return ts - self.offset
        ms = np.floor_divide(np.asarray(ts) - self.offset, self.month)
        months = ms.astype("datetime64[ms]").astype("datetime64[M]").astype(np.int64)
        return months if isinstance(ts, np.ndarray) else int(months)

    def _time(self, position: int | Ints) -> int | Ints:
        if not self.month:
            return position + self.offset
        months = np.asarray(position, dtype=np.int64).astype("datetime64[M]")
        found = months.astype("datetime64[ms]").astype(np.int64) * self.month + self.offset
        return found if isinstance(position, np.ndarray) else int(found)


def _months(duration: Duration) -> int:
    return duration.value * CALENDAR_MONTHS[duration.unit]

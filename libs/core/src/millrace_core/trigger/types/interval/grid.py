"""The windows of an INTERVAL as numbered intervals: window ``i`` is ``[start(i), end(i))``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import overload

import numpy as np
import numpy.typing as npt

from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.model.stream import Duration
from millrace_core.timeline import ticks, zone
from millrace_core.timeline.precision import CALENDAR_MONTHS
from millrace_core.timeline.schedule import on_clock
from millrace_core.trigger.types.interval.spec import Interval

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IntervalGrid:
    """Window 0 starts at ``offset``, and each further one ``sliding`` later (seed 000).

    ``interval`` and ``sliding`` are counted in ticks, or in months of the calendar if ``month`` is set (to
    the ticks of a millisecond); ``offset`` is in ticks. ``where``: the zone whose clock defines days and
    months. ``second``: the ticks of a second if that zone is not UTC, else 0.
    """

    interval: int
    sliding: int
    offset: int = 0
    month: int = 0
    where: tzinfo = UTC
    second: int = 0

    @staticmethod
    def of(trigger: Interval, precision: Precision) -> IntervalGrid:
        """:raises MillraceError: for a length that is not a whole number of ticks."""
        offset = ticks(trigger.offset, precision) if trigger.offset else 0
        where, per_second = zone(trigger.timezone), TICKS_PER_SECOND[precision]
        second = 0 if where is UTC else per_second
        if trigger.interval.unit in CALENDAR_MONTHS:
            months = _months(trigger.interval), _months(trigger.sliding)
            return IntervalGrid(*months, offset, per_second // 1000, where, second)
        interval, sliding = ticks(trigger.interval, precision), ticks(trigger.sliding, precision)
        # days are those of a local clock; windows that slide by less would begin twice when it is put forward
        if {trigger.interval.unit, trigger.sliding.unit} <= {"d", "w"}:
            return IntervalGrid(interval, sliding, offset, 0, where, second)
        return IntervalGrid(interval, sliding, offset)

    @property
    def overlap(self) -> int:
        """How many windows can contain a row, at most."""
        return -(-self.interval // self.sliding)

    @overload
    def last(self, ts: int) -> int: ...
    @overload
    def last(self, ts: Ints) -> Ints: ...
    def last(self, ts: int | Ints) -> int | Ints:
        """The last window that starts at or before ``ts``; if windows leave gaps, it may end before
        ``ts``."""
        found = self._position(ts) // self.sliding
        return self._moved(found, ts, self.start) if self.second else found

    @overload
    def unclosed(self, ts: int) -> int: ...
    @overload
    def unclosed(self, ts: Ints) -> Ints: ...
    def unclosed(self, ts: int | Ints) -> int | Ints:
        """The first window that ends after ``ts``: at T = ``ts`` all before it are closed (T >= end)."""
        found = (self._position(ts) - self.interval) // self.sliding + 1
        return self._moved(found - 1, ts, self.end) + 1 if self.second else found

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

    def _moved(self, window: int | Ints, ts: int | Ints, edge: Callable[[Ints], Ints]) -> int | Ints:
        """The last window whose ``edge`` is not after ``ts``, starting the search from one nearby: clocks are
        changed by hours, or by a day where the date line moved."""
        found, times = np.atleast_1d(np.asarray(window)), np.atleast_1d(np.asarray(ts))
        while (late := edge(found) > times).any():
            found = found - late
        while (early := edge(found + 1) <= times).any():
            found = found + early
        return found if isinstance(ts, np.ndarray) else int(found[0])

    def _position(self, ts: int | Ints) -> int | Ints:
        """How many ticks, or whole months, lie between the offset and ``ts`` on UTC's clock."""
        if not self.month:
            return ts - self.offset
        ms = np.floor_divide(np.asarray(ts) - self.offset, self.month)
        months = ms.astype("datetime64[ms]").astype("datetime64[M]").astype(np.int64)
        return months if isinstance(ts, np.ndarray) else int(months)

    def _time(self, position: int | Ints) -> int | Ints:
        if not self.month:
            found = position + self.offset
        else:
            months = np.asarray(position, dtype=np.int64).astype("datetime64[M]")
            found = months.astype("datetime64[ms]").astype(np.int64) * self.month + self.offset
        if self.second:
            found = self._instant(np.asarray(found))
        return found if isinstance(position, np.ndarray) else int(found)

    def _instant(self, clock: Ints) -> Ints:
        """When the local clock shows these readings, in ticks."""
        readings, place = np.unique(clock, return_inverse=True)
        seconds, parts = np.divmod(readings, self.second)
        instants = np.array([on_clock(self.where, second) for second in seconds.tolist()], dtype=np.int64)
        found: Ints = (instants * self.second + parts)[place]
        return found.reshape(clock.shape)


def _months(duration: Duration) -> int:
    return duration.value * CALENDAR_MONTHS[duration.unit]

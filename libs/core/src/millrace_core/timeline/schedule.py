"""The instants at which SLIDING and PERIOD fire (seed 000, 定时触发), for one time or an array of them.

Periods below one day: the local midnight of each day plus the offset, and then once every period. The count
begins anew each day, so a day's last instant and the next day's first may lie closer together. Periods of one
day or more: the local midnight of the origin's day plus the offset, and then once every period; the count
never begins anew. Lengths are elapsed time: when clocks are changed, a day has 23 or 25 hours, and instants
accordingly.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import overload

import numpy as np
import numpy.typing as npt

from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.timeline.calendar import EPOCH_DAY, from_local

Ints = npt.NDArray[np.int64]

SECONDS_PER_DAY = 86_400
_FIRST, _LAST = date(2, 1, 1).toordinal() - EPOCH_DAY, date(9998, 12, 31).toordinal() - EPOCH_DAY
"""The days whose midnights the calendar knows; beyond them a zone keeps the offset of the nearest such
day."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """``every``, ``offset`` and all times are ticks of ``precision``; ``where``: whose midnight it is;
    ``origin``: a time of the day from which periods of a day or more are counted."""

    every: int
    offset: int
    precision: Precision
    where: tzinfo = UTC
    origin: int = 0

    @property
    def restarts(self) -> bool:
        """Whether the count begins anew each midnight."""
        return self.every < self._day

    @overload
    def at_or_before(self, ts: int) -> int: ...
    @overload
    def at_or_before(self, ts: Ints) -> Ints: ...
    def at_or_before(self, ts: int | Ints) -> int | Ints:
        """The last instant that is not after ``ts``."""
        if isinstance(ts, int):
            return int(self.at_or_before(np.array([ts]))[0])
        begin, _ = self._days(ts)
        return begin + (ts - begin) // self.every * self.every

    @overload
    def after(self, ts: int) -> int: ...
    @overload
    def after(self, ts: Ints) -> Ints: ...
    def after(self, ts: int | Ints) -> int | Ints:
        """The first instant after ``ts``."""
        if isinstance(ts, int):
            return int(self.after(np.array([ts]))[0])
        begin, end = self._days(ts)
        following: Ints = begin + ((ts - begin) // self.every + 1) * self.every
        return following if end is None else np.minimum(following, end)

    def day_of(self, ts: Ints) -> Ints:
        """Where the day of a time begins: the local midnight before it (or at it) plus the offset."""
        return self._midnights(ts)[0] + self.offset

    def between(self, after: int, upto: int) -> Ints:
        """All instants in ``(after, upto]``, in order."""
        if upto <= after:
            return np.empty(0, dtype=np.int64)
        if not self.restarts:
            return np.arange(self.after(after), upto + 1, self.every, dtype=np.int64)
        first, last = self._days(np.array([after, upto]))[0].tolist()
        begins = self._begins(first, last)
        # only the instants of each day that lie in the range: a day may have millions of them
        begin, whole = begins[:-1], -(-np.diff(begins) // self.every)
        lows = np.maximum((after - begin) // self.every + 1, 0)
        counts = np.maximum(np.minimum((upto - begin) // self.every + 1, whole) - lows, 0)
        skipped = np.repeat(np.cumsum(counts) - counts - lows, counts)
        found: Ints = np.repeat(begin, counts) + (np.arange(int(counts.sum())) - skipped) * self.every
        return found

    def count(self, after: int, upto: int) -> int:
        """How many instants lie in ``(after, upto]``, as if every day had 24 hours: for counters."""
        if upto <= after:
            return 0
        if not self.restarts:
            return (self.at_or_before(upto) - self.at_or_before(after)) // self.every
        each = -(-self._day // self.every)
        ends = np.array([after, upto])
        begin, _ = self._days(ends)
        numbers = (begin + self._day // 2) // self._day * each + (ends - begin) // self.every
        return int(numbers[1] - numbers[0])

    @property
    def _day(self) -> int:
        return SECONDS_PER_DAY * TICKS_PER_SECOND[self.precision]

    def _days(self, ts: Ints) -> tuple[Ints, Ints | None]:
        """Where the count for the day of each time begins, and for the next day (None: the count never begins
        anew)."""
        if self.restarts:
            begin, end = self._midnights(ts - self.offset)
            return begin + self.offset, end + self.offset
        begin, _ = self._midnights(np.array([self.origin]))
        return np.broadcast_to(begin + self.offset, ts.shape), None

    def _midnights(self, ts: Ints) -> tuple[Ints, Ints]:
        """The local midnights before (or at) and after each time."""
        if isinstance(self.where, timezone):
            ahead = utc_offset(self.where, 0) * TICKS_PER_SECOND[self.precision]
            begin = (ts + ahead) // self._day * self._day - ahead
            return begin, begin + self._day
        days, place = np.unique(ts // self._day, return_inverse=True)
        # local dates differ from UTC's by one day at most
        near = np.array(
            [[midnight(self.where, day + more) for more in (-1, 0, 1, 2)] for day in days.tolist()]
        )
        table = near.reshape(-1, 4)[place] * TICKS_PER_SECOND[self.precision]
        at = (table <= ts[:, None]).sum(axis=1)
        rows = np.arange(len(ts))
        return table[rows, at - 1], table[rows, at]

    def _begins(self, first: int, last: int) -> Ints:
        """The begins of the days from ``first`` to ``last`` (which are begins themselves), and of the day
        after them."""
        if isinstance(self.where, timezone):
            return np.arange(first, last + self._day + 1, self._day, dtype=np.int64)
        low, high = (first - self.offset) // self._day - 1, (last - self.offset) // self._day + 3
        found = np.array([midnight(self.where, day) for day in range(low, high + 1)], dtype=np.int64)
        begins = np.unique(found) * TICKS_PER_SECOND[self.precision] + self.offset
        begin, end = np.searchsorted(begins, (first, last))
        return begins[begin : end + 2]


def midnight(where: tzinfo, day: int) -> int:
    """The Unix second at which a local date begins; ``day`` is its number of days after 1970-01-01.

    Where clocks are put forward over midnight, the day begins at that moment.
    """
    return on_clock(where, day * SECONDS_PER_DAY)


@lru_cache(maxsize=65_536)
def on_clock(where: tzinfo, second: int) -> int:
    """The Unix second at which a local clock shows what UTC's shows at ``second``; of two, the earlier one.

    A time that is skipped when clocks are put forward counts as if they had not been put forward yet.
    """
    day, rest = divmod(second, SECONDS_PER_DAY)
    known = min(max(day, _FIRST), _LAST)
    begin = datetime.combine(date.fromordinal(known + EPOCH_DAY), datetime.min.time(), where)
    return from_local(begin + timedelta(seconds=rest)) + (day - known) * SECONDS_PER_DAY


def utc_offset(where: tzinfo, second: int) -> int:
    """Seconds that the local clock is ahead of UTC at a Unix second."""
    ahead = datetime.fromtimestamp(second, UTC).astimezone(where).utcoffset()
    return 0 if ahead is None else int(ahead.total_seconds())

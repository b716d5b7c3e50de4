"""The windows of an INTERVAL as numbered intervals: window ``i`` is ``[start(i), start(i) + interval)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from millrace_core.model.schema import Precision
from millrace_core.model.stream import Interval
from millrace_core.timeline import ticks

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Grid:
    """All lengths in ticks. Window 0 starts at ``offset``, each next one ``sliding`` later (seed 000)."""

    interval: int
    sliding: int
    offset: int = 0

    @staticmethod
    def of(trigger: Interval, precision: Precision) -> Grid:
        """:raises MillraceError: for a length that is no whole number of ticks, or of months or years."""
        offset = ticks(trigger.offset, precision) if trigger.offset else 0
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
        return (ts - self.offset) // self.sliding

    @overload
    def unclosed(self, ts: int) -> int: ...
    @overload
    def unclosed(self, ts: Ints) -> Ints: ...
    def unclosed(self, ts: int | Ints) -> int | Ints:
        """The first window that ends after ``ts``: at T = ``ts`` all before it are closed (T >= end)."""
        return (ts - self.offset - self.interval) // self.sliding + 1

    @overload
    def start(self, window: int) -> int: ...
    @overload
    def start(self, window: Ints) -> Ints: ...
    def start(self, window: int | Ints) -> int | Ints:
        """Where a window starts, in ticks."""
        return window * self.sliding + self.offset

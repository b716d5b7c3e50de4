"""The windows of INTERVAL: each number of a window says where it lies, and each time in which it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.model.schema import Precision
from millrace_core.model.stream import Duration
from millrace_core.trigger.types import Interval
from millrace_core.trigger.types.interval.grid import Grid

DAY = 86_400_000
grids = st.builds(
    Grid, st.integers(1, 30), st.integers(1, 30), st.integers(0, 5 * DAY), st.sampled_from([0, 1, 1000])
)


@given(grids, st.integers(-(10**14), 10**14))
def test_numbers_and_times_say_the_same(grid: Grid, ts: int) -> None:
    last, unclosed = grid.last(ts), grid.unclosed(ts)
    assert grid.start(last) <= ts < grid.start(last + 1)
    assert grid.end(unclosed - 1) <= ts < grid.end(unclosed)
    assert last - unclosed < grid.overlap
    many = np.array([ts, ts], dtype=np.int64)
    for name in ("last", "unclosed", "start", "end"):
        value = ts if name in ("last", "unclosed") else last
        found = getattr(grid, name)(many if name in ("last", "unclosed") else np.array([last, last]))
        assert found.tolist() == [getattr(grid, name)(value)] * 2


@pytest.mark.parametrize(("precision", "factor"), [("ms", 1), ("us", 1_000), ("ns", 1_000_000)])
def test_months_and_years_are_those_of_the_calendar(precision: Precision, factor: int) -> None:
    def at(*day: Any) -> int:
        return int(datetime(*day, tzinfo=UTC).timestamp()) * 1000 * factor

    month = Grid.of(Interval(Duration(1, "n"), Duration(1, "n")), precision)
    window = month.last(at(2024, 2, 29))
    assert (month.start(window), month.end(window)) == (at(2024, 2, 1), at(2024, 3, 1))
    year = Grid.of(Interval(Duration(1, "y"), Duration(6, "n"), Duration(1, "d")), precision)
    window = year.last(at(2024, 7, 1, 23))
    assert (year.start(window), year.end(window)) == (at(2024, 1, 2), at(2025, 1, 2))
    assert year.overlap == 2

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
from millrace_core.timeline import zone
from millrace_core.trigger.types import Interval
from millrace_core.trigger.types.interval.grid import IntervalGrid

DAY = 86_400_000
grids = st.builds(
    IntervalGrid,
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(0, 5 * DAY),
    st.sampled_from([0, 1, 1000]),
)


@given(grids, st.integers(-(10**14), 10**14))
def test_numbers_and_times_say_the_same(grid: IntervalGrid, ts: int) -> None:
    last, unclosed = grid.last(ts), grid.unclosed(ts)
    assert grid.start(last) <= ts < grid.start(last + 1)
    assert grid.end(unclosed - 1) <= ts < grid.end(unclosed)
    assert last - unclosed < grid.overlap
    many = np.array([ts, ts], dtype=np.int64)
    for name in ("last", "unclosed", "start", "end"):
        value = ts if name in ("last", "unclosed") else last
        found = getattr(grid, name)(many if name in ("last", "unclosed") else np.array([last, last]))
        assert found.tolist() == [getattr(grid, name)(value)] * 2


ZONES = ("Europe/Berlin", "America/New_York", "Asia/Shanghai", "Pacific/Apia", "Africa/Cairo", "+05:30")
LENGTHS = [
    ("1d", "1d"), ("3d", "1d"), ("1w", "1w"), ("2d", "4d"), ("1n", "1n"), ("3n", "1n"), ("1y", "1y"),
]  # fmt: skip


def length(text: str) -> Duration:
    return Duration(int(text[:-1]), text[-1])  # type: ignore[arg-type]


@pytest.mark.parametrize("where", ZONES)
@pytest.mark.parametrize(("interval", "sliding"), LENGTHS)
@given(ts=st.integers(0, 4 * 10**12), hours=st.sampled_from([0, 0, 2, 23]))
def test_days_and_months_are_those_of_a_clock(
    where: str, interval: str, sliding: str, ts: int, hours: int
) -> None:
    offset = Duration(hours, "h") if hours else None
    grid = IntervalGrid.of(Interval(length(interval), length(sliding), offset, where), "ms")
    last, unclosed = grid.last(ts), grid.unclosed(ts)
    assert grid.start(last) <= ts < grid.start(last + 1)
    assert grid.end(unclosed - 1) <= ts < grid.end(unclosed)
    clock = datetime.fromtimestamp(grid.start(last) / 1000, zone(where))
    if where in ("Europe/Berlin", "America/New_York") and hours == 2:
        assert clock.hour in (2, 3)  # where it is put forward at two
    elif where in ("Pacific/Apia", "Africa/Cairo"):
        assert clock.hour in (hours, hours + 1, 0)
    else:
        assert (clock.hour, clock.minute) == (hours, 0)
    if interval[-1] in "ny":
        assert clock.day == 1
    many = np.array([ts, ts, 0], dtype=np.int64)
    assert grid.last(many).tolist() == [last, last, grid.last(0)]
    assert grid.unclosed(many).tolist() == [unclosed, unclosed, grid.unclosed(0)]
    far = np.array([-(10**17), 10**17], dtype=np.int64)
    assert (grid.start(grid.last(far)) <= far).all() and (far < grid.end(grid.unclosed(far))).all()


def test_what_slides_by_less_than_a_day_counts_hours() -> None:
    """Where the clock is put forward two windows would begin at once."""
    assert IntervalGrid.of(
        Interval(Duration(1, "d"), Duration(6, "h"), None, "Europe/Berlin"), "ms"
    ) == IntervalGrid(DAY, DAY // 4)
    assert IntervalGrid.of(
        Interval(Duration(24, "h"), Duration(24, "h"), None, "Europe/Berlin"), "ms"
    ) == IntervalGrid(DAY, DAY)


@pytest.mark.parametrize(("precision", "factor"), [("ms", 1), ("us", 1_000), ("ns", 1_000_000)])
def test_months_and_years_are_those_of_the_calendar(precision: Precision, factor: int) -> None:
    def at(*day: Any) -> int:
        return int(datetime(*day, tzinfo=UTC).timestamp()) * 1000 * factor

    month = IntervalGrid.of(Interval(Duration(1, "n"), Duration(1, "n")), precision)
    window = month.last(at(2024, 2, 29))
    assert (month.start(window), month.end(window)) == (at(2024, 2, 1), at(2024, 3, 1))
    year = IntervalGrid.of(Interval(Duration(1, "y"), Duration(6, "n"), Duration(1, "d")), precision)
    window = year.last(at(2024, 7, 1, 23))
    assert (year.start(window), year.end(window)) == (at(2024, 1, 2), at(2025, 1, 2))
    assert year.overlap == 2

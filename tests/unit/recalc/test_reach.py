"""How far rows are read around a range of sessions: what lies exactly the gap away belongs to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from millrace_core.recalc.reach import settle
from millrace_core.trigger.types.reach import Rows, Stretch
from millrace_core.trigger.types.session.windower import SessionWindower

GAP = 5
REACH = SessionWindower(GAP).reach()


def stretch(times: Sequence[int], low: int, high: int, first: bool = False) -> Stretch:
    ts = np.array(times, dtype=np.int64)
    return Stretch(Rows(np.zeros_like(ts), ts), low, high, first)


@pytest.mark.parametrize(
    ("times", "low", "first", "certain"),
    [
        ([], 10, 20, True),
        ([15], 10, 17, True),  # a row of the same session would lie at 10 at the earliest, and was read
        ([15], 11, 17, False),
        ([12, 18], 11, 18, True),  # 6 apart: the session of 18 begins with it
        ([12, 17], 11, 17, False),  # 5 apart: it began before 12 perhaps
        ([12], 11, 18, True),
        ([12], 11, 17, False),  # a row that came or went at 17 would join what has 12
    ],
)
def test_where_sessions_begin(times: list[int], low: int, first: int, certain: bool) -> None:
    assert REACH.begins(stretch(times, low, 40), first) is certain


@pytest.mark.parametrize(
    ("times", "high", "last", "certain"),
    [
        ([], 20, 15, True),
        ([15], 20, 15, True),  # the next row would lie at 21 at the earliest
        ([15], 19, 15, False),
        ([15, 21], 22, 16, True),  # 6 apart
        ([15, 20], 22, 16, False),  # 5 apart: the session goes on beyond what was read
    ],
)
def test_where_sessions_end(times: list[int], high: int, last: int, certain: bool) -> None:
    assert REACH.ends(stretch(times, 0, high), last) is certain


def test_what_is_read_at_first_is_enough_for_a_range_that_has_no_neighbours() -> None:
    read: list[tuple[int, int]] = []

    def rows(low: int, high: int) -> Stretch:
        read.append((low, high))
        return stretch([ts for ts in (10, 20) if low <= ts <= high], low, high)

    found = settle(REACH, 10, 20, 100, rows)
    assert read == [(5, 26)]
    assert found.rows.ts.tolist() == [10, 20]


def test_neighbours_at_the_gap_are_read_and_theirs() -> None:
    times = [0, 5, 10, 15, 21, 26, 32]

    def rows(low: int, high: int) -> Stretch:
        return stretch([ts for ts in times if low <= ts <= high], low, high, low <= 0)

    found = settle(REACH, 11, 14, 100, rows)
    assert {0, 5, 10, 15} <= set(found.rows.ts.tolist()), "the session of the range is whole"

"""PAUSE and RESUME of the older dialect, down to the result table."""

from __future__ import annotations

from pathlib import Path

import pytest

from .older import Older

COUNTED = "SELECT _wstart AS ws, count(*) AS n, sum(v) AS total FROM meters"
GROUPED = "PARTITION BY CASE WHEN v >= 50 THEN 'high' ELSE 'low' END AS grp"
FOLLOWS = "IGNORE EXPIRED 0 IGNORE UPDATE 0"


@pytest.mark.parametrize("mode", ["AT_ONCE", "WINDOW_CLOSE"])
@pytest.mark.parametrize("by", ["tbname,", ""])
def test_a_row_that_is_rewritten_during_a_pause_leaves_its_group(tmp_path: Path, mode: str, by: str) -> None:
    grouped = GROUPED.replace("BY", f"BY {by}")
    one = Older(
        tmp_path, f"CREATE STREAM s TRIGGER {mode} {FOLLOWS} INTO o AS {COUNTED} {grouped} INTERVAL(10a)"
    )
    for ts in (1, 2, 15):
        one.put(ts, 10)
    one.put(16, 60)
    one.settle()
    one.pause()
    one.put(2, 70)
    one.settle()
    one.resume()
    one.put(31, 10)
    one.put(32, 60)
    one.settle()
    assert [row for row in one.rows("ws", "n", "total") if row[0] < 30] == [
        (0, 1, 10), (0, 1, 70), (10, 1, 10), (10, 1, 60),
    ]  # fmt: skip


@pytest.mark.parametrize("source", ["", "PARTITION BY tbname"])
def test_a_row_that_is_rewritten_during_a_pause_so_that_where_leaves_it_out_goes(
    tmp_path: Path, source: str
) -> None:
    one = Older(tmp_path, f"CREATE STREAM s {FOLLOWS} INTO o AS {COUNTED} WHERE v > 0 {source} INTERVAL(10a)")
    for ts in (1, 2, 15):
        one.put(ts, 10)
    one.settle()
    one.pause()
    one.put(2, 0)
    one.put(15, 0)
    one.settle()
    one.resume()
    one.settle()
    assert one.rows("ws", "n", "total") == [(0, 1, 10)]
    one.put(25, 7)
    one.settle()
    assert one.rows("ws", "n", "total") == [(0, 1, 10)], "the window lost its only row"


@pytest.mark.parametrize("paused", [True, False])
@pytest.mark.parametrize("by", ["", GROUPED])
def test_rows_that_expire_stay_out_of_windows_of_other_groups(tmp_path: Path, paused: bool, by: str) -> None:
    """IGNORE EXPIRED 1: a late row of another group, or of none, is no reason to count what came too late."""
    one = Older(
        tmp_path, f"CREATE STREAM s IGNORE UPDATE 0 INTO o AS {COUNTED} WHERE v > 0 {by} INTERVAL(10a)"
    )
    one.put(1, 10)
    one.put(15, 10)
    one.settle()
    one.put(3, 10)
    one.settle()
    if paused:
        one.pause()
    one.put(3, 60 if by else 0)
    one.put(4, 60 if by else 0)
    one.settle()
    if paused:
        one.resume()
    one.settle()
    assert [row for row in one.rows("ws", "n", "total") if row[2] < 60] == [(0, 1, 10)]


def test_a_late_row_of_a_pause_that_expires_changes_nothing(tmp_path: Path) -> None:
    """IGNORE EXPIRED 1: a window that is closed is not cut again for a row that only came late."""
    one = Older(tmp_path, f"CREATE STREAM s IGNORE UPDATE 0 INTO o AS {COUNTED} WHERE v > 0 INTERVAL(10a)")
    for ts in (1, 15):
        one.put(ts, 10)
    one.settle()
    one.pause()
    one.put(3, 5)
    one.settle()
    one.resume()
    one.put(25, 1)
    one.settle()
    assert one.rows("ws", "n", "total") == [(0, 1, 10), (10, 1, 10)]
    assert one.cluster.totals()["expired"] >= 1


def test_rows_of_a_pause_that_are_left_out_take_none_out_of_its_group(tmp_path: Path) -> None:
    one = Older(
        tmp_path, f"CREATE STREAM s TRIGGER AT_ONCE {FOLLOWS} INTO o AS {COUNTED} {GROUPED} INTERVAL(10a)"
    )
    one.put(1, 10)
    one.put(2, 10)
    one.settle()
    one.pause()
    one.put(5, 70)
    one.resume(untreated=False)
    one.put(6, 10)
    one.settle()
    assert one.rows("ws", "n", "total") == [(0, 3, 30)]

"""A DELETE, which always recomputes (SEMANTICS-FRONTENDS, S2): windows of so many rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from .older import Older

COUNTED = (
    "CREATE STREAM s TRIGGER {} IGNORE EXPIRED 1 IGNORE UPDATE 0 WATERMARK {}a INTO o AS "
    "SELECT _wstart AS ws, count(*) AS n, sum(v) AS total FROM meters {} PARTITION BY tbname COUNT_WINDOW(3)"
)


def counting(folder: Path, mode: str, watermark: int, where: str = "") -> Older:
    one = Older(folder, COUNTED.format(mode, watermark, where))
    for ts, v in ((13, 1), (14, 2), (19, 3), (23, 1), (24, 2), (29, 3)):
        one.put(ts, v)
        one.settle()
    return one


FOLLOWS = (
    "CREATE STREAM s TRIGGER WINDOW_CLOSE IGNORE EXPIRED 0 IGNORE UPDATE 0 INTO o AS "
    "SELECT _wstart AS ws, count(*) AS n FROM meters PARTITION BY tbname {}"
)


@pytest.mark.parametrize("window", [
    "EVENT_WINDOW START WITH v >= 70 END WITH v < 30", "STATE_WINDOW(s)",
])  # fmt: skip
@pytest.mark.parametrize("rewritten", [True, False])
def test_a_closed_window_that_is_open_again_has_no_result_until_it_closes(
    tmp_path: Path, window: str, rewritten: bool
) -> None:
    """What closed it is deleted, or written again so that it does not (SEMANTICS, The older dialect)."""
    one = Older(tmp_path, FOLLOWS.format(window))
    for ts, v, s in ((1, 80, 1), (2, 10, 1), (30, 80, 2), (31, 10, 2), (51, 75, 3)):
        one.put(ts, v, s)
        one.settle()
    assert one.rows("ws", "n") == [(1, 2), (30, 2)]
    last = 31 if window.startswith("EVENT") else 51
    if rewritten:
        one.put(last, 50, 2)
    else:
        one.remove(last, last)
    one.settle()
    assert one.rows("ws", "n") == [(1, 2)]
    one.put(60, 10, 5)
    one.settle()
    assert one.rows("ws", "n")[1][0] == 30


def test_rows_that_wait_are_deleted_from_windows_that_are_shown(tmp_path: Path) -> None:
    one = counting(tmp_path, "AT_ONCE", 100)
    assert one.rows("ws", "n", "total") == [(13, 3, 6), (23, 3, 6)]
    one.put(13, 4)
    one.settle()
    assert one.rows("ws", "n", "total") == [(13, 3, 9), (23, 3, 6)]
    one.remove(24, 24)
    one.settle()
    assert one.rows("ws", "n", "total") == [(13, 3, 9), (23, 2, 4)]


@pytest.mark.parametrize("mode", ["AT_ONCE", "WINDOW_CLOSE"])
def test_the_rows_behind_a_deleted_one_are_counted_again(tmp_path: Path, mode: str) -> None:
    one = counting(tmp_path, mode, 1)
    one.put(40, 9)
    one.settle()
    one.remove(14, 14)
    one.settle()
    assert one.rows("ws", "n", "total")[:1] == [(13, 3, 5)]
    one.put(41, 5)
    one.settle()
    one.put(50, 5)
    one.settle()
    closed = [(13, 3, 5), (24, 3, 14)]
    assert one.rows("ws", "n", "total")[:2] == closed
    one.remove(24, 60)
    one.settle()
    assert one.rows("ws", "n", "total") == closed[:1], "the window that begins with them is there no more"
    one.remove(0, 60)
    one.settle()
    assert one.rows("ws", "n", "total") == []


def test_a_row_that_waits_and_is_written_again_so_that_where_leaves_it_out_is_not_counted(
    tmp_path: Path,
) -> None:
    one = counting(tmp_path, "AT_ONCE", 100, "WHERE v > 0")
    one.put(14, 0)
    one.settle()
    assert one.rows("ws", "n", "total") == [(13, 3, 5), (24, 2, 5)]

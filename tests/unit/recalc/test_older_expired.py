"""IGNORE EXPIRED 1 with IGNORE UPDATE 0: a row that is written again corrects a closed window, a late one
does not (SEMANTICS-FRONTENDS, S2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from .older import Older

MODES = ("AT_ONCE", "WINDOW_CLOSE", "MAX_DELAY 5s", "CONTINUOUS_WINDOW_CLOSE RECALCULATE 2s")
GROUPED = "PARTITION BY CASE WHEN v >= 50 THEN 'high' ELSE 'low' END AS grp"


def query(rest: str, mode: str = "WINDOW_CLOSE", options: str = "IGNORE EXPIRED 1 IGNORE UPDATE 0") -> str:
    select = "SELECT _wstart AS ws, count(*) AS n, sum(v) AS total FROM meters"
    return f"CREATE STREAM s TRIGGER {mode} {options} INTO o AS {select} {rest}"


def closed(one: Older, *names: str) -> list[tuple[object, ...]]:
    one.settle()
    one.later(6)
    return [row for row in one.rows(*names) if row[0] < 100]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("window", ["INTERVAL(10a)", "SESSION(ts, 5a)"])
def test_a_rewritten_row_corrects_its_closed_window(tmp_path: Path, mode: str, window: str) -> None:
    if mode.startswith("CONTINUOUS") and window != "INTERVAL(10a)":
        pytest.skip("CONTINUOUS_WINDOW_CLOSE has INTERVAL alone")
    one = Older(tmp_path, query(f"PARTITION BY tbname {window}", mode))
    for ts in (1, 2, 40, 200):
        one.put(ts, 10)
        one.settle()
    start = 0 if window == "INTERVAL(10a)" else 1
    assert closed(one, "ws", "n", "total") == [(start, 2, 20), (40, 1, 10)]
    one.put(41, 5)
    assert closed(one, "ws", "n", "total") == [(start, 2, 20), (40, 1, 10)], "it came too late"
    one.put(2, 30)
    assert closed(one, "ws", "n", "total") == [(start, 2, 40), (40, 1, 10)]
    one.put(40, 7)
    # the table is read, what came too late with it
    assert closed(one, "ws", "n", "total") == [(start, 2, 40), (40, 2, 12)]


def test_a_rewritten_row_splits_and_joins_closed_state_windows(tmp_path: Path) -> None:
    one = Older(tmp_path, query("PARTITION BY tbname STATE_WINDOW(s)"))
    for ts, s in ((1, 1), (2, 1), (3, 1), (4, 2), (200, 3)):
        one.put(ts, 10, s)
        one.settle()
    assert closed(one, "ws", "n") == [(1, 3), (4, 1)]
    one.put(2, 10, 2)
    assert closed(one, "ws", "n") == [(1, 1), (2, 1), (3, 1), (4, 1)]
    one.put(3, 10, 2)
    assert closed(one, "ws", "n") == [(1, 1), (2, 3)]


def test_a_rewritten_row_corrects_closed_event_windows(tmp_path: Path) -> None:
    one = Older(tmp_path, query("PARTITION BY tbname EVENT_WINDOW START WITH v >= 70 END WITH v < 30"))
    for ts, v in ((1, 70), (2, 50), (3, 10), (5, 80), (6, 10), (50, 50)):
        one.put(ts, v)
        one.settle()
    assert closed(one, "ws", "n") == [(1, 3), (5, 2)]
    one.put(2, 20)
    assert closed(one, "ws", "n") == [(1, 2), (5, 2)]
    one.put(6, 50)
    assert closed(one, "ws", "n") == [(1, 2)], "it is open again"
    one.put(60, 10)
    assert closed(one, "ws", "n") == [(1, 2), (5, 4)]


def test_with_sliding_a_row_corrects_the_windows_that_have_closed_as_well(tmp_path: Path) -> None:
    one = Older(tmp_path, query("INTERVAL(20a) SLIDING(10a)", "AT_ONCE"))
    for ts in (12, 21):
        one.put(ts, 10)
        one.settle()
    assert closed(one, "ws", "n", "total") == [(0, 1, 10), (10, 2, 20), (20, 1, 10)]
    one.put(12, 30)
    assert closed(one, "ws", "n", "total") == [(0, 1, 30), (10, 2, 40), (20, 1, 10)]
    one.put(13, 5)
    assert closed(one, "ws", "n", "total") == [(0, 1, 30), (10, 3, 45), (20, 1, 10)]


@pytest.mark.parametrize("paused", [True, False])
@pytest.mark.parametrize(("rest", "value"), [("WHERE v > 0", 0), (GROUPED, 60), ("PARTITION BY tbname", 60)])
def test_a_row_leaves_its_group_and_its_closed_window(
    tmp_path: Path, paused: bool, rest: str, value: int
) -> None:
    one = Older(tmp_path, query(f"{rest} INTERVAL(10a)"))
    for ts in (1, 2, 40):
        one.put(ts, 10)
        one.settle()
    if paused:
        one.pause()
    one.put(2, value)
    one.settle()
    if paused:
        one.resume()
    mine = {0: (0, 1, 10), 60: (0, 2, 70)}[value if "tbname" in rest or not value else 0]
    one.settle()
    assert mine in one.rows("ws", "n", "total")


def test_a_rewritten_row_of_ignore_update_1_does_not(tmp_path: Path) -> None:
    one = Older(tmp_path, query("INTERVAL(10a)", options="IGNORE EXPIRED 1 IGNORE UPDATE 1"))
    for ts in (1, 2, 40):
        one.put(ts, 10)
        one.settle()
    one.put(2, 30)
    assert closed(one, "ws", "n", "total") == [(0, 2, 20)]


def test_a_row_that_was_deleted_and_comes_again_is_late(tmp_path: Path) -> None:
    one = Older(tmp_path, query("INTERVAL(10a)"))
    for ts in (1, 2, 40):
        one.put(ts, 10)
        one.settle()
    one.put(2, 20)
    one.settle()
    one.remove(2, 2)
    one.settle()
    assert closed(one, "ws", "n", "total") == [(0, 1, 10)]
    one.put(2, 5)
    assert closed(one, "ws", "n", "total") == [(0, 1, 10)]

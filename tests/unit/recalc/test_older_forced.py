"""TRIGGER FORCE_WINDOW_CLOSE: what came too late for a window counts nowhere (SEMANTICS-FRONTENDS, S2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from .older import Older


def forced(folder: Path, fill: str) -> Older:
    select = "SELECT _wstart AS ws, _wend AS we, count(*) AS n, sum(v) AS total, max(s) AS top FROM meters"
    one = Older(
        folder,
        f"CREATE STREAM s TRIGGER FORCE_WINDOW_CLOSE INTO o AS {select} PARTITION BY tbname INTERVAL(10a) "
        f"FILL({fill})",
    )
    one.cluster.now = 95
    return one


def at(one: Older, now: int) -> None:
    one.cluster.tick(now)
    one.settle()


@pytest.mark.parametrize("together", [True, False])
def test_prev_gives_what_the_window_before_has_in_the_result_table(tmp_path: Path, together: bool) -> None:
    one = forced(tmp_path, "PREV")
    one.put(101, 2, 7)
    one.settle()
    at(one, 110)
    one.put(102, 50)  # too late: its window was closed at 110
    one.settle()
    if not together:
        at(one, 120)
    at(one, 130)
    assert one.rows("ws", "we", "n", "total", "top") == [
        (100, 110, 1, 2, 7), (110, 120, 1, 2, 7), (120, 130, 1, 2, 7),
    ]  # fmt: skip
    one.put(131, None, 8)
    one.settle()
    at(one, 150)
    assert one.rows("ws", "we", "n", "total", "top")[3:] == [(130, 140, 1, 2, 8), (140, 150, 1, 2, 8)]


def test_a_window_that_gives_null_has_the_value_of_fill(tmp_path: Path) -> None:
    one = forced(tmp_path, "VALUE, -1, -2, -3")
    one.put(101, None, 7)
    one.settle()
    at(one, 120)
    assert one.rows("ws", "n", "total", "top") == [(100, 1, -2, 7), (110, -1, -2, -3)]

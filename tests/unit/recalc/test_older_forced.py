"""TRIGGER FORCE_WINDOW_CLOSE: what came too late for a window counts nowhere (SEMANTICS-FRONTENDS, S2)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ...conftest import examples
from .older import CHILDREN, Older


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


def counting(folder: Path, fill: str = "") -> Older:
    one = Older(
        folder,
        "CREATE STREAM s TRIGGER FORCE_WINDOW_CLOSE INTO o AS SELECT _wstart AS ws, count(*) AS n, "
        f"sum(v) AS total FROM meters PARTITION BY tbname INTERVAL(10a) {fill}",
    )
    one.cluster.now = 95
    return one


@pytest.mark.parametrize("together", [True, False])
def test_what_comes_before_a_window_is_calculated_may_be_too_late_for_it(
    tmp_path: Path, together: bool
) -> None:
    """What was stored when the clock closed it counts, and rows later than that never do."""
    one = counting(tmp_path)
    one.put(101, 2)
    if not together:
        one.settle()
    one.cluster.now = 111
    one.put(102, 50)
    one.put(101, 100)
    if not together:
        one.settle()
    at(one, 112)
    assert one.rows("ws", "n", "total") == [(100, 1, 2)]


def test_a_window_that_has_late_rows_alone_is_filled(tmp_path: Path) -> None:
    one = counting(tmp_path, "FILL(VALUE, -1, -2)")
    one.put(101, 2)
    one.cluster.now = 121
    one.put(119, 50)  # its window was closed at 120
    at(one, 130)
    assert one.rows("ws", "n", "total") == [(100, 1, 2), (110, -1, -2), (120, -1, -2)]


step = st.tuples(
    st.sampled_from(CHILDREN), st.integers(-25, 25), st.sampled_from([1, 10, 100]), st.integers(0, 7),
    st.sampled_from(["", "run", "tick", "tick"]),
)  # fmt: skip


@pytest.mark.parametrize("fill", ["", "FILL(VALUE, -1, -2)"])
@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))
@given(steps=st.lists(step, min_size=1, max_size=18))
def test_each_window_has_what_was_written_by_its_end(fill: str, steps: list[Any]) -> None:
    """A row's table, its time after (or before) the clock's, its value, how long until it comes, and what
    happens then. A row that is written again counts once more."""
    rows: dict[tuple[str, int], list[int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        one = counting(Path(folder), fill)
        for child, ahead, v, pause, then in steps:
            one.cluster.now += pause
            ts = one.cluster.now + ahead
            one.put(ts, v, child=child)
            if ts // 10 * 10 + 10 > one.cluster.now:  # which writing it has moved on
                rows.setdefault((child, ts // 10 * 10), []).append(v)
            if then == "run":
                one.settle()
            elif then:
                at(one, one.cluster.now)
        end = one.cluster.now + 60
        at(one, end)
        expected = [(start, len(values), sum(values)) for (_, start), values in rows.items()]
        for child in CHILDREN if fill else ():
            begun = min((start for name, start in rows if name == child), default=end)
            without = [start for start in range(begun, end - 9, 10) if (child, start) not in rows]
            expected += [(start, -1, -2) for start in without]
        assert one.rows("ws", "n", "total") == sorted(expected)

"""FILL of the older dialect, against the query with FILL over the rows as they are in the end: between the
first and the last window with rows of a group each window has what the mode says, and so has one whose rows
give NULL (SEMANTICS, Output and SQL; SEMANTICS-FRONTENDS, S2)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ...conftest import examples
from .older import CHILDREN, Older

MODES = ("AT_ONCE", "WINDOW_CLOSE", "MAX_DELAY 5s", "CONTINUOUS_WINDOW_CLOSE RECALCULATE 2s")
FILLS = {"PREV": "PREV", "NEXT": "NEXT", "LINEAR": "LINEAR", "NULL": "NULL", "VALUE": "VALUE, -1, -2, -3"}
FOLLOWS = "IGNORE EXPIRED 0 IGNORE UPDATE 0"
Cells = list[Any]


def stream(mode: str, fill: str, by: str = "", window: str = "INTERVAL(10a)") -> str:
    select = "SELECT _wstart AS ws, count(*) AS n, sum(v) AS total, max(s) AS top FROM meters"
    return f"CREATE STREAM s TRIGGER {mode} {FOLLOWS} INTO o AS {select} {by} {window} FILL({fill})"


def _linear(cells: Cells, at: int) -> Any:
    before = next((i for i in range(at - 1, -1, -1) if cells[i] is not None), None)
    after = next((i for i in range(at + 1, len(cells)) if cells[i] is not None), None)
    if before is None or after is None:
        return None
    return int(cells[before] + (cells[after] - cells[before]) * (at - before) / (after - before))


FILLED: dict[str, Callable[[Cells, int, int], Any]] = {
    "PREV": lambda cells, at, i: next((c for c in reversed(cells[:at]) if c is not None), None),
    "NEXT": lambda cells, at, i: next((c for c in cells[at:] if c is not None), None),
    "LINEAR": lambda cells, at, i: _linear(cells, at),
    "NULL": lambda cells, at, i: None,
    "VALUE": lambda cells, at, i: (-1, -2, -3)[i],
}


def batch(rows: dict[int, tuple[int | None, int | None]], fill: str) -> list[tuple[Any, ...]]:
    """What the query gives for one group."""
    if not rows:
        return []
    starts = range(min(rows) // 10 * 10, max(rows) // 10 * 10 + 1, 10)
    windows = [[cells for ts, cells in rows.items() if ts // 10 * 10 == start] for start in starts]
    columns: list[Cells] = [
        [len(found) or None for found in windows],
        [sum(given) if (given := [v for v, _ in found if v is not None]) else None for found in windows],
        [max(given) if (given := [s for _, s in found if s is not None]) else None for found in windows],
    ]
    filled = [
        [FILLED[fill](cells, at, i) if cell is None else cell for at, cell in enumerate(cells)]
        for i, cells in enumerate(columns)
    ]
    return list(zip(starts, *filled, strict=True))


@pytest.mark.parametrize("fill", FILLS)
def test_values_are_taken_from_far_away_past_windows_that_give_null(tmp_path: Path, fill: str) -> None:
    one = Older(tmp_path, stream("AT_ONCE", FILLS[fill]))
    rows: dict[int, tuple[int | None, int | None]] = {}
    for ts, v, s in (
        (1, 10, 3), (11, None, 1), (51, None, None), (91, 50, 2), (95, None, 5), (141, None, None),
        (161, 5, None),
    ):  # fmt: skip
        one.put(ts, v, s)
        one.settle()
        rows[ts] = v, s
        assert one.rows("ws", "n", "total", "top") == batch(rows, fill), ts
    one.remove(1, 1)
    one.settle()
    del rows[1]
    assert one.rows("ws", "n", "total", "top") == batch(rows, fill)
    one.put(91, None, None)
    one.settle()
    rows[91] = None, None
    assert one.rows("ws", "n", "total", "top") == batch(rows, fill)


step = st.tuples(
    st.sampled_from(["put"] * 6 + ["delete"]), st.sampled_from(CHILDREN), st.integers(-70, 40),
    st.sampled_from([None, None, 0, 10, 75]), st.sampled_from([None, 1, 7]), st.integers(0, 30),
    st.booleans(),
)  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fill", FILLS)
@settings(max_examples=examples(4, cases=True), suppress_health_check=list(HealthCheck))
@given(by=st.sampled_from(["", "PARTITION BY tbname"]), steps=st.lists(step, min_size=1, max_size=10))
def test_what_is_filled_is_what_the_query_fills(mode: str, fill: str, by: str, steps: list[Any]) -> None:
    table: dict[str, dict[int, tuple[int | None, int | None]]] = {name: {} for name in CHILDREN}
    with tempfile.TemporaryDirectory() as folder:
        one = Older(Path(folder), stream(mode, FILLS[fill], by))
        for what, child, forward, v, s, length, cut in steps:
            child, ts = child if by else "c1", max(0, one.newest + forward)
            if what == "put":
                one.put(ts, v, s, child)
                table[child][ts] = v, s
            else:
                one.remove(ts, ts + length, child)
                table[child] = {t: cells for t, cells in table[child].items() if not ts <= t <= ts + length}
            if cut:
                one.settle()
        end = one.newest + 300
        for child in CHILDREN if by else CHILDREN[:1]:
            one.put(end, 1, 1, child)
            one.put(end + 10, 1, 1, child)
            table[child] |= {end: (1, 1), end + 10: (1, 1)}
        one.settle()
        for _ in range(2):
            one.later(6)
        expected = [row for rows in table.values() for row in batch(rows, fill) if rows]
        closed = end // 10 * 10
        found = [row for row in one.rows("ws", "n", "total", "top") if row[0] <= closed]
        assert sorted(found, key=str) == sorted((row for row in expected if row[0] <= closed), key=str)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_days_are_filled_where_the_windows_of_the_stream_lie(tmp_path: Path, zone: str) -> None:
    """Days are those of the session's clock, which is put forward on 2026-03-29 in Berlin."""
    day = 86_400_000
    begin = 20_539 * day  # 2026-03-27
    one = Older(tmp_path, stream("AT_ONCE", "PREV", window="INTERVAL(1d)"), zone)
    one.put(begin + 5, 1)
    one.put(begin + 4 * day + 5, 3)
    one.settle()
    midnights = [datetime(2026, 3, 27 + place, tzinfo=ZoneInfo(zone)) for place in range(5)]
    assert [row[0] for row in one.rows("ws")] == [int(one.timestamp() * 1000) for one in midnights]


@pytest.mark.parametrize("when", ["AT_ONCE", "WINDOW_CLOSE"])
def test_days_and_months_are_those_of_the_session_s_clock(tmp_path: Path, when: str) -> None:
    """They are the windows of the query itself (seed 002)."""
    zone = ZoneInfo("America/New_York")
    for window, starts in (
        ("INTERVAL(1d)", [(2026, 3, 7), (2026, 3, 8), (2026, 3, 9)]),  # the second has 23 hours
        ("INTERVAL(1n)", [(2026, 2, 1), (2026, 3, 1), (2026, 4, 1)]),
    ):
        select = f"SELECT _wstart AS ws, count(*) AS n FROM meters {window}"
        folder = tmp_path / window
        one = Older(folder, f"CREATE STREAM s TRIGGER {when} INTO o AS {select}", zone.key)
        begins = [int(datetime(*start, tzinfo=zone).timestamp()) * 1000 for start in starts]
        for begin in begins:
            one.put(begin)
            one.put(begin - 1)
        one.settle()
        shown = begins if when == "AT_ONCE" else begins[:-1]
        assert one.rows("ws", "n")[1:] == [(begin, 1 if begin == begins[-1] else 2) for begin in shown]


def test_an_offset_moves_hours_to_where_another_clock_has_them(tmp_path: Path) -> None:
    """What is counted in hours, or slides by them, begins in UTC, whatever the session's time zone."""
    hour = 3_600_000
    begin = 20_000 * 24 * hour
    select = "SELECT _wstart AS ws, count(*) AS n FROM meters INTERVAL(24h, 16h)"
    one = Older(tmp_path, f"CREATE STREAM s TRIGGER AT_ONCE INTO o AS {select}", "Asia/Shanghai")
    for hours in (15, 16, 39, 40):
        one.put(begin + hours * hour)
    one.settle()
    assert one.rows("ws", "n") == [(begin + at * hour, n) for at, n in ((-8, 1), (16, 2), (40, 1))]

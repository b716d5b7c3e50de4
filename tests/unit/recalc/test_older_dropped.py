"""IGNORE EXPIRED 1 from the statement to the result table, against the rule by itself: a late row counts in
the windows that are open when it comes, and in no other (SEMANTICS-FRONTENDS, S2). After any order of rows,
rewritten rows and deletes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ...conftest import examples
from .older import CHILDREN, Older

MODES = ("AT_ONCE", "WINDOW_CLOSE", "MAX_DELAY 5s", "CONTINUOUS_WINDOW_CLOSE RECALCULATE 2s")
FAR = 1 << 40


class Window(NamedTuple):
    length: int
    slide: int

    @property
    def sql(self) -> str:
        return f"INTERVAL({self.length}a) SLIDING({self.slide}a)"

    def starts(self, ts: int) -> list[int]:
        return list(range(ts - ts % self.slide, ts - self.length, -self.slide))


class Group:
    """What the windows of one table have; ``doubles``: a row written again counts once more; ``put_off``:
    windows are read again in the end."""

    def __init__(self, window: Window, watermark: int, doubles: bool, put_off: bool) -> None:
        self.window, self.watermark, self.doubles, self.put_off = window, watermark, doubles, put_off
        self.dirty: set[int] = set()
        self.table: dict[int, int | None] = {}
        self.newest = -FAR
        self.windows: dict[int, list[tuple[int, int | None]]] = {}

    def put(self, ts: int, v: int | None) -> None:
        known, until = ts in self.table, self.newest - self.watermark
        self.table[ts] = v
        self.newest = max(self.newest, ts)
        for start in self.window.starts(ts):
            if start + self.window.length > until:
                rows = self.windows.get(start, [])
                kept = rows if self.doubles else [row for row in rows if row[0] != ts]
                self.windows[start] = [*kept, (ts, v)]
            elif known and not self.doubles:
                self.read_again(start)

    def remove(self, first: int, last: int) -> None:
        self.table = {ts: v for ts, v in self.table.items() if not first <= ts <= last}
        begin = first - self.window.length
        for start in range(begin - begin % self.window.slide, last + 1, self.window.slide):
            if start + self.window.length > first:
                self.read_again(start)

    def read_again(self, start: int) -> None:
        self.dirty.add(start)
        if not self.put_off:
            self.read()

    def read(self) -> None:
        """Windows that have changed are read from the table."""
        for start in self.dirty:
            end = start + self.window.length
            rows = [(ts, v) for ts, v in sorted(self.table.items()) if start <= ts < end]
            self.windows[start] = rows
        self.dirty.clear()

    def results(self) -> list[tuple[int, int, int | None]]:
        self.read()
        return [
            (start, len(rows), sum(given) if (given := [v for _, v in rows if v is not None]) else None)
            for start, rows in sorted(self.windows.items())
            if rows
        ]


step = st.tuples(
    st.sampled_from(["put"] * 8 + ["delete"]), st.sampled_from(CHILDREN), st.integers(-25, 9),
    st.sampled_from([None, 1, 10, 100]), st.integers(0, 12), st.booleans(),
)  # fmt: skip


def driven(folder: Path, mode: str, window: Window, watermark: int, update: int, steps: list[Any]) -> None:
    one = Older(
        folder,
        f"CREATE STREAM s TRIGGER {mode} WATERMARK {watermark}a IGNORE EXPIRED 1 IGNORE UPDATE {update} "
        "INTO o AS SELECT _wstart AS ws, count(*) AS n, sum(v) AS total FROM meters "
        f"PARTITION BY tbname {window.sql}",
    )
    put_off = mode.startswith("CONTINUOUS")
    groups = {child: Group(window, watermark, bool(update), put_off) for child in CHILDREN}
    for what, child, forward, v, length, cut in steps:
        ts = max(0, one.newest + forward)
        if what == "put":
            one.put(ts, v, None, child)
            groups[child].put(ts, v)
        # put off, it matters whether a window has closed before it is read again; one that has lost a row
        # while it was open is read again in the end, with those that have rows in common with it
        elif not put_off and window.slide == window.length:
            one.remove(ts, ts + length, child)
            groups[child].remove(ts, ts + length)
        if cut or not update:  # what is read again has what has come by then
            one.settle()
    end = one.newest + 100
    for child in CHILDREN:
        one.put(end, 1, None, child)
    one.settle()
    one.later(6)
    one.later(6)
    expected = [row for group in groups.values() for row in group.results()]
    found = [row for row in one.rows("ws", "n", "total") if row[0] <= end - 50]
    assert found == sorted(expected, key=lambda row: [(cell is None, cell or 0) for cell in row])


def test_the_first_row_of_a_group_may_be_late(tmp_path: Path) -> None:
    """The one before it waits for T, which has closed its window by then, though nothing was in it."""
    steps = [("put", "c1", ts, v, 0, True) for ts, v in ((16, 1), (-8, 2), (-4, 3))]
    driven(tmp_path, "WINDOW_CLOSE", Window(10, 10), 6, 0, steps)


@pytest.mark.parametrize("mode", MODES)
def test_a_late_row_may_come_before_its_window_is_calculated(tmp_path: Path, mode: str) -> None:
    """It is in one batch with the row that has closed the window, and so is another version of a row."""
    rows = (("c1", 1, 1), ("c1", 10, 2), ("c1", -6, 4), ("c1", -10, 8), ("c2", 3, 1))
    driven(tmp_path, mode, Window(10, 10), 0, 1, [("put", *row, 0, False) for row in rows])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("window", [Window(10, 10), Window(20, 10)], ids=["interval", "overlapping"])
@settings(max_examples=examples(6, cases=True), suppress_health_check=list(HealthCheck))
@given(steps=st.lists(step, min_size=1, max_size=18), watermark=st.sampled_from([0, 0, 6]))
def test_a_late_row_counts_in_open_windows_alone(
    mode: str, window: Window, steps: list[Any], watermark: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        driven(Path(folder), mode, window, watermark, 0, steps)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("window", [Window(10, 10), Window(20, 10)], ids=["interval", "overlapping"])
@settings(max_examples=examples(6, cases=True), suppress_health_check=list(HealthCheck))
@given(steps=st.lists(step.filter(lambda one: one[0] == "put"), min_size=1, max_size=18),
       watermark=st.sampled_from([0, 0, 6]))  # fmt: skip
def test_and_one_written_again_counts_once_more(
    mode: str, window: Window, steps: list[Any], watermark: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        driven(Path(folder), mode, window, watermark, 1, steps)

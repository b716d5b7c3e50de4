"""What the crash rounds expect: by hand, and as the core cuts the same rows."""

from __future__ import annotations

import random

import numpy as np
import pytest
from bench.recalc_crash_rows import (
    COUNT,
    GAP,
    LENGTH,
    Windows,
    counts,
    differences,
    intervals,
    joined,
    load,
    sessions,
)
from bench.workload import BASE

from millrace_core.recalc.cut import Cutter, in_order
from millrace_core.trigger.types.count.windower import CountWindower
from millrace_core.trigger.types.interval.grid import IntervalGrid
from millrace_core.trigger.types.interval.windower import IntervalWindower
from millrace_core.trigger.types.occurrences import CLOSE
from millrace_core.trigger.types.reach import Rows
from millrace_core.trigger.types.session.windower import SessionWindower
from millrace_core.trigger.types.windower import Windower

HAND = {"a": [(BASE + seconds * 1000, seconds) for seconds in (0, 6, 13, 14, 30)]}


def test_windows_by_hand() -> None:
    assert sessions(HAND) == {("a", BASE): (BASE + 6000, 2, 6), ("a", BASE + 13_000): (BASE + 14_000, 2, 27)}
    assert intervals(HAND) == {
        ("a", BASE): (BASE + 10_000, 2, 6),
        ("a", BASE + 10_000): (BASE + 20_000, 2, 27),
    }
    assert counts({"a": HAND["a"] * 2})[("a", BASE)] == (BASE + 14_000, COUNT, 0 + 0 + 6 + 6 + 13 + 13 + 14)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_rows_make_the_windows_that_the_core_cuts(seed: int) -> None:
    rows = load(random.Random(seed), 2, 200)
    whole = joined(rows.past, rows.future)
    again = joined(rows.old, rows.live, rows.late, rows.closing)
    assert {name: len(dict(found)) for name, found in whole.items()} == {"p0": 226, "p1": 226}
    assert ends(sessions(whole)) == cut(SessionWindower(GAP), whole)
    assert ends(counts(whole)) == cut(CountWindower(COUNT, COUNT), whole)
    assert ends(intervals(again)) == cut(IntervalWindower(IntervalGrid(LENGTH, LENGTH)), again)


def ends(windows: Windows) -> dict[tuple[str, int], tuple[int, int]]:
    return {window: (end, rows) for window, (end, rows, _) in windows.items()}


def cut(
    windower: Windower, tables: dict[str, list[tuple[int, int]]]
) -> dict[tuple[str, int], tuple[int, int]]:
    found = {}
    for name, rows in tables.items():
        ts = np.array(sorted(dict(rows)), dtype=np.int64)
        columns = {signal.name: np.ones(len(ts), dtype=bool) for signal in windower.signals}
        cutter = Cutter(windower, 1)
        told = in_order([cutter.feed(Rows(np.zeros(len(ts), dtype=np.int64), ts, columns))])
        for kind, *window in zip(
            *(a.tolist() for a in (told.kind, told.start, told.end, told.rownum)), strict=True
        ):
            if kind == CLOSE:
                found[name, window[0]] = (window[1], window[2])
    return found


def test_every_difference_is_named() -> None:
    expected = {("a", BASE): (BASE + 5, 2, 3), ("a", BASE + 10): (BASE + 12, 1, 1)}
    found = [("a", BASE, BASE + 5, 2, 4), ("a", BASE, BASE + 5, 2, 3), ("b", BASE, 0, 0, 0)]
    assert differences(expected, found) == [
        f"a 0: ({BASE + 5}, 2, 4) instead of ({BASE + 5}, 2, 3)", "a 0: appears twice",
        "b 0: not in the data: (0, 0, 0)", "a 10: missing",
    ]  # fmt: skip

"""Windows that are shown before they close: after each thing that came they are those of the rows as they are
then, also where the rows have not been evaluated yet, and where they leave their group or WHERE."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ...chaos.streams import By, Stream
from ...conftest import examples
from .older import CHILDREN, Older
from .test_older_matrix import WINDOWS, Running, possible

COUNTED = "SELECT _wstart AS ws, count(*) AS n, sum(v) AS total FROM meters"
GROUPED = "PARTITION BY {}CASE WHEN v >= 50 THEN 'high' ELSE 'low' END AS grp"


@pytest.mark.parametrize("watermark", ["0a", "10a"])
@pytest.mark.parametrize(("rest", "value"), [
    ("WHERE v > 0 PARTITION BY tbname", 0), ("WHERE v > 0", 0), (GROUPED.format(""), 60),
    (GROUPED.format("tbname, "), 60),
])  # fmt: skip
@pytest.mark.parametrize(("window", "start"), [("INTERVAL(10a)", 0), ("SESSION(ts, 5a)", 1)])
def test_rows_that_leave_are_not_in_what_is_shown(
    tmp_path: Path, watermark: str, rest: str, value: int, window: str, start: int
) -> None:
    one = Older(
        tmp_path,
        f"CREATE STREAM s TRIGGER AT_ONCE WATERMARK {watermark} IGNORE EXPIRED 0 IGNORE UPDATE 0 INTO o "
        f"AS {COUNTED} {rest} {window}",
    )
    for ts in (1, 2, 3):
        one.put(ts, 10)
    one.settle()
    one.put(2, value)
    one.settle()
    mine = [row for row in one.rows("ws", "n", "total") if row[2] != 60]
    assert mine == [(start, 2, 20)]
    one.put(1, value)
    one.put(3, value)
    one.settle()
    assert one.rows("ws", "n", "total") == ([(start, 3, 180)] if value else [])


SHOWN = [
    pytest.param(window, by, id=f"{window}-{by or 'all'}")
    for window in WINDOWS for by in ("tbname", "", "half") if possible(window, "AT_ONCE", by)
]  # fmt: skip
step = st.tuples(
    st.sampled_from(["put"] * 5 + ["delete"]), st.sampled_from(CHILDREN), st.integers(-20, 9),
    st.sampled_from([None, 0, 10, 35, 75, 80]), st.sampled_from([None, 1, 1, 2]), st.integers(0, 12),
    st.booleans(),
)  # fmt: skip


@pytest.mark.parametrize(("window", "by"), SHOWN)
@settings(max_examples=examples(4, cases=True), suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(step, min_size=1, max_size=14), watermark=st.sampled_from([0, 6]),
    least=st.sampled_from([None, 10]),
)  # fmt: skip
def test_what_is_shown_is_what_there_is(
    window: str, by: By, steps: list[Any], watermark: int, least: int | None
) -> None:
    watermark = 0 if window == "rows" else watermark
    stream = Stream("x", WINDOWS[window], by=by, older="AT_ONCE", watermark=watermark, least=least)
    with tempfile.TemporaryDirectory() as folder:
        one = Running(Path(folder), stream)
        for *change, cut in steps:
            one.change(*change)
            if cut:
                one.settle()
                assert one.results() == one.truth()
        one.settle()
        assert one.results() == one.truth()

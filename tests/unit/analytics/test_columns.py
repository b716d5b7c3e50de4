"""Analyses over Arrow columns: groups of a batch, rows without values, what goes wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_analytics import directory
from millrace_analytics.columns import find_anomalies, forecast, window_numbers
from millrace_core.analytics import Analysis, Directory
from millrace_core.errors import MillraceError

ROWS = pa.list_(pa.struct([("n", pa.int64()), ("t", pa.int64()), ("v", pa.float64())]))
QUIET = [10.0, 11.0, 10.0, 12.0, 11.0, 10.0, 12.0, 11.0]


def rows(*groups: list[float | None] | None) -> pa.Array[Any]:
    made = [
        None if group is None else [{"n": at, "t": 10 * at, "v": value} for at, value in enumerate(group)]
        for group in groups
    ]
    return pa.array(made, type=ROWS)


def asked(options: str, count: int, kind: Any = "anomaly-detection") -> pa.Array[Any]:
    return pa.array([directory().read(kind, options, "ms").text()] * count)


def windows(options: str, *groups: list[float | None] | None) -> list[tuple[list[int | None], str | None]]:
    """For each group the window of each row, and what went wrong."""
    found = find_anomalies(rows(*groups), asked(options, len(groups))).to_pylist()
    return [([row["w"] for row in group], group[0]["e"] if group else None) for group in found]


def test_groups_are_judged_alone() -> None:
    low, high = [*QUIET, 100.0, 11.0], [*(v + 90 for v in QUIET), 11.0, 100.0]
    found = windows("wncheck=0", low, None, [], high)
    assert found == [([*[None] * 8, 0, None], None), ([], None), ([], None), ([*[None] * 8, 0, None], None)]


def test_a_group_that_cannot_be_judged_says_why_and_harms_no_other() -> None:
    found = windows("wncheck=0", [1.0, 2.0], [*QUIET, 100.0, 11.0])
    assert found[0] == ([0, None], "iqr needs 10 to 40000 rows in a group, not 2")
    assert found[1] == ([*[None] * 8, 0, None], None)


def test_an_array_that_was_cut_from_another() -> None:
    every = rows([1.0] * 3, [*QUIET, 100.0, 11.0], [2.0] * 4)
    found = find_anomalies(every.slice(1, 1), asked("wncheck=0", 1)).to_pylist()
    assert [row["w"] for row in found[0]] == [*[None] * 8, 0, None]


def test_rows_without_a_value_are_not_judged() -> None:
    none: list[float | None] = [None] * 12
    nan = float("nan")
    assert windows("wncheck=0", none) == [(none, None)]
    assert windows("wncheck=0", [*QUIET, 100.0, nan, None, 102.0, None, 11.0])[0][0][8:] == [
        0, 0, 0, 0, None, None,
    ]  # fmt: skip


@given(st.lists(st.sampled_from([True, False, None]), max_size=30))
def test_windows_as_their_definition_says(marks: list[bool | None]) -> None:
    known = np.array([mark is not None for mark in marks], dtype=bool)
    flags = np.array([mark for mark in marks if mark is not None], dtype=bool)
    expected: list[int | None] = []
    number, inside, pending = -1, False, 0
    for mark in marks:
        if mark is None:
            pending += 1
            continue
        expected += [number if inside and mark else None] * pending
        pending = 0
        number += bool(mark and not inside)
        expected.append(number if mark else None)
        inside = mark
    assert window_numbers(flags, known) == expected + [None] * pending


def test_a_forecast_of_each_group() -> None:
    found = forecast(
        rows([float(at) for at in range(20)], [1.0], []), asked("trend=add,rows=2", 3, "forecast")
    )
    first, second, third = found.to_pylist()
    assert [row["t"] for row in first] == [200, 210]
    assert [row["v"] for row in first] == pytest.approx([20, 21])
    assert second == [
        {"t": None, "v": None, "low": None, "high": None,
         "e": "holtwinters needs 10 to 40000 rows in a group, not 1"}
    ]  # fmt: skip
    assert third == []


def test_an_algorithm_that_raises_harms_no_other_group(monkeypatch: pytest.MonkeyPatch) -> None:
    from millrace_analytics.detectors.iqr import InterquartileRange

    detect = InterquartileRange.detect

    def sometimes(self: Any, series: Any, parameters: Any) -> Any:
        if series.values[0] < 0:
            raise ZeroDivisionError("nothing left")
        return detect(self, series, parameters)

    monkeypatch.setattr(InterquartileRange, "detect", sometimes)
    bad, good = windows("wncheck=0", [-1.0, *QUIET, 5.0], [*QUIET, 100.0, 11.0])
    assert bad[1] == "the algorithm failed: ZeroDivisionError: nothing left"
    assert good[0][8] == 0


def test_a_missing_package_is_named() -> None:
    iqr = directory().find("anomaly-detection", "iqr")
    lacking = Directory((replace(iqr, missing="scipy, statsmodels"),))
    with pytest.raises(MillraceError, match=r"needs scipy, statsmodels.*millrace-analytics\[algorithms\]"):
        lacking.read("anomaly-detection", "", "ms")


def test_what_is_asked_travels_as_text() -> None:
    analysis = directory().read("anomaly-detection", "algo=shesd, period=24, direction=POS", "us")
    assert analysis == Analysis(
        "anomaly-detection", "shesd", {"period": 24, "direction": "pos", "max_anoms": 0.05}, "us",
        option="algo=shesd, period=24, direction=POS",
    )  # fmt: skip

"""Analyses over Arrow columns: one list of rows for each group, all groups of a batch in one call.

Spark calls these functions. If a group cannot be analysed, its answer holds a text that says why; this never
ends the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import structlog
from numpy.typing import NDArray

from millrace_analytics import anode_client
from millrace_analytics.algorithm import AnalysisError, Detector, Flags, Forecast, Forecaster, Series
from millrace_analytics.noise import is_white_noise
from millrace_analytics.registry import algorithms
from millrace_analytics.steps import steps
from millrace_core.analytics import LEAST_ROWS, Analysis, read_analysis

WINDOWS = pa.list_(pa.struct([("w", pa.int32()), ("e", pa.string())]))
"""For each row the number of its window (NULL: in none); the first row also says what went wrong."""
FORECASTS = pa.list_(
    pa.struct([
        ("t", pa.int64()), ("v", pa.float64()), ("low", pa.float64()), ("high", pa.float64()),
        ("e", pa.string()),
    ])
)  # fmt: skip
"""The forecast rows, or a single one that says what went wrong."""
T = TypeVar("T")


def find_anomalies(rows: pa.Array[Any], asked: pa.Array[Any]) -> pa.Array[Any]:
    """``rows``: for each group a list of structs (n, t, v) in order; ``asked``: the same :class:`Analysis`,
    as text, for each of them. Returns WINDOWS."""
    found = []
    for times, values, known in _groups(rows):
        answer = _attempt(_windows, asked, times, values, known)
        numbers = answer if not isinstance(answer, str) else [0, *[None] * (len(values) - 1)]
        errors = [answer if isinstance(answer, str) else None, *[None] * (len(values) - 1)]
        found.append([{"w": w, "e": e} for w, e in zip(numbers, errors, strict=True)] if len(values) else [])
    return pa.array(found, type=WINDOWS)


def forecast(rows: pa.Array[Any], asked: pa.Array[Any]) -> pa.Array[Any]:
    """As :func:`find_anomalies`, but returns FORECASTS."""
    found: list[list[dict[str, object]]] = []
    for times, values, known in _groups(rows):
        if not len(values):
            found.append([])
            continue
        answer = _attempt(_rows_to_come, asked, times, values, known)
        found.append([{"e": answer}] if isinstance(answer, str) else answer)
    return pa.array(found, type=FORECASTS)


Group = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]


def _groups(rows: pa.Array[Any]) -> Iterator[Group]:
    """The times, the values, and which values are known, group by group."""
    flat = rows.flatten()  # type: ignore[attr-defined]  # a ListArray
    times = flat.field("t").to_numpy(zero_copy_only=False)
    column = flat.field("v")
    known = column.is_valid().to_numpy(zero_copy_only=False)
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    known = known & np.isfinite(values)
    lengths = rows.value_lengths().fill_null(0)  # type: ignore[attr-defined]
    ends = np.cumsum(lengths.to_numpy(zero_copy_only=False))
    begin = 0
    for end in ends.tolist():
        yield times[begin:end], values[begin:end], known[begin:end]
        begin = end


def _attempt(analyse: Callable[[Analysis, *Group], T], asked: pa.Array[Any], *group: *Group) -> T | str:
    """The answer, or what went wrong."""
    try:
        return analyse(read_analysis(asked[0].as_py()), *group)
    except AnalysisError as error:
        return str(error)
    except Exception as error:  # an algorithm's own error: the rows of one group must not end the job
        structlog.get_logger("analytics").exception("an algorithm failed")
        return f"the algorithm failed: {type(error).__name__}: {error}"


def check_rows(analysis: Analysis, count: int) -> None:
    """:raises AnalysisError: if the algorithm does not accept this number of rows."""
    if not LEAST_ROWS <= count <= analysis.most_rows:
        raise AnalysisError(
            f"{analysis.algorithm} needs {LEAST_ROWS} to {analysis.most_rows} rows in a group, not {count}"
        )


def _windows(
    analysis: Analysis, times: NDArray[np.int64], values: NDArray[np.float64], known: NDArray[np.bool_]
) -> list[int | None]:
    check_rows(analysis, len(values))
    series = Series(times[known], values[known])
    return window_numbers(anomalous(analysis, series), known)


def anomalous(analysis: Analysis, series: Series) -> Flags:
    """Which values are anomalies. A series of white noise has none; that is checked first.

    :raises AnalysisError: if the algorithm does not accept the series.
    """
    if not len(series.values):
        return np.zeros(0, dtype=bool)
    if analysis.url:
        return anode_client.detect(analysis, series)
    if analysis.wncheck and is_white_noise(series.values):
        return np.zeros(len(series.values), dtype=bool)
    detector = algorithms()[analysis.kind, analysis.algorithm]
    assert isinstance(detector, Detector)
    return detector.detect(series, analysis.parameters)


def window_numbers(flags: Flags, known: NDArray[np.bool_]) -> list[int | None]:
    """Runs of neighbouring anomalies, numbered from 0. A row without a known value does not end a run: if it
    lies between two anomalies of a run, it belongs to their window."""
    runs = np.full(len(flags), -1)
    starts = flags & ~np.concatenate([[False], flags[:-1]])
    runs[flags] = np.cumsum(starts)[flags] - 1
    numbers = np.full(len(known), -1)
    numbers[known] = runs
    unknown = np.flatnonzero(~known)
    if len(unknown) and len(runs):
        behind = np.cumsum(known)[unknown]  # how many known rows lie before each
        before = np.where(behind > 0, runs[np.maximum(behind - 1, 0)], -1)
        after = np.where(behind < len(runs), runs[np.minimum(behind, len(runs) - 1)], -1)
        numbers[unknown] = np.where(before == after, before, -1)
    return [int(number) if number >= 0 else None for number in numbers]


def _rows_to_come(
    analysis: Analysis, times: NDArray[np.int64], values: NDArray[np.float64], known: NDArray[np.bool_]
) -> list[dict[str, object]]:
    check_rows(analysis, len(values))
    series = Series(times[known], values[known])
    if len(series.values) < LEAST_ROWS:
        raise AnalysisError(f"{analysis.algorithm} needs at least {LEAST_ROWS} values that are not NULL")
    at, found = predicted(analysis, series)
    lists = (array.tolist() for array in (at, found.values, found.low, found.high))
    return [{"t": t, "v": v, "low": low, "high": high} for t, v, low, high in zip(*lists, strict=True)]


def predicted(analysis: Analysis, series: Series) -> tuple[NDArray[np.int64], Forecast]:
    """The times of the forecast rows, in ticks, and their values.

    :raises AnalysisError: if the algorithm does not accept the series, or the series is white noise.
    """
    if analysis.url:
        return anode_client.forecast(analysis, series)
    if analysis.wncheck and is_white_noise(series.values):
        raise AnalysisError(
            "the values are white noise, which cannot be forecast (wncheck=0 skips this check)"
        )
    forecaster = algorithms()[analysis.kind, analysis.algorithm]
    assert isinstance(forecaster, Forecaster)
    wanted = analysis.parameters
    rows = int(wanted["rows"])
    found = forecaster.forecast(series, rows, float(wanted["conf"]) / 100, wanted)
    start, every = steps(analysis, series)
    return start + every * np.arange(rows, dtype=np.int64), found

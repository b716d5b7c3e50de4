"""Where the rows of a forecast lie in time."""

from __future__ import annotations

from millrace_analytics.algorithm import Series
from millrace_core.analytics import Analysis


def steps(analysis: Analysis, series: Series) -> tuple[int, int]:
    """The first instant of a forecast and the step to the next one, in ticks: as asked for, else after the
    last row by the mean step of the rows."""
    first, last = int(series.times[0]), int(series.times[-1])
    every = int(analysis.parameters["every"])
    if every < 0:
        every = max(1, (last - first) // (len(series.times) - 1))
    start = int(analysis.parameters["start"])
    return (last + every if start < 0 else start), every

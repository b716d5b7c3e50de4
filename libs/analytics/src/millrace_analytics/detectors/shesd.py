"""shesd: the seasonal hybrid ESD test (Hochenbaum, Vallis, Kejariwal 2017).

The seasonal part is removed. Then the generalised ESD test finds the outliers, using the median and the
median absolute deviation in place of mean and standard deviation.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from millrace_analytics.algorithm import AnalysisError, Flags, Parameters, Series, Values
from millrace_core.analytics import Parameter

LEVEL = 0.05
CONSISTENT = 1.4826
"""This factor times the median absolute deviation estimates the standard deviation of normal values."""


class SeasonalHybridEsd:
    """Flags at most the share ``max_anoms`` of the values. ``period``: values in a season; 0 or 1: none."""

    name: ClassVar[str] = "shesd"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("period", "int", 0, least=0),
        Parameter("direction", "text", "both", choices=("both", "pos", "neg")),
        Parameter("max_anoms", "float", 0.05, above=0, below=0.5),
    )
    requires: ClassVar[tuple[str, ...]] = ("scipy", "statsmodels")

    def detect(self, series: Series, parameters: Parameters) -> Flags:
        values = _without_season(series.values, int(parameters["period"]))
        most = max(1, int(len(values) * float(parameters["max_anoms"])))
        found = np.zeros(len(values), dtype=bool)
        found[_outliers(values, most, str(parameters["direction"]))] = True
        return found


def _without_season(values: Values, period: int) -> Values:
    if period <= 1:
        return values - np.median(values)
    if len(values) < 2 * period:
        raise AnalysisError(f"shesd: period = {period} needs at least {2 * period} values, not {len(values)}")
    from statsmodels.tsa.seasonal import STL

    seasonal = STL(values, period=period, robust=True).fit().seasonal
    return np.asarray(values - seasonal - np.median(values), dtype=np.float64)


def _outliers(values: Values, most: int, direction: str) -> list[int]:
    """The positions of the outliers: as many as the last candidate whose statistic exceeds its limit."""
    count = len(values)
    left = np.ones(count, dtype=bool)
    order: list[int] = []
    outliers = 0
    for removed in range(1, most + 1):
        now = values[left]
        middle = np.median(now)
        spread = CONSISTENT * np.median(np.abs(now - middle))
        if spread == 0:
            break
        far = {"both": np.abs(values - middle), "pos": values - middle, "neg": middle - values}[direction]
        far = np.where(left, far, -np.inf)
        place = int(far.argmax())
        order.append(place)
        left[place] = False
        sides = 2 if direction == "both" else 1
        if far[place] / spread > critical_value(count, removed, sides):
            outliers = removed
    return order[:outliers]


def critical_value(count: int, removed: int, sides: int = 2) -> float:
    """Rosner's lambda for the ``removed``-th outlier of ``count`` values (1983)."""
    from scipy.stats import t

    left = count - removed
    quantile = float(t.isf(LEVEL / (sides * (left + 1)), left - 1))
    return float(left * quantile / np.sqrt((left - 1 + quantile**2) * (left + 1)))

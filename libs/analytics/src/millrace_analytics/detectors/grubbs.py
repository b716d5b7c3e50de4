"""grubbs: Grubbs' test for one outlier, repeated until it finds none."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from millrace_analytics.algorithm import Flags, Parameters, Series
from millrace_core.analytics import Parameter

LEAST = 3
"""With fewer values there is no critical value."""


class Grubbs:
    """The two-sided test. ``alpha``: the confidence; 0.95 is the level of 5 %."""

    name: ClassVar[str] = "grubbs"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("alpha", "float", 0.95, above=0, below=1),)
    requires: ClassVar[tuple[str, ...]] = ("scipy",)

    def detect(self, series: Series, parameters: Parameters) -> Flags:
        level = 1 - float(parameters["alpha"])
        left = np.ones(len(series.values), dtype=bool)
        while left.sum() >= LEAST:
            values = series.values[left]
            spread = values.std(ddof=1)
            deviations = np.where(left, np.abs(series.values - values.mean()), -1.0)
            farthest = int(deviations.argmax())
            if spread == 0 or deviations[farthest] / spread <= critical_value(len(values), level):
                break
            left[farthest] = False
        found: Flags = ~left
        return found


def critical_value(count: int, level: float) -> float:
    """Grubbs' critical value for ``count`` values."""
    from scipy.stats import t

    quantile = float(t.isf(level / (2 * count), count - 2)) ** 2
    return float((count - 1) / np.sqrt(count) * np.sqrt(quantile / (count - 2 + quantile)))

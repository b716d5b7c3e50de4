"""iqr: values outside of 1.5 interquartile ranges around the quartiles (Tukey's fences)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from millrace_analytics.algorithm import Flags, Parameters, Series
from millrace_core.analytics import Parameter

FENCE = 1.5


class InterquartileRange:
    """Quartiles by linear interpolation; a value exactly on a fence is not an anomaly."""

    name: ClassVar[str] = "iqr"
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    requires: ClassVar[tuple[str, ...]] = ()

    def detect(self, series: Series, parameters: Parameters) -> Flags:
        first, third = np.quantile(series.values, [0.25, 0.75])
        reach = FENCE * (third - first)
        found: Flags = (series.values < first - reach) | (series.values > third + reach)
        return found

"""ksigma: values more than k standard deviations from the mean."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from millrace_analytics.algorithm import Flags, Parameters, Series
from millrace_core.analytics import Parameter


class KSigma:
    """The standard deviation is that of the population."""

    name: ClassVar[str] = "ksigma"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("k", "int", 3, least=1, most=3),)
    requires: ClassVar[tuple[str, ...]] = ()

    def detect(self, series: Series, parameters: Parameters) -> Flags:
        values = series.values
        found: Flags = np.abs(values - values.mean()) > float(parameters["k"]) * values.std()
        return found

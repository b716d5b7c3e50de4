"""lof: the local outlier factor, by scikit-learn."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np

from millrace_analytics.algorithm import Flags, Parameters, Series
from millrace_core.analytics import Parameter

LIMIT = 1.5
"""The factor above which scikit-learn's default calls a value an outlier."""


class LocalOutlierFactor:
    """How much less dense a value's surroundings are than those of its neighbours."""

    name: ClassVar[str] = "lof"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("neighbors", "int", 10, least=1),
        Parameter("algorithm", "text", "auto", choices=("auto", "ball_tree", "kd_tree", "brute")),
    )
    requires: ClassVar[tuple[str, ...]] = ("scikit-learn",)

    def detect(self, series: Series, parameters: Parameters) -> Flags:
        from sklearn.neighbors import LocalOutlierFactor as Factor

        if len(series.values) == 1:
            return np.zeros(1, dtype=bool)
        # as scikit-learn does: a value cannot have more neighbours than there are other values
        neighbors = min(int(parameters["neighbors"]), len(series.values) - 1)
        model = Factor(n_neighbors=neighbors, algorithm=str(parameters["algorithm"]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of repeated values, which are normal in readings
            model.fit(series.values.reshape(-1, 1))
        found: Flags = -model.negative_outlier_factor_ > LIMIT
        return found

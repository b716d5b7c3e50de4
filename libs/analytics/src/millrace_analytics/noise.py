"""White noise: values that say nothing about each other, by the test of Ljung and Box."""

from __future__ import annotations

import numpy as np

from millrace_analytics.algorithm import Values

LAGS = 16
LEVEL = 0.05


def is_white_noise(values: Values) -> bool:
    """Whether the values pass for white noise: 16 lags, 5 % (as TDgpt's anode asks). Sixteen values or fewer
    never do, nor do constant values, which are fully predictable."""
    if len(values) <= LAGS or np.ptp(values) == 0:
        return False
    from statsmodels.stats.diagnostic import acorr_ljungbox

    found = acorr_ljungbox(values, lags=[LAGS])
    return bool(found["lb_pvalue"].iloc[0] >= LEVEL)

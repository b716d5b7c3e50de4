"""The length of a season, found in the values."""

from __future__ import annotations

import numpy as np

from millrace_analytics.algorithm import AnalysisError, Values

LEAST = 2
SIGNIFICANT = 0.3
"""The autocorrelation that a season must reach: with less, no forecast can be based on it."""


def found_period(values: Values) -> int:
    """The lag at which the detrended values are most like themselves, among the peaks of the autocorrelation
    up to a third of the series.

    :raises AnalysisError: if there is none.
    """
    from statsmodels.tsa.stattools import acf

    places = np.arange(len(values))
    level = np.polynomial.Polynomial.fit(places, values, 1)(places)
    rest = values - level
    if np.ptp(rest) > 1e-9 * max(1.0, float(np.abs(values).max())):
        found = acf(rest, nlags=len(values) // 3, fft=True)
        inner = np.arange(LEAST, len(found) - 1)
        peaks = inner[(found[inner] >= found[inner - 1]) & (found[inner] >= found[inner + 1])]
        peaks = peaks[found[peaks] >= SIGNIFICANT]
        if len(peaks):
            return int(peaks[found[peaks].argmax()])
    raise AnalysisError("no season was found in the values: give its length as period = …")

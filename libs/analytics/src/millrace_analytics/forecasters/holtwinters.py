"""holtwinters: exponential smoothing by statsmodels, with trend and season if asked for."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np

from millrace_analytics.algorithm import AnalysisError, Forecast, Parameters, Series
from millrace_analytics.season import found_period
from millrace_core.analytics import MOST_ROWS, Parameter

_FORMS = ("none", "add", "mul")


class HoltWinters:
    """Simple smoothing if neither trend nor season is asked for. It gives no bounds: both equal the value (as
    in TDgpt). If ``period`` is not given, the length of the season is found in the values."""

    name: ClassVar[str] = "holtwinters"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("period", "int", 0, least=0),
        Parameter("trend", "text", "none", choices=_FORMS),
        Parameter("seasonal", "text", "none", choices=_FORMS),
    )
    requires: ClassVar[tuple[str, ...]] = ("statsmodels",)
    most_rows: ClassVar[int] = MOST_ROWS

    def forecast(self, series: Series, rows: int, confidence: float, parameters: Parameters) -> Forecast:
        from statsmodels.tsa.holtwinters import ExponentialSmoothing

        period = int(parameters["period"])
        trend, seasonal = (_form(parameters[name]) for name in ("trend", "seasonal"))
        if seasonal is not None and period < 2:
            period = found_period(series.values)
        if seasonal is not None and len(series.values) < 2 * period:
            raise AnalysisError(
                f"holtwinters: period = {period} needs at least {2 * period} values, not {len(series.values)}"
            )
        if "mul" in (trend, seasonal) and bool((series.values <= 0).any()):
            raise AnalysisError("holtwinters: mul needs values greater than 0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it may reach no optimum: the best values found are used
            model = ExponentialSmoothing(
                series.values, trend=trend, seasonal=seasonal, seasonal_periods=period if seasonal else None
            )
            fitted = model.fit()
            found = np.asarray(fitted.forecast(rows), dtype=np.float64)
        return Forecast(found, found, found, float(fitted.sse) / len(series.values))


def _form(given: object) -> str | None:
    return None if given == "none" else str(given)

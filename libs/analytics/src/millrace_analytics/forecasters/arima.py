"""arima: ARIMA by pmdarima, which searches for the orders; seasonal if a period is given."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np

from millrace_analytics.algorithm import AnalysisError, Forecast, Parameters, Series
from millrace_core.analytics import Parameter

_ORDER = (0, 10)


class Arima:
    """The bounds hold with the confidence that was asked for."""

    name: ClassVar[str] = "arima"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("period", "int", 0, least=0),
        Parameter("start_p", "int", 0, least=_ORDER[0], most=_ORDER[1]),
        Parameter("max_p", "int", 10, least=_ORDER[0], most=_ORDER[1]),
        Parameter("start_q", "int", 0, least=_ORDER[0], most=_ORDER[1]),
        Parameter("max_q", "int", 10, least=_ORDER[0], most=_ORDER[1]),
        Parameter("d", "int", 1, least=0, most=2),
    )
    requires: ClassVar[tuple[str, ...]] = ("pmdarima", "threadpoolctl")
    most_rows: ClassVar[int] = 3_000

    def forecast(self, series: Series, rows: int, confidence: float, parameters: Parameters) -> Forecast:
        from pmdarima import auto_arima
        from threadpoolctl import threadpool_limits

        period = int(parameters["period"])
        for side in ("p", "q"):
            if int(parameters[f"start_{side}"]) > int(parameters[f"max_{side}"]):
                raise AnalysisError(f"arima: start_{side} is greater than max_{side}")
        if period > 1 and len(series.values) < 2 * period:
            raise AnalysisError(
                f"arima: period = {period} needs at least {2 * period} values, not {len(series.values)}"
            )
        if np.ptp(series.values) == 0:
            constant = np.full(rows, series.values[0])
            return Forecast(constant, constant, constant)
        names = ("start_p", "max_p", "start_q", "max_q", "d")
        # the matrices are tiny: BLAS threads would only wait for each other, at several times the CPU
        with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
            warnings.simplefilter("ignore")
            try:
                model = auto_arima(
                    series.values, seasonal=period > 1, m=max(period, 1), stepwise=True,
                    suppress_warnings=True, error_action="ignore", max_order=None,
                    **{name: int(parameters[name]) for name in names},
                )  # fmt: skip
                values, bounds = model.predict(rows, return_conf_int=True, alpha=1 - confidence)
            except ValueError as error:
                raise AnalysisError(f"arima: no model could be fitted: {error}") from error
        spread = float(np.mean(np.square(model.resid())))
        return Forecast(np.asarray(values), np.asarray(bounds[:, 0]), np.asarray(bounds[:, 1]), spread)

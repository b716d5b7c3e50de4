"""Forecasts against the libraries' own, on public data sets."""

from __future__ import annotations

import numpy as np
import pytest
from pmdarima import auto_arima
from pmdarima.datasets import load_airpassengers, load_lynx
from statsmodels.datasets import nile
from statsmodels.tsa.holtwinters import ExponentialSmoothing, SimpleExpSmoothing

from millrace_analytics import AnalysisError, Forecast, Forecaster, Series
from millrace_analytics.registry import algorithms
from millrace_analytics.season import found_period
from millrace_core.analytics import Value


def forecast(name: str, values: object, rows: int = 6, confidence: float = 0.95, **given: Value) -> Forecast:
    forecaster = algorithms()["forecast", name]
    assert isinstance(forecaster, Forecaster)
    found = np.asarray(values, dtype=np.float64)
    defaults = {one.name: one.default for one in forecaster.parameters}
    return forecaster.forecast(Series(np.arange(len(found)), found), rows, confidence, defaults | given)


def test_simple_smoothing_of_the_nile() -> None:
    values = nile.load_pandas().data["volume"].to_numpy()
    reference = SimpleExpSmoothing(values, initialization_method="estimated").fit().forecast(6)
    found = forecast("holtwinters", values)
    assert found.values == pytest.approx(reference, rel=1e-3)
    assert np.array_equal(found.low, found.values)
    assert np.array_equal(found.high, found.values)


def test_trend_and_season_of_air_passengers() -> None:
    values = load_airpassengers()
    model = ExponentialSmoothing(values, trend="add", seasonal="mul", seasonal_periods=12)
    found = forecast("holtwinters", values[:-12], 12, trend="add", seasonal="mul", period=12)
    assert forecast("holtwinters", values, trend="add", seasonal="mul", period=12).values == pytest.approx(
        model.fit().forecast(6)
    )
    assert np.abs(found.values / values[-12:] - 1).max() < 0.12


def test_the_season_is_found() -> None:
    assert found_period(load_airpassengers()) == 12
    hours = np.arange(24 * 14)
    assert found_period(3 * np.sin(hours * 2 * np.pi / 24) + 0.01 * hours) == 24
    given, found = (
        forecast("holtwinters", load_airpassengers(), 12, trend="add", seasonal="mul", period=period)
        for period in (12, 0)
    )
    assert np.array_equal(given.values, found.values)


def test_arima_of_the_lynx() -> None:
    values = np.log(load_lynx())
    orders = {"d": 1, "start_p": 0, "max_p": 2, "start_q": 0, "max_q": 2}
    reference = auto_arima(values, **orders, seasonal=False, max_order=None)
    expected, bounds = reference.predict(6, return_conf_int=True, alpha=0.2)
    found = forecast("arima", values, confidence=0.8, max_p=2, max_q=2)
    assert found.values == pytest.approx(expected)
    assert found.low == pytest.approx(bounds[:, 0])
    assert found.high == pytest.approx(bounds[:, 1])
    assert found.error > 0


def test_a_constant_goes_on() -> None:
    assert forecast("holtwinters", [4.0] * 20, 3).values.tolist() == pytest.approx([4.0] * 3)
    assert forecast("arima", [4.0] * 20, 3).values.tolist() == [4.0] * 3


REFUSED = [
    ("holtwinters", {"seasonal": "add"}, "no season was found"),
    ("holtwinters", {"seasonal": "add", "period": 12}, "needs at least 24 values, not 20"),
    ("holtwinters", {"trend": "mul"}, "mul needs values greater than 0"),
    ("arima", {"period": 12}, "needs at least 24 values, not 20"),
    ("arima", {"start_p": 3, "max_p": 2}, "start_p is greater than max_p"),
]


@pytest.mark.parametrize(("name", "given", "message"), REFUSED)
def test_what_does_not_suit_is_named(name: str, given: dict[str, Value], message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        forecast(name, range(-10, 10), **given)

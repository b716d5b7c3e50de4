"""Forecasts against the libraries' own, on public data sets.

The libraries are loaded by the tests that use them: it takes seconds, and every process reads this file."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from millrace_analytics import AnalysisError, Forecast, Forecaster, Series
from millrace_analytics.registry import algorithms
from millrace_analytics.season import found_period
from millrace_core.analytics import Value


def public(name: str) -> NDArray[np.float64]:
    from pmdarima import datasets

    return np.asarray(getattr(datasets, f"load_{name}")(), dtype=np.float64)


def forecast(name: str, values: object, rows: int = 6, confidence: float = 0.95, **given: Value) -> Forecast:
    forecaster = algorithms()["forecast", name]
    assert isinstance(forecaster, Forecaster)
    found = np.asarray(values, dtype=np.float64)
    defaults = {one.name: one.default for one in forecaster.parameters}
    return forecaster.forecast(Series(np.arange(len(found)), found), rows, confidence, defaults | given)


def test_simple_smoothing_of_the_nile() -> None:
    from statsmodels.datasets import nile
    from statsmodels.tsa.holtwinters import SimpleExpSmoothing

    values = nile.load_pandas().data["volume"].to_numpy()
    reference = SimpleExpSmoothing(values, initialization_method="estimated").fit().forecast(6)
    found = forecast("holtwinters", values)
    assert found.values == pytest.approx(reference, rel=1e-3)
    assert np.array_equal(found.low, found.values)
    assert np.array_equal(found.high, found.values)


def test_trend_and_season_of_air_passengers() -> None:
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    values = public("airpassengers")
    model = ExponentialSmoothing(values, trend="add", seasonal="mul", seasonal_periods=12)
    found = forecast("holtwinters", values[:-12], 12, trend="add", seasonal="mul", period=12)
    assert forecast("holtwinters", values, trend="add", seasonal="mul", period=12).values == pytest.approx(
        model.fit().forecast(6)
    )
    assert np.abs(found.values / values[-12:] - 1).max() < 0.12


def test_the_season_is_found() -> None:
    assert found_period(public("airpassengers")) == 12
    hours = np.arange(24 * 14)
    assert found_period(3 * np.sin(hours * 2 * np.pi / 24) + 0.01 * hours) == 24
    given, found = (
        forecast("holtwinters", public("airpassengers"), 12, trend="add", seasonal="mul", period=period)
        for period in (12, 0)
    )
    assert np.array_equal(given.values, found.values)


def test_arima_of_the_lynx() -> None:
    from pmdarima import auto_arima

    values = np.log(public("lynx"))
    orders = {"d": 1, "start_p": 0, "max_p": 2, "start_q": 0, "max_q": 2}
    reference = auto_arima(values, **orders, seasonal=False, max_order=None)
    expected, bounds = reference.predict(6, return_conf_int=True, alpha=0.2)
    found = forecast("arima", values, confidence=0.8, max_p=2, max_q=2)
    assert found.values == pytest.approx(expected)
    assert found.low == pytest.approx(bounds[:, 0])
    assert found.high == pytest.approx(bounds[:, 1])
    assert found.error > 0


def test_arima_computes_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    import pmdarima
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads() -> set[int]:
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

    seen = []
    real = pmdarima.auto_arima
    monkeypatch.setattr(pmdarima, "auto_arima", lambda *a, **k: seen.append(threads()) or real(*a, **k))
    with threadpool_limits(2, user_api="blas"):
        assert threads() == {2}
        forecast("arima", public("lynx")[:30], max_p=1, max_q=1)
        assert threads() == {2}
    assert seen == [{1}]


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

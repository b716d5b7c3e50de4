"""Each detector against textbook results, and against libraries on public data sets.

The libraries are loaded by the tests that use them: it takes seconds, and every process reads this file."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from millrace_analytics import AnalysisError, Detector, Series
from millrace_analytics.detectors import grubbs, shesd
from millrace_analytics.noise import is_white_noise
from millrace_analytics.registry import algorithms
from millrace_core.analytics import Value

SETS = ("lynx", "wineind", "airpassengers")
TIETJEN_MOORE = [199.31, 199.53, 200.19, 200.82, 201.92, 201.95, 202.18, 245.57]
"""NIST's handbook (1.3.5.17.1): Grubbs' statistic is 2.4687, its critical value 2.032 at 5 %, upper tail."""
ROSNER = {1: 3.158794, 2: 3.151430, 3: 3.143890, 4: 3.136165, 5: 3.128247, 10: 3.085425}
"""NIST's handbook (1.3.5.17.3): the critical values for 54 values at 5 %."""


def series(values: object) -> Series:
    found = np.asarray(values, dtype=np.float64)
    return Series(np.arange(len(found), dtype=np.int64), found)


def detect(name: str, values: object, **given: Value) -> list[int]:
    """The places of the anomalies."""
    detector = algorithms()["anomaly-detection", name]
    assert isinstance(detector, Detector)
    defaults = {one.name: one.default for one in detector.parameters}
    return np.flatnonzero(detector.detect(series(values), defaults | given)).tolist()


def public(name: str) -> NDArray[np.float64]:
    from pmdarima import datasets

    return np.asarray(getattr(datasets, f"load_{name}")(), dtype=np.float64)


@pytest.fixture(params=SETS)
def values(request: pytest.FixtureRequest) -> NDArray[np.float64]:
    return public(request.param)


def places(flags: object) -> list[int]:
    return np.flatnonzero(np.asarray(flags)).tolist()


def test_iqr_on_public_data(values: NDArray[np.float64]) -> None:
    from scipy import stats

    width = stats.iqr(values)
    first, third = stats.scoreatpercentile(values, [25, 75])
    outside = (values < first - 1.5 * width) | (values > third + 1.5 * width)
    assert detect("iqr", values) == places(outside)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_ksigma_on_public_data(values: NDArray[np.float64], k: int) -> None:
    from scipy import stats

    assert detect("ksigma", values, k=k) == places(np.abs(stats.zscore(values)) > k)


@pytest.mark.parametrize("neighbors", [5, 10, 20])
def test_lof_on_public_data(values: NDArray[np.float64], neighbors: int) -> None:
    from sklearn.neighbors import LocalOutlierFactor

    labels = LocalOutlierFactor(n_neighbors=neighbors).fit_predict(values.reshape(-1, 1))
    assert detect("lof", values, neighbors=neighbors) == places(labels == -1)


def test_public_data_have_outliers_at_all() -> None:
    assert detect("iqr", public("lynx")) == [7, 45, 83, 84]


def test_grubbs_of_the_handbook() -> None:
    assert detect("grubbs", TIETJEN_MOORE) == [7]
    # one-sided at 5 % is two-sided at 10 %
    assert grubbs.critical_value(8, 0.1) == pytest.approx(2.032, abs=5e-4)


def test_grubbs_finds_one_after_the_other() -> None:
    quiet = [10.0, 10.1, 9.9, 10.2, 9.8, 10.0, 10.1, 9.9, 10.0, 10.05]
    assert detect("grubbs", [*quiet, 50.0, 13.0]) == [10, 11]


@pytest.mark.parametrize("removed", ROSNER)
def test_esd_critical_values_of_the_handbook(removed: int) -> None:
    assert shesd.critical_value(54, removed) == pytest.approx(ROSNER[removed], abs=5e-6)


def test_shesd_takes_the_season_off() -> None:
    season = 10 * np.sin(np.arange(240) * 2 * np.pi / 24)
    rng = np.random.default_rng(3)
    values = season + rng.normal(0, 0.5, 240)
    values[100] += 6  # within the season's own reach
    assert 100 not in detect("shesd", values)
    assert 100 in detect("shesd", values, period=24)


@pytest.mark.parametrize(("direction", "found"), [("both", [5, 9]), ("pos", [9]), ("neg", [5])])
def test_shesd_in_a_direction(direction: str, found: list[int]) -> None:
    values = [float(at % 4) for at in range(40)]
    values[5], values[9] = -50.0, 50.0
    assert detect("shesd", values, direction=direction) == found


def test_shesd_names_no_more_than_its_share() -> None:
    values = [float(at % 4) for at in range(40)]
    values[3], values[7], values[11] = 50.0, 60.0, 70.0
    assert detect("shesd", values) == [7, 11]
    assert detect("shesd", values, max_anoms=0.1) == [3, 7, 11]


@pytest.mark.parametrize("name", ["iqr", "ksigma", "grubbs", "lof", "shesd"])
def test_a_constant_column_has_no_anomaly(name: str) -> None:
    assert detect(name, [5.0] * 30) == []


def test_too_few_values_are_named() -> None:
    assert detect("lof", range(10)) == detect("lof", range(10), neighbors=9) == []
    assert detect("lof", [1.0]) == []
    with pytest.raises(AnalysisError, match="period = 24 needs at least 48 values, not 30"):
        detect("shesd", range(30), period=24)


def test_white_noise() -> None:
    rng = np.random.default_rng(7)
    assert is_white_noise(rng.normal(size=200))
    assert not is_white_noise(rng.normal(size=200).cumsum())
    assert not is_white_noise(rng.normal(size=16))
    assert not is_white_noise(np.full(100, 3.0))

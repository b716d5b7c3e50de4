"""FORECAST, planned and run on DuckDB with the real algorithms."""

from __future__ import annotations

import random
from typing import Any

import pytest

from millrace_core.errors import SqlError


@pytest.fixture
def ramp(kit: Any) -> Any:
    """60 rows, one each second: v = 2 n in nt, and a step of 100 a table in the children."""
    world = kit.World()
    world.insert("nt", [{"ts": kit.T0 + 1000 * at, "v": 2 * at, "w": None} for at in range(60)])
    for place, name in enumerate(("d1", "d2")):
        rows = [
            {"ts": kit.T0 + 1000 * at, "v": 100 * place + at, "c0": None, "s": None, "b": None}
            for at in range(40)
        ]
        world.insert(name, rows)
    return world


def test_a_trend_goes_on(ramp: Any, kit: Any) -> None:
    found = ramp.query("SELECT _frowts, forecast(v, 'trend=add, rows=3'), _flow, _fhigh FROM nt")
    assert [row[0] for row in found] == [kit.T0 + 1000 * at for at in (60, 61, 62)]
    assert [row[1] for row in found] == [120, 122, 124]
    assert [(round(low), round(high)) for *_, low, high in found] == [(120, 120), (122, 122), (124, 124)]


def test_bounds_hold_with_the_confidence(ramp: Any, kit: Any) -> None:
    rows = [{"ts": kit.T0 + 1000 * (60 + at), "v": 120 + (at * 7) % 5, "w": None} for at in range(60)]
    ramp.insert("nt", rows)
    query = "SELECT _flow, forecast(v, 'algo=arima, rows=4, conf={}') AS f, _fhigh FROM nt WHERE ts >= {}"
    wide, narrow = (ramp.query(query.format(conf, kit.T0 + 60_000)) for conf in (95, 50))
    assert len(wide) == len(narrow) == 4
    for (low, value, high), (nearer, same, closer) in zip(wide, narrow, strict=True):
        assert low < nearer < closer < high
        assert value == same


def test_each_partition_has_its_own(ramp: Any, kit: Any) -> None:
    found = ramp.query(
        "SELECT tbname, _frowts, forecast(v, 'trend=add, rows=2') AS f FROM meters PARTITION BY tbname"
    )
    first = kit.T0 + 40_000
    assert found == [
        ("d1", first, 40), ("d1", first + 1000, 41), ("d2", first, 140), ("d2", first + 1000, 141),
    ]  # fmt: skip


def test_start_and_every(ramp: Any, kit: Any) -> None:
    query = f"SELECT _frowts, forecast(v, 'rows=2, start={kit.T0 + 5}, every=7') FROM nt"
    assert [row[0] for row in ramp.query(query)] == [kit.T0 + 5, kit.T0 + 12]


def test_order_and_limit(ramp: Any, kit: Any) -> None:
    query = "SELECT _frowts, forecast(v, 'trend=add') FROM nt ORDER BY _frowts DESC LIMIT 2"
    assert ramp.query(query) == [(kit.T0 + 69_000, 138), (kit.T0 + 68_000, 136)]


def test_white_noise_and_few_rows_fail(ramp: Any, kit: Any) -> None:
    rng = random.Random(5)
    for at in range(100):
        ramp.insert("nt", [{"ts": kit.T0 + 100_000 + at, "v": rng.randrange(100), "w": None}])
    with pytest.raises(Exception, match="white noise"):
        ramp.query(f"SELECT forecast(v) FROM nt WHERE ts >= {kit.T0 + 100_000}")
    with pytest.raises(Exception, match="holtwinters needs 10 to 40000 rows in a group, not 3"):
        ramp.query(f"SELECT forecast(v) FROM nt WHERE ts < {kit.T0 + 3000}")
    with pytest.raises(Exception, match="period = 24 needs at least 48 values, not 20"):
        ramp.query(f"SELECT forecast(v, 'seasonal=add, period=24') FROM nt WHERE ts < {kit.T0 + 20_000}")


REFUSED = [
    ("forecast(s)", "numeric column"),
    ("forecast(v, 'algo=x')", "known algorithms: arima, holtwinters"),
    ("forecast(v, 'rows=0')", "rows must be an integer from 1 to 1024"),
    ("forecast(v, 'conf=100')", "conf must be a number greater than 0 and less than 100"),
    ("forecast(v, c0)", "does not support covariates"),
    ("forecast(v), forecast(c0)", "only one forecast"),
    ("forecast(v), count(*)", "cannot be used together with count"),
    ("forecast(v), diff(v)", "cannot be used together with diff"),
    ("forecast(v), c0", "not a grouping column"),
    ("sum(forecast(v))", "inside sum"),
    ("_frowts", "_frowts cannot be used here"),
]


@pytest.mark.parametrize(("results", "message"), REFUSED)
def test_refused(ramp: Any, results: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        ramp.query(f"SELECT {results} FROM meters")


def test_refused_in_streams(ramp: Any) -> None:
    with pytest.raises(SqlError, match="cannot be used in a stream"):
        ramp.plan("SELECT forecast(v) FROM meters")

"""ANOMALY_WINDOW and FORECAST on Spark: the functions that it calls in Python."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from calc_svc.spark import analyses
from calc_svc.spark.session import Engine
from millrace_analytics import directory
from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.errors import PlanError
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.stream import Duration, Source, StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.plan import plan_query, plan_stream
from millrace_core.trigger.types import Interval

TABLE = Table("d", "t", "normal", 1, "ms", (Column("ts", TIMESTAMP), Column("v", DataType("INT"))))
WINDOW = "ANOMALY_WINDOW(v, 'algo=iqr, wncheck=0')"
QUIET = (10, 11, 10, 12, 11, 10, 12, 11)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    made = Catalog()
    for record in (Database("d"), TABLE):
        made.apply(key_of(record), encode(record))
    made.algorithms = directory().algorithms
    return made


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = Engine({"queries": 1})
    yield made
    made.stop()


def rows(*values: int | None, tid: int | None = None) -> pa.Table:
    data = {"ts": pa.array([1000 * at for at in range(len(values))], pa.int64())}
    data["v"] = pa.array(values, pa.int32())
    head = {} if tid is None else {"_tid": pa.array([tid] * len(values), pa.int32())}
    return pa.table({**head, **data})


@pytest.mark.java
def test_a_query(engine: Engine, catalog: Catalog) -> None:
    plan = plan_query(f"SELECT _wstart, _wend, count(*), max(v) FROM t {WINDOW}", "d", catalog, "UTC", 0)
    (source,) = plan.sources
    with engine.lane("queries", 60) as lane:
        found = lane.run(plan.one_sql({}), {source.relation: rows(*QUIET, 100, None, 102, 11)}, "UTC", 100)
        assert [tuple(row.values()) for row in found.to_pylist()] == [(8000, 10000, 3, 102)]
        with pytest.raises(PlanError) as failed:
            lane.run(plan.one_sql({}), {source.relation: rows(1, 2, 3)}, "UTC", 100)
    assert str(failed.value) == "iqr needs 10 to 40000 rows in a group, not 3"


@pytest.mark.java
def test_a_forecast(engine: Engine, catalog: Catalog) -> None:
    plan = plan_query("SELECT _frowts, forecast(v, 'trend=add, rows=2') FROM t", "d", catalog, "UTC", 0)
    (source,) = plan.sources
    with engine.lane("queries", 60) as lane:
        found = lane.run(plan.one_sql({}), {source.relation: rows(*range(0, 60, 2))}, "UTC", 100)
    assert [tuple(row.values()) for row in found.to_pylist()] == [(30_000, 60), (31_000, 62)]


@pytest.mark.java
def test_many_triggers_at_once(engine: Engine, catalog: Catalog) -> None:
    minute = Interval(Duration(1, "m"), Duration(1, "m"))
    query = f"SELECT _wstart AS ws, count(*) AS n, max(v) FROM %%trows {WINDOW}"
    plan = plan_stream(StreamSpec(7, "d", "s", query, minute, Source(TABLE), (), query=query), catalog)
    (source,) = plan.sources
    parts = [rows(*QUIET, 100, 11, tid=0), rows(1, 2, tid=1), rows(*QUIET, 11, 11, tid=2)]
    times = pa.array([0, 0, 0], pa.int64())
    trig = {"_tid": pa.array([0, 1, 2], pa.int32()), "_twstart": times, "_twend": pa.array([60_000] * 3)}
    with engine.lane("queries", 60) as lane:
        relations = {source.relation: pa.concat_tables(parts), "_trig": pa.table(trig)}
        found = lane.run(plan.set_sql or "", relations, "UTC")
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (0, 8000, 1, 100, None), (1, 0, 1, 1, "iqr needs 10 to 40000 rows in a group, not 2"),
    ]  # fmt: skip


@pytest.mark.java
def test_a_session_knows_them_once_a_query_calls_them(catalog: Catalog) -> None:
    engine = Engine({"queries": 1})
    try:
        place = engine._places["queries"].get()
        assert not place.small.catalog.functionExists(analyses.forecast.FUNCTION)
        engine._places["queries"].put(place)
        plan = plan_query(f"SELECT count(*) FROM t {WINDOW}", "d", catalog, "UTC", 0)
        (source,) = plan.sources
        with engine.lane("queries", 60) as lane:
            for _ in range(2):  # the second time, the engine would keep another query planned
                found = lane.run(plan.one_sql({}), {source.relation: rows(*QUIET, 100, None)}, "UTC", 100)
                assert [tuple(row.values()) for row in found.to_pylist()] == [(1,)]
        assert place.small.catalog.functionExists(analyses.forecast.FUNCTION)
    finally:
        engine.stop()

"""A calculator in this process, on real Spark: set-oriented and one-by-one, from memory and from files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.sources import one_relation
from calc_svc.queries.running import Query
from calc_svc.spark.relations import Parquet
from calc_svc.spark.session import Engine
from calc_svc.store.catalog import CatalogView
from calc_svc.store.tables import TableStore
from millrace.java import Java
from millrace_core.catalog import encode, key_of
from millrace_core.model.schema import Database

pytestmark = pytest.mark.java

MINUTE = 60_000
QUERIES = [
    "SELECT _twstart, first(ts) - _twstart n, last(amps) a FROM %%trows",
    "SELECT ts, site n, amps a FROM power.meters"
    " WHERE tbname = %%tbname AND ts >= _twstart AND ts < _twend LIMIT 2",
    "SELECT _twstart, count(*) n, max(amps) a FROM power.meters WHERE ts < _twend",
    "SELECT cast(_twend AS TIMESTAMP), 1 n, min(amps) a FROM power.meters WHERE tbname = 'm7'",
    "SELECT _wstart, count(*) n, sum(amps) a FROM %%trows INTERVAL(20s)",
]


@pytest.fixture
def calculator(tmp_path: Path, java: Java, kit: Any) -> Iterator[Calculator]:
    """A calculator in this process, over a store that was filled without a log."""
    catalog = CatalogView()
    for offset, record in enumerate([Database("power"), kit.METERS, *kit.CHILDREN]):
        catalog.apply(offset, key_of(record), encode(record))
    store = TableStore(catalog, tmp_path, 1_000_000)
    stored = store.open(kit.METERS)
    rows = kit.data(kit.CHILDREN, 10)
    stored.take([name.encode() for name in rows], [msgspec.json.encode(part) for part in rows.values()])
    engine = Engine({"triggers": 1, "queries": 1})
    yield Calculator(engine, catalog, store, 1000)
    engine.stop()


def test_plans_for_many_triggers_and_for_one_give_the_same(calculator: Calculator, kit: Any) -> None:
    with calculator.engine.lane("triggers", 1) as lane:
        for query in (kit.QUERY, *QUERIES):
            spec = kit.stream(1, query)
            fired = [
                e
                for child in kit.CHILDREN[5:9]
                for e in kit.closes(spec, kit.own(child), [0, MINUTE, 77 * MINUTE])
            ]
            plan = calculator.plans.of(spec)
            assert plan.set_sql is not None, query
            many = calculator.calculate(spec, plan, fired, lane)
            one = calculator.one_by_one(spec, plan, fired, lane)
            assert [outcome.error for outcome in many + one] == [None] * 24
            assert [outcome.rows.rows() for outcome in many] == [outcome.rows.rows() for outcome in one], (
                query
            )
            assert any(len(outcome.rows) for outcome in many), query


def test_spark_reads_the_files_of_rows_not_in_memory(calculator: Calculator, kit: Any) -> None:
    stored = calculator.store.table(kit.METERS)
    sql = "SELECT tbname, site, ts, amps FROM meters WHERE ts >= 120000 AND ts < 420000 ORDER BY tbname, ts"
    plan, before = calculator.query(Query(sql, 1), "power", "UTC", 0)
    assert before.num_rows == 300
    (source,) = plan.sources
    many = one_relation(source, calculator.store, arrow_to=299)
    assert isinstance(many, Parquet), "they are not handed over, though all are in memory"
    with calculator.engine.lane("queries", 1) as lane:
        handed = lane.run(plan.sql, {source.relation: many}, "UTC")
    assert handed.to_pylist() == before.to_pylist()
    stored.evict_half()
    stored.take([b"m3", b"m3"], [b'{"ts": 120000, "amps": -1}', b'{"ts": 400001, "amps": -2}'])
    found = one_relation(source, calculator.store, files_from=0)
    assert isinstance(found, Parquet)
    with calculator.engine.lane("queries", 1) as lane:
        from_files = lane.run(plan.sql, {source.relation: found}, "UTC")
    _, from_memory = calculator.query(Query(sql, 1), "power", "UTC", 0)
    assert from_files.to_pylist() == from_memory.to_pylist()
    old = [row for row in before.to_pylist() if (row["tbname"], row["ts"]) != ("m3", 120_000)]
    new = [("m3", 0, 120_000, -1.0), ("m3", 0, 400_001, -2.0)]
    assert [tuple(row.values()) for row in from_files.to_pylist()] == sorted(
        [tuple(r.values()) for r in old] + new
    )

"""The generated text is Spark SQL: plans give the same rows on Spark as the oracles do, both ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from millrace_core.plan import plan_query

from ..unit.plan import conftest as worlds
from ..unit.plan import test_combinations as combinations
from ..unit.plan import test_functions_scalar as functions
from ..unit.plan import test_golden as golden
from ..unit.plan import test_interp as interp
from ..unit.plan import test_queries as queries
from ..unit.plan import test_series_queries as series

pytestmark = pytest.mark.java

SETTINGS = {
    "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true", "spark.sql.session.timeZone": "UTC", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
}  # fmt: skip
SPARK_TYPES = {
    pa.large_string(): pa.string(), pa.string_view(): pa.string(),
    pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0),
}  # fmt: skip


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").appName("millrace-plan-test")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def run(spark: Any, sql: str, relations: Mapping[str, pl.DataFrame]) -> list[tuple[Any, ...]]:
    for name, frame in relations.items():
        table = frame.to_arrow()
        fields = [field.with_type(SPARK_TYPES.get(field.type, field.type)) for field in table.schema]
        spark.createDataFrame(table.cast(pa.schema(fields))).createOrReplaceTempView(name)
    columns = [column.to_pylist() for column in spark.sql(sql).toArrow().columns]
    return [tuple(plain(value) for value in row) for row in zip(*columns, strict=True)]


def plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    return round(value, 6) if isinstance(value, float) else value


@pytest.mark.parametrize("path", golden.GOLDEN, ids=[path.stem for path in golden.GOLDEN])
def test_golden_plan_on_spark(path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world = worlds.World()
    world.fill(seed=1)
    text = golden.read(path)
    plan = golden.plan_of(world, worlds.Kit, text)
    windows = [(worlds.T0 + 1_000 * a, worlds.T0 + 1_000 * (a + 10)) for a in (0, 25, 70)]
    trig = worlds.trigger_relation(world.spec, worlds.window_events(world.spec, windows))
    wanted = sorted(world.oracle(text["oracle"], trig), key=repr)

    row_of_trigger: dict[str, Any] = {}

    def on_spark(tree: Any, relations: Mapping[str, pl.DataFrame]) -> list[tuple[Any, ...]]:
        sql = plan.set_sql if "_trig" in relations else plan.one_sql(row_of_trigger)
        return run(spark, sql, relations)

    monkeypatch.setattr(worlds, "run", on_spark)
    assert sorted(world.set_rows(plan, trig), key=repr) == wanted
    for row in trig.rows(named=True)[:1]:
        row_of_trigger.clear()
        row_of_trigger.update(row)
        found = world.one_rows(plan, trig.filter(pl.col("_tid") == row["_tid"]))
        assert sorted(found, key=repr) == [w for w in wanted if w[0] == row["_tid"]]


@pytest.mark.parametrize(("sql", "rows"), queries.QUERIES, ids=[sql for sql, _ in queries.QUERIES])
def test_query_on_spark(sql: str, rows: list[tuple[Any, ...]], spark: Any) -> None:
    world = queries.fill_small(worlds.World())
    plan = plan_query(sql, "d", world.catalog, "UTC", worlds.T0 * 1_000_000)
    assert run(spark, plan.one_sql({}), world.whole(plan)) == rows


@pytest.mark.parametrize(("sql", "rows"), combinations.EDGES, ids=[sql for sql, _ in combinations.EDGES])
def test_edges_on_spark(sql: str, rows: list[tuple[Any, ...]], spark: Any) -> None:
    world = combinations.fill_little(worlds.World())
    plan = plan_query(sql, "d", world.catalog, "UTC", worlds.T0 * 1_000_000)
    assert run(spark, plan.one_sql({}), world.whole(plan)) == rows


SERIES = [(module, sql, rows) for module in (series, interp) for sql, rows in module.QUERIES]


@pytest.mark.parametrize(("module", "sql", "rows"), SERIES, ids=[sql for _, sql, _ in SERIES])
def test_series_on_spark(module: ModuleType, sql: str, rows: list[tuple[Any, ...]], spark: Any) -> None:
    world = module.filled(worlds.World())
    plan = plan_query(sql, "d", world.catalog, "UTC", worlds.T0 * 1_000_000)
    assert module.in_seconds(run(spark, plan.one_sql({}), world.whole(plan))) == rows


SPARK_ONLY = [
    (
        "SELECT length('äb'), char_length('äb'), position('b', 'ab'), ascii('a'), repeat('ab', 2)",
        [(3, 2, 2, 97, "abab")],
    ),
    (
        "SELECT concat_ws('-', 'a', 'b'), replace('aXb', 'X', '.'), right('abc', 2), left('abc', 2), "
        "substr('abcd', 2, 2)",
        [("a-b", "a.b", "bc", "ab", "bc")],
    ),
    (
        "SELECT ltrim('  a'), rtrim('a  '), trim('  a '), upper('a'), lower('A'), greatest(1, 2), "
        "least(1.5, 2)",
        [("a", "a", "a", "A", "a", 2, 1.5)],
    ),
    (
        "SELECT sqrt(4), pow(2, 3), log(8, 2), ln(1), exp(0), sign(-3), pi(), ceil(1.2), floor(-1.2), "
        "round(2.346, 2)",
        [(2.0, 8.0, 3.0, 0.0, 1.0, -1, 3.141593, 2.0, -2.0, 2.35)],
    ),
    (
        "SELECT mod(7, 4), degrees(0), sin(0), cos(0), isnull(NULL), isnotnull(1), nullif(1, 1), if(1 > 2, "
        "'a', 'b')",
        [(3.0, 0.0, 0.0, 1.0, True, True, None, "b")],
    ),
]


@pytest.mark.parametrize(("sql", "rows"), SPARK_ONLY, ids=range(len(SPARK_ONLY)))
def test_functions_on_spark(sql: str, rows: list[tuple[Any, ...]], spark: Any) -> None:
    plan = plan_query(sql, "d", worlds.make_catalog(), "UTC", 0)
    assert run(spark, plan.one_sql({}), {}) == rows


def test_values_of_functions_on_spark(spark: Any) -> None:
    sql = "SELECT " + ", ".join(f"{text} AS c{i}" for i, (text, _) in enumerate(functions.VALUES))
    plan = plan_query(sql, "d", worlds.make_catalog(), "UTC", 0)
    (found,) = run(spark, plan.one_sql({}), {})
    assert dict(zip((text for text, _ in functions.VALUES), found, strict=True)) == dict(functions.VALUES)


def test_checksums_on_spark(spark: Any) -> None:
    sql = "SELECT crc32('This is a string'), crc32(123), rand() < 1"
    plan = plan_query(sql, "d", worlds.make_catalog(), "UTC", 0)
    assert run(spark, plan.one_sql({}), {}) == [(141976383, 2286445522, True)]


def test_names_that_differ_in_case_only(spark: Any) -> None:
    sql = "SELECT avg(`温度`) AS `平均`, `Big`, big, sum(`Big`), sum(u) FROM odd GROUP BY `Big`, big"
    world = worlds.World()
    top = 2**64 - 1
    world.insert("odd", [{"ts": 1, "温度": 1.5, "Big": top, "big": -(2**63), "u": 2**32 - 1}])
    plan = plan_query(sql, "d", world.catalog, "UTC", 0)
    (relation,) = world.whole(plan).values()
    table = relation.with_columns(pl.col("Big").cast(pl.Decimal(20, 0)))
    assert run(spark, plan.one_sql({}), {"_src0": table.with_columns(pl.col("u").cast(pl.Int64))}) == [
        (1.5, top, -(2**63), top, 2**32 - 1)
    ]

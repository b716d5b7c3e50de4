"""The deepest and longest queries that the planner lets through, on Spark: its parser, optimiser and tasks
descend into them, and a thread whose stack overflows would end the JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from calc_svc.spark.session import Engine
from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.plan import plan_query

TABLE = Table("d", "t", "normal", 1, "ms", (Column("ts", TIMESTAMP), Column("v", DataType("INT"))))
DEPTH, LENGTH, COLUMNS = 200, 1_000, 4_096
FORMS: dict[str, tuple[Callable[[], str], object]] = {
    "parentheses": (lambda: f"SELECT {'(' * DEPTH}v{')' * DEPTH} FROM t", 7),
    "calls": (lambda: f"SELECT {'abs(' * DEPTH}v{')' * DEPTH} FROM t", 7),
    "CASEs": (lambda: f"SELECT {'CASE WHEN v > 1 THEN ' * DEPTH}v{' END' * DEPTH} FROM t", 7),
    "AND and OR in turns": (
        lambda: f"SELECT v FROM t WHERE {'(v = 1 OR v = 7 AND ' * DEPTH}v > 3{')' * DEPTH}", 7,
    ),
    "NOTs": (lambda: f"SELECT v FROM t WHERE {'NOT ' * DEPTH}v > 1", 7),
    "signs": (lambda: f"SELECT {'- ' * DEPTH}v FROM t", 7),
    "a sum": (lambda: f"SELECT v{' + v' * (LENGTH - 10)} FROM t", 7 * (LENGTH - 9)),
    "terms of OR": (
        lambda: f"SELECT v FROM t WHERE {' OR '.join(f'v = {i}' for i in range(LENGTH))}", 7,
    ),
    "columns": (lambda: f"SELECT {', '.join(f'v + {i} AS c{i}' for i in range(COLUMNS))} FROM t", 7),
}  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = Engine({"queries": 1})
    yield made
    made.stop()


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    made = Catalog()
    for record in (Database("d"), TABLE):
        made.apply(key_of(record), encode(record))
    return made


COMPILED = ("CASEs", "a sum")
"""Spark compiles what has many rows; a form of each kind is enough, for compiling thousands of columns takes
minutes."""
CASES = [(form, 1) for form in FORMS] + [(form, 6_000) for form in COMPILED]


@pytest.mark.java
@pytest.mark.parametrize(("form", "many"), CASES)
def test_what_the_planner_lets_through_runs(engine: Engine, catalog: Catalog, form: str, many: int) -> None:
    make, expected = FORMS[form]
    plan = plan_query(make(), "d", catalog, "UTC", 0)
    (source,) = plan.sources
    columns = {"ts": pa.array(range(many), pa.int64()), "v": pa.array([7] * many, pa.int32())}
    rows = pa.table({name: columns[name] for name in source.columns})
    with engine.lane("queries", 120) as lane:
        found = lane.run(plan.one_sql({}), {source.relation: rows}, "UTC", 10_000)
    assert found.num_rows == many
    assert found.column(0)[0].as_py() == expected
    assert engine.alive

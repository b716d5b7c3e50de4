"""Groups of the older dialect by columns and expressions: what they mean, and what is refused."""

from __future__ import annotations

import pytest

from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.dialect.front_ends import FRONT_ENDS
from millrace_core.dialect.tdengine import explain
from millrace_core.errors import SqlError
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType

INT = DataType("INT")
BY = "SELECT _wstart AS ws, count(*) AS n FROM st PARTITION BY"
FRONT = FRONT_ENDS["tdengine"]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    made = Catalog()
    columns = (Column("ts", TIMESTAMP), Column("v", INT))
    for record in (Database("d", "ms"), Table("d", "st", "super", 3, "ms", columns, (Column("k", INT),))):
        made.apply(key_of(record), encode(record))
    return made


def create(query: str, into: str = "o") -> str:
    return f"CREATE STREAM s INTO {into} AS {query} INTERVAL(10s)"


def stream(catalog: Catalog, sql: str) -> StreamSpec:
    return FRONT.lower(FRONT.parse(sql), catalog, "d", "UTC")


def test_groups_by_columns_and_expressions(catalog: Catalog) -> None:
    sql = create(
        f"{BY} concat('g-', cast(v AS VARCHAR(8))) AS g, k AS kk, v, "
        "concat('k', cast(k AS VARCHAR(4))) AS t",
        "o TAGS (g VARCHAR(32), v INT, kk INT, t VARCHAR(8)) SUBTABLE(concat(g, t))",
    )  # fmt: skip
    spec = stream(catalog, sql)
    assert spec.partition == ("k",) and spec.output is not None
    assert [(key.sql, key.type.name) for key in spec.keys] == [
        ("concat('g-', cast(v AS VARCHAR(8)))", "VARCHAR"), ("v", "INT"),
    ]  # fmt: skip
    assert [tag.expression for tag in spec.output.tags] == [
        "%%2", "%%3", "k", "concat('k', cast(k AS VARCHAR(4)))",
    ]  # fmt: skip
    assert spec.output.subtable == "concat(%%2, (concat('k', cast(k AS VARCHAR(4)))))"


def test_an_expression_over_tags_alone_groups_by_its_value(catalog: Catalog) -> None:
    spec = stream(catalog, create(f"{BY} abs(k) AS a", "o TAGS (a INT)"))
    assert spec.partition == () and [key.sql for key in spec.keys] == ["abs(k)"]


def test_the_statement_that_comes_nearest_groups_by_tables_only(catalog: Catalog) -> None:
    spec = stream(catalog, create(f"{BY} k AS kk, v AS g", "o TAGS (g INT) SUBTABLE(cast(g AS VARCHAR(8)))"))
    facts = explain.understood(spec)
    assert ("groups", "k, v") in facts
    (nearest,) = [fact.value for fact in facts if fact.item == "statement"]
    assert stream(catalog, nearest).partition == ("k",)
    assert any("tables and tags, not by values of columns" in fact.value for fact in facts)


@pytest.mark.parametrize(("by", "words", "points_at"), [
    ("nobody", "no column nobody", "nobody"), ("v + rand() AS x", "rand, whose value changes", "rand"),
    ("max(v) AS x", "max reads more than one row", "max"),
    ("cast(v AS VARBINARY(8)) AS x", "not supported", "v AS V"),
])  # fmt: skip
def test_what_rows_cannot_be_grouped_by(catalog: Catalog, by: str, words: str, points_at: str) -> None:
    sql = create(f"{BY} {by}")
    with pytest.raises(SqlError, match=words) as raised:
        stream(catalog, sql)
    position = raised.value.position
    assert position is not None and position.column == sql.index(points_at) + 1

"""OUTPUT_SUBTABLE and TAGS: what is refused when the stream is made, and what a group's values lead to."""

from __future__ import annotations

from typing import Any

import pytest
import sqlglot

from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.stream import Output, OutputTag, Source
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.plan import OutputPlaces, plan_output

from .conftest import database, make_spec

TAGS = {"k": "INT", "big": "BIGINT", "q": "BIGINT UNSIGNED", "d": "DOUBLE", "s": "VARCHAR(16)",
        "n": "NCHAR(4)", "b": "BOOL", "at": "TIMESTAMP"}  # fmt: skip
BY = ("tbname", *TAGS)


def type_of(text: str) -> DataType:
    name, _, length = text.partition("(")
    return DataType.of(name, int(length[:-1]) if length else None)


def plan(subtable: str | None = None, tag: tuple[str, str] | None = None, precision: Any = "ms") -> Any:
    """The plan for a stream with that sub-table's name, and a tag ``a`` of (type, expression)."""
    tags = tuple(Column(name, type_of(text)) for name, text in TAGS.items())
    table = Table(
        "d", "st", "super", 3, precision, (Column("ts", TIMESTAMP), Column("v", DataType("INT"))), tags
    )
    catalog = Catalog()
    for record in (Database("d", precision), Database("u", "us"), table):
        catalog.apply(key_of(record), encode(record))
    made = (
        (OutputTag(Column("a", type_of(tag[0])), tag[1]),)
        if tag
        else (OutputTag(Column("a", TIMESTAMP), "at"),)
    )
    spec = make_spec(
        "SELECT 1", BY, None, Source(table), output=Output("u", "o", tags=made, subtable=subtable)
    )
    return plan_output(spec, catalog, OutputPlaces(Position(3, 7), (Position(5, 9),)))


def run(sql: str, **values: Any) -> tuple[Any, ...]:
    """``(_subtable, a[, _lost])`` of the one group with these values."""
    types = {"_gid": "BIGINT", "_tbname": "VARCHAR", "_g1": "VARCHAR"}
    sql_types = {"BIGINT UNSIGNED": "HUGEINT", "BOOL": "BOOLEAN", "TIMESTAMP": "BIGINT"}
    row = {"_gid": 1, "_tbname": "c1", "_g1": "c1"}
    for place, (name, text) in enumerate(TAGS.items(), 2):
        base = text.partition("(")[0]
        types[f"_g{place}"] = "VARCHAR" if "CHAR" in base else sql_types.get(base, base)
        row[f"_g{place}"] = values.get(name)
    with database().cursor() as connection:
        columns = ", ".join(f'CAST(? AS {types[name]}) AS "{name}"' for name in row)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE _grp AS SELECT {columns}", list(row.values()))
        sql = sql.replace("FORMAT_STRING(", "printf(")
        found = connection.execute(sqlglot.transpile(sql, read="spark", write="duckdb")[0]).fetchone()
    assert found is not None and found[0] == 1
    return tuple(found[1:])


@pytest.mark.parametrize(("expression", "code", "part", "column"), [
    ("k", ErrorCode.TYPE_MISMATCH, "OUTPUT_SUBTABLE must be text, not INT", 7),
    ("k + 1", ErrorCode.TYPE_MISMATCH, "must be text", 7),
    ("no_such_function(tbname)", ErrorCode.UNKNOWN_FUNCTION, "no_such_function", 7),
    ("concat('x', max(tbname))", ErrorCode.NOT_ALLOWED, "max cannot be used inside OUTPUT_SUBTABLE", 19),
    ("concat('x_', cast(count(*) AS VARCHAR(8)))", ErrorCode.NOT_ALLOWED, "count", 25),
    ("concat('x_', cast(v AS VARCHAR(8)))", ErrorCode.UNKNOWN_COLUMN, "v is not a grouping column", 25),
    ("concat(s, k)", ErrorCode.TYPE_MISMATCH, "concat takes text, not INT", 17),
    ("concat(s)", ErrorCode.INVALID_VALUE, "concat takes 2 to 8 arguments", 7),
    ("to_char(now(), 'yyyy')", ErrorCode.NOT_ALLOWED, "now is not constant within a group", 15),
    ("to_char(today(), 'yyyy')", ErrorCode.NOT_ALLOWED, "today is not constant within a group", 15),
    ("cast(rand() AS VARCHAR(9))", ErrorCode.NOT_ALLOWED, "rand is not constant within a group", 12),
])  # fmt: skip
def test_names_that_are_refused(expression: str, code: ErrorCode, part: str, column: int) -> None:
    with pytest.raises(SqlError) as caught:
        plan(expression)
    assert caught.value.code is code and part in caught.value.message, caught.value
    assert caught.value.position == Position(3, column)


@pytest.mark.parametrize(("type_", "expression", "code", "part"), [
    ("INT", "99999999999", ErrorCode.INVALID_VALUE, "the tag a INT cannot hold 99999999999"),
    ("INT", "-2147483649", ErrorCode.INVALID_VALUE, "cannot hold -2147483649"),
    ("TINYINT UNSIGNED", "-1", ErrorCode.INVALID_VALUE, "cannot hold -1"),
    ("INT", "100000 * 100000", ErrorCode.INVALID_VALUE, "cannot hold 10000000000"),
    ("INT", "1.5", ErrorCode.INVALID_VALUE, "cannot hold 1.5"),
    ("VARCHAR(2)", "'abc'", ErrorCode.INVALID_VALUE, "the tag a VARCHAR(2) cannot hold 'abc'"),
    ("VARCHAR(2)", "'温'", ErrorCode.INVALID_VALUE, "cannot hold"),
    ("NCHAR(2)", "'温温温'", ErrorCode.INVALID_VALUE, "cannot hold"),
    ("VARCHAR(2)", "123", ErrorCode.INVALID_VALUE, "cannot hold 123"),
    ("INT", "s", ErrorCode.TYPE_MISMATCH, "the tag a is INT, but its expression is VARCHAR(16)"),
    ("INT", "tbname", ErrorCode.TYPE_MISMATCH, "but its expression is VARCHAR(270)"),
    ("INT", "'5'", ErrorCode.TYPE_MISMATCH, "but its expression is VARCHAR(1)"),
    ("DOUBLE", "n", ErrorCode.TYPE_MISMATCH, "but its expression is NCHAR(4)"),
    ("BOOL", "s", ErrorCode.TYPE_MISMATCH, "but its expression is VARCHAR(16)"),
    ("BOOL", "k", ErrorCode.TYPE_MISMATCH, "but its expression is INT"),
    ("TIMESTAMP", "s", ErrorCode.TYPE_MISMATCH, "but its expression is VARCHAR(16)"),
    ("TIMESTAMP", "d", ErrorCode.TYPE_MISMATCH, "but its expression is DOUBLE"),
    ("INT", "at", ErrorCode.TYPE_MISMATCH, "but its expression is TIMESTAMP"),
    ("VARBINARY(8)", "k", ErrorCode.TYPE_MISMATCH, "but its expression is INT"),
    ("JSON", "'{}'", ErrorCode.TYPE_MISMATCH, "the tag a is JSON"),
    ("JSON", "s", ErrorCode.TYPE_MISMATCH, "the tag a is JSON"),
    ("JSON", "to_json('{\"a\": 1}')", ErrorCode.TYPE_MISMATCH, "the tag a is JSON"),
    ("BIGINT", "sum(k)", ErrorCode.NOT_ALLOWED, "sum cannot be used inside TAGS"),
    ("INT", "no_such_function(k)", ErrorCode.UNKNOWN_FUNCTION, "no_such_function"),
    ("INT", "v", ErrorCode.UNKNOWN_COLUMN, "v is not a grouping column"),
])  # fmt: skip
def test_tags_that_are_refused(type_: str, expression: str, code: ErrorCode, part: str) -> None:
    with pytest.raises(SqlError) as caught:
        plan(None, (type_, expression))
    assert caught.value.code is code and part in caught.value.message, caught.value
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column >= 9) == (5, True)


@pytest.mark.parametrize(("type_", "expression", "values", "found", "lost"), [
    ("INT", "k * 2", {"k": 21}, 42, None),
    ("INT", "k * 2", {"k": 2_000_000_000}, None, "the tag a INT cannot hold 4000000000"),
    ("TINYINT", "k", {"k": 127}, 127, None), ("TINYINT", "k", {"k": -128}, -128, None),
    ("TINYINT", "k", {"k": 128}, None, "the tag a TINYINT cannot hold 128"),
    ("TINYINT", "k", {"k": -129}, None, "cannot hold -129"), ("TINYINT", "k", {}, None, None),
    ("TINYINT UNSIGNED", "k", {"k": -1}, None, "cannot hold -1"),
    ("BIGINT", "q", {"q": 2**63}, None, f"cannot hold {2**63}"), ("BIGINT", "q", {"q": 7}, 7, None),
    ("BIGINT UNSIGNED", "big", {"big": -1}, None, "cannot hold -1"),
    ("INT", "2147483647", {}, 2**31 - 1, None), ("BIGINT", "99999999999", {}, 99_999_999_999, None),
    ("INT", "d", {"d": 2.0}, 2, None), ("INT", "d", {"d": 1e10}, None, "cannot hold"),
    ("INT", "b", {"b": True}, 1, None), ("BOOL", "b", {"b": True}, True, None),
    ("BOOL", "k > 1", {"k": 2}, True, None),
    ("DOUBLE", "k", {"k": 3}, 3.0, None), ("BIGINT", "at", {"at": 5}, 5, None),
    ("VARCHAR(2)", "k", {"k": 12}, "12", None), ("VARCHAR(2)", "k", {"k": 123}, None, "cannot hold 123"),
    ("VARCHAR(8)", "s", {"s": "12345678"}, "12345678", None),
    ("VARCHAR(8)", "s", {"s": "123456789"}, None, "the tag a VARCHAR(8) cannot hold 123456789"),
    ("VARCHAR(3)", "n", {"n": "温"}, "温", None), ("VARCHAR(3)", "n", {"n": "温a"}, None, "cannot hold 温a"),
    ("NCHAR(2)", "s", {"s": "温温"}, "温温", None), ("NCHAR(2)", "s", {"s": "abc"}, None, "cannot hold abc"),
    ("VARCHAR(64)", "tbname", {}, "c1", None), ("VARCHAR(9)", "'all'", {}, "all", None),
    ("TIMESTAMP", "at", {"at": 7}, 7_000, None),  # of a database in microseconds
    ("TIMESTAMP", "big", {"big": 7}, 7, None), ("INT", "NULL", {}, None, None),
])  # fmt: skip
def test_a_value_that_a_tag_cannot_hold_is_told(
    type_: str, expression: str, values: dict[str, Any], found: Any, lost: str | None
) -> None:
    made = plan(None, (type_, expression))
    _, value, *told = run(made.sql, **values)
    if lost is None:
        assert value == found and told in ([], [None])
    else:
        assert made.checked and lost in told[0]


def test_a_constant_name_is_known_at_once() -> None:
    assert plan("'all'").constant == "all"
    assert plan("concat('a', s)").constant is None
    assert plan(None).constant is None

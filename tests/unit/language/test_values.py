"""Literals to values: what INSERT writes is what was meant, what does not fit is named and placed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.dialect.tdengine import parse
from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language.lexer import quote
from millrace_core.language.statements import Delete, Insert, InsertTable, Literal
from millrace_core.language.times import TimeContext, delete_range, time_value
from millrace_core.language.values import insert_rows, literal_value
from millrace_core.model.schema import Column, Table
from millrace_core.model.types import TIMESTAMP, TYPES, DataType
from millrace_core.timeline import format_local
from millrace_core.wire.rows.decoder import RowDecoder

SESSION = TimeContext("ms", 1_767_225_600_123_456_789)  # 2026-01-01 00:00:00.123456789
TABLE = Table(
    "d", "t", "normal", 1, "ms",
    (
        Column("ts", TIMESTAMP),
        Column("k", DataType("INT"), composite_key=True),
        Column("d", DataType("DOUBLE")),
        Column("b", DataType("BOOL")),
        Column("s", DataType("VARCHAR", 12)),
        Column("n", DataType("NCHAR", 4)),
        Column("u", DataType("BIGINT UNSIGNED")),
        Column("at", TIMESTAMP),
    ),
)  # fmt: skip


def insert(sql: str) -> InsertTable:
    statement = parse(sql)
    assert isinstance(statement, Insert)
    return statement.tables[0]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=4).filter(
    lambda text: len(text.encode()) <= 12
)
rows = st.lists(
    st.tuples(
        st.integers(0, 4_000_000_000_000),
        st.integers(-(2**31), 2**31 - 1),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
        st.none() | st.booleans(),
        st.none() | texts,
        st.none() | texts,
        st.none() | st.integers(0, 2**64 - 1),
        st.none() | st.integers(-(2**63), 2**63 - 1),
    ),
    min_size=1,
    max_size=20,
)


def written(row: tuple[Any, ...], as_text: bool) -> str:
    first = f"'{format_local(row[0], 'ms')}'" if as_text else str(row[0])
    cells = [first]
    for cell in row[1:]:
        match cell:
            case None:
                cells.append("null")
            case str():
                cells.append(quote(cell))
            case _:
                cells.append(str(cell))
    return "(" + " ,".join(cells) + ")"


@given(rows, st.booleans(), st.sampled_from([" ", ", ", "\n", " -- it's (1)\n", "/*'*/"]))
def test_rows_round_trip(given_rows: list[tuple[Any, ...]], as_text: bool, between: str) -> None:
    part = insert("INSERT INTO t VALUES " + between.join(written(row, as_text) for row in given_rows))
    columns = insert_rows(part, TABLE, SESSION)
    assert list(columns) == [column.name for column in TABLE.columns]
    assert list(zip(*columns.values(), strict=True)) == given_rows


@given(rows)
def test_what_insert_makes_is_a_message_of_the_log(given_rows: list[tuple[Any, ...]]) -> None:
    part = insert("INSERT INTO t VALUES " + " ".join(written(row, False) for row in given_rows))
    columns = insert_rows(part, TABLE, SESSION)
    decoded = RowDecoder(TABLE).decode([json.dumps(columns).encode()])
    assert not decoded.bad
    assert decoded.frame.rows() == given_rows


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("INT", "'12'", 12),
        ("INT", "1.5", 2),
        ("INT", "-1.5", -2),
        ("INT", "2.4999", 2),
        ("INT", "'1e3'", 1000),
        ("INT", "0x1F", 31),
        ("INT", "'NULL'", None),
        ("BIGINT", "-9223372036854775808", -(2**63)),
        ("BIGINT UNSIGNED", "18446744073709551615", 2**64 - 1),
        ("DOUBLE", "'2.5'", 2.5),
        ("DOUBLE", "+3", 3.0),
        ("FLOAT", "null", None),
        ("BOOL", "2", True),
        ("BOOL", "0.0", False),
        ("BOOL", "'False'", False),
        ("BOOL", "TRUE", True),
        ("VARCHAR", "12.50", "12.50"),
        ("VARCHAR", "'null'", "null"),
        ("VARCHAR", "true", "true"),
        ("NCHAR", "'温度温度'", "温度温度"),
        ("VARBINARY", r"'\x6162'", "ab"),
        ("JSON", "'{\"a\": 1}'", '{"a": 1}'),
        ("JSON", "''", None),
        ("TIMESTAMP", "now", 1_767_225_600_123),
        ("TIMESTAMP", "NOW() + 1s - 3a", 1_767_225_601_120),
        ("TIMESTAMP", "today()", 1_767_225_600_000),
        ("TIMESTAMP", "now - 1n", 1_764_547_200_123),
        ("TIMESTAMP", "'2026-01-01 00:00:01' + 1d", 1_767_312_001_000),
        ("TIMESTAMP", "'2026-01-01T01:00:00.5+01:00'", 1_767_225_600_500),
        ("TIMESTAMP", "5 + 1s", 1005),
        ("TIMESTAMP", "-5", -5),
        ("TIMESTAMP", "null", None),
    ],
)
def test_values(type_: str, text: str, value: object) -> None:
    length = 4 if TYPES[type_].size is None and type_ != "JSON" else None
    if type_ == "VARCHAR":
        length = 8
    literal = Literal(text, Position(1, 1))
    assert literal_value(literal, Column("c", DataType(type_, length)), SESSION) == value


BAD = [
    ("TINYINT", "128", ErrorCode.INVALID_VALUE, "out of range for TINYINT (-128 to 127)"),
    ("INT UNSIGNED", "-1", ErrorCode.INVALID_VALUE, "out of range for"),
    ("BIGINT", "9223372036854775808", ErrorCode.INVALID_VALUE, "out of range for"),
    ("BIGINT", "1e400", ErrorCode.INVALID_VALUE, "out of range for"),
    ("INT", "'abc'", ErrorCode.TYPE_MISMATCH, "'abc' is not a value of type INT"),
    ("INT", "''", ErrorCode.TYPE_MISMATCH, "not a value"),
    ("INT", "true", ErrorCode.TYPE_MISMATCH, "not a value"),
    ("INT", "１２", ErrorCode.TYPE_MISMATCH, "not a value"),
    ("FLOAT", "1e39", ErrorCode.INVALID_VALUE, "out of range for"),
    ("DOUBLE", "1e999", ErrorCode.INVALID_VALUE, "out of range for"),
    ("DOUBLE", "nan", ErrorCode.TYPE_MISMATCH, "not a value"),
    ("DOUBLE", "'inf'", ErrorCode.TYPE_MISMATCH, "not a value"),
    ("BOOL", "'yes'", ErrorCode.TYPE_MISMATCH, "not a value"),
    ("VARCHAR", "'123456789'", ErrorCode.INVALID_VALUE, "too long: 9 bytes, but VARCHAR(8) allows 8"),
    ("VARCHAR", "'温度温'", ErrorCode.INVALID_VALUE, "too long: 9 bytes"),
    ("VARCHAR", "now()", ErrorCode.TYPE_MISMATCH, "not a value"),
    ("VARCHAR", "'a' 1s", ErrorCode.TYPE_MISMATCH, "not a value"),
    ("NCHAR", "'123456789'", ErrorCode.INVALID_VALUE, "9 characters"),
    ("VARBINARY", r"'\xZZ'", ErrorCode.INVALID_VALUE, "hexadecimal"),
    ("TIMESTAMP", "'2026-13-01'", ErrorCode.INVALID_VALUE, "not a timestamp"),
    ("TIMESTAMP", "'yesterday'", ErrorCode.INVALID_VALUE, "not a timestamp"),
    ("TIMESTAMP", "now + 1", ErrorCode.INVALID_VALUE, "not a valid time"),
    ("TIMESTAMP", "now + 0.5s", ErrorCode.INVALID_VALUE, "not a valid time"),
    ("TIMESTAMP", "now + 1u", ErrorCode.INVALID_VALUE, "not a whole number of ms"),
    ("TIMESTAMP", "9223372036854775808", ErrorCode.INVALID_VALUE, "64 bits"),
    ("TIMESTAMP", "1.5", ErrorCode.INVALID_VALUE, "not a valid time"),
]


@pytest.mark.parametrize(("type_", "text", "code", "message"), BAD)
def test_what_does_not_fit_is_placed(type_: str, text: str, code: ErrorCode, message: str) -> None:
    length = 8 if TYPES[type_].size is None else None
    columns = (Column("ts", TIMESTAMP), Column("c", DataType(type_, length)))
    table = Table("d", "t", "normal", 1, "ms", columns)
    good = {"VARCHAR": "'x'", "NCHAR": "'x'", "VARBINARY": "'x'"}.get(type_, "1")
    part = insert(f"INSERT INTO t VALUES (1, {good})\n (2, {good}) (3,  {text})")
    with pytest.raises(SqlError) as raised:
        insert_rows(part, table, SESSION)
    assert raised.value.code is code
    assert message in raised.value.message and raised.value.message.startswith("c: ")
    assert raised.value.position == Position(2, 13 + len(good))


@pytest.mark.parametrize("text", ["1_000", "12ab"])
def test_what_is_no_literal_at_all(text: str) -> None:
    table = Table("d", "t", "normal", 1, "ms", (Column("ts", TIMESTAMP), Column("c", DataType("INT"))))
    with pytest.raises(SqlError, match="neither a number nor a duration") as raised:
        insert_rows(insert(f"INSERT INTO t VALUES (1, 1) (2, {text})"), table, SESSION)
    assert raised.value.position == Position(1, 33)


@pytest.mark.parametrize("text", ["{}", "'[1]'", "'{'", "1"])
def test_bad_json_tags(text: str) -> None:
    with pytest.raises(SqlError, match="JSON"):
        literal_value(Literal(text, Position(4, 2)), Column("j", DataType("JSON")), SESSION)


@pytest.mark.parametrize(
    ("sql", "message", "place"),
    [
        ("INSERT INTO t VALUES (1, 2)", "2 values, but 8 are expected", (1, 23)),
        ("INSERT INTO t (ts, k, nope) VALUES (1, 2, 3)", "no column nope", (1, 23)),
        ("INSERT INTO t (ts, d) VALUES (1, 2)", "key column k must be given", (1, 16)),
        ("INSERT INTO t (ts, k) VALUES (1, 1) (NULL, 1)", "key column ts cannot be NULL", (1, 38)),
        ("INSERT INTO t (ts, k) VALUES (1, NULL)", "key column k cannot be NULL", (1, 34)),
    ],
)
def test_bad_rows(sql: str, message: str, place: tuple[int, int]) -> None:
    with pytest.raises(SqlError) as raised:
        insert_rows(insert(sql), TABLE, SESSION)
    assert message in raised.value.message
    assert raised.value.position == Position(*place)


def test_local_time_is_the_sessions() -> None:
    literal = Literal("'2026-01-01 08:00:00'", Position(1, 1))
    assert time_value(literal, TimeContext("us", 0, "Asia/Shanghai")) == 1_767_225_600_000_000
    assert (
        time_value(Literal("today()", Position(1, 1)), TimeContext("ms", SESSION.now, "+08:00"))
        == 1_767_196_800_000
    )


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("", (-(2**63), 2**63 - 1)),
        (" WHERE ts = 5", (5, 5)),
        (" WHERE ts > 5 AND ts < 9", (6, 8)),
        (" WHERE 5 <= ts AND _c0 <= 9 AND ts >= 7", (7, 9)),
        (" WHERE ts BETWEEN '2026-01-01' AND '2026-01-02'", (1_767_225_600_000, 1_767_312_000_000)),
        (" WHERE ts > 5 AND ts < 6", (6, 5)),
    ],
)
def test_delete_ranges(where: str, expected: tuple[int, int]) -> None:
    statement = parse("DELETE FROM t" + where)
    assert isinstance(statement, Delete)
    assert delete_range(statement, TABLE, SESSION) == expected


def test_delete_by_another_column_is_refused() -> None:
    statement = parse("DELETE FROM t WHERE ts > 1 AND k = 3")
    assert isinstance(statement, Delete)
    with pytest.raises(SqlError) as raised:
        delete_range(statement, TABLE, SESSION)
    assert raised.value.code is ErrorCode.NOT_ALLOWED
    assert raised.value.position == Position(1, 32)


def test_ten_thousand_rows_in_one_statement() -> None:
    table = Table("d", "t", "normal", 1, "ms", TABLE.columns[:1] + TABLE.columns[2:5])
    seconds = [f"2026-01-01 00:{i // 600:02d}:{i // 10 % 60:02d}.{i % 10}00" for i in range(10_000)]
    text = " ".join(f"('{at}', {i / 3}, true, 'a{i}')" for i, at in enumerate(seconds))
    columns = insert_rows(insert("INSERT INTO t VALUES " + text), table, SESSION)
    assert columns["s"][-1] == "a9999" and len(columns["ts"]) == 10_000

"""Conditions on rows as data mean what the planner's SQL means by the same text."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import msgspec
import polars as pl
import pytest

from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.conditions import condition_expression
from millrace_core.conditions.patterns import like, regular
from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language.query import parse_expression
from millrace_core.model.expression import AnyExpression, Constant, fields_of
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.plan import Plan, plan_query
from millrace_core.trigger.rows.expressions import polars
from millrace_core.wire.rows.decoded import polars_type

T0 = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC
WIDE = Table(
    "d", "wide", "normal", 1, "ms",
    (
        Column("ts", TIMESTAMP),
        *(
            Column(name, DataType.of(*type_))
            for name, type_ in {
                "i": ("INT",), "l": ("BIGINT",), "t": ("TINYINT",), "u": ("INT UNSIGNED",),
                "ub": ("BIGINT UNSIGNED",), "f": ("FLOAT",), "d": ("DOUBLE",), "b": ("BOOL",),
                "s": ("VARCHAR", 16), "n": ("NCHAR", 8), "at": ("TIMESTAMP",),
            }.items()
        ),
    ),
)  # fmt: skip
CELLS: dict[str, list[Any]] = {
    "i": [-7, -1, 0, 1, 2, 3, 10, 2**31 - 1, -(2**31)],
    "l": [-(2**63) + 1, -(2**53) - 1, -5, 0, 1, 4, 2**53 + 1, 2**63 - 1],
    "t": [-128, -3, 0, 1, 5, 127],
    "u": [0, 1, 7, 2**32 - 1],
    "ub": [0, 1, 9, 2**53 + 1, 2**63, 2**64 - 1],
    "f": [-2.5, -0.1, 0.0, 0.1, 1.0, 2.5, 16777216.0, 3e38],
    "d": [-2.5, -0.5, 0.0, 0.1, 0.49999999999999994, 1.0, 1.5, 2.5, 1e17, 9007199254740992.0],
    "b": [True, False],
    "s": ["", "a", "A", "ab", "a%b", "a.b", " x ", "12", "-3.7", "1e2", "b\\", "it's", "zz\n"],
    "n": ["ä", "äb", "温度", "ab", ""],
    "at": [T0 - 1, T0, T0 + 60_000, -1, 0],
}

CONDITIONS = [
    "i > 1", "i <> -1", "-l >= 3", "i = 2.5", "i < 2.5", "l > 9007199254740992.5", "l = 9007199254740992",
    "t + 1 > 127", "i + i > 4", "l - 1 < 0", "i * 1.5 >= 3", "i / 2 = 1.5", "i / 0 is null", "i / t > 1",
    "i % 3 = 1", "i % 3 = -1", "l % 0 is null", "d % 0.1 < 0.05", "d % 1 = 0.5", "ub = 18446744073709551615",
    "ub > 9223372036854775807", "ub > l", "ub > 1.5", "u >= 7", "u > i", "ub in (1, 9223372036854775808)",
    "f > 0.1", "f = 0.1", "f >= 16777216", "f < d", "d = i", "d > 1e0", "d between 0 and 1.5",
    "i between 1 and 2.5", "i not between 0 and 2", "i in (1, 2, 3)", "i not in (1, 2)", "i in (1, null)",
    "i not in (1, null)", "s in ('a', 'ab')", "b", "not b", "b = true", "b = 1", "b is true",
    "b is not false",
    "b or i > 1", "b and i > 1", "i > 1 or i is null and b", "not (b or i > 1) and d > 0", "null", "i = null",
    "1 = 1", "i", "s is null", "s is not null", "s = 'a'", "s < 'ab'", "s <> n", "s like 'a%'", "s like '_b'",
    "s not like 'a%'", "s like '%.%'", "s match '^a.b$'", "s match 'b$'",
    "s nmatch '[0-9]+'", "s match 'x|y'", "n match '^.b'", "s match '\\\\d'", "s match '(?i)AB'",
    "case when i > 1 then 'big' when i > 0 then 'one' end = 'one'", "case i when 1 then 2 else 3.5 end > 3",
    "case when b then 1 end is null", "if(b, i, t) > 0", "nvl2(s, i, t) > 1", "coalesce(i, t, 5) = 5",
    "ifnull(d, 1) = 1", "nullif(i, 1) is null", "isnull(i)", "isnotnull(i)", "greatest(i, t) > 2",
    "least(i, 2.5) < 2", "cast(d as int) = 2", "cast(d as bigint) = -2", "cast(f as int) = 0",
    "cast(i as varchar(2)) = '10'", "cast(i as double) / 4 > 0.5", "cast(b as int) = 1",
    "cast(l as tinyint) = 1", "cast(s as int) = -3", "cast(s as double) > 11", "cast(s as bigint) = 100",
    "cast(i as bool)", "cast(i as timestamp) > 3", "cast(s as varchar(1)) = 'a'", "abs(i) = 7",
    "abs(d) = 2.5",
    "ceil(d) = 1", "floor(d) = -3", "floor(f) = 0", "round(d) = 0", "round(d) = -1", "round(d, 1) = 0.5",
    "round(i, -1) = 10", "sign(i) = -1", "sqrt(d) > 1", "sqrt(d) is null", "pow(i, 2) = 49", "ln(d) is null",
    "log(d) > 0", "log(i, 2) = 1", "exp(i) > 5", "mod(i, 3) = 1", "pi() > 3", "sin(d) > 0",
    "truncate(d, 0) = 2", "concat(s, n) = 'aä'", "concat_ws('-', s, n) = 'a-ä'", "lower(s) = 'a'",
    "upper(s) = 'AB'", "length(s) = 2", "char_length(n) = 2", "length(s) + char_length(n) > 3",
    "ltrim(s) = 'x '", "rtrim(s) = ' x'", "trim(s) = 'x'", "substr(s, 2) = 'b'", "substr(s, -1) = 'b'",
    "substr(s, 1, 1) = 'a'", "substr(s, i, 1) = 'b'", "left(s, 1) = 'a'", "right(s, 1) = 'b'",
    "replace(s, 'a', 'b') = 'bb'", "position('b', s) = 2", "position('b', n) = 2", "ts > '2026-01-01'",
    "ts >= '2026-01-01 00:00:01'", f"ts = {T0}", "at < ts", "ts - at > 1m", "at + 1h > '2026-01-01'",
    "ts - 1d < at", "timetruncate(at, 1h) = at", "timetruncate(at, 1d) = at", "timediff(ts, at, 1s) = 0",
    "timediff(ts, '2026-01-01') > 2", "to_iso8601(ts) = '2026-01-01T00:00:01.000+0000'",
    "to_iso8601(at) = '1969-12-31T23:59:59.999+0000'", "i & 1 = 1", "i | 2 = 3",
    "s = 10", "s > 1.5", "n <= 1", "s in (0, 12)", "case s when 10 then b else true end",
    "cast(i as int unsigned) > 5", "cast(t as tinyint unsigned) = 255",
]  # fmt: skip
"""What a condition can be made of; run on Spark too, by an integration test."""


def rows(count: int = 120, seed: int = 5) -> pl.DataFrame:
    """Every cell at least once where there is room, NULLs among them."""
    rng = random.Random(seed)
    data: dict[str, list[Any]] = {"ts": [T0 + 500 * n for n in range(count)]}
    for name, cells in CELLS.items():
        mixed = [*cells, None] + [rng.choice([*cells, None]) for _ in range(count - len(cells) - 1)]
        rng.shuffle(mixed)
        data[name] = mixed
    types = {column.name: polars_type(column.type) for column in WIDE.columns}
    return pl.DataFrame([pl.Series(name, cells, types[name]) for name, cells in data.items()])


def catalog() -> Catalog:
    found = Catalog()
    for record in (Database("d"), WIDE):
        found.apply(key_of(record), encode(record))
    return found


def meaning(sql: str, table: Table = WIDE, timezone: str = "UTC") -> AnyExpression:
    return condition_expression(parse_expression(sql), table, timezone, "PRE_FILTER")


def told(expression: AnyExpression, frame: pl.DataFrame) -> list[bool | None]:
    return frame.with_columns(polars(expression).alias("found"))["found"].to_list()


def planned(conditions: list[str]) -> Plan:
    """A query for what the conditions are: 1, 0 or NULL."""
    results = [f"if({sql}, 1, if(NOT ({sql}), 0, NULL)) AS c{i}" for i, sql in enumerate(conditions)]
    return plan_query(f"SELECT {', '.join(results)} FROM wide", "d", catalog(), "UTC", 0)


def differences(sql: str, frame: pl.DataFrame, theirs: list[Any]) -> list[Any]:
    """The rows of which an engine says another thing than the condition as data, with both answers."""
    wanted = [None if value is None else bool(value) for value in theirs]
    pairs = zip(told(meaning(sql), frame), wanted, strict=True)
    return [(frame.row(i, named=True), *pair) for i, pair in enumerate(pairs) if pair[0] != pair[1]]


OTHERWISE = (
    "(?i)", "cast(s as", "cast(d as", "cast(f as", "cast(l as tinyint)", "abs(i)", "round(i", "% 0.1",
    "l = 9007", "l > 9007", "f > 0.1", "f = 0.1", "length(s)", "position",
)  # fmt: skip
"""What DuckDB has under another name, or computes in other types than Spark does."""


@pytest.mark.parametrize("sql", [c for c in CONDITIONS if not any(part in c for part in OTHERWISE)])
def test_a_condition_means_what_the_planner_means(sql: str) -> None:
    frame, plan = rows(), planned([sql])
    connection = duckdb.connect()
    connection.register(plan.sources[0].relation, frame.to_arrow())
    answers = connection.execute(plan.one_tree.sql("duckdb", identify=True)).fetchall()
    assert not differences(sql, frame, [value for (value,) in answers])


METERS = Table(
    "d", "meters", "super", 2, "ms", (Column("ts", TIMESTAMP), Column("v", DataType("INT"))),
    (Column("site", DataType("VARCHAR", 8)), Column("extra", DataType("JSON"))),
)  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "code", "message", "column"),
    [
        ("v > now()", ErrorCode.UNSUPPORTED, "now, whose value changes over time, is not supported", 5),
        ("rand() > 0.5", ErrorCode.UNSUPPORTED, "rand, whose value changes", 1),
        ("repeat(site, 2) = 'aa'", ErrorCode.UNSUPPORTED, "repeat is not supported in an expression", 8),
        ("v > 1 AND cast(v / 2 AS VARCHAR(8)) = '1'", ErrorCode.UNSUPPORTED, "cast is not supported", 16),
        ("site", ErrorCode.TYPE_MISMATCH, "expected a condition, not VARCHAR(8)", 1),
        ("roud(v) > 1", ErrorCode.UNKNOWN_FUNCTION, "unknown function roud (did you mean round", 1),
        ("site LIKE tbname", ErrorCode.UNSUPPORTED, "a pattern that is not a constant is not supported", 11),
        ("site MATCH '(?=a)'", ErrorCode.INVALID_VALUE, "(?= is not supported here", 12),
        ("site MATCH 'a('", ErrorCode.INVALID_VALUE, "is not supported here", 12),
        ("extra->'k' = 'x'", ErrorCode.UNSUPPORTED, "", 1),
    ],
)
def test_what_cannot_be_told_row_by_row_is_refused(
    sql: str, code: ErrorCode, message: str, column: int
) -> None:
    with pytest.raises(SqlError) as caught:
        meaning(sql, METERS)
    assert caught.value.code is code and message in caught.value.message
    assert caught.value.position == Position(1, column)


def test_texts_beside_times_are_read_in_the_time_zone() -> None:
    frame = pl.DataFrame({"ts": [T0 - 8 * 3_600_000, T0 - 1, T0]})
    assert told(meaning("ts >= '2026-01-01'"), frame) == [False, False, True]
    assert told(meaning("ts >= '2026-01-01'", timezone="Asia/Shanghai"), frame) == [True, True, True]


def test_a_condition_survives_messages() -> None:
    for sql in CONDITIONS:
        expression = meaning(sql)
        for codec in (msgspec.json, msgspec.msgpack):
            back = codec.decode(codec.encode(expression), type=AnyExpression)
            assert back == expression and hash(back) == hash(expression), sql
    assert len({Constant(1), Constant(1.0), Constant(True), Constant(1)}) == 3


def test_the_fields_of_a_condition_are_its_columns_and_tags() -> None:
    assert fields_of(meaning("v > 1 AND site IN ('a', tbname) OR 1 = 1", METERS)) == {"v", "site", "tbname"}


def test_long_chains_are_flat_and_endless_nesting_is_refused() -> None:
    values = ", ".join(map(str, range(5_000)))
    assert told(meaning(f"i IN ({values})"), pl.DataFrame({"i": [4_999, 5_000, None]})) == [True, False, None]
    chain = " OR ".join(f"i = {n}" for n in range(3_000))
    assert told(meaning(chain), pl.DataFrame({"i": [2_999, 3_000, None]})) == [True, False, None]
    assert told(meaning(f"{'(' * 200}i = 1{')' * 200}"), pl.DataFrame({"i": [1, 2]})) == [True, False]
    with pytest.raises(SqlError, match="nested more than 200 levels"):
        meaning(f"{'(' * 201}i = 1{')' * 201}")


@pytest.mark.parametrize(
    ("pattern", "met", "unmet"),
    [
        ("a%b_", ["abc", "axxbc", "a\nbc"], ["ab", "xabc"]),
        ("100\\%", ["100%"], ["1000", "100%x"]),
        ("a_[b].", ["ax[b]."], ["axb.", "a[b]."]),
        ("", [""], ["a"]),
    ],
)
def test_like(pattern: str, met: list[str], unmet: list[str]) -> None:
    texts = pl.Series([*met, *unmet])
    assert texts.str.contains(like(pattern)).to_list() == [True] * len(met) + [False] * len(unmet)


@pytest.mark.parametrize(
    ("pattern", "met", "unmet"),
    [
        (r"^a\d+$", ["a1", "a12\n"], ["a", "xa1", "a١"]),
        ("a.b", ["a-b", "xa.bx"], ["a\nb", "a\rb", "ab"]),
        (r"\bx\b", ["x", "a x.", "äx"], ["ax"]),
        (r"[\d.]{3}", ["1.2"], ["1a2"]),
        ("(?:ab|c)+?$", ["xabc"], ["cx"]),
    ],
)
def test_match(pattern: str, met: list[str], unmet: list[str]) -> None:
    texts = pl.Series([*met, *unmet])
    assert texts.str.contains(regular(pattern)).to_list() == [True] * len(met) + [False] * len(unmet)


@pytest.mark.parametrize(
    "pattern", ["a++", r"(a)\1", r"\p{L}", "(?<=a)b", "[a--b]", "[[:alpha:]]", "(?s).", "["]
)
def test_a_pattern_that_the_engines_read_differently_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="not supported here"):
        regular(pattern)

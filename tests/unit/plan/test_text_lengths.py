"""The length of a text result's type: no value is longer, however it is made."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.types import MAX_LENGTH, DataType
from millrace_core.plan import Plan, plan_query

from ...conftest import examples

T0 = 1_767_225_600_000
TABLE = Table(
    "d", "t", "normal", 9, "ms",
    (Column("ts", DataType("TIMESTAMP")), Column("s", DataType("VARCHAR", 6)),
     Column("u", DataType("VARCHAR", 4)), Column("n", DataType("NCHAR", 3)), Column("i", DataType("INT")),
     Column("g", DataType("BIGINT")), Column("q", DataType("BIGINT UNSIGNED")),
     Column("d", DataType("DOUBLE")), Column("f", DataType("FLOAT")), Column("b", DataType("BOOL")),
     Column("at", DataType("TIMESTAMP")), Column("k", DataType("INT"))),
)  # fmt: skip


def of_bytes(most: int) -> st.SearchStrategy[str]:
    """Texts of this many bytes at most; their characters have one to four."""
    cut = st.text("aXb, .1温é👍", max_size=most).map(
        lambda value: value.encode()[:most].decode(errors="ignore")
    )
    return st.one_of(cut, st.just("X" * most))


ROW = {
    "s": of_bytes(6), "u": of_bytes(4), "n": st.text("aX,温é👍", max_size=3),
    "i": st.sampled_from([None, 0, 7, -(2**31), 2**31 - 1]),
    "g": st.sampled_from([None, -1, -(2**63) + 1, 2**63 - 1]), "q": st.sampled_from([0, 2**64 - 1]),
    "d": st.sampled_from([0.5, -1.7e308, 1e-300]), "f": st.sampled_from([0.5, -(2.0**127)]),
    "b": st.booleans(), "at": st.sampled_from([T0, 0, -1, 253_402_300_800_000, 9_000_000_000_000_000]),
    "k": st.integers(-2, 5),
}  # fmt: skip
QUOTED = of_bytes(8).map(lambda value: f"'{value}'")
LEAVES = st.one_of(st.sampled_from(["s", "u", "n"]), QUOTED)
NUMBERS = st.sampled_from(["i", "g", "q", "d", "f", "b"])
WHOLE = st.sampled_from(["i", "g"])
COUNTS = st.one_of(st.integers(0, 9).map(str), st.just("k"))
FORMATS = ["yyyy-mm-dd hh24:mi:ss.ns", "Month DAY y TZH a.m.", '"温" ddd d yy MON ms', "温"]


def _calls(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def make(pattern: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.tuples(*parts).map(lambda given: pattern.format(*given))

    types = st.sampled_from(["VARCHAR(5)", "NCHAR(2)", "VARCHAR(40)", "VARCHAR"])
    return st.one_of(
        make("concat({}, {})", inner, inner),
        make("concat_ws({}, {}, {}, {})", inner, inner, inner, inner),
        make("replace({}, {}, {})", inner, QUOTED, inner), make("replace({}, {}, {})", inner, inner, inner),
        make("repeat({}, {})", inner, COUNTS), make("substr({}, k, {})", inner, COUNTS),
        make("substring_index({}, 'X', k)", inner), make("left({}, k)", inner), make("right({}, 2)", inner),
        make("upper({})", inner), make("trim({})", inner), make("trim('X' FROM {})", inner),
        make("to_base64({})", inner), make("from_base64({})", inner), make("md5({})", inner),
        make("sha1({})", inner), make("sha2({}, 256)", inner), make("char(k, {})", WHOLE),
        make("char({}, k, 65)", WHOLE), make("cast({} AS {})", inner, types),
        make("cast({} AS {})", NUMBERS, types), make("greatest({}, {})", inner, NUMBERS),
        make("least({}, {}, {})", inner, NUMBERS, NUMBERS),
        make("coalesce(nullif({}, 'X'), {})", inner, inner),
        make("if(b, {}, {})", inner, inner), make("nvl2(i, {}, {})", inner, inner),
        make("CASE WHEN b THEN {} ELSE {} END", inner, inner),
        make("CASE WHEN b THEN {} WHEN i > 0 THEN {} ELSE {} END", inner, NUMBERS, NUMBERS),
        st.sampled_from(["to_iso8601(at)", "to_iso8601(at, '+08:00')", "date(at)", "database()"]),
        make("to_char(at, '{}')", st.sampled_from(FORMATS)),
    )  # fmt: skip


TEXTS = st.recursive(LEAVES, _calls, max_leaves=6)


@cache
def catalog() -> Catalog:
    made = Catalog()
    for record in (Database("d"), TABLE):
        made.apply(key_of(record), encode(record))
    return made


def run(kit: Any, rows: list[dict[str, Any]], query: str) -> tuple[Plan, list[tuple[Any, ...]]]:
    world = kit.World(catalog=catalog(), tables={"t": TABLE})
    world.insert("t", [{"ts": T0 + at, **row} for at, row in enumerate(rows)])
    return plan_query(query, "d", catalog(), "UTC", T0 * 1_000_000), world.query(query)


def check(kit: Any, rows: list[dict[str, Any]], query: str) -> None:
    plan, found = run(kit, rows, query)
    for row in found:
        for column, value in zip(plan.result, row, strict=True):
            if value is None:
                continue
            size = len(value) if column.type.name == "NCHAR" else len(value.encode())
            assert size <= (column.type.length or 0), (query, str(column.type), value)


ONE = {
    "s": "XXXXXX", "u": "X温", "n": "👍温X", "i": 2**31 - 1, "g": -(2**63) + 1, "q": 2**64 - 1,
    "d": -1.7e308, "f": -(2.0**127), "b": True, "at": 9_000_000_000_000_000, "k": 5,
}  # fmt: skip


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.fixed_dictionaries(ROW), min_size=1, max_size=4),
    calls=st.lists(TEXTS, min_size=1, max_size=3),
)
@example([ONE], ["concat_ws('<-->', s, u, n)", "replace(s, 'X', '温温')", "replace(s, u, n)", "repeat(s, k)"])
@example([ONE | {"b": False}], ["CASE WHEN b THEN s WHEN i < 0 THEN i ELSE d END", "greatest('', d)"])
@example([ONE | {"k": -2}], ["char(k, k)", "date(at)", "to_char(at, 'yyyy TZH')", "cast(n AS VARCHAR(4))"])
def test_no_text_is_longer_than_its_type(kit: Any, rows: list[dict[str, Any]], calls: list[str]) -> None:
    check(kit, rows, f"SELECT {', '.join(f'{call} AS x{at}' for at, call in enumerate(calls))} FROM t")


@pytest.mark.parametrize("call", [
    "group_concat(s, n, ',')", "group_concat(s, u, '<-->')", "max(concat_ws('--', s, u))",
    "mode(replace(s, 'X', n))", "first(repeat(u, 3))", "cols(last(i), concat_ws('--', s, u)) AS x",
    "leastsquares(d, 1, 1)",
    "histogram(i, 'user_input', '[-1e300, 0, 1e300]', 0)", "percentile(d, 0, 50, 100)",
])  # fmt: skip
def test_no_text_of_many_rows_is_longer(kit: Any, call: str) -> None:
    rows = [ONE, ONE | {"d": 1.7e308, "i": 1}, ONE | {"d": 1e307}]
    check(kit, rows, f"SELECT {call} FROM t")


@pytest.mark.parametrize(("call", "type_"), [
    ("concat_ws('<---------------->', s, u)", "VARCHAR(28)"), ("concat_ws(',', s, u, n)", "NCHAR(15)"),
    ("replace(s, 'X', 'abc')", "VARCHAR(18)"), ("replace(s, 'XX', 'abc')", "VARCHAR(9)"),
    ("replace(s, 'XXXX', 'y')", "VARCHAR(6)"), ("replace(s, 'XXXX', 'abcdef')", "VARCHAR(8)"),
    ("replace(s, '', 'abc')", "VARCHAR(6)"), ("replace(s, u, 'ab')", "VARCHAR(12)"),
    ("replace(s, 'X', n)", "NCHAR(18)"), ("repeat(s, 3)", "VARCHAR(18)"), ("repeat(n, 3)", "NCHAR(9)"),
    ("repeat(s, 0)", "VARCHAR(1)"), ("repeat(s, k)", f"VARCHAR({MAX_LENGTH})"),
    ("repeat(s, 1000000)", f"VARCHAR({MAX_LENGTH})"), ("repeat(n, k)", f"NCHAR({MAX_LENGTH // 4})"),
    ("to_base64(s)", "VARCHAR(8)"), ("to_base64(n)", "VARCHAR(16)"),
    ("to_char(at, 'yy-mon')", "VARCHAR(6)"), ("CASE WHEN b THEN s ELSE g END", "VARCHAR(20)"),
    ("CASE WHEN b THEN s ELSE b END", "VARCHAR(6)"), ("greatest(s, q)", "VARCHAR(20)"),
    ("concat(s, n)", "NCHAR(9)"), ("group_concat(s, ',')", f"VARCHAR({MAX_LENGTH})"),
])  # fmt: skip
def test_lengths(call: str, type_: str) -> None:
    plan = plan_query(f"SELECT {call} FROM t", "d", catalog(), "UTC", 0)
    assert [str(column.type) for column in plan.result] == [type_]

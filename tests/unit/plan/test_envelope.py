"""Statements of any depth and width: each is planned, or refused by an error of its own, not by accident."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace_core.errors import Fault, SqlError
from millrace_core.plan import plan_query

from ...conftest import examples

DEEPEST, WIDEST = 5_000, 40_000
MOST_TEXT = 50_000_000
"""Characters of a plan's SQL. A megabyte of names of one letter becomes some forty times as much."""
INSIDE: dict[str, Callable[[str], str]] = {
    "parentheses": lambda e: f"({e})",
    "sign": lambda e: f"- {e}",
    "sum": lambda e: f"1 + {e}",
    "call": lambda e: f"abs({e})",
    "case": lambda e: f"CASE WHEN v > 1 THEN {e} ELSE 0 END",
    "repeat": lambda e: f"length(repeat('x', length(concat('a', repeat('b', {e})))))",
    "replace": lambda e: f"length(replace(tbname, 'a', cast({e} AS VARCHAR(9))))",
}
BESIDE: dict[str, Callable[[list[str]], str]] = {
    "columns": lambda all_: f"SELECT {', '.join(all_)} FROM meters",
    "or": lambda all_: f"SELECT v FROM meters WHERE {' OR '.join(f'{one} = 1' for one in all_)}",
    "in": lambda all_: f"SELECT v FROM meters WHERE v IN ({', '.join(all_)})",
    "concat": lambda all_: f"SELECT concat({', '.join(all_)}) FROM meters",
    "unions": lambda all_: " UNION ALL ".join(f"SELECT {one} FROM meters" for one in all_),
    "crossed": lambda all_: f"SELECT {all_[0]} FROM " + ", ".join(f"meters a{i}" for i in range(len(all_))),
    "queries in FROM": lambda all_: "SELECT * FROM (" * len(all_) + "SELECT v FROM meters" + ")" * len(all_),
}


@st.composite
def statements(draw: st.DrawFn) -> str:
    """Mostly small ones: a few kinds of nesting inside one another, side by side in one of the ways."""
    deep = draw(st.one_of(st.integers(0, 20), st.sampled_from([100, 200, 201, 1_000, DEEPEST])))
    wide = draw(st.one_of(st.integers(1, 9), st.sampled_from([100, 4_096, 4_097, WIDEST])))
    kinds = draw(st.lists(st.sampled_from(sorted(INSIDE)), min_size=1, max_size=3))
    way = draw(st.sampled_from(sorted(BESIDE)))
    one = "v"
    for level in range(deep):
        one = INSIDE[kinds[level % len(kinds)]](one)
        if len(one) > 2 << 20:
            break  # it is longer than any that is read
    count = min(wide, max(1, (2 << 20) // len(one)))
    return BESIDE[way]([one] * count)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(statements())
def test_an_answer_or_an_own_error(kit: Any, sql: str) -> None:
    try:
        plan = plan_query(sql, "d", kit.make_catalog(), "UTC", 0)
    except SqlError as error:
        assert error.code.value.fault is Fault.USER
        assert error.position is not None
    else:
        assert len(plan.one_sql({})) < MOST_TEXT

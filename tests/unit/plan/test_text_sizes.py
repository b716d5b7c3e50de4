"""No function makes a text that is longer than a column's may be: at plan time, or while the query runs."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from millrace_core.errors import ErrorCode, SqlError
from millrace_core.model.types import MAX_LENGTH
from millrace_core.plan import plan_query

GROWING = {
    "repeat": "repeat(concat('a', tbname), {n})",
    "replace": "replace(repeat(concat(left(tbname, 1), 'b'), {n}), 'b', repeat(left(tbname, 1), {n}))",
    "concat": "concat(repeat(left(tbname, 1), {n}), repeat(left(tbname, 1), {n}))",
    "concat_ws": "concat_ws(repeat(left(tbname, 1), {n}), 'a', repeat(left(tbname, 1), {n}))",
    "to_base64": "to_base64(repeat(left(tbname, 1), {n}))",
    "group_concat": "group_concat(repeat(left(tbname, 1), {n}))",
}
MANY = {"repeat": 60_000_000, "replace": 32_000, "to_base64": 60_000}


@pytest.mark.parametrize("sql", ["repeat('x', 2000000000)", "concat('a', repeat('xy', 32759))"])
def test_constants_that_make_too_long_a_text_are_refused_at_their_place(world: Any, sql: str) -> None:
    with pytest.raises(SqlError) as caught:
        world.query(f"SELECT {sql} FROM meters")
    assert caught.value.code is ErrorCode.TOO_LARGE
    assert "repeat" in caught.value.message
    assert caught.value.position is not None


def test_the_longest_text_is_made(world: Any) -> None:
    found = world.query(f"SELECT length(repeat('x', {MAX_LENGTH})) FROM meters LIMIT 1")
    assert found == [(MAX_LENGTH,)]
    found = world.query(f"SELECT length(repeat(left(tbname, 1), {MAX_LENGTH})) FROM meters LIMIT 1")
    assert found == [(MAX_LENGTH,)]


@pytest.mark.parametrize("name", GROWING)
def test_values_that_make_too_long_a_text_end_the_query(world: Any, name: str) -> None:
    with pytest.raises(duckdb.Error, match=f"{name} would make a text of [0-9]+ bytes, 65,517 are allowed"):
        world.query(f"SELECT length({GROWING[name].format(n=MANY.get(name, 40_000))}) FROM meters")


@pytest.mark.parametrize("name", GROWING)
def test_values_that_make_no_long_text_end_nothing(world: Any, name: str) -> None:
    assert world.query(f"SELECT length({GROWING[name].format(n=100)}) > 0 FROM meters LIMIT 1") == [(True,)]


def test_nested_calls_do_not_double_each_other(world: Any) -> None:
    """Each argument stands once in Spark's SQL: a depth of 100 is no longer than 100 calls."""
    nested = "tbname"
    for _ in range(100):
        nested = f"replace({nested}, tbname, tbname)"
    plan = plan_query(f"SELECT {nested} FROM meters", "d", world.catalog, "UTC", 0)
    assert len(plan.one_sql({})) < 100_000

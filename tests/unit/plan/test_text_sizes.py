"""No function makes a text that is longer than a column's may be: at plan time, or while the query runs."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from millrace_core.errors import ErrorCode, SqlError
from millrace_core.model.types import MAX_LENGTH
from millrace_core.plan import plan_query
from millrace_core.plan.functions.text_sizes import MOST_INSIDE

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
    with pytest.raises(
        duckdb.Error, match=f"{name} would make a text of [0-9]+ bytes; at most 65,517 are allowed"
    ):
        world.query(f"SELECT length({GROWING[name].format(n=MANY.get(name, 40_000))}) FROM meters")


@pytest.mark.parametrize("name", GROWING)
def test_values_that_make_no_long_text_end_nothing(world: Any, name: str) -> None:
    assert world.query(f"SELECT length({GROWING[name].format(n=100)}) > 0 FROM meters LIMIT 1") == [(True,)]


def nested(depth: int) -> str:
    made = "tbname"
    for _ in range(depth):
        made = f"replace({made}, tbname, tbname)"
    return f"SELECT {made} FROM meters"


def test_nested_calls_do_not_double_each_other(world: Any) -> None:
    """Each argument stands once in Spark's SQL."""
    plans = [plan_query(nested(depth), "d", world.catalog, "UTC", 0) for depth in (5, 10, 15)]
    five, ten, fifteen = (len(plan.one_sql({})) for plan in plans)
    assert fifteen - ten <= 1.1 * (ten - five)


def test_only_so_many_may_be_inside_one_another(world: Any) -> None:
    plan_query(nested(MOST_INSIDE), "d", world.catalog, "UTC", 0)
    with pytest.raises(SqlError, match="nested 17 levels deep; at most 16 are allowed") as caught:
        plan_query(nested(MOST_INSIDE + 1), "d", world.catalog, "UTC", 0)
    assert caught.value.code is ErrorCode.TOO_LARGE
    # what fits by its types may be nested as anything else
    deep = "'a'"
    for _ in range(150):
        deep = f"replace({deep}, 'a', 'b')"
    plan_query(f"SELECT {deep} FROM meters", "d", world.catalog, "UTC", 0)

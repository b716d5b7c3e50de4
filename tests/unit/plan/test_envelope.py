"""Statements of any depth and width: each is planned, or refused by an error of its own, not by accident."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings

from millrace_core.errors import Fault, SqlError
from millrace_core.plan import plan_query

from ...conftest import examples
from ...hostile import hostile

MOST_TEXT = 50_000_000
"""Characters of a plan's SQL. A megabyte of names of one letter becomes some forty times as much."""


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hostile())
def test_an_answer_or_an_own_error(kit: Any, sql: str) -> None:
    try:
        plan = plan_query(sql, "d", kit.make_catalog(), "UTC", 0)
    except SqlError as error:
        assert error.code.value.fault is Fault.USER
        assert error.position is not None
    else:
        assert len(plan.one_sql({})) < MOST_TEXT

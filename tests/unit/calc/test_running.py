"""Queries of users while they run: how long they may take, who may end them, what is shown of them."""

from __future__ import annotations

import pytest

from calc_svc.queries.running import Query, RunningQueries
from calc_svc.spark.failures import refusal
from millrace_core.errors import ErrorCode, Fault, MillraceError, PlanError


def test_a_query_is_over_when_its_time_is() -> None:
    query = Query("SELECT 1", 0.0)
    assert query.left == 0
    with pytest.raises(PlanError, match="MILLRACE_QUERY_SECONDS") as caught:
        query.check()
    assert caught.value.code is ErrorCode.QUERY_TIMEOUT
    assert caught.value.code.value.fault is Fault.USER


def test_the_first_reason_stands() -> None:
    query = Query("SELECT 1", 0.0)
    query.end(PlanError(ErrorCode.QUERY_KILLED, "first"))
    query.end(PlanError(ErrorCode.QUERY_KILLED, "second"))
    assert str(query.over()) == "first"


def test_a_query_is_killed_by_its_name() -> None:
    running = RunningQueries()
    with (
        running.run(Query("SELECT 1", 60, "g:1", "ann")) as one,
        running.run(Query("", 60, "g:2", "bob")) as two,
    ):
        running.kill("g:1", None, "root")
        assert one.over() is not None
        assert "root" in str(one.over())
        assert two.over() is None


@pytest.mark.parametrize(("name", "user"), [("g:2", None), ("g:1", "bob")])
def test_nothing_is_killed_that_does_not_run_or_is_anothers(name: str, user: str | None) -> None:
    running = RunningQueries()
    with running.run(Query("SELECT 1", 60, "g:1", "ann")) as one:
        with pytest.raises(MillraceError) as caught:
            running.kill(name, user, "bob")
        assert caught.value.code is ErrorCode.UNKNOWN_QUERY
        assert one.over() is None


def test_what_runs_is_shown_while_it_does() -> None:
    running = RunningQueries()
    with running.run(Query("SELECT 1", 60, "g:1", "ann")):
        (shown,) = running.shown()
        assert (shown.id, shown.user, shown.sql) == ("g:1", "ann", "SELECT 1")
        assert shown.took >= 0
    assert running.shown() == []


@pytest.mark.parametrize(
    ("said", "code", "told"),
    [
        (
            "Job aborted due to stage failure: Total size of serialized results of 1 tasks (2.0 MiB) is "
            "bigger than spark.driver.maxResultSize (1.0 MiB)",
            ErrorCode.TOO_LARGE, "the result is larger than 1.0 MiB (MILLRACE_CALC_RESULT_BYTES)",
        ),
        ("[UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 1 bytes", ErrorCode.TOO_LARGE, "memory"),
        ("An error occurred\njava.lang.StackOverflowError", ErrorCode.TOO_LARGE, "nested"),
        ("[USER_RAISED_EXCEPTION] no values SQLSTATE: P0001", ErrorCode.INVALID_VALUE, "no values"),
        ("", ErrorCode.INVALID_VALUE, "Spark refused the query"),
    ],
)  # fmt: skip
def test_what_spark_says_is_said_in_words_of_ours(said: str, code: ErrorCode, told: str) -> None:
    error = refusal(said, ErrorCode.INVALID_VALUE)
    assert error.code is code
    assert told in error.message

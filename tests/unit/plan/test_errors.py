"""What is wrong with a query is told with its code, its name, and its place in the user's statement."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.plan import plan_query
from millrace_core.plan.streams.stream import columns

from ...conftest import examples

# query, code, what the place points at, a part of the message
STREAM_ERRORS = [
    ("SELECT _twstart, cnt(v) FROM %%trows", "UNKNOWN_FUNCTION", "cnt", "count"),
    ("SELECT _twstart, vv FROM nt", "UNKNOWN_COLUMN", "vv", "did you mean v"),
    ("SELECT _twstart, count(*) FROM nx", "UNKNOWN_TABLE", "nx", "d.nx"),
    ("SELECT _twstart, count(*) FROM e.nt", "UNKNOWN_DATABASE", "e.nt", "unknown database e"),
    ("SELECT a.v FROM nt", "UNKNOWN_TABLE", "a.v", "no table a in FROM"),
    ("SELECT v FROM nt, meters", "AMBIGUOUS_COLUMN", "v FROM", "ambiguous: it is in more than one"),
    ("SELECT _twstart, %%2 FROM nt", "NOT_ALLOWED", "%%2", "1 grouping"),
    ("SELECT _twstart, %%0 FROM nt", "NOT_ALLOWED", "%%0", "1 grouping"),
    ("SELECT _tcurrent_ts, v FROM nt", "NOT_ALLOWED", "_tcurrent_ts", "type of trigger"),
    ("SELECT _tprev_localtime, v FROM nt", "NOT_ALLOWED", "_tprev_localtime", "type of trigger"),
    ("SELECT _twstartx, v FROM nt", "UNKNOWN_COLUMN", "_twstartx", "_twstartx"),
    ("SELECT _twstart FROM _twstart", "UNKNOWN_TABLE", "_twstart", "_twstart"),
    ("SELECT _twstart, %%trows FROM nt", "NOT_ALLOWED", "%%trows", "used only in FROM"),
    ("SELECT _twstart FROM %%trows WHERE v > 1", "NOT_ALLOWED", "v > 1", "WHERE"),
    ("SELECT _twstart FROM %%trows, nt", "NOT_ALLOWED", "nt", "joined"),
    ("SELECT _twstart FROM %%1", "NOT_ALLOWED", "%%1", "not a table"),
    ("SELECT _twstart, avg(s) FROM meters", "TYPE_MISMATCH", "s)", "VARCHAR"),
    ("SELECT v FROM nt WHERE ts > 'soon'", "INVALID_VALUE", "'soon'", "not a timestamp"),
    ("SELECT v FROM nt WHERE v = 'x'", "TYPE_MISMATCH", "'x'", "not a number"),
    ("SELECT s FROM meters WHERE s > ts", "TYPE_MISMATCH", "s > ts", "cannot be compared"),
    ("SELECT count(*), v FROM nt", "NOT_ALLOWED", "v FROM", "neither grouped"),
    ("SELECT sum(count(*)) FROM nt", "NOT_ALLOWED", "count", "inside sum"),
    ("SELECT v FROM nt WHERE sum(v) > 1", "NOT_ALLOWED", "sum", "WHERE"),
    ("SELECT v FROM nt HAVING v > 1", "NOT_ALLOWED", "v > 1", "HAVING"),
    ("SELECT v FROM nt WHERE v IN (SELECT v FROM nt)", "UNSUPPORTED", "v IN", "not a subquery"),
    ("SELECT _wstart FROM nt", "NOT_ALLOWED", "_wstart", "window clause"),
    ("SELECT count(*) FROM nt SESSION(v, 1s)", "NOT_ALLOWED", "v, 1s", "time column"),
    ("SELECT count(*) FROM nt SESSION(ts, 0s)", "INVALID_VALUE", "0s", "longer than zero"),
    ("SELECT count(*) FROM nt SESSION(ts, 1n)", "INVALID_VALUE", "1n", "months"),
    ("SELECT count(*) FROM nt STATE_WINDOW(w)", "TYPE_MISMATCH", "w)", "DOUBLE"),
    ("SELECT count(*) FROM meters STATE_WINDOW(k)", "NOT_ALLOWED", "k)", "is a tag"),
    ("SELECT count(*) FROM nt STATE_WINDOW(v, 3)", "INVALID_VALUE", "3)", "extend"),
    ("SELECT count(*) FROM nt STATE_WINDOW(sum(v))", "NOT_ALLOWED", "sum", "a window clause"),
    ("SELECT count(*) FROM nt COUNT_WINDOW(0)", "INVALID_VALUE", "0)", "must be an integer"),
    ("SELECT count(*) FROM nt COUNT_WINDOW(4, 5)", "INVALID_VALUE", "COUNT_WINDOW", "larger"),
    ("SELECT count(*) FROM meters COUNT_WINDOW(4, 2, site)", "NOT_ALLOWED", "site", "is a tag"),
    ("SELECT count(*) FROM nt ANOMALY_WINDOW(v, 'algo=x')", "UNSUPPORTED", "'algo", "algorithms: grubbs, iq"),
    (
        "SELECT count(*) FROM nt EVENT_WINDOW START WITH count(*) > 1 END WITH v > 1",
        "NOT_ALLOWED", "count", "EVENT_WINDOW",
    ),
    ("SELECT v, count(*) FROM nt GROUP BY v INTERVAL(1s)", "NOT_ALLOWED", "v INTERVAL", "PARTITION BY"),
    ("SELECT count(*) FROM nt INTERVAL(1s) SLIDING(1n)", "INVALID_VALUE", "INTERVAL", "months"),
    ("SELECT count(*) FROM nt INTERVAL(1n, 1n)", "INVALID_VALUE", "INTERVAL", "offset"),
    ("SELECT count(*) FROM nt INTERVAL(1s, 1n)", "INVALID_VALUE", "INTERVAL", "offset"),
    ("SELECT ts - '2026-01-01' FROM nt", "TYPE_MISMATCH", "'2026-01-01'", "duration"),
    ("SELECT s + ts FROM meters", "TYPE_MISMATCH", "s + ts", "duration"),
    ("SELECT a.v FROM nt a LEFT ASOF JOIN d1 b ON a.v > b.v", "NOT_ALLOWED", "a.v > b.v", "ON of ASOF JOIN"),
    ("SELECT a.v FROM nt a LEFT ASOF JOIN d1 b ON a.ts > b.ts JLIMIT 1025", "INVALID_VALUE", "1025", "1024"),
    ("SELECT a.v FROM nt a LEFT WINDOW JOIN d1 b ON a.ts = b.ts WINDOW_OFFSET(0s, 1s)", "NOT_ALLOWED",
     "a.ts = b.ts", "other than the time columns"),
    ("SELECT a.v FROM nt a LEFT WINDOW JOIN d1 b", "SYNTAX", None, "needs WINDOW_OFFSET"),
    ("SELECT a.v FROM nt a LEFT WINDOW JOIN d1 b WINDOW_OFFSET(0s, 1n)", "INVALID_VALUE", "1n", "months"),
    ("SELECT a.v FROM nt a LEFT WINDOW JOIN d1 b WINDOW_OFFSET(0s, 1s) GROUP BY a.v", "NOT_ALLOWED",
     "a.v", "combined with GROUP BY"),
    ("SELECT a.v FROM nt a LEFT SEMI JOIN d1 b", "SYNTAX", None, "needs ON"),
    ("SELECT a.v FROM nt a LEFT SEMI JOIN d1 b ON a.ts = b.ts JOIN d2 c ON a.ts = c.ts", "NOT_ALLOWED",
     "SEMI", "combined with other joins"),
    ("SELECT a.v FROM (SELECT ts, v FROM nt) a LEFT ASOF JOIN d1 b", "NOT_ALLOWED", "ASOF", "only tables"),
    ("SELECT cols(top(v, 2), ts) FROM nt", "NOT_ALLOWED", "top", "one row: min, max"),
    ("SELECT cols(max(v), sum(w)) FROM nt", "NOT_ALLOWED", "sum", "inside cols"),
    ("SELECT cols(max(v)) FROM nt", "INVALID_VALUE", "max", "2 arguments"),
    ("SELECT _qstart, v FROM nt", "NOT_ALLOWED", "_qstart", "in a stream"),
    ("SELECT v FROM nt WHERE _qend > 1", "NOT_ALLOWED", "_qend", "WHERE"),
    ("SELECT count(*) FROM nt GROUP BY 2", "INVALID_VALUE", "2", "no result column"),
    ("SELECT count(*) FROM nt GROUP BY 1", "NOT_ALLOWED", "count(*)", "inside GROUP BY"),
    ("SELECT DISTINCT v FROM nt ORDER BY w LIMIT 2", "NOT_ALLOWED", "w", "SELECT DISTINCT"),
    ("SELECT 1n - ts FROM nt", "TYPE_MISMATCH", "1n", "months"),
    ("(SELECT v FROM nt) LIMIT 1", "SYNTAX", "LIMIT", "UNION"),
    ("SELECT TAGS site FROM meters", "NOT_ALLOWED", "meters", "stream"),
    ("SELECT v FROM nt WHERE v->'a' = 1", "TYPE_MISMATCH", "v->", "JSON"),
    ("SELECT count(*) FROM nt INTERVAL(9a)", "INVALID_VALUE", "INTERVAL", "10a"),
    ("SELECT count(*) FROM nt INTERVAL(5s) SLIDING(10s)", "INVALID_VALUE", "INTERVAL", "SLIDING"),
    ("SELECT count(*) FROM nt INTERVAL(10s, 10s)", "INVALID_VALUE", "INTERVAL", "offset"),
    ("SELECT ts + 1u FROM nt", "INVALID_VALUE", "1u", "whole number of ms"),
    ("SELECT abs(1, 2) FROM nt", "INVALID_VALUE", "abs", "arguments"),
    ("SELECT cast(v AS BLUB) FROM nt", "INVALID_VALUE", "v AS", "BLUB"),
    ("SELECT v FROM nt UNION SELECT v, w FROM nt", "TYPE_MISMATCH", "v FROM", "not 1 and 2"),
    ("SELECT v FROM nt UNION SELECT v FROM nt ORDER BY z", "UNKNOWN_COLUMN", "z", "UNION"),
    ("SELECT 98765432109876543210 FROM nt", "INVALID_VALUE", "98765432109876543210", "too large"),
    ("SELECT v FROM nt ORDER BY 3", "INVALID_VALUE", "3", "no result column"),
    ("SELECT v FROM nt WHERE", "SYNTAX", None, "at the end"),
    ("SELECT v,, w FROM nt", "SYNTAX", ", w", "','"),
    ("SELECT v FROM nt WHERE s = 'open", "SYNTAX", "'open", "closing"),
    ("SELECT v FROM nt LIMIT 1 SLIMIT 2", "NOT_ALLOWED", "SLIMIT", "PARTITION BY"),
    ("SELECT v FROM nt FILL(PREV)", "NOT_ALLOWED", "FILL", "INTERVAL"),
    ("SELECT count(*) FROM nt SESSION(ts, 1s) FILL(PREV)", "NOT_ALLOWED", "FILL", "INTERVAL"),
    ("SELECT count(*) FROM nt INTERVAL(1s) FILL(VALUE_F, 1)", "NOT_ALLOWED", "FILL", "WHERE"),
    ("SELECT count(*) FROM nt INTERVAL(1s) FILL(VALUE)", "INVALID_VALUE", "FILL", "1 values"),
    ("SELECT count(*) FROM nt INTERVAL(1s) FILL(PREV, 1)", "INVALID_VALUE", "FILL", "0 values"),
    ("SELECT count(*) FROM nt INTERVAL(1s) FILL(VALUE, v)", "INVALID_VALUE", "v)", "constants"),
    ("SELECT count(*) FROM nt INTERVAL(1s) FILL(VALUE, 'a')", "TYPE_MISMATCH", "'a'", "BIGINT"),
    ("SELECT DISTINCT v FROM nt PARTITION BY v LIMIT 1", "NOT_ALLOWED", "1", "DISTINCT"),
    ("SELECT v FROM nt WHERE v & 1.5", "TYPE_MISMATCH", "1.5", "integers"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "code", "points_at", "part"), STREAM_ERRORS, ids=[e[0] for e in STREAM_ERRORS]
)
def test_stream_errors_are_located(
    world: Any, query: str, code: str, points_at: str | None, part: str
) -> None:
    with pytest.raises(SqlError) as caught:
        world.plan(query)
    error = caught.value
    assert error.code == ErrorCode[code]
    assert part in error.message
    offset = len(query) if points_at is None else query.rindex(points_at)
    # the query begins on the second line, after "  INTO o AS "
    assert error.position == Position(2, len("  INTO o AS ") + offset + 1)


@pytest.mark.parametrize(
    ("query", "partition", "part"),
    [
        ("SELECT _twstart, count(*) FROM %%tbname", ("site",), "PARTITION BY tbname"),
        ("SELECT _twstart, %%tbname FROM nt", ("site",), "PARTITION BY tbname"),
        ("SELECT _twstart, %%1 FROM nt", (), "0 grouping"),
    ],
)
def test_placeholders_need_their_grouping(
    world: Any, query: str, partition: tuple[str, ...], part: str
) -> None:
    with pytest.raises(SqlError, match=part) as caught:
        world.plan(query, partition=partition)
    assert caught.value.code == ErrorCode.NOT_ALLOWED


def test_trows_needs_a_trigger_table(world: Any, kit: Any) -> None:
    with pytest.raises(SqlError, match="trigger table"):
        world.plan("SELECT count(*) FROM %%trows", partition=(), source=None, trigger=kit.TRIGGERS["period"])


@pytest.mark.parametrize(
    ("where", "part"),
    [
        ("hi > 3", "hi"),
        ("_twstart > 3", "constants"),
        ("count(*) > 3", r"count\(…\) is not a column of the result"),
        ("max(v) > 3", r"max\(…\) is not a column of the result"),
        ("diff(v) > 3", r"diff\(…\) is not a column of the result"),
        ("v > 3", "unknown result column v"),
    ],
)
def test_notify_reads_result_columns_only(world: Any, where: str, part: str) -> None:
    with pytest.raises(SqlError, match=part) as caught:
        world.plan("SELECT _twstart AS ts, count(*) AS n, avg(v) FROM %%trows", where=where)
    assert caught.value.position == Position(1, len("CREATE STREAM s NOTIFY WHERE ") + 1)


def test_notify_of_constants_is_no_column(world: Any) -> None:
    query = "SELECT _twstart AS ts, count(*) AS n, avg(v) FROM %%trows"
    assert [world.plan(query, where=where).notify for where in ("1 > 2", "n > 2", "avg(v) > 2")] == [
        False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "code", "position"),
    [
        ("SELECT _twstart FROM nt", "NOT_ALLOWED", Position(1, 8)),
        ("SELECT count(*) FROM %%trows", "NOT_ALLOWED", Position(1, 22)),
        ("SELECT\n  v,\n  nope\nFROM nt", "UNKNOWN_COLUMN", Position(3, 3)),
        ("SELECT 1 FROM information_schema.ins_tabs", "UNKNOWN_TABLE", Position(1, 15)),
        ("DROP TABLE nt", "SYNTAX", Position(1, 1)),
        ("SELECT v FROM nt; SELECT v FROM nt", "SYNTAX", Position(1, 1)),
    ],
)
def test_query_errors(kit: Any, sql: str, code: str, position: Position) -> None:
    with pytest.raises(SqlError) as caught:
        plan_query(sql, "d", kit.make_catalog(), "UTC", 0)
    assert (caught.value.code, caught.value.position) == (ErrorCode[code], position)


def test_a_query_without_database(kit: Any) -> None:
    with pytest.raises(SqlError) as caught:
        plan_query("SELECT v FROM nt", None, kit.make_catalog(), "UTC", 0)
    assert caught.value.code == ErrorCode.NO_DATABASE
    assert plan_query("SELECT v FROM d.nt", None, kit.make_catalog(), "UTC", 0).sources[0].table == kit.NT


WORDS = [
    "now()",
    "today()",
    "1n",
    "5s",
    "'x'",
    "`",
    "(",
    ")",
    ",",
    ".",
    "*",
    "-",
    "+",
    "/",
    "%",
    "%%1",
    "%%tbname",
    "%%trows",
    "interval",
    "session",
    "fill",
    "partition",
    "group",
    "having",
    "limit",
    "offset",
    "union",
    "all",
    "case",
    "when",
    "then",
    "else",
    "end",
    "null",
    "true",
    "not",
    "and",
    "or",
    "is",
    "in",
    "between",
    "like",
    "->",
    "contains",
    "match",
    "as",
    "on",
    "left",
    "right",
    "full",
    "join",
    "tags",
    "cast",
    "timetruncate",
    "to_iso8601",
    "last(*)",
    "count(*)",
    "first",
    "max",
    "select",
    "from",
    "where",
    ";",
    "0.5",
    "1e3",
    "99999999999",
    "_wstart",
    "_c0",
    "tbname",
    "order",
    "by",
    "asc",
    "desc",
    "distinct",
    "slimit",
    "x",
]
GOOD = (
    "SELECT _twstart AS ts , count ( * ) , sum ( v ) + 1 FROM %%trows",
    "SELECT ts , v FROM %%tbname WHERE ts >= _twstart - 5m AND v IN ( 1 , 2 ) ORDER BY v DESC LIMIT 2",
    "SELECT a . ts , b . w FROM meters a LEFT JOIN nt b ON a . ts = b . ts WHERE a . k = 1",
    "SELECT _wstart , tbname , max ( v ) FROM meters PARTITION BY tbname INTERVAL ( 10s ) SLIDING ( 5s )",
    "SELECT CASE WHEN v > 1 THEN 'a' ELSE s END FROM meters UNION ALL SELECT cast ( v AS VARCHAR ( 3 ) "
    ") FROM nt",
)


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(GOOD), st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["", *WORDS])), max_size=3)
)
def test_a_damaged_query_is_planned_or_refused_with_its_place(
    world: Any, good: str, damage: list[tuple[int, str]]
) -> None:
    tokens = good.split()
    for at, word in damage:
        tokens[at % len(tokens)] = word
    try:
        plan = world.plan(" ".join(tokens))
    except SqlError as error:
        assert error.position is not None
    else:
        assert plan.one_sql(dict.fromkeys(columns(), 1) | {"_g1": "d1", "_tbname": "d1"})

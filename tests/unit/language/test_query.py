"""The query language: names, strings, placeholders, durations, window clauses, and places of errors."""

from __future__ import annotations

import pytest
from sqlglot import exp

from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language.query import nodes, parse_expression, parse_query, placeholders
from millrace_core.language.query.nodes import position_of


def test_names_fold_to_lower_case_unless_quoted() -> None:
    tree = parse_query("SELECT Abc, `Abc`, T.`X y` FROM Db.T AS t")
    assert [c.name for c in tree.expressions] == ["abc", "Abc", "X y"]
    table = tree.args["from_"].this
    assert (table.args["db"].name, table.name) == ("db", "t")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", "a"),
        ('"a"', "a"),
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        ("'`x`'", "`x`"),
        (r"'a\\b'", r"a\b"),
    ],
)
def test_strings(text: str, value: str) -> None:
    literal = parse_expression(text)
    assert isinstance(literal, exp.Literal) and literal.is_string
    assert literal.name == value


def test_placeholders_and_their_places() -> None:
    tree = parse_query("SELECT _TWSTART, %%1\nFROM %%tbname WHERE a = %%tbname AND b < _twend - 5m")
    assert placeholders(tree) == [
        ("_twstart", Position(1, 8)), ("%%1", Position(1, 18)), ("%%tbname", Position(2, 6)),
        ("%%tbname", Position(2, 25)), ("_twend", Position(2, 42)),
    ]  # fmt: skip
    assert placeholders(parse_query("SELECT `_twstart`, t._twend FROM t")) == []


def test_places_count_from_the_origin() -> None:
    tree = parse_query("SELECT a,\n b FROM t", Position(3, 10))
    assert [position_of(c) for c in tree.expressions] == [Position(3, 17), Position(4, 2)]
    with pytest.raises(SqlError) as caught:
        parse_query("SELECT a,\n b FORM t", Position(3, 10))
    assert caught.value.position == Position(4, 9)


def test_durations() -> None:
    node = parse_expression("a + 10S")
    assert isinstance(node.expression, nodes.DurationLiteral)
    assert (node.expression.this, node.expression.args["unit"]) == (10, "s")
    for text, why in (
        ("0.5s", "0.5s is not a duration"), ("10x", "x is not a unit of time"),
        ("1hour", "hour is not a unit of time"),
    ):  # fmt: skip
        with pytest.raises(SqlError, match=why):
            parse_expression(f"a + {text}")


def test_every_call_is_a_call_by_name() -> None:
    tree = parse_query(
        "SELECT FIRST(a), left(b, 2), if(a, 1, 2), count(*), now(), cast(a AS INT UNSIGNED) FROM t"
    )
    names = [(type(node), node.name) for node in tree.expressions]
    assert names == [(exp.Anonymous, n) for n in ("first", "left", "if", "count", "now", "cast")]
    assert [e.name for e in tree.expressions[-1].expressions] == ["a", "INT UNSIGNED"]


@pytest.mark.parametrize(
    ("clause", "kind"),
    [
        ("INTERVAL(10s)", nodes.IntervalWindow),
        ("INTERVAL(10s, 2s) SLIDING(5s)", nodes.IntervalWindow),
        ("SESSION(ts, 5s)", nodes.SessionWindow),
        ("STATE_WINDOW(a, 1) TRUE_FOR(3s)", nodes.StateWindow),
        ("STATE_WINDOW(CASE WHEN a > 1 THEN 1 ELSE 0 END)", nodes.StateWindow),
        ("EVENT_WINDOW START WITH a > 1 END WITH a < 1 TRUE_FOR(2s)", nodes.EventWindow),
        ("EVENT_WINDOW(START WITH a > 1 END WITH a < 1)", nodes.EventWindow),
        ("COUNT_WINDOW(4, 2, a)", nodes.CountWindow),
        ("ANOMALY_WINDOW(a, 'algo=iqr')", nodes.AnomalyWindow),
    ],
)
def test_window_clauses(clause: str, kind: type[exp.Expr]) -> None:
    tree = parse_query(
        f"SELECT count(*) FROM t WHERE a > 0 PARTITION BY tbname, b AS c {clause} ORDER BY 1 LIMIT 2"
    )
    assert isinstance(tree.args["window_clause"], kind)
    assert position_of(tree.args["window_clause"]).column == 64
    assert len(tree.args["partition_by"]) == 2
    assert tree.args["limit"].expression.name == "2"


def test_fill_range_every_and_slimit() -> None:
    tree = parse_query(
        "SELECT interp(v) FROM t PARTITION BY a RANGE('x', 'y') EVERY(1s) FILL(VALUE, 1, 2) SLIMIT 3 "
        "SOFFSET 4"
    )
    assert [len(tree.args["range_clause"].expressions), tree.args["every"].this] == [2, 1]
    assert (tree.args["fill"].this, len(tree.args["fill"].expressions)) == ("VALUE", 2)
    assert (tree.args["slimit"].name, tree.args["soffset"].name) == ("3", "4")


def test_results_keep_their_text() -> None:
    tree = parse_query("SELECT AVG( c0 )+1, a AS b FROM t")
    assert tree.expressions[0].meta["text"] == "AVG( c0 )+1"


def test_json_and_patterns() -> None:
    tree = parse_query(
        "SELECT j->'a' FROM t WHERE j CONTAINS 'b' AND s MATCH '^x' AND s NMATCH 'y' AND s NOT LIKE '%z'"
    )
    assert isinstance(tree.expressions[0], nodes.JsonGet)
    assert tree.find(nodes.JsonContains) and len(list(tree.find_all(exp.RegexpLike))) == 2


FOREIGN = [
    "SELECT count(*) OVER (PARTITION BY a) FROM t", "SELECT a FROM t TABLESAMPLE (1)",
    "SELECT a[1] FROM t", "SELECT a::int FROM t", "SELECT {fn now()}", "SELECT a || b FROM t",
    "WITH x AS (SELECT 1) SELECT * FROM x", "SELECT @a", "SELECT :a", "SELECT a FROM t FOR UPDATE",
    "SELECT x -> x + 1 FROM t -> y", "SELECT * FROM f(1)", "INSERT INTO t VALUES (1)",
    "SELECT DATE '2026-01-01'", "SELECT a FROM t AS u(b)", "SELECT 'a' 'b'", "SELECT a AS 'b c' FROM",
    "SELECT ?", "SELECT a FROM t LATERAL VIEW explode(x) y", "SELECT EXISTS(SELECT 1)",
    "SELECT 1;;SELECT 2", "", ";", "SELECT", "SELECT FROM t", "SELECT ,a FROM t", "SELECT a, FROM t",
    "SELECT %%x", "SELECT %% 1", "%%trows",
]  # fmt: skip


@pytest.mark.parametrize("sql", FOREIGN)
def test_what_is_not_of_the_language_is_refused(sql: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse_query(sql)
    assert caught.value.code == ErrorCode.SYNTAX
    assert caught.value.position is not None

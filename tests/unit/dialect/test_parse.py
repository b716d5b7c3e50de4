"""Statements parse to what they say; what is wrong is named, with its place."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from millrace_core.dialect.tdengine import parse
from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language import statements as s
from millrace_core.model.types import DataType

FORMS = [
    part.strip()
    for part in (Path(__file__).parent / "statement_forms.sql").read_text().partition("\n")[2].split("\n;\n")
    if part.strip()
]


@pytest.mark.parametrize("sql", FORMS)
def test_every_form_of_statement_parses(sql: str) -> None:
    statement = parse(sql)
    assert isinstance(statement, get_args(s.Statement))
    expected = {"SELECT": s.Query, "INSERT": s.Insert, "DELETE": s.Delete, "SHOW": s.Show}
    assert isinstance(statement, expected.get(sql.split()[0].upper(), object))
    if isinstance(statement, s.CreateStream):
        assert statement.text == sql
        assert (statement.query is None) == (" AS SELECT" not in " ".join(sql.upper().split()))


def test_create_database() -> None:
    statement = parse("CREATE DATABASE IF NOT EXISTS Power PRECISION 'us' KEEP 3650,3650,3650 VGROUPS 4;")
    assert isinstance(statement, s.CreateDatabase)
    assert (statement.name.text, statement.precision, statement.if_not_exists) == ("power", "us", True)


@pytest.mark.parametrize(
    ("options", "minutes", "seconds"),
    [
        ("", 0, 3600), ("KEEP 10", 14_400, 3600), ("KEEP 1d, 48h, 4320m", 4320, 3600),
        ("WAL_RETENTION_PERIOD 0", 0, 0), ("WAL_RETENTION_PERIOD -1 KEEP 36500", 36500 * 1440, -1),
    ],
)  # fmt: skip
def test_for_how_long_a_database_keeps_rows(options: str, minutes: int, seconds: int) -> None:
    statement = parse(f"CREATE DATABASE d {options} VGROUPS 2")
    assert isinstance(statement, s.CreateDatabase)
    assert (statement.keep, statement.wal_retention) == (minutes, seconds)


@pytest.mark.parametrize(
    ("options", "text", "column"),
    [
        ("KEEP 0", "KEEP must be at least one day .1, 24h or 1440m., not 0", 24),
        ("KEEP 1w", "KEEP must be at least one day .1, 24h or 1440m., not 1w", 24),
        ("KEEP 23h", "KEEP must be at least one day .1, 24h or 1440m., not 23h", 24),
        ("KEEP soon", "expected a number of days", 24),
        ("WAL_RETENTION_PERIOD -2", "must be -1 or greater, not -2", 40),
        ("WAL_RETENTION_PERIOD 'x'", "expected a number of seconds", 40),
    ],
)  # fmt: skip
def test_how_long_makes_no_sense(options: str, text: str, column: int) -> None:
    with pytest.raises(SqlError, match=text) as caught:
        parse(f"CREATE DATABASE d {options}")
    assert caught.value.position == Position(1, column)


def test_create_super_table() -> None:
    statement = parse(
        "create stable if not exists power.Meters (ts timestamp, n int unsigned primary key, "
        "`Name` nchar(8) comment 'who')"
        " tags (site binary(16), on bool) comment 'all of them'"
    )
    assert isinstance(statement, s.CreateTable)
    assert (statement.name.db, statement.name.name) == ("power", "meters")
    assert [(c.name.text, str(c.type), c.composite_key, c.comment) for c in statement.columns] == [
        ("ts", "TIMESTAMP", False, ""),
        ("n", "INT UNSIGNED", True, ""),
        ("Name", "NCHAR(8)", False, "who"),
    ]
    assert [(c.name.text, str(c.type)) for c in statement.tags] == [("site", "VARCHAR(16)"), ("on", "BOOL")]
    assert statement.comment == "all of them"


def test_several_children() -> None:
    statement = parse(
        "CREATE TABLE a USING st TAGS (1, 'x, (y)') "
        "IF NOT EXISTS d.b USING d.st (k) TAGS (-2) c USING st TAGS (NULL)"
    )
    assert isinstance(statement, s.CreateChildren)
    found = [
        (str(c.name), str(c.using), [n.text for n in c.tag_names], [v.text for v in c.tags], c.if_not_exists)
        for c in statement.children
    ]
    assert found == [
        ("a", "st", [], ["1", "'x, (y)'"], False),
        ("d.b", "d.st", ["k"], ["-2"], True),
        ("c", "st", [], ["NULL"], False),
    ]


def test_insert_into_several_tables() -> None:
    sql = (
        "INSERT INTO d.a VALUES ('2026-01-01', 1.5, NULL), (now - 3d, -2, 'it''s') -- more (1, 2)\n"
        'b USING st TAGS (7) (ts, v) VALUES (NOW() + 1h - 2m , true) /* end */ `C` VALUES (1, "x")'
    )
    statement = parse(sql)
    assert isinstance(statement, s.Insert)
    first, second, third = statement.tables
    assert first.rows.rows == [("'2026-01-01'", "1.5", "NULL"), ("now - 3d", "-2", "'it''s'")]
    assert second.using is not None and second.using.using.name == "st"
    assert [c.text for c in second.columns] == ["ts", "v"]
    assert [cell.strip() for cell in second.rows.rows[0]] == ["NOW() + 1h - 2m", "true"]
    assert third.name.name == "C" and third.rows.position(0, 1) == Position(
        2, sql.splitlines()[1].index('"x"') + 1
    )


def test_delete_bounds() -> None:
    statement = parse(
        "DELETE FROM d.t WHERE (ts >= '2026-01-01' AND now() - 1d > ts) "
        "and tbname in ('a', 'b') and tbname = 'b'"
    )
    assert isinstance(statement, s.Delete)
    assert [(b.column.text, b.operator, b.value.text) for b in statement.bounds] == [
        ("ts", ">=", "'2026-01-01'"),
        ("ts", "<", "now() - 1d"),
    ]
    assert statement.tables == ("b",)
    between = parse("DELETE FROM t WHERE ts BETWEEN 1 AND 5")
    assert isinstance(between, s.Delete)
    assert [(b.operator, b.value.text) for b in between.bounds] == [(">=", "1"), ("<=", "5")]


def test_create_stream_clause_by_clause() -> None:
    sql = """CREATE STREAM IF NOT EXISTS d.s event_window(START WITH a > 1 AND (b = 'END WITH')
  END WITH a < CASE WHEN b = 'x'
  THEN 1 ELSE 2 END) TRUE_FOR(10m) FROM d.meters PARTITION BY tbname, `Site`
  NOTIFY ('ws://h:1/x', "wss://h:2") ON ('WINDOW_OPEN', window_close) WHERE total > 3
  NOTIFY_OPTIONS(NOTIFY_HISTORY | ON_FAILURE_PAUSE)
  STREAM_OPTIONS(WATERMARK(5s) | PRE_FILTER(a | b > 0) | EVENT_TYPE(WINDOW_OPEN|WINDOW_CLOSE) | FILL_HISTORY)
  INTO d.out OUTPUT_SUBTABLE(concat('a)', tbname)) (ts, k COMPOSITE KEY, total)
  TAGS (site VARCHAR(24) COMMENT 'where' AS concat(`Site`, 'x'), one INT AS 1)
  AS SELECT _twstart, k, sum(v) AS total FROM %%trows GROUP BY k ;"""
    statement = parse(sql)
    assert isinstance(statement, s.CreateStream)
    trigger = statement.trigger
    assert [a.text for a in trigger.arguments] == [
        "a > 1 AND (b = 'END WITH')",
        "a < CASE WHEN b = 'x'\n  THEN 1 ELSE 2 END",
    ]
    assert trigger.true_for is not None and trigger.true_for.text == "10m"
    assert str(statement.table) == "d.meters" and [n.text for n in statement.partition] == ["tbname", "Site"]
    notify = statement.notify
    assert notify is not None and notify.where is not None and notify.events is not None
    assert [u.text for u in notify.urls] == ["ws://h:1/x", "wss://h:2"]
    assert [e.text.upper() for e in notify.events] == ["WINDOW_OPEN", "WINDOW_CLOSE"]
    assert notify.where.text == "total > 3" and len(notify.options) == 2
    assert [(o.name, o.arguments and [a.text for a in o.arguments]) for o in statement.options] == [
        ("WATERMARK", ["5s"]),
        ("PRE_FILTER", ["a | b > 0"]),
        ("EVENT_TYPE", ["WINDOW_OPEN", "WINDOW_CLOSE"]),
        ("FILL_HISTORY", None),
    ]
    assert statement.subtable is not None and statement.subtable.text == "concat('a)', tbname)"
    assert [(c.name.text, c.composite_key) for c in statement.columns] == [
        ("ts", False),
        ("k", True),
        ("total", False),
    ]
    assert [(t.name.text, t.type, t.value.text, t.comment) for t in statement.tags] == [
        ("site", DataType("VARCHAR", 24), "concat(`Site`, 'x')", "where"),
        ("one", DataType("INT"), "1", ""),
    ]
    assert statement.query is not None and statement.query.position == Position(9, 6)
    assert statement.query.text == "SELECT _twstart, k, sum(v) AS total FROM %%trows GROUP BY k"


def test_streams_lives() -> None:
    start = parse("START STREAM IGNORE UNTREATED IF EXISTS d.s")
    assert isinstance(start, s.StartStream) and start.if_exists and start.ignore_untreated
    again = parse("RECALCULATE STREAM d.s FROM '2026-01-01 00:00:00' TO now() - 1h")
    assert isinstance(again, s.RecalculateStream) and again.end is not None
    assert (again.start.text, again.end.text) == ("'2026-01-01 00:00:00'", "now() - 1h")
    asked = parse("DIAGNOSE STREAM d.s LIMIT 20")
    assert isinstance(asked, s.DiagnoseStream) and (asked.name.db, asked.limit) == ("d", 20)
    plain = parse("diagnose stream s;")
    assert isinstance(plain, s.DiagnoseStream) and plain.limit is None and plain.name.db is None
    verify = parse("VERIFY STREAM s FROM '2026-01-01' TO now() - 1h LIMIT 5")
    assert isinstance(verify, s.VerifyStream) and verify.limit == 5
    assert (verify.start.text, verify.end.text) == ("'2026-01-01'", "now() - 1h")
    stop = parse("STOP STREAM IF EXISTS s")
    assert isinstance(stop, s.StopStream) and stop.if_exists
    drop = parse("DROP STREAM IF EXISTS d.s")
    assert isinstance(drop, s.DropStream) and drop.if_exists and drop.name.db == "d"


def test_the_small_ones() -> None:
    assert parse("USE d") == s.UseDatabase(s.Name("d", Position(1, 5)))
    show = parse("SHOW d.STREAMS")
    assert isinstance(show, s.Show) and (show.what, show.db, show.like) == ("streams", "d", None)
    like = parse("show tables like 'm%\\_1'")
    assert isinstance(like, s.Show) and (like.what, like.like) == ("tables", "m%\\_1")
    assert isinstance(parse("SHOW CREATE STREAM d.s"), s.ShowCreate)
    assert isinstance(parse("DESC d.t"), s.Describe)
    assert parse("CREATE SNODE ON DNODE 1") == s.CreateSnode(1)
    assert parse("DROP SNODE ON DNODE 2;") == s.DropSnode(2)
    grant = parse("GRANT read, write ON power.* TO bob")
    assert isinstance(grant, s.Grant) and (grant.privileges, grant.db, grant.table) == (
        ("read", "write"),
        "power",
        None,
    )
    revoke = parse("REVOKE ALL ON *.* FROM bob")
    assert isinstance(revoke, s.Grant) and revoke.revoke and revoke.db is None
    user = parse("CREATE USER bob PASS 'secret' SYSINFO 1")
    assert isinstance(user, s.CreateUser) and user.password == "secret" and "secret" not in repr(user)
    drop = parse("DROP TABLE IF EXISTS a, d.b")
    assert isinstance(drop, s.DropTables) and drop.if_exists == (True, False)
    query = parse("-- first\nSELECT SERVER_VERSION();")
    assert query == s.Query("SELECT SERVER_VERSION()", Position(2, 1))
    explain = parse("EXPLAIN SELECT 1")
    assert isinstance(explain, s.Query) and explain.explain and explain.text == "SELECT 1"


@pytest.mark.parametrize(
    ("sql", "change"),
    [
        ("ALTER TABLE t ADD COLUMN c NCHAR(4)", s.Add),
        ("ALTER STABLE t DROP TAG c", s.Remove),
        ("ALTER STABLE t MODIFY COLUMN c VARCHAR(32)", s.Modify),
        ("ALTER STABLE t RENAME TAG c d", s.Rename),
        ("ALTER TABLE t SET TAG a = 1, b = 'x'", s.SetTags),
        ("ALTER TABLE t COMMENT 'x'", s.SetComment),
    ],
)
def test_alter(sql: str, change: type) -> None:
    statement = parse(sql)
    assert isinstance(statement, s.AlterTable)
    assert isinstance(statement.change, change)
    assert statement.super_only == ("STABLE" in sql)


BAD = [
    ("", "a statement", (1, 1)),
    ("SELEC 1", "expected a statement", (1, 1)),
    ("CREATE", "DATABASE or SNODE or STABLE or STREAM or TABLE", (1, 7)),
    ("CREATE THING x", "found 'THING'", (1, 8)),
    ("USE d; USE e", "the end of the statement", (1, 8)),
    ("CREATE DATABASE d COLOUR 'red'", "unknown database option COLOUR", (1, 19)),
    ("CREATE DATABASE d PRECISION 's'", "must be 'ms', 'us' or 'ns', not 's'", (1, 29)),
    ("CREATE TABLE t (v INT, ts TIMESTAMP)", "first column v must be TIMESTAMP", (1, 17)),
    ("CREATE TABLE t (ts TIMESTAMP)", "needs a column besides", (1, 17)),
    ("CREATE TABLE t (ts TIMESTAMP, v INT, V INT)", "v is given twice", (1, 38)),
    ("CREATE TABLE t (ts TIMESTAMP, v POINT)", "unknown data type POINT", (1, 33)),
    ("CREATE TABLE t (ts TIMESTAMP, v VARCHAR)", "needs a length", (1, 33)),
    ("CREATE TABLE t (ts TIMESTAMP, v VARCHAR(0))", "length must be from 1 to", (1, 41)),
    ("CREATE TABLE t (ts TIMESTAMP, v INT(4))", "does not take a length", (1, 37)),
    ("CREATE TABLE t (ts TIMESTAMP, v JSON)", "JSON", (1, 31)),
    ("CREATE TABLE t (ts TIMESTAMP, v INT, w INT COMPOSITE KEY)", "second column", (1, 38)),
    ("CREATE TABLE t (ts TIMESTAMP, v FLOAT COMPOSITE KEY)", "cannot be a key", (1, 31)),
    ("CREATE TABLE t (ts TIMESTAMP, tbname INT)", "tbname", (1, 31)),
    (f"CREATE TABLE {'x' * 193} (ts TIMESTAMP, v INT)", "longer than 192 bytes", (1, 14)),
    (f"CREATE TABLE {'表' * 65} (ts TIMESTAMP, v INT)", "longer than 192 bytes", (1, 14)),
    ("CREATE STABLE t (ts TIMESTAMP, v INT)", "TAGS", (1, 38)),
    ("CREATE TABLE a USING st (x, y) TAGS (1)", "2 tags are named, but 1 values", (1, 32)),
    ("INSERT INTO t", "expected VALUES", (1, 14)),
    ("INSERT INTO t VALUES", "( and the values of a row", (1, 21)),
    ("INSERT INTO t VALUES (1, 2", "expected )", (1, 27)),
    ("INSERT INTO t VALUES (1, )", "a value", (1, 26)),
    ("INSERT INTO t VALUES (1, 2)\n(1, 2, 3)", "3 values, but 2 are expected", (2, 2)),
    ("INSERT INTO t VALUES (1, 'abc)", "unterminated string", (1, 26)),
    ("INSERT INTO t (ts, v) VALUES (1)", "1 values, but 2 are expected", (1, 31)),
    ("INSERT INTO t (ts, ts) VALUES (1, 2)", "ts is given twice", (1, 20)),
    ("DELETE FROM t WHERE ts != 5", "=, <, <=, > or >=", (1, 24)),
    ("DELETE FROM t WHERE ts > 1 OR ts < 0", "expected AND", (1, 28)),
    ("DELETE FROM t WHERE (ts > 1", "expected )", (1, 28)),
    ("CREATE STREAM s FROM t", "expected a trigger: PERIOD", (1, 17)),
    ("CREATE STREAM s PERIOD() AS SELECT 1", "an argument", (1, 24)),
    ("CREATE STREAM s INTERVAL(1m) FROM t", "expected SLIDING", (1, 30)),
    ("CREATE STREAM s EVENT_WINDOW(START WITH v > 1) FROM t", "expected END", (1, 46)),
    ("CREATE STREAM s PERIOD(1h) INTO a INTO b", "OUTPUT_SUBTABLE, (columns), TAGS, AS", (1, 35)),
    ("CREATE STREAM s PERIOD(1h) NOTIFY('ws://h:1') NOTIFY('ws://h:1')", "given only once", (1, 47)),
    ("CREATE STREAM s COUNT_WINDOW(1) FROM t NOTIFY(x) ON (WINDOW_OPEN)", "address in quotes", (1, 47)),
    ("CREATE STREAM s PERIOD(1h) INTO o AS", "a query", (1, 37)),
    ("RECALCULATE STREAM d.s", "expected FROM", (1, 23)),
    ("DIAGNOSE TABLE s", "STREAM", (1, 10)),
    ("DIAGNOSE STREAM s LIMIT all", "a number", (1, 25)),
    ("VERIFY STREAM s FROM 0", "expected TO", (1, 23)),
    ("VERIFY STREAM s FROM 0 TO 1 LIMIT", "a number", (1, 34)),
    ("SHOW NOTHING", "STREAMS", (1, 6)),
    ("CREATE DATABASE `", "backquotes", (1, 17)),
    ("USE 10x", "neither a number nor a duration", (1, 5)),
    ("USE /* no end", "unterminated comment", (1, 5)),
    ("USE \\d", "unexpected character", (1, 5)),
    ("SELECT (1", "expected )", (1, 10)),
]


@pytest.mark.parametrize(("sql", "message", "place"), BAD)
def test_bad_statements_are_named_and_placed(sql: str, message: str, place: tuple[int, int]) -> None:
    with pytest.raises(SqlError) as raised:
        parse(sql)
    assert message in raised.value.message
    assert raised.value.position == Position(*place)
    assert raised.value.code in (ErrorCode.SYNTAX, ErrorCode.INVALID_VALUE)


@pytest.mark.parametrize("width", [1, 128, 129, 1000])
def test_rows_of_any_width(width: int) -> None:
    cells = ", ".join(f"'c{i}'" if i % 3 else str(i) for i in range(width))
    statement = parse(f"INSERT INTO t VALUES ({cells}), ({cells})\n({cells}) u VALUES (1)")
    assert isinstance(statement, s.Insert)
    rows = statement.tables[0].rows
    assert rows.width == width and len(rows) == 3
    assert rows.rows[0] == rows.rows[2] == tuple(cells.split(", "))
    assert rows.position(2, 0) == Position(2, 2)


@pytest.mark.parametrize(
    "sql", ["SELECT '", "CREATE STREAM s PERIOD(1h) AS SELECT '", "DELETE FROM t WHERE '"]
)
def test_what_is_too_long_is_not_read(sql: str) -> None:
    """The lexer held the gateway's interpreter for seconds; only rows may be longer."""
    with pytest.raises(SqlError) as caught:
        parse(sql + "x" * (1 << 20))
    assert caught.value.code is ErrorCode.TOO_LARGE
    assert "at most 1,048,576 bytes are allowed" in caught.value.message
    rows = ", ".join(["(1767225600000, 1)"] * 60_000)
    assert isinstance(parse(f"INSERT INTO t VALUES {rows}"), s.Insert)

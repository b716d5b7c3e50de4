"""What CREATE STREAM of the older dialect refuses, and where, once its query is planned; words of one dialect
in a stream of the other; what is accepted."""

from __future__ import annotations

import pytest

from millrace_core.catalog import Catalog
from millrace_core.dialect.legacy.query import REFUSED
from millrace_core.errors import ErrorCode, SqlError

from .older import accepted, create, parse, place, stream, tables

COUNTED = "SELECT _wstart AS ws, count(*) AS n FROM src INTERVAL(10s)"
BY = "SELECT _wstart, count(*) AS n FROM st PARTITION BY"
NEWER = "CREATE STREAM s INTERVAL(1s) SLIDING(1s) FROM src"
TOLD = "NOTIFY ('ws://a:1') ON"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return tables()


# -- words of the other dialect ------------------------------------------------------------------------------


@pytest.mark.parametrize(("sql", "word", "dialect"), [
    (create("", f"{COUNTED} {TOLD} (WINDOW_OPEN)"), "WINDOW_OPEN", "newer"),
    (create("", f"{COUNTED} {TOLD} ('WINDOW_OPEN') NOTIFY_OPTIONS(NOTIFY_HISTORY)"),
     "NOTIFY_OPTIONS", "newer"),
    (create("", f"{COUNTED} {TOLD} ('WINDOW_OPEN') WHERE n > 1"), "WHERE", "newer"),
    (create("", COUNTED, "INTO o PARTITION BY tbname"), "PARTITION", "newer"),
    (create("", COUNTED, f"INTO o {TOLD} ('WINDOW_OPEN')"), "NOTIFY", "newer"),
    (create("TRIGGER AT_ONCE FROM src", COUNTED), "FROM", "newer"),
    (f"{NEWER} STREAM_OPTIONS(AT_ONCE) INTO o AS SELECT 1", "AT_ONCE", "older"),
    (f"{NEWER} STREAM_OPTIONS(IGNORE EXPIRED 0) INTO o AS SELECT 1", "IGNORE", "older"),
    (f"{NEWER} STREAM_OPTIONS(TRIGGER AT_ONCE) INTO o AS SELECT 1", "TRIGGER", "older"),
    (f"{NEWER} STREAM_OPTIONS(DELETE_MARK(1d)) INTO o AS SELECT 1", "DELETE_MARK", "older"),
    (f"{NEWER} STREAM_OPTIONS(WATERMARK 5s) INTO o AS SELECT 1", "WATERMARK", "older"),
    (f"{NEWER} STREAM_OPTIONS(FILL_HISTORY 1) INTO o AS SELECT 1", "FILL_HISTORY", "older"),
    (f"{NEWER} TRIGGER AT_ONCE INTO o AS SELECT 1", "TRIGGER", "older"),
    (f"{NEWER} INTO o AS SELECT _twstart, count(*) FROM %%trows {TOLD} ('WINDOW_OPEN')", "NOTIFY", "older"),
])  # fmt: skip
def test_a_word_of_the_other_dialect_is_told_as_such(sql: str, word: str, dialect: str) -> None:
    with pytest.raises(SqlError, match=f"{word}.* belongs to the {dialect} stream dialect") as raised:
        parse(sql)
    assert (raised.value.code, raised.value.position) == (ErrorCode.SYNTAX, place(sql, word))


def test_a_tag_needs_an_expression_in_the_newer_dialect_only() -> None:
    sql = f"{NEWER} PARTITION BY tbname INTO o TAGS (dev VARCHAR(8)) AS SELECT 1"
    with pytest.raises(SqlError, match="the tag dev without an expression belongs to the older") as raised:
        parse(sql)
    assert raised.value.position == place(sql, ") AS SELECT")


@pytest.mark.parametrize(
    "rest", ["", "FOO INTO o", "NOTIFY ('ws://a:1')", "ASYNC INTO o", "SUBTABLE('a') INTO o"]
)
def test_what_begins_a_stream_of_either_dialect_is_told(rest: str) -> None:
    with pytest.raises(SqlError, match=r"PERIOD.*older dialect, one of TRIGGER.*INTO, AS") as raised:
        parse(f"CREATE STREAM s {rest}")
    assert raised.value.position == place("CREATE STREAM s x", "x")


@pytest.mark.parametrize("word", ["_tgrpid", "%%1", "_twstart"])
def test_placeholders_of_the_newer_dialect_are_no_sub_tables_name(catalog: Catalog, word: str) -> None:
    sql = create("", f"{BY} tbname AS dev INTERVAL(1s)", f"INTO o SUBTABLE(concat('a', {word}))")
    with pytest.raises(SqlError, match=f"{word} belongs to the newer") as raised:
        stream(catalog, sql)
    assert (raised.value.code, raised.value.position) == (ErrorCode.SYNTAX, place(sql, word))


@pytest.mark.parametrize("option", ["WATERMARK 5s", "TRIGGER AT_ONCE", "FILL_HISTORY 1", "IGNORE UPDATE 0"])
def test_options_stand_before_into(option: str) -> None:
    sql = create("", COUNTED, f"INTO o {option}")
    with pytest.raises(SqlError, match="must come after the stream's name and before INTO") as raised:
        parse(sql)
    assert raised.value.position == place(sql, option)


# -- functions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted({*REFUSED, "forecast"}))
@pytest.mark.parametrize("query", [
    "SELECT _wstart, {}(v) FROM src INTERVAL(10s)", "SELECT _wstart, 1 + abs({}(v)) FROM src INTERVAL(10s)",
    "SELECT _wstart, count(*) FROM src WHERE {}(v) > 1 INTERVAL(10s)",
    "SELECT _wstart, count(*) FROM src PARTITION BY {}(v) INTERVAL(10s)",
    "SELECT _wstart, count(*) FROM src EVENT_WINDOW START WITH {}(v) > 1 END WITH v < 0",
    "SELECT ts, {}(v) FROM src",
])  # fmt: skip
def test_refused_functions_are_refused_wherever_they_stand(catalog: Catalog, name: str, query: str) -> None:
    sql = create("", query.format(name))
    with pytest.raises(SqlError, match=f"^{name} is not supported in a stream of the older") as raised:
        stream(catalog, sql)
    assert raised.value.position == place(sql, f"{name}(v)")


def test_nineteen_functions_are_refused() -> None:
    assert len(REFUSED) == 19


# -- once the query is planned -------------------------------------------------------------------------------


@pytest.mark.parametrize(("sql", "words", "points_at"), [
    # results: the place is that in the statement, though another query is planned
    (create("", "SELECT _wstart, coutn(*) FROM src INTERVAL(1s)"), "unknown function coutn", "coutn"),
    (create("", "SELECT _wstart,\n  count(*),\n  sum(nope) FROM src INTERVAL(1s)"), "column nope", "nope"),
    (create("", "SELECT count(*), sum(v + _wend + nope) FROM src INTERVAL(1s)"), "column nope", "nope"),
    (create("", "SELECT _wstart, sum(v), x.v FROM src x INTERVAL(1s)"), "neither grouped", "v FROM"),
    (create("", "SELECT _wstart, v FROM src INTERVAL(1s)"), "v is neither aggregated", "v FROM"),
    (create("", "SELECT _wstart, v FROM src STATE_WINDOW(v)"), "v is neither aggregated", "v FROM"),
    (create("", "SELECT * FROM src INTERVAL(1s)"), "ts is neither aggregated", "* FROM"),
    (create("", "SELECT _wstart, st.w FROM st PARTITION BY k, v INTERVAL(1s)"), "w is neither", "st.w"),
    (create("", "SELECT x.ts, src.v FROM src AS x"), "there is no table src in FROM", "src.v"),
    (create("", "SELECT ts, e.src.v FROM src"), "there is no table src in FROM", "e.src"),
    (create("", "SELECT _wstart FROM src INTERVAL(1s)"), "at least one column besides its time", "_wstart"),
    (create("", "SELECT abs(v), v FROM src"), "first result column must be a time", "abs"),
    (create("", "SELECT 1, v FROM src"), "first result column must be a time", "1, v"),
    (create("", "SELECT count(*), _wstart FROM src INTERVAL(1s)"), "two columns or tags", "_wstart"),
    (create("", f"{BY} k AS n INTERVAL(1s)", "INTO o TAGS (n INT)"), "two columns or tags", "count"),
    (create("", "SELECT ts, v, info FROM js PARTITION BY tbname"), "info is JSON, but only a tag", "info"),
    (create("", "SELECT _wstart, last(info) FROM js PARTITION BY tbname INTERVAL(1s)"), "JSON", "last("),
    # FILL
    (create("", f"{COUNTED} FILL(VALUE, 1, 2)"), r"FILL\(VALUE\) takes 1 values", "FILL"),
    (create("", f"{COUNTED} FILL(VALUE)"), r"FILL\(VALUE\) takes 1 values", "FILL"),
    (create("", f"{COUNTED} FILL(PREV, 1)"), r"FILL\(PREV\) takes 0 values", "FILL"),
    (create("", "SELECT _wstart, _wend, count(*), sum(v) FROM src INTERVAL(1s) FILL(VALUE_F, 1)"),
     "takes 2 values", "FILL"),
    (create("", "SELECT count(*), sum(v) FROM src INTERVAL(1s) FILL(VALUE, 1, 'a')"), "does not fit", "'a'"),
    # windows
    (create("WATERMARK 1s", "SELECT count(*) FROM src COUNT_WINDOW(4, v)"), "not a number of rows", "v)"),
    (create("WATERMARK 1s", "SELECT count(*) FROM src COUNT_WINDOW(4, 5)"), "larger than count_val", "5)"),
    (create("WATERMARK 1s", "SELECT count(*) FROM src COUNT_WINDOW(2147483648)"), "2147483647", "2147483648"),
    (create("", "SELECT count(*) FROM src SESSION(ts, 1n)"), r"unit \(b, u, a, s, m, h, d, w\)", "1n"),
    (create("", "SELECT count(*) FROM src SESSION(ts, 0s)"), "greater than 0", "0s"),
    (create("", "SELECT count(*) FROM src SESSION(at, 1s)"), "not the time column", "at, 1s"),
    (create("", "SELECT count(*) FROM st PARTITION BY tbname STATE_WINDOW(k)"), "is a tag", "k)"),
    (create("", "SELECT count(*) FROM src INTERVAL(10s, 10s)"), "must be less than the interval", "10s)"),
    (create("", "SELECT count(*) FROM src STATE_WINDOW(at)"), "at is TIMESTAMP", "at)"),
    (create("", "SELECT count(*) FROM src SESSION(ts)"), "the time column and a gap", ")"),
    (create("", "SELECT count(*) FROM src EVENT_WINDOW START WITH v > 0"), "expected END", ""),
    (create("TRIGGER MAX_DELAY 5s", "SELECT ts, v FROM src"), "needs a window", "MAX_DELAY"),
    (create("TRIGGER FORCE_WINDOW_CLOSE", "SELECT ts, v FROM src"), "needs a window", "FORCE"),
    (create("TRIGGER CONTINUOUS_WINDOW_CLOSE", "SELECT ts, v FROM src"), "needs a window", "CONT"),
    # what a query may read
    (create("", "SELECT ts, v FROM src UNION SELECT ts, v FROM src"), "UNION is not allowed", "UNION"),
    (create("", "SELECT ts, v FROM src SLIMIT 1"), "SLIMIT is not allowed", "SLIMIT"),
    (create("", "SELECT ts, v FROM src WHERE ts > (SELECT 1)"), "cannot contain a subquery", "1)"),
    (create("", "SELECT count(*) FROM information_schema.ins_tables INTERVAL(1s)"), "a system table", "info"),
    (create("TRIGGER FORCE_WINDOW_CLOSE", "SELECT count(*) FROM vt INTERVAL(1s)"), "virtual table", "FORCE"),
    (create("TRIGGER CONTINUOUS_WINDOW_CLOSE", "SELECT count(*) FROM vt INTERVAL(1s)"), "virtual", "CONT"),
    (create("IGNORE EXPIRED 0", "SELECT count(*) FROM vt INTERVAL(1s)"), "IGNORE EXPIRED 0", "IGNORE"),
    # notifications
    (create("", f"{COUNTED} NOTIFY ('ws://a:1')"), "expected ON", ""),
    (create("", f"{COUNTED} NOTIFY ('ws://a:1') ON ()"), "expected an event type", ")"),
    (create("", f"{COUNTED} NOTIFY ('ws://a:1') ON ('GONE')"), "unknown event type GONE", "'GONE'"),
    (create("", f"{COUNTED} NOTIFY ('http://a:1') ON ('WINDOW_OPEN')"), "is not a valid address", "'http"),
    (create("", f"{COUNTED} NOTIFY ('ws://a') ON ('WINDOW_OPEN')"), "is not a valid address", "'ws:"),
    # options
    (create("FILL_HISTORY 2", COUNTED), "expected 0 or 1", "2 "),
    (create("DELETE_MARK 1n", COUNTED), "1n is not valid", "1n"),
    (create("WATERMARK 1.5s", COUNTED), "1.5s is not valid", "1.5s"),
    (create("TRIGGER WINDOW_CLOSE RECALCULATE 5s", COUNTED), "expected an option", "RECALC"),
    (create("DELETE_MARK 0s", COUNTED), "longer than WATERMARK 0s", "DELETE_MARK"),
    (create("TRIGGER MAX_DELAY 4999999u", COUNTED), "at least 5s", "4999999u"),
    # groups and the result table
    (create("", f"{BY} k AS a, v AS a INTERVAL(1s)"), "two items of PARTITION BY are named a", "v AS a"),
    (create("", f"{BY} tbname AS a INTERVAL(1s)", "INTO o SUBTABLE(max(a))"), "aggregate max is not", "max"),
    (create("", f"{BY} tbname AS a INTERVAL(1s)", "INTO o SUBTABLE(mode(a))"), "mode is not sup", "mode"),
    (create("", COUNTED, "INTO wide (z, x)"), "primary timestamp ts can not be null", "z,"),
    (create("", COUNTED, "INTO keyed (ts, ts)"), "given twice", "ts)"),
    (create("", COUNTED, "INTO wide (z, ts)"), "must be stored in ts, but z is listed first", "z,"),
])  # fmt: skip
def test_refused(catalog: Catalog, sql: str, words: str, points_at: str) -> None:
    with pytest.raises(SqlError, match=words) as raised:
        accepted(catalog, sql)
    assert raised.value.position in (place(sql, points_at), place(sql, points_at, last=True)), raised.value


# -- accepted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("query", "calculated"), [
    ("SELECT count(x.v) FROM src x INTERVAL(1s)", "count(  v) AS `count(x.v)`"),
    ("SELECT count(d.src.v) FROM d.src INTERVAL(1s)", "count(      v) AS `count(d.src.v)`"),
    ("SELECT last(ts), v FROM src INTERVAL(1s)", "last(ts), v"),
    ("SELECT v, count(v) FROM st PARTITION BY v INTERVAL(1s)", "%%1 AS `v`, count(v)"),
    ("SELECT st.v + 1 AS m, k, count(*) FROM st PARTITION BY st.k, st.v INTERVAL(1s)",
     "   %%2 + 1 AS `m`, %%1 AS `k`, count(*)"),
    ("SELECT concat('a', note) AS a, count(*) FROM src PARTITION BY concat('a',note) INTERVAL(1s)",
     "%%1 AS `a`, count(*)"),
    ("SELECT tbname, k, count(*) FROM st PARTITION BY tbname INTERVAL(1s)",
     "%%tbname AS `tbname`, k, count(*)"),
])  # fmt: skip
def test_columns_of_groups_and_names_in_front(catalog: Catalog, query: str, calculated: str) -> None:
    """As in any query: what rows are grouped by may be asked for, and a column called by its table."""
    spec = accepted(catalog, create("", query))
    assert spec.query == f"SELECT _twstart AS `_wstart`, {calculated} FROM %%trows"


@pytest.mark.parametrize("query", [
    "SELECT _wstart, _wend FROM src INTERVAL(1s)", "SELECT _wstart, 1 AS one FROM src SESSION(ts, 1s)",
    "SELECT _wstart, v FROM st PARTITION BY v INTERVAL(1s)",
])  # fmt: skip
def test_a_window_of_which_no_row_is_asked_for_has_one_result(catalog: Catalog, query: str) -> None:
    assert "SELECT DISTINCT" in str(accepted(catalog, create("", query)).query)


@pytest.mark.parametrize(("first", "obsolete"), [
    ("ts", "retracted"), ("_rowts", "retracted"), ("ts + 1s", "kept"), ("at", "kept"),
    ("timetruncate(ts, 1m)", "kept"),
])  # fmt: skip
def test_without_a_window_the_first_column_is_a_time(catalog: Catalog, first: str, obsolete: str) -> None:
    """A result that has another time than its row cannot be found when the row goes."""
    spec = accepted(catalog, create("", f"SELECT {first} AS t, v FROM src"))
    assert (spec.result[0].type.name, spec.emission.obsolete) == ("TIMESTAMP", obsolete)


def test_a_table_that_was_made_for_a_stream_tells_of_the_next_ones_groups_too(catalog: Catalog) -> None:
    spec = accepted(catalog, create("", f"{BY} tbname INTERVAL(1s)", "INTO kept"))
    assert spec.output is not None
    assert [(tag.column.name, tag.expression) for tag in spec.output.tags] == [("groupid", "_tgrpid")]

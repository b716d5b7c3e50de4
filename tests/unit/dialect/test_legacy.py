"""The older dialect of streams: which dialect a text is in, what is refused where, what a stream means."""

from __future__ import annotations

import pytest

from millrace_core.catalog import Catalog
from millrace_core.dialect.front_ends import FRONT_ENDS
from millrace_core.dialect.tdengine import explain
from millrace_core.dialect.tdengine import lower as lower_newer
from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language.statements import CreateLegacyStream, CreateStream, ExplainStream
from millrace_core.model.schema import MAX_NAME
from millrace_core.model.stream import Duration, Emission
from millrace_core.model.sub_tables import group_id, sub_table
from millrace_core.model.triggers import Trait
from millrace_core.plan.system.streams import mode_words
from millrace_core.trigger.types import EveryRow, Interval, Session, type_of

from .older import create, parse, stream, tables


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return tables()


COUNTED = "SELECT _wstart AS ws, count(*) AS n FROM src INTERVAL(10s)"


# -- which dialect -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [
    "INTO o", "TRIGGER AT_ONCE INTO o", "WATERMARK 1s INTO o", "IGNORE EXPIRED 0 INTO o",
    "DELETE_MARK 1d INTO o", "FILL_HISTORY 1 INTO o",
])  # fmt: skip
def test_the_word_behind_the_name_makes_a_stream_one_of_the_older_dialect(first: str) -> None:
    assert isinstance(parse(f"CREATE STREAM IF NOT EXISTS s {first} AS {COUNTED}"), CreateLegacyStream)


def test_a_trigger_behind_the_name_makes_it_one_of_the_newer() -> None:
    newer = "CREATE STREAM s INTERVAL(1s) SLIDING(1s) FROM src INTO o AS SELECT _twstart, 1 FROM %%trows"
    assert isinstance(parse(newer), CreateStream)
    explained = parse(f"EXPLAIN {newer}")
    assert isinstance(explained, ExplainStream) and isinstance(explained.stream, CreateStream)


@pytest.mark.parametrize(("sql", "words", "points_at"), [
    (create("TRIGGER AT_ONCE INTERVAL(10s) SLIDING(10s) FROM src", "SELECT 1"),
     "INTERVAL belongs to the newer", "INTERVAL"),
    (create("TRIGGER AT_ONCE STREAM_OPTIONS(LOW_LATENCY_CALC)", "SELECT 1"),
     "STREAM_OPTIONS belongs to the newer", "STREAM_OPTIONS"),
    (create("INTO o OUTPUT_SUBTABLE('a')", COUNTED, ""), "OUTPUT_SUBTABLE belongs to the newer", "OUTPUT_S"),
    ("CREATE STREAM s INTERVAL(1s) SLIDING(1s) WATERMARK 5s FROM src INTO o AS SELECT 1",
     "WATERMARK belongs to the older", "WATERMARK"),
    ("CREATE STREAM s SLIDING(1s) FROM src INTO o SUBTABLE('a') AS SELECT 1",
     "SUBTABLE belongs to the older", "SUBTABLE"),
    (create("", "SELECT _wstart, count(*) FROM %%trows INTERVAL(1s)"), "%%trows belongs to the newer", "%%t"),
])  # fmt: skip
def test_a_mixture_says_which_word_belongs_to_which(sql: str, words: str, points_at: str) -> None:
    with pytest.raises(SqlError, match=words) as raised:
        parse(sql)
    assert raised.value.code is ErrorCode.SYNTAX
    assert raised.value.position == Position(1, sql.index(points_at) + 1)


def test_placeholders_of_the_newer_dialect_are_named_as_such(catalog: Catalog) -> None:
    sql = create("TRIGGER AT_ONCE", "SELECT _twstart AS ws, count(*) AS n FROM src INTERVAL(10s)")
    with pytest.raises(SqlError, match="_twstart belongs to the newer") as raised:
        stream(catalog, sql)
    assert raised.value.position == Position(1, sql.index("_twstart") + 1)


# -- refusals of the grammar ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("sql", "words", "points_at"), [
    (f"CREATE STREAM d.s INTO o AS {COUNTED}", "no database; write s", "d.s"),
    (f"CREATE STREAM `d.s` INTO o AS {COUNTED}", "cannot contain a dot", "`d.s`"),
    (create("WATERMARK 1s WATERMARK 2s", COUNTED), "WATERMARK is given twice", "WATERMARK 2s"),
    (create("IGNORE EXPIRED 2", COUNTED), "expected 0 or 1", "2 "),
    (create("IGNORE ALL 1", COUNTED), "expected EXPIRED or UPDATE", "ALL"),
    (create("WATERMARK 1s", COUNTED, ""), "INTO is missing", "AS SEL"),
    (create("TRIGGER NOW", COUNTED), "AT_ONCE or WINDOW_CLOSE", "NOW"),
    (create("FILL_HISTORY 0 ASYNC", COUNTED), "ASYNC is allowed only with FILL_HISTORY 1", "ASYNC"),
    (create("", f"{COUNTED} ORDER BY ws"), "ORDER is not allowed", "ORDER"),
    (create("", "SELECT first(ts), count(*) FROM src GROUP BY v"), "GROUP is not allowed", "GROUP"),
    (create("", f"{COUNTED} HAVING count(*) > 1"), "HAVING is not allowed", "HAVING"),
    (create("", f"{COUNTED} LIMIT 1"), "LIMIT is not allowed", "LIMIT"),
    (create("", "SELECT _wstart FROM (SELECT ts FROM src) INTERVAL(1s)"), "a subquery in FROM", "(SEL"),
    (create("", "SELECT a.ts FROM src JOIN ck ON src.ts = ck.ts"), "JOIN is not allowed", "JOIN"),
    (create("", "SELECT ts FROM src, ck"), "a second table", ", ck"),
    (create("", "SELECT DISTINCT ts FROM src"), "DISTINCT is not allowed", "DISTINCT"),
    (create("", COUNTED, "INTO o (ts INT, n)"), "column types come from the query", "INT,"),
])  # fmt: skip
def test_what_the_grammar_lacks_is_refused_where_it_stands(sql: str, words: str, points_at: str) -> None:
    with pytest.raises(SqlError, match=words) as raised:
        parse(sql)
    assert raised.value.position == Position(1, sql.index(points_at) + 1)


# -- refusals by meaning -------------------------------------------------------------------------------------

SUM = "SELECT _wstart AS ws, sum(v) AS s FROM src"
BY = "SELECT _wstart AS ws, count(*) AS n FROM st PARTITION BY"


@pytest.mark.parametrize(("sql", "words", "points_at"), [
    # modes
    (create("TRIGGER MAX_DELAY 4999a", COUNTED), "at least 5s", "4999a"),
    (create("TRIGGER CONTINUOUS_WINDOW_CLOSE RECALCULATE 10a", COUNTED), "at least 1s", "10a"),
    (create("TRIGGER CONTINUOUS_WINDOW_CLOSE", f"{SUM} SESSION(ts, 1s)"), "only with INTERVAL", "CONT"),
    (create("TRIGGER FORCE_WINDOW_CLOSE FILL_HISTORY 1", COUNTED), "needs FILL_HISTORY 0", "FILL_HISTORY"),
    (create("TRIGGER FORCE_WINDOW_CLOSE IGNORE EXPIRED 0", COUNTED), "IGNORE EXPIRED 1", "IGNORE"),
    (create("TRIGGER FORCE_WINDOW_CLOSE IGNORE UPDATE 0", COUNTED), "IGNORE UPDATE 1", "IGNORE"),
    (create("TRIGGER FORCE_WINDOW_CLOSE", f"{SUM} SESSION(ts, 5s)"), "only with INTERVAL", "FORCE"),
    (create("TRIGGER FORCE_WINDOW_CLOSE", f"{SUM} INTERVAL(10s) SLIDING(5s)"), "SLIDING", "5s)"),
    (create("TRIGGER FORCE_WINDOW_CLOSE", f"{SUM} INTERVAL(5s) FILL(NEXT)"), r"FILL\(NEXT\)", "FILL("),
    (create("TRIGGER FORCE_WINDOW_CLOSE", f"{BY} k INTERVAL(5s)"), "PARTITION BY tbname", "FORCE"),
    (create("TRIGGER WINDOW_CLOSE", "SELECT ts, v FROM src"), "needs a window", "WINDOW_CLOSE"),
    # durations
    (create("WATERMARK 1n", COUNTED), "WATERMARK: 1n is not valid", "1n"),
    (create("DELETE_MARK 5s WATERMARK 5s", COUNTED), "longer than WATERMARK", "DELETE_MARK"),
    # windows
    (create("", f"{SUM} INTERVAL(5a)"), "at least 10a", "5a)"),
    (create("", f"{SUM} INTERVAL(5s) SLIDING(10s)"), "longer than INTERVAL", "10s)"),
    (create("", f"{SUM} INTERVAL(101s) SLIDING(1s)"), "100 times", "1s)"),
    (create("", f"{SUM} STATE_WINDOW(v, 1)"), "unexpected argument 1", "1)"),
    (create("WATERMARK 1s", f"{SUM} COUNT_WINDOW(1)"), "must be at least 2, not 1", "1)"),
    (create("", f"{SUM} COUNT_WINDOW(3)"), "WATERMARK greater than 0", "COUNT_"),
    (create("WATERMARK 1s IGNORE EXPIRED 0", f"{SUM} COUNT_WINDOW(3)"), "IGNORE EXPIRED 1", "IGNORE"),
    (create("", f"{SUM} SESSION(ts, 5s) FILL(PREV)"), "FILL needs INTERVAL", "FILL"),
    (create("", f"{SUM} INTERVAL(5s) FILL(SOON)"), "unknown FILL mode", "SOON"),
    (create("", "SELECT count(*) FROM ck STATE_WINDOW(v)"), "composite key", "STATE_"),
    (create("", "SELECT count(*) FROM ck EVENT_WINDOW START WITH v > 0 END WITH v < 0"), "composite key",
     "EVENT_"),
    (create("", f"{BY} k STATE_WINDOW(v)"), "PARTITION BY tbname", "STATE_"),
    # queries
    (create("", "SELECT last(ts), count(*) AS n FROM src"), "needs a window", "last("),
    (create("", "SELECT ts, v FROM st"), "PARTITION BY tbname", "st"),
    (create("", "SELECT v, ts FROM src"), "first result column must be a time", "v,"),
    (create("", "SELECT ts, * FROM src"), "two result columns are named ts", "* FROM"),
    (create("", "SELECT _wstart, 1 AS s, 2 AS s FROM src INTERVAL(5s)"), "two result", "2 AS s"),
    (create("", "SELECT _wstart, percentile(v, 50) FROM src INTERVAL(1s)"), "percentile is not supported",
     "percentile"),
    (create("", "SELECT ts, diff(v) AS p FROM src"), "diff is not supported", "diff"),
    (create("", "SELECT ts FROM nowhere"), "does not exist", "nowhere"),
    # results
    (create("", COUNTED, "INTO src"), "cannot be the source", "src"),
    (create("", COUNTED, "INTO ck"), "the results need a super table", "ck"),
    (create("", COUNTED, "INTO d1"), "the results need a super table", "d1"),
    (create("", COUNTED, "INTO wide"), "has 4 columns, but the query returns 2", "wide"),
    (create("", COUNTED, "INTO wide (ts, x, y)"), "3 columns are named, but the query returns 2", "ts,"),
    (create("", COUNTED, "INTO wide (x, y)"), "primary timestamp ts can not be null", "x,"),
    (create("", COUNTED, "INTO wide (ts, q)"), "no column q", "q)"),
    (create("", f"{BY} tbname AS dev INTERVAL(1s)", "INTO o TAGS (nobody INT)"), "not an alias", "nobody"),
    (create("", f"{BY} tbname AS dev INTERVAL(1s)", "INTO o TAGS (dev)"), "needs a type", "dev)"),
    (create("", f"{BY} tbname AS dev INTERVAL(1s)", "INTO dst TAGS (dev INT)"), "already has", "dev I"),
    (create("", f"{BY} tbname AS dev INTERVAL(1s)", "INTO o SUBTABLE(concat('x', nobody))"), "not an alias",
     "nobody"),
    ("CREATE STREAM s AS SELECT ts, v FROM src NOTIFY ('ws://a:1') ON ('WINDOW_OPEN')", "needs a window",
     "NOTIFY"),
    (create("", "SELECT ts, v FROM ck"), "composite key seq", "v FROM"),
    # virtual tables
    (create("WATERMARK 5s", "SELECT count(*) FROM vt INTERVAL(1s)"), "WATERMARK must be 0", "WATERMARK"),
    (create("IGNORE UPDATE 0", "SELECT count(*) FROM vt INTERVAL(1s)"), "IGNORE UPDATE 0", "IGNORE"),
    (create("FILL_HISTORY 1", "SELECT count(*) FROM vt INTERVAL(1s)"), "FILL_HISTORY 1", "FILL_HISTORY"),
    (create("TRIGGER MAX_DELAY 5s", "SELECT count(*) FROM vt INTERVAL(1s)"), "virtual table", "MAX_DELAY"),
])  # fmt: skip
def test_refused(catalog: Catalog, sql: str, words: str, points_at: str) -> None:
    with pytest.raises(SqlError, match=words) as raised:
        stream(catalog, sql)
    places = {Position(1, at + 1) for at in (sql.index(points_at), sql.rindex(points_at))}
    assert raised.value.position in places, raised.value


# -- meaning -------------------------------------------------------------------------------------------------


def test_defaults(catalog: Catalog) -> None:
    spec = stream(catalog, create("", COUNTED))
    ten = Duration(10, "s")
    assert spec.trigger == Interval(ten, ten)
    assert spec.emission == Emission(
        "window_close", None, "retracted", "dropped", "counted", Duration(3650, "d"), None, "live", 20_000_000
    )
    assert spec.options.watermark is None and spec.options.fill_history is None
    assert spec.query == "SELECT _twstart AS `ws`, count(*) AS `n` FROM %%trows"
    assert spec.output is not None and [tag.column.name for tag in spec.output.tags] == ["groupid"]


@pytest.mark.parametrize(("options", "words", "every"), [
    ("TRIGGER AT_ONCE", "at once", None), ("TRIGGER MAX_DELAY 7s", "max delay 7s", Duration(7, "s")),
    ("TRIGGER FORCE_WINDOW_CLOSE", "force window close", None),
    ("TRIGGER CONTINUOUS_WINDOW_CLOSE", "continuous window close", Duration(60, "m")),
    ("TRIGGER CONTINUOUS_WINDOW_CLOSE RECALCULATE 2m", "continuous window close", Duration(2, "m")),
])  # fmt: skip
def test_modes(catalog: Catalog, options: str, words: str, every: Duration | None) -> None:
    emission = stream(catalog, create(options, COUNTED)).emission
    assert (mode_words(emission), emission.every) == (words, every)


def test_wstart_is_put_in_front_and_texts_are_names(catalog: Catalog) -> None:
    spec = stream(catalog, create("", "SELECT count(*), sum(v) AS s FROM src INTERVAL(10s)"))
    assert spec.query == "SELECT _twstart AS `_wstart`, count(*), sum(v) AS `s` FROM %%trows"
    named = stream(catalog, create("", "SELECT count(*) FROM src SESSION(ts, 5s)", "INTO o (tm, n)"))
    assert named.query == "SELECT _twstart AS `tm`, count(*) AS `n` FROM %%trows"


def test_a_session_ends_later_by_its_gap(catalog: Catalog) -> None:
    spec = stream(catalog, create("", "SELECT _wstart, _wend, _wduration FROM src SESSION(ts, 5s)"))
    assert spec.trigger == Session(Duration(5, "s"))
    assert spec.query == (
        "SELECT DISTINCT _twstart AS `_wstart`, (_twend + 5s) AS `_wend`, "
        "((_twend + 5s) - _twstart) AS `_wduration` FROM %%trows"
    )


def test_groups_tags_and_names_of_sub_tables(catalog: Catalog) -> None:
    spec = stream(
        catalog,
        create(
            "TRIGGER AT_ONCE WATERMARK 3s FILL_HISTORY 1",
            f"{BY} concat('from-', tbname) AS origin, tbname tn INTERVAL(10s) SLIDING(5s)",
            "INTO o TAGS (origin VARCHAR(64)) SUBTABLE(concat('agg-', tn))",
        ),
    )  # fmt: skip
    assert spec.partition == ("tbname",) and spec.output is not None
    assert spec.output.tags[0].expression == "concat('from-', tbname)"
    assert spec.output.subtable == "concat('agg-', tbname)"
    assert spec.options.watermark == Duration(3, "s") and spec.options.fill_history is not None
    assert spec.emission.when == "at_once"


def test_columns_and_tags_of_a_table_that_exists(catalog: Catalog) -> None:
    sql = create(
        "", "SELECT _wstart, count(*), max(v), min(w) FROM st PARTITION BY tbname AS origin INTERVAL(10s)",
        "INTO wide (ts, z, x, y) TAGS (origin)",
    )  # fmt: skip
    spec = stream(catalog, sql)
    assert spec.query == (
        "SELECT _twstart AS `ts`, count(*) AS `z`, max(v) AS `x`, min(w) AS `y` FROM %%trows"
    )
    assert spec.output is not None
    assert [(tag.column.name, tag.expression) for tag in spec.output.tags] == [
        ("origin", "tbname"), ("extra", "NULL"),
    ]  # fmt: skip


def test_without_partition_by_all_tags_are_null(catalog: Catalog) -> None:
    alone = "SELECT _wstart, count(*), max(v), min(w) FROM st INTERVAL(10s)"
    for into, tags in (
        ("INTO o TAGS (a INT, b VARCHAR(8))", ["a", "b"]),
        ("INTO wide (ts, z, x, y) TAGS (origin)", ["origin", "extra"]),
    ):
        spec = stream(catalog, create("", alone, into))
        assert spec.output is not None
        assert [(tag.column.name, tag.expression) for tag in spec.output.tags] == [
            (name, "NULL") for name in tags
        ]


@pytest.mark.parametrize(("query", "columns"), [
    ("SELECT * FROM src", "ts v note at"), ("SELECT * FROM st PARTITION BY tbname", "ts v w k"),
    ("SELECT * FROM d1", "ts v w"), ("SELECT ts AS t2, src.* FROM src", "t2 ts v note at"),
])  # fmt: skip
def test_a_star_means_all_columns(catalog: Catalog, query: str, columns: str) -> None:
    spec = stream(catalog, create("", query))
    named = [
        part.split(" AS ")[-1].strip("`") for part in (spec.query or "")[7:].split(" FROM ")[0].split(", ")
    ]
    assert named == columns.split()


def test_a_star_fills_the_columns_of_a_table_by_position(catalog: Catalog) -> None:
    spec = stream(catalog, create("", "SELECT * FROM d1", "INTO wide (ts, z, y)"))
    assert spec.query == "SELECT `ts`, `v` AS `z`, `w` AS `y` FROM %%trows"


def test_a_stream_without_a_window_is_triggered_by_every_row(catalog: Catalog) -> None:
    sql = create(
        "", "SELECT ts, abs(v) AS a FROM st WHERE v > 0 PARTITION BY tbname AS dev", "INTO o TAGS (dev INT)"
    )
    spec = stream(catalog, sql)
    assert (spec.trigger, spec.emission.when) == (EveryRow(), "at_once")
    assert spec.options.pre_filter is not None and spec.options.pre_filter.sql == "v > 0"


def test_the_seeds_example_of_notifications() -> None:
    statement = parse(
        "CREATE STREAM avg_current_stream FILL_HISTORY 1 INTO o AS SELECT _wstart, _wend, AVG(v) FROM src "
        "INTERVAL (1m) NOTIFY ('ws://localhost:8080/notify') ON ('WINDOW_OPEN', 'WINDOW_CLOSE'); "
        "NOTIFY_HISTORY 1 ON_FAILURE DROP"
    )
    assert isinstance(statement, CreateLegacyStream) and statement.notify is not None
    assert (statement.notify.history, statement.notify.pause_on_failure) == (True, False)


# -- EXPLAIN -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sql", [
    create("IGNORE EXPIRED 0", COUNTED),
    create("TRIGGER MAX_DELAY 6s WATERMARK 2s", f"{BY} tbname AS dev INTERVAL(10s) SLIDING(2s)",
           "INTO o TAGS (dev VARCHAR(64)) SUBTABLE(concat('a-', dev))"),
    create("", "SELECT _wstart, _wend, sum(v) FROM st WHERE v > 1 PARTITION BY tbname SESSION(ts, 5s)"),
    create("", f"{BY} tbname, k STATE_WINDOW(v)"),
    create("", f"{BY} tbname EVENT_WINDOW START WITH v > 5 END WITH v < 3"),
    create("WATERMARK 9s", f"{BY} tbname COUNT_WINDOW(4, 2)"),
    create("FILL_HISTORY 1", "SELECT ts, v FROM src"),
    create("", f"{COUNTED} NOTIFY ('ws://a:1') ON ('WINDOW_CLOSE')", ""),
])  # fmt: skip
def test_the_newer_statement_means_the_same_as_far_as_it_has_words(catalog: Catalog, sql: str) -> None:
    spec = stream(catalog, sql)
    newer = parse(explain.statement(spec))
    assert isinstance(newer, CreateStream)
    again = lower_newer(newer, catalog, "d", "UTC")
    nearest = type_of(spec.trigger).nearest
    assert again.trigger == (spec.trigger if nearest is None else nearest(spec.trigger))
    same = ("source", "partition", "query", "timezone", "database")
    assert [getattr(again, field) for field in same] == [getattr(spec, field) for field in same]
    assert again.options.watermark == spec.options.watermark
    assert again.options.pre_filter == spec.options.pre_filter
    assert again.options.calc_notify_only == spec.options.calc_notify_only
    taken_back = Trait.FINAL not in type_of(again.trigger).traits and spec.output is not None
    assert again.emission == Emission(obsolete="retracted" if taken_back else "kept")
    assert [fact.item for fact in explain.understood(again)].count("no counterpart") == 0


def test_what_has_no_counterpart_is_told(catalog: Catalog) -> None:
    sql = create("TRIGGER AT_ONCE", "SELECT _wstart, avg(v) FROM src INTERVAL(1s) FILL(VALUE, 0)")
    facts = explain.understood(stream(catalog, sql))
    assert ("dialect", "older") in facts and ("emission", "at once") in facts
    missing = " ".join(fact.value for fact in facts if fact.item == "no counterpart")
    for words in ("AT_ONCE", "IGNORE EXPIRED 1", "IGNORE UPDATE 1", "FILL(VALUE, 0)", "super table"):
        assert words in missing


def test_days_by_a_clock_have_no_counterpart(catalog: Catalog) -> None:
    for window, zone, told in (
        ("INTERVAL(1d)", "Europe/Berlin", True), ("INTERVAL(1d)", "UTC", False),
        ("INTERVAL(1n)", "+08:00", True), ("INTERVAL(24h)", "Europe/Berlin", False),
    ):  # fmt: skip
        parsed = FRONT_ENDS["tdengine"].parse(create("", f"SELECT _wstart, avg(v) FROM src {window}"))
        facts = explain.understood(FRONT_ENDS["tdengine"].lower(parsed, catalog, "d", zone))
        missing = [fact.value for fact in facts if fact.item == "no counterpart"]
        assert any(f"days and months are in {zone}" in text for text in missing) is told


# -- names ---------------------------------------------------------------------------------------------------


def test_group_ids() -> None:
    assert group_id((), partitioned=False) == 0
    assert group_id(("d1",), partitioned=True, table_uid=77) == 77
    found = {
        group_id(keys, partitioned=True)
        for keys in ((), (None,), ("",), ("a", "bc"), ("ab", "c"), ("abc",), (1,), ("1",), (True,), (1.0,))
    }
    assert len(found) == 10
    assert group_id(("a", 1), partitioned=True) == 5792461422303722519
    assert all(0 <= one < 1 << 64 for one in found)


def test_names_of_sub_tables() -> None:
    assert sub_table("avg_vol", 5) == sub_table("avg_vol", 5, "") == sub_table("avg_vol", 5, None)
    assert sub_table("avg_vol", 5).startswith("t_") and len(sub_table("avg_vol", 5)) == 34
    assert sub_table("avg_vol", 5) != sub_table("avg_vol", 6)
    assert sub_table("avg_vol", 5, "new-t1") == "new-t1_avg_vol_5"
    assert sub_table("avg_vol", 5, "new-t1_avg_vol_5") == "new-t1_avg_vol_5"
    assert sub_table("avg_vol", 0, "new-t1") == "new-t1"
    cut = sub_table("avg_vol", 5, "é" * 150)
    assert len(cut.encode()) <= MAX_NAME and cut == "é" * 96


def test_results_may_be_told_alone(catalog: Catalog) -> None:
    """The example of seed 002, with a semicolon before the options of NOTIFY."""
    spec = stream(
        catalog,
        "CREATE STREAM s FILL_HISTORY 1 AS SELECT _wstart, _wend, avg(v) FROM src INTERVAL (1m) "
        "NOTIFY ('ws://localhost:8080/notify') ON ('WINDOW_OPEN', 'WINDOW_CLOSE'); "
        "NOTIFY_HISTORY 0 ON_FAILURE PAUSE;",
    )
    assert spec.output is None and spec.notify is not None and spec.notify.pause_on_failure
    assert (spec.full_name, spec.home, spec.notices) == ("s", "d", "window")


def test_groups_by_cells_of_rows_have_no_counterpart(catalog: Catalog) -> None:
    spec = stream(catalog, create("", f"{BY} tbname, v INTERVAL(10s)"))
    facts = explain.understood(spec)
    assert ("groups", "tbname, v") in facts
    assert any(fact.value.startswith("PARTITION BY v: the newer dialect groups by tables") for fact in facts)

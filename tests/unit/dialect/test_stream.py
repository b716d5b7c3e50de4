"""CREATE STREAM: what is allowed becomes a spec, what is not is refused with its place."""

from __future__ import annotations

import msgspec
import pytest

from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.conditions import condition_expression
from millrace_core.dialect.tdengine import lower, parse
from millrace_core.dialect.tdengine.output import complete
from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.query import parse_expression
from millrace_core.language.statements import CreateStream
from millrace_core.model import options
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import Condition, Duration, Options, ResultColumn, StreamSpec
from millrace_core.model.triggers import read_trigger
from millrace_core.model.types import BIGINT, DOUBLE, TIMESTAMP, DataType
from millrace_core.trigger.types import Count, Event, Interval, Period, Session, Sliding, State, trigger_types
from millrace_core.trigger.types.registry import having, placeholders

INT, TS = DataType("INT"), Column("ts", TIMESTAMP)
COLUMNS = (TS, Column("v", INT), Column("f", DataType("FLOAT")), Column("name", DataType("VARCHAR", 8)))
QUERY = "INTO o AS SELECT _twstart AS ts, count(*) AS n FROM t"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    found = Catalog()
    tags = (Column("k", INT), Column("site", DataType("VARCHAR", 16)))
    for record in (
        Database("d"),
        Database("us", "us"),
        Table("d", "t", "normal", 1, "ms", COLUMNS),
        Table("d", "src", "normal", 2, "ms", COLUMNS),
        Table("d", "st", "super", 3, "ms", COLUMNS, tags),
        Child("d", "st", "c1", (1, "x")),
        Table("us", "t", "normal", 4, "us", COLUMNS),
        Table("d", "old", "normal", 5, "ms", (TS, Column("n", BIGINT), Column("mean", DOUBLE))),
        Table("d", "olds", "super", 6, "ms", (TS, Column("n", BIGINT), Column("mean", DOUBLE)), tags[:1]),
    ):
        found.apply(key_of(record), encode(record))
    return found


def create(sql: str) -> CreateStream:
    statement = parse(sql)
    assert isinstance(statement, CreateStream)
    return statement


def lowered(catalog: Catalog, rest: str, database: str = "d") -> StreamSpec:
    return lower(create(f"CREATE STREAM s {rest}"), catalog, database, "UTC")


def s(value: int) -> Duration:
    return Duration(value, "s")


def condition(sql: str, *columns: str) -> Condition:
    table = Table("d", "st", "super", 3, "ms", COLUMNS, (Column("k", INT),))
    return Condition(sql, columns, condition_expression(parse_expression(sql), table, "UTC", ""))


@pytest.mark.parametrize(
    ("rest", "trigger"),
    [
        (f"PERIOD(10a) {QUERY.replace('_twstart', '_tlocaltime')}", Period(Duration(10, "a"))),
        (
            "PERIOD(3650d, 23h) NOTIFY('ws://h:1')",
            Period(Duration(3650, "d"), Duration(23, "h")),
        ),
        ("SLIDING(10s, 2s) FROM t NOTIFY('ws://h:1')", Sliding(s(10), s(2))),
        (f"INTERVAL(20s, 3s) SLIDING(10s) FROM t {QUERY}", Interval(s(20), s(10), s(3))),
        (f"INTERVAL(5s) SLIDING(20s) FROM t {QUERY}", Interval(s(5), s(20))),
        (f"INTERVAL(1n) SLIDING(1n) FROM t {QUERY}", Interval(Duration(1, "n"), Duration(1, "n"))),
        (f"SESSION(ts, 5s) FROM st PARTITION BY k {QUERY}", Session(s(5))),
        (f"STATE_WINDOW(v, 2) TRUE_FOR(0s) FROM t {QUERY}", State("v", 2, s(0))),
        (f"STATE_WINDOW(name) FROM c1 {QUERY}", State("name")),
        (
            f"EVENT_WINDOW(START WITH v > 1 END WITH name = 'x' OR f < 0) TRUE_FOR(3s) FROM t {QUERY}",
            Event(condition("v > 1", "v"), condition("name = 'x' OR f < 0", "name", "f"), s(3)),
        ),
        (f"COUNT_WINDOW(3) FROM t {QUERY}", Count(3, 3)),
        (f"COUNT_WINDOW(4, 2, v, f) FROM t {QUERY}", Count(4, 2, ("v", "f"))),
        (f"COUNT_WINDOW(2, name) FROM t {QUERY}", Count(2, 2, ("name",))),
        (f"COUNT_WINDOW(2) FROM st PARTITION BY k, tbname {QUERY}", Count(2, 2)),
    ],
)
def test_triggers(catalog: Catalog, rest: str, trigger: object) -> None:
    spec = lowered(catalog, rest)
    assert spec.trigger == trigger
    assert msgspec.json.decode(msgspec.json.encode(spec), type=StreamSpec, dec_hook=read_trigger) == spec


def test_a_whole_stream(catalog: Catalog) -> None:
    spec = lowered(
        catalog,
        "INTERVAL(10s) SLIDING(10s) FROM st PARTITION BY tbname, k "
        "STREAM_OPTIONS(WATERMARK(5s) | EXPIRED_TIME(1h) | FILL_HISTORY('2026-01-01 00:00:01')"
        " | PRE_FILTER(v > 0 AND k = 1)) "
        "NOTIFY('ws://h:1/x?a=b', 'wss://[::1]:2') ON (WINDOW_CLOSE|WINDOW_OPEN) WHERE n > 1 "
        "NOTIFY_OPTIONS(NOTIFY_HISTORY) "
        "INTO us.o OUTPUT_SUBTABLE(concat('o_', %%1, cast(k AS VARCHAR(8)))) (ws, n) "
        "AS SELECT _twstart, count(*) AS n FROM %%trows",
    )
    assert (spec.db, spec.name, spec.database, spec.partition, spec.uid) == (
        "d",
        "s",
        "d",
        ("tbname", "k"),
        0,
    )
    assert spec.source is not None and spec.source.table.name == "st" and spec.source.child is None
    assert spec.options == Options(
        watermark=s(5),
        expired_time=Duration(1, "h"),
        fill_history=1_767_225_601_000,
        pre_filter=condition("v > 0 AND k = 1", "v", "k"),
    )
    assert spec.notify is not None and spec.output is not None
    assert spec.notify.events == ("WINDOW_OPEN", "WINDOW_CLOSE") and spec.notify.history
    assert (spec.notify.where, spec.notify.pause_on_failure) == ("n > 1", False)
    assert [(t.column.name, str(t.column.type), t.expression) for t in spec.output.tags] == [
        ("tag_tbname", "VARCHAR(270)", "tbname"),
        ("k", "INT", "`k`"),
    ]
    assert (spec.output.db, spec.output.table) == ("us", "o")
    assert spec.output.subtable == "concat('o_', %%1, cast(k AS VARCHAR(8)))"
    assert spec.query == "SELECT _twstart, count(*) AS n FROM %%trows"


def test_a_child_as_trigger_table(catalog: Catalog) -> None:
    spec = lowered(catalog, f"COUNT_WINDOW(1) FROM c1 PARTITION BY site {QUERY}")
    assert spec.source is not None and (spec.source.table.name, spec.source.child) == ("st", "c1")


def test_options_without_effect_are_left_out(catalog: Catalog) -> None:
    spec = lowered(
        catalog,
        "SLIDING(10s) FROM t STREAM_OPTIONS(MAX_DELAY(3s) | EVENT_TYPE(WINDOW_OPEN) | IGNORE_NODATA_TRIGGER)"
        " NOTIFY('ws://h:1') ON (WINDOW_OPEN) INTO o AS SELECT _tcurrent_ts, count(*) FROM %%trows",
    )
    assert spec.options == Options(ignore_nodata_trigger=True)
    assert spec.notify is not None and spec.notify.events == ("ON_TIME",)


def test_names_without_a_database_are_the_streams_if_the_session_has_none(catalog: Catalog) -> None:
    statement = create(f"CREATE STREAM d.s COUNT_WINDOW(1) FROM t {QUERY}")
    spec = lower(statement, catalog, None, "UTC")
    assert spec.source is not None and spec.output is not None
    assert (spec.source.table.db, spec.output.db, spec.database) == ("d", "d", "d")


def test_the_tables_of_rules_cover_the_model() -> None:
    plain = {rule.field for rule in options.OPTIONS.values() if not rule.emits}
    assert plain == set(Options.__struct_fields__)
    assert {rule.spec for rule in trigger_types()} == {
        Period, Sliding, Interval, Session, State, Event, Count,
    }  # fmt: skip
    keywords = {rule.keyword for rule in trigger_types()}
    for option in options.OPTIONS.values():
        assert having(option.refused) | having(option.ignored) <= keywords and option.excludes <= set(
            options.OPTIONS
        )
    for placeholder in placeholders().values():
        assert placeholder.triggers <= keywords
    assert {rule.keyword for rule in trigger_types() if rule.window} == placeholders()["_twstart"].triggers
    # DELETE_RECALC is refused by exactly those that never recalculate
    never = {rule.keyword for rule in trigger_types() if not rule.recalculates}
    assert having(options.OPTIONS["DELETE_RECALC"].refused) == never


C, IN, N = (
    "COUNT_WINDOW(2) FROM t",
    "INTERVAL(1m) SLIDING(1m) FROM st PARTITION BY tbname",
    "NOTIFY('ws://h:1')",
)
AS = "INTO o AS SELECT _twstart AS ts, count(*) AS n FROM"
OPENING = "STREAM_OPTIONS(EVENT_TYPE(WINDOW_OPEN))"
BOTH = "STREAM_OPTIONS(EVENT_TYPE(WINDOW_OPEN | WINDOW_CLOSE))"
# (statement, part of the message, what stands at the error's position)
BAD = [
    # where the stream and its trigger table are
    (f"COUNT_WINDOW(2) {QUERY}", "COUNT_WINDOW needs a trigger table", "COUNT_WINDOW"),
    (f"COUNT_WINDOW(2) FROM absent {QUERY}", "table d.absent does not exist", "absent"),
    (f"COUNT_WINDOW(2) FROM nowhere.t {QUERY}", "database nowhere does not exist", "nowhere"),
    (f"PERIOD(10s) FROM information_schema.ins_tables {QUERY}", "system table", "information_schema"),
    # arguments
    (f"PERIOD(9a) {N}", "period_time: 9a is not valid; expected", "9a"),
    (f"PERIOD(9a) {N}", "followed by a unit (a, s, m, h, d), from 10a to 3650d", "9a"),
    (f"PERIOD(3651d) {N}", "3651d", "3651d"),
    (f"PERIOD(10s, 24h) {N}", "offset_time: 24h is not valid; expected", "24h"),
    (f"PERIOD(10s, 24h) {N}", "followed by a unit (a, s, m, h), less than 1d", "24h"),
    (f"PERIOD(10s, -10s) {N}", "-10s is not valid", "-"),
    (f"PERIOD(10s, 1h-20m) {N}", "1h-20m", "1h"),
    (f"PERIOD(10s, 0.5h) {N}", "0.5h", "0.5h"),
    (f"PERIOD(10) {N}", "10 is not valid", "10"),
    (f"PERIOD(1w) {N}", "1w is not valid", "1w"),
    (f"PERIOD(10s, 1s, 1s) {N}", "unexpected argument 1s", "1s"),
    (f"SLIDING(1w) FROM t {N}", "1w is not valid", "1w"),
    (f"INTERVAL(10s, 15s) SLIDING(10s) FROM t {QUERY}", "15s must be less than the interval 10s", "15s"),
    (f"INTERVAL(365d) SLIDING(1s) FROM t {QUERY}", "would be in more than 10000 windows", "1s"),
    (f"INTERVAL(10s) SLIDING(10s, 1s) FROM t {QUERY}", "put an offset in INTERVAL", "1s"),
    (f"INTERVAL(9a) SLIDING(10s) FROM t {QUERY}", "at least 10a", "9a"),
    (f"INTERVAL(1n) SLIDING(1d) FROM t {QUERY}", "months and years", "1d"),
    (f"INTERVAL(100000u) SLIDING(10500u) FROM t {QUERY}", "not a whole number of ms", "10500u"),
    (f"SESSION(v, 5s) FROM t {QUERY}", "v is not the time column ts", "v"),
    (f"SESSION(ts) FROM t {QUERY}", "session_val is missing", "SESSION"),
    (f"SESSION(ts, 1n) FROM t {QUERY}", "1n is not valid", "1n"),
    (f"STATE_WINDOW(ts) FROM t {QUERY}", "ts is TIMESTAMP", "ts"),
    (f"STATE_WINDOW(f) FROM t {QUERY}", "f is FLOAT", "f"),
    (f"STATE_WINDOW(v, 3) FROM t {QUERY}", "an integer from 0 to 2", "3"),
    (f"STATE_WINDOW(nope) FROM t {QUERY}", "nope is not a column", "nope"),
    (f"STATE_WINDOW(v + 1) FROM t {QUERY}", "not a column name", "v"),
    (f"STATE_WINDOW(v) TRUE_FOR(1n) FROM t {QUERY}", "TRUE_FOR: duration_time: 1n", "1n"),
    (f"COUNT_WINDOW(0) FROM t {QUERY}", "from 1 to", "0"),
    (f"COUNT_WINDOW(-1) FROM t {QUERY}", "-1 is not valid", "-"),
    (f"COUNT_WINDOW(2, 3) FROM t {QUERY}", "3 is larger than count_val 2", "3"),
    (f"COUNT_WINDOW(2, 1, nope) FROM t {QUERY}", "nope is not a column", "nope"),
    (f"COUNT_WINDOW(2, k) FROM st PARTITION BY tbname {QUERY}", "k is a tag", "k"),
    (f"COUNT_WINDOW(2) TRUE_FOR(1s) FROM t {QUERY}", "not with COUNT_WINDOW", "TRUE_FOR"),
    (f"EVENT_WINDOW(START WITH v > 1 END WITH nope < 1) FROM t {QUERY}", "no column nope", "nope"),
    (f"EVENT_WINDOW(START WITH avg(v) > 1 END WITH v < 1) FROM t {QUERY}", "avg reads more than one", "avg"),
    (f"EVENT_WINDOW(START WITH v > _twstart END WITH v < 1) FROM t {QUERY}", "placeholder", "_twstart"),
    # grouping
    (f"COUNT_WINDOW(2) FROM st {QUERY}", "needs PARTITION BY tbname", "COUNT_WINDOW"),
    (f"STATE_WINDOW(v) FROM st PARTITION BY k {QUERY}", "needs PARTITION BY tbname", "k"),
    (f"SESSION(ts, 1s) FROM st PARTITION BY v {QUERY}", "it is a column", "v"),
    (f"SESSION(ts, 1s) FROM st PARTITION BY nope {QUERY}", "no such tag", "nope"),
    (f"SESSION(ts, 1s) FROM st PARTITION BY k, k {QUERY}", "given twice", "k"),
    (f"PERIOD(1h) PARTITION BY tbname {N}", "needs a trigger table", "tbname"),
    # options
    (f"{C} STREAM_OPTIONS(DELETE_RECALC) {QUERY}", "COUNT_WINDOW does not support", "DELETE_RECALC"),
    (f"PERIOD(1h) STREAM_OPTIONS(FILL_HISTORY) {N}", "PERIOD does not support", "FILL_HISTORY"),
    (f"{C} STREAM_OPTIONS(FILL_HISTORY | FILL_HISTORY_FIRST) {QUERY}", "used together", "FILL_HISTORY_F"),
    (f"{C} STREAM_OPTIONS(FILL_HISTORY('soon')) {QUERY}", "not a timestamp", "'soon'"),
    (f"{C} STREAM_OPTIONS(FILL_HISTORY(now)) {QUERY}", "start_time now", "now"),
    (f"{C} STREAM_OPTIONS(IGNORE_DISORDER | IGNORE_DISORDER) {QUERY}", "given twice", "IGNORE_DISORDER"),
    (f"{C} STREAM_OPTIONS(SKIP_ALL) {QUERY}", "unknown option SKIP_ALL", "SKIP_ALL"),
    (f"{C} STREAM_OPTIONS(WATERMARK) {QUERY}", "takes a duration", "WATERMARK"),
    (f"{C} STREAM_OPTIONS(FORCE_OUTPUT(1)) {QUERY}", "takes no arguments", "1"),
    (f"{C} STREAM_OPTIONS(WATERMARK(10s) | EXPIRED_TIME(5s)) {QUERY}", "is longer", "WATERMARK(10s)"),
    (f"{C} STREAM_OPTIONS(WATERMARK(0.5s)) {QUERY}", "0.5s is not valid", "0.5s"),
    (f"{C} STREAM_OPTIONS(EXPIRED_TIME(1w)) {QUERY}", "1w is not valid", "1w"),
    (f"{C} STREAM_OPTIONS(MAX_DELAY(2s)) {QUERY}", "at least 3s", "2s"),
    (f"{C} STREAM_OPTIONS(EVENT_TYPE(WINDOW_SHUT)) {QUERY}", "unknown event type", "WINDOW_SHUT"),
    (f"{C} STREAM_OPTIONS(PRE_FILTER(nope > 1)) {QUERY}", "no column nope", "nope"),
    (f"{C} STREAM_OPTIONS(DELETE_OUTPUT_TABLE) {QUERY}", "needs PARTITION BY tbname", "DELETE_OUTPUT_TABLE"),
    (f"PERIOD(1h) STREAM_OPTIONS(PRE_FILTER(v > 1)) {N}", "needs a trigger table", "PRE_FILTER"),
    # actions
    (C, "nothing to do", "s"),
    (f"{C} INTO o", "INTO o needs AS", "o"),
    (f"{C} AS SELECT _twstart, v FROM t", "AS needs INTO", "SELECT"),
    (f"{C} STREAM_OPTIONS(CALC_NOTIFY_ONLY) AS SELECT v FROM t", "CALC_NOTIFY_ONLY needs NOTIFY", "CALC_"),
    # notifications
    (f"{C} {N} {QUERY}", "needs ON", "NOTIFY"),
    (f"{C} NOTIFY('http://h:1') ON (WINDOW_OPEN) {QUERY}", "not a valid address", "'http://h:1'"),
    (f"{C} NOTIFY('ws://h') ON (WINDOW_OPEN) {QUERY}", "not a valid address", "'ws://h'"),
    (f"{C} NOTIFY('ws://h:99999') ON (WINDOW_OPEN) {QUERY}", "not a valid address", "'ws://h:99999'"),
    (f"{C} {N} ON (ON_TIME) {QUERY}", "unknown event type", "ON_TIME"),
    (f"{C} {N} ON (WINDOW_OPEN) WHERE n > 1", "needs a query (AS)", "n"),
    (f"{C} {N} ON (WINDOW_OPEN) NOTIFY_OPTIONS(NOTIFY_FUTURE) {QUERY}", "NOTIFY_FUTURE", "NOTIFY_FUTURE"),
    # output
    (f"{C} {QUERY.replace('INTO o', 'INTO t')}", "cannot be the trigger table", "t"),
    (f"{C} {QUERY.replace('INTO o', 'INTO c1')}", "child table", "c1"),
    (f"{C} {QUERY.replace('INTO o', 'INTO st')}", "has no groups and needs a normal table", "st"),
    (f"{IN} {QUERY.replace('INTO o', 'INTO old')}", "has groups and needs a super table", "old"),
    (f"{C} {QUERY.replace('INTO o', 'INTO nowhere.o')}", "nowhere does not exist", "nowhere"),
    (f"{C} INTO src AS SELECT ts, v FROM d.src", "cannot read the output table", "d"),
    (f"{C} INTO o OUTPUT_SUBTABLE('x') AS SELECT ts, v FROM t", "needs PARTITION BY", "'x'"),
    (f"{C} INTO o TAGS (a INT AS 1) AS SELECT ts, v FROM t", "needs PARTITION BY", "a"),
    (f"{C} OUTPUT_SUBTABLE('x') {N} ON (WINDOW_OPEN)", "expected (columns), TAGS, AS", "NOTIFY"),
    (f"{C} {N} ON (WINDOW_OPEN) OUTPUT_SUBTABLE('x')", "OUTPUT_SUBTABLE needs INTO", "'x'"),
    (f"{IN} INTO o OUTPUT_SUBTABLE(site) {AS[7:]} %%trows", "site is not a grouping column", "site"),
    (f"{IN} INTO o TAGS (a INT AS %%2) {AS[7:]} %%trows", "1 grouping columns", "%%2"),
    (f"{IN} INTO o TAGS (a BIGINT AS _twstart) {AS[7:]} %%trows", "not constant within a group", "_twstart"),
    (f"{IN} INTO o TAGS (a INT AS 1, a INT AS 2) {AS[7:]} %%trows", "a is given twice", "a"),
    # placeholders
    (f"{IN} INTO o AS SELECT _tprev_ts AS ts, count(*) FROM t", "only with SLIDING", "_tprev_ts"),
    ("PERIOD(1h) INTO o AS SELECT _tlocaltime, count(*) FROM %%trows", "needs a trigger table", "%%trows"),
    (f"{IN} {AS} t WHERE tbname = %%2", "1 grouping columns", "%%2"),
    (f"{IN} {AS} t WHERE tbname = %%0", "1 grouping columns", "%%0"),
    (f"{C} {AS} %%tbname", "needs PARTITION BY tbname", "%%tbname"),
    (f"{IN} {AS} _twstart", "is not a table", "_twstart"),
    (f"{IN} INTO o AS SELECT _twstart, %%trows FROM t", "used only in FROM", "%%trows"),
    (f"{IN} {AS} %%trows WHERE v > 0", "cannot be combined with WHERE", "v"),
    (f"{IN} {AS} %%trows a JOIN src b ON a.ts = b.ts", "cannot be joined", "%%trows"),
    (f"{IN} {AS} %%1", "is not a table", "%%1"),
    (f"{IN} {AS} t GROUP BY _tgrpid", "used only in SELECT and WHERE", "_tgrpid"),
    (f"{C} {BOTH} {AS} %%trows", "when a window closes", "%%trows"),
    (f"{C} {OPENING} INTO o AS SELECT _twend, v FROM t", "when a window closes", "_twend"),
    # syntax inside the query
    (f"{C} INTO o AS SELECT FROM t", "syntax error", "FROM"),
]  # fmt: skip


@pytest.mark.parametrize(("rest", "message", "at"), BAD)
def test_what_is_refused(catalog: Catalog, rest: str, message: str, at: str) -> None:
    with pytest.raises(SqlError) as raised:
        lowered(catalog, rest)
    assert message in raised.value.message
    assert raised.value.position is not None
    rest_of_line = f"CREATE STREAM s {rest}"[raised.value.position.column - 1 :]
    assert rest_of_line.startswith(at)


def test_no_database(catalog: Catalog) -> None:
    with pytest.raises(SqlError) as raised:
        lower(create(f"CREATE STREAM s PERIOD(1h) {N}"), catalog, None, "UTC")
    assert raised.value.code is ErrorCode.NO_DATABASE


def result(*columns: tuple[str, DataType]) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(name, type_) for name, type_ in columns)


GOOD = result(("ts", TIMESTAMP), ("n", BIGINT), ("mean", DOUBLE))


def completed(catalog: Catalog, rest: str, found: tuple[ResultColumn, ...]) -> StreamSpec:
    statement = create(f"CREATE STREAM s {rest}")
    return complete(lower(statement, catalog, "d", "UTC"), statement, found, catalog)


def test_the_result_fills_the_output(catalog: Catalog) -> None:
    spec = completed(catalog, f"{C} INTO o (a, b COMPOSITE KEY, c) AS SELECT ts, n, mean FROM t", GOOD)
    assert spec.output is not None and spec.result == GOOD
    assert spec.output.columns == (Column("a", TIMESTAMP), Column("b", BIGINT, True), Column("c", DOUBLE))


def test_an_existing_table_that_matches(catalog: Catalog) -> None:
    rest = f"{IN} INTO olds TAGS (k INT AS 1) AS SELECT ts, n, mean FROM t"
    spec = completed(catalog, rest, GOOD)
    assert spec.output is not None and [t.column for t in spec.output.tags] == [Column("k", INT)]
    assert completed(catalog, f"{C} INTO old AS SELECT ts, n, mean FROM t", GOOD).result == GOOD


@pytest.mark.parametrize(
    ("rest", "found", "message"),
    [
        (f"{C} INTO o AS SELECT n, ts FROM t", GOOD[1:], "must be a TIMESTAMP"),
        (f"{C} INTO o AS SELECT ts FROM t", GOOD[:1], "needs at least one column besides"),
        (
            f"{C} INTO o (ts) AS SELECT ts, n FROM t",
            GOOD[:2],
            "1 output columns are named, but the result has 2",
        ),
        (f"{C} INTO o AS SELECT ts, n, n FROM t", (*GOOD[:2], GOOD[1]), "two columns or tags named n"),
        (f"{C} INTO o (a, b COMPOSITE KEY) AS SELECT ts, mean FROM t", (GOOD[0], GOOD[2]), "COMPOSITE KEY b"),
        (f"{C} INTO o (a, b, c COMPOSITE KEY) AS SELECT ts, n, n FROM t", GOOD, "COMPOSITE KEY c"),
        (f"{C} INTO old AS SELECT ts, n FROM t", GOOD[:2], "it has 3 columns, but the stream has 2"),
        (
            f"{C} INTO old (ts, n, average) AS SELECT ts FROM t",
            GOOD,
            "it has the column mean where the stream has average",
        ),
        (
            f"{C} INTO old AS SELECT ts FROM t",
            result(("ts", TIMESTAMP), ("n", INT), ("mean", DOUBLE)),
            "is BIGINT",
        ),
        (f"{IN} INTO olds TAGS (k BIGINT AS 1) AS SELECT ts FROM t", GOOD, "its tag k is INT"),
        (f"{IN} INTO olds AS SELECT ts FROM t", GOOD, "it has the tag k where the stream has"),
    ],
)
def test_results_that_do_not_fit(
    catalog: Catalog, rest: str, found: tuple[ResultColumn, ...], message: str
) -> None:
    with pytest.raises(SqlError) as raised:
        completed(catalog, rest, found)
    assert message in raised.value.message and raised.value.position is not None


def test_notify_only_results_need_no_time(catalog: Catalog) -> None:
    rest = f"{C} STREAM_OPTIONS(CALC_NOTIFY_ONLY) {N} ON (WINDOW_CLOSE) WHERE n > 0 AS SELECT n FROM t"
    assert completed(catalog, rest, GOOD[1:2]).result == GOOD[1:2]


@pytest.mark.parametrize(
    "option",
    [
        "FILL_HISTORY('yesterday')", "FILL_HISTORY()", "FILL_HISTORY_FIRST('2026-13-01')", "PRE_FILTER()",
        "PRE_FILTER(name)", "PRE_FILTER(v >)", "PRE_FILTER(v > 1, v < 2)", "PRE_FILTER(nope > 1)",
        "EVENT_TYPE()", "WATERMARK()", "FORCE_OUTPUT()", "MAX_DELAY()",
    ],
)  # fmt: skip
def test_an_error_in_an_option_names_it_and_its_place(catalog: Catalog, option: str) -> None:
    with pytest.raises(SqlError) as caught:
        lowered(catalog, f"SESSION(ts, 5s) FROM t STREAM_OPTIONS({option}) {QUERY}")
    assert option.split("(")[0] in caught.value.message
    assert caught.value.position is not None

"""Every option with every trigger, as the table of options says."""

from __future__ import annotations

import pytest

from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.dialect.tdengine import lower, parse
from millrace_core.errors import SqlError
from millrace_core.language.statements import CreateStream
from millrace_core.model.options import OPTIONS, Needs
from millrace_core.model.schema import Column, Database, Table
from millrace_core.model.stream import Duration, Emission, Options, StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.trigger.stream.delay import delay_of
from millrace_core.trigger.types import trigger_types
from millrace_core.trigger.types.registry import having

COLUMNS = (Column("ts", TIMESTAMP), Column("v", DataType("INT")))
WITH = {
    "PERIOD": "PERIOD(1h)",
    "SLIDING": "SLIDING(10s)",
    "INTERVAL": "INTERVAL(10s) SLIDING(10s)",
    "SESSION": "SESSION(ts, 5s)",
    "STATE_WINDOW": "STATE_WINDOW(v)",
    "EVENT_WINDOW": "EVENT_WINDOW(START WITH v > 1 END WITH v < 1)",
    "COUNT_WINDOW": "COUNT_WINDOW(2)",
}
GIVEN = {
    "WATERMARK": "(5s)", "EXPIRED_TIME": "(5s)", "PRE_FILTER": "(v > 1)", "MAX_DELAY": "(3s)",
    "EVENT_TYPE": "(WINDOW_OPEN)",
}  # fmt: skip


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    found = Catalog()
    for record in (
        Database("d"),
        Database("ns", "ns"),
        Table("d", "t", "normal", 1, "ms", COLUMNS),
        Table("d", "st", "super", 2, "ms", COLUMNS, (Column("k", DataType("INT")),)),
        Table("ns", "t", "normal", 3, "ns", COLUMNS),
    ):
        found.apply(key_of(record), encode(record))
    return found


TELLS = "NOTIFY('ws://h:1') ON (WINDOW_CLOSE)"
WRITES = "INTO o AS SELECT _twstart AS ts, 1 AS v"


def options_of(catalog: Catalog, head: str, options: str, db: str = "d") -> Options:
    return spec_of(catalog, head, options, TELLS, db).options


def spec_of(catalog: Catalog, head: str, options: str, tail: str, db: str = "d") -> StreamSpec:
    statement = parse(f"CREATE STREAM s {head} STREAM_OPTIONS({options}) {tail}")
    assert isinstance(statement, CreateStream)
    spec = lower(statement, catalog, db, "UTC")
    delay_of(spec)
    return spec


@pytest.mark.parametrize("keyword", [found.keyword for found in trigger_types()])
@pytest.mark.parametrize("option", OPTIONS)
def test_a_trigger_takes_an_option_or_says_why_not(catalog: Catalog, keyword: str, option: str) -> None:
    rule, text = OPTIONS[option], option + GIVEN.get(option, "")
    head = f"{WITH[keyword]} FROM st PARTITION BY tbname"
    if keyword in having(rule.refused):
        with pytest.raises(SqlError) as refused:
            options_of(catalog, head, text)
        assert rule.refused is not None and rule.refused.value
        why = rule.refused.value
        assert refused.value.message == f"{keyword} does not support the option {option}: {why}"
        return
    spec = spec_of(catalog, head, text, WRITES if rule.needs is Needs.OUTPUT else TELLS)
    changed = {
        name
        for given, plain in ((spec.options, Options()), (spec.emission, Emission()))
        for name in plain.__struct_fields__
        if getattr(given, name) != getattr(plain, name)
    }
    assert changed == (set() if keyword in having(rule.ignored) else {rule.field})


WITHOUT = {
    Needs.TABLE: "PERIOD(1h) STREAM_OPTIONS({}) NOTIFY('ws://h:1')",
    Needs.BY_CHILD: "PERIOD(1h) FROM st PARTITION BY k STREAM_OPTIONS({}) NOTIFY('ws://h:1')",
    Needs.OUTPUT: f"SESSION(ts, 5s) FROM t STREAM_OPTIONS({{}}) {TELLS}",
    Needs.NOTIFY: "PERIOD(1h) STREAM_OPTIONS({}) INTO o AS SELECT _tlocaltime AS ts, 1 AS v",
}


@pytest.mark.parametrize("option", [name for name, rule in OPTIONS.items() if rule.needs])
def test_what_an_option_needs_is_asked_for_with_its_reason(catalog: Catalog, option: str) -> None:
    rule = OPTIONS[option]
    assert rule.needs is not None and rule.why
    text = WITHOUT[rule.needs].format(option + GIVEN.get(option, ""))
    statement = parse(f"CREATE STREAM s {text}")
    assert isinstance(statement, CreateStream)
    with pytest.raises(SqlError) as refused:
        lower(statement, catalog, "d", "UTC")
    assert refused.value.message == f"{option} needs {rule.needs.value}: {rule.why}"


@pytest.mark.parametrize(
    "option", ["EVENT_TYPE(WINDOW_OPEN |)", "WATERMARK(5s", "PRE_FILTER(v > 1", "MAX_DELAY(,3s)"]
)
def test_what_does_not_parse_is_named_too(option: str) -> None:
    with pytest.raises(SqlError, match=f"^{option.split('(')[0]}: "):
        parse(f"CREATE STREAM s SESSION(ts, 5s) FROM t STREAM_OPTIONS({option} NOTIFY('ws://h:1')")


@pytest.mark.parametrize("keyword", [found.keyword for found in trigger_types()])
@pytest.mark.parametrize(
    "options", ["WATERMARK(10s) | EXPIRED_TIME(9999a)", "EXPIRED_TIME(9s)|WATERMARK(10s)"]
)
def test_no_row_may_expire_while_it_waits(catalog: Catalog, keyword: str, options: str) -> None:
    """Also where both would have no effect: what cannot be meant is refused."""
    with pytest.raises(
        SqlError, match=r"^WATERMARK\(10s\) is longer than EXPIRED_TIME\(9.*s?a?\): "
    ) as refused:
        options_of(catalog, f"{WITH[keyword]} FROM t", options)
    assert OPTIONS["WATERMARK"].apart in refused.value.message
    same = options_of(catalog, f"{WITH[keyword]} FROM t", "WATERMARK(10s) | EXPIRED_TIME(10s)")
    assert (same.watermark is None) == (keyword == "PERIOD")


def test_results_are_taken_back_by_the_start_of_their_window(catalog: Catalog) -> None:
    head = "SESSION(ts, 5s) FROM t"
    assert spec_of(catalog, head, "RETRACT", WRITES).emission == Emission(obsolete="retracted")
    for query in (
        "SELECT _twend AS ts, 1 AS v",
        "SELECT _twstart + 1 AS ts, 1 AS v",
        "SELECT * FROM %%trows",
    ):
        with pytest.raises(SqlError) as refused:
            spec_of(catalog, head, "RETRACT", f"INTO o AS {query}")
        assert refused.value.message == (
            "RETRACT needs a query whose first column is _twstart, the key of its results"
        )
        assert refused.value.position is not None


@pytest.mark.parametrize("options", ["RETRACT | CALC_NOTIFY_ONLY", "CALC_NOTIFY_ONLY | RETRACT"])
def test_what_is_not_stored_cannot_be_taken_back(catalog: Catalog, options: str) -> None:
    with pytest.raises(SqlError, match="cannot be used together: only stored results"):
        spec_of(catalog, "SESSION(ts, 5s) FROM t", options, f"{TELLS} {WRITES}")


def test_options_that_exclude_each_other_say_why(catalog: Catalog) -> None:
    with pytest.raises(SqlError) as refused:
        options_of(catalog, "COUNT_WINDOW(2) FROM t", "FILL_HISTORY('2026-01-01') | FILL_HISTORY_FIRST")
    assert refused.value.message == (
        f"FILL_HISTORY_FIRST and FILL_HISTORY cannot be used together: {OPTIONS['FILL_HISTORY'].apart}"
    )


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("MAX_DELAY(2s)", "at least 3s"),
        ("MAX_DELAY(3000a)", "a unit (s, m, h, d)"),
        ("MAX_DELAY(1n)", "a unit (s, m, h, d)"),
        ("MAX_DELAY(300000d)", "outside the range of 64 bits"),
        ("MAX_DELAY(99999999999999999999d)", "outside the range of 64 bits"),
        ("EXPIRED_TIME(0s)", "greater than 0"),
        ("EXPIRED_TIME(1y)", "a unit (a, s, m, h, d)"),
        ("WATERMARK(1n)", "a unit (b, u, a, s, m, h, d, w)"),
        ("WATERMARK(1500u)", "not a whole number of ms"),
        ("WATERMARK(99999999999999d)", "outside the range of 64 bits"),
        ("EVENT_TYPE(on_time)", "unknown event type ON_TIME; expected WINDOW_OPEN or WINDOW_CLOSE"),
    ],
)
def test_a_range_is_named_with_the_option(catalog: Catalog, option: str, why: str) -> None:
    for keyword in ("SESSION", "PERIOD"):  # MAX_DELAY has no effect there, but must be one
        with pytest.raises(SqlError) as refused:
            options_of(catalog, f"{WITH[keyword]} FROM t", option)
        assert option.split("(")[0] in refused.value.message and why in refused.value.message


def test_a_long_delay_is_a_time_that_can_be_told(catalog: Catalog) -> None:
    """The time of the trigger, now and the delay, must be an int64 of ns."""
    statement = parse("CREATE STREAM s SESSION(ts, 5s) FROM t STREAM_OPTIONS(MAX_DELAY(106751d)) "
                      "NOTIFY('ws://h:1') ON (WINDOW_CLOSE)")  # fmt: skip
    assert isinstance(statement, CreateStream)
    delay = delay_of(lower(statement, catalog, "d", "UTC"))
    assert delay is not None and 1 << 61 < delay < (1 << 63) - 4_000_000_000 * 10**9


def test_durations_are_those_of_the_database(catalog: Catalog) -> None:
    head = "STATE_WINDOW(v) FROM t"
    found = options_of(catalog, head, "WATERMARK(1b) | FILL_HISTORY('2026-01-01 00:00:00.123456789')", "ns")
    assert found.watermark == Duration(1, "b") and found.fill_history == 1_767_225_600_123_456_789

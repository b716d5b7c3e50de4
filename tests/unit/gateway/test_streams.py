"""CREATE, START, STOP and DROP STREAM: the records that they leave, and what crashes in between leave."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from millrace_core.catalog import StreamEntry, encode, key_of, read
from millrace_core.errors import ErrorCode, MillraceError, Position
from millrace_core.model.stream import Duration, ResultColumn
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.trigger.types import Period
from millrace_core.wire import control, status
from millrace_core.wire.topics import slot_of
from millrace_wal import Message

STREAM = (
    "CREATE STREAM s1 INTERVAL(10s) SLIDING(10s) FROM meters PARTITION BY {by} INTO out1 "
    "AS SELECT _twstart, count(*), avg(amps) FROM %%trows"
)
PLAIN = (
    "CREATE STREAM {name} INTERVAL(1s) SLIDING(1s) FROM {source} INTO {into} "
    "AS SELECT _twstart ts, v FROM %%trows"
)


@pytest.fixture
def meters(rig: Any) -> Any:
    rig("CREATE STABLE meters (ts TIMESTAMP, amps FLOAT) TAGS (site INT, room VARCHAR(8))")
    rig("CREATE TABLE m1 USING meters TAGS (1, 'a') m2 USING meters TAGS (2, NULL)")
    rig("CREATE TABLE one (ts TIMESTAMP, v INT)")
    rig.calc.describes(("_twstart", "TIMESTAMP"), ("count(*)", "BIGINT"), ("avg(amps)", "DOUBLE"))
    return rig


def entry(rig: Any, name: str = "s1") -> StreamEntry:
    found = rig.gateway.context.catalog.streams["d", name]
    assert isinstance(found, StreamEntry)
    return found


def state(rig: Any) -> list[Any]:
    return [list(row) for row in rig("SHOW d.STREAMS").rows]


def test_a_stream_comes_with_its_output_and_is_live_from_now(meters: Any) -> None:
    meters("INSERT INTO m1 VALUES (1, 1) m2 VALUES (1, 1)")
    ends = meters.log.end_offsets("wal.d.meters")
    meters(STREAM.format(by="tbname"))
    found = entry(meters)
    assert found.spec.result == (
        ResultColumn("_twstart", TIMESTAMP), ResultColumn("count(*)", BIGINT),
        ResultColumn("avg(amps)", DataType("DOUBLE")),
    )  # fmt: skip
    assert (found.wanted, found.epoch, found.control) == ("Running", 0, 0)
    assert meters.controls() == [control.DefineStream(found.spec, ends, 0)]
    out = meters.gateway.context.catalog.tables["d", "out1"]
    assert out.kind == "super"
    assert [(c.name, str(c.type)) for c in out.columns + out.tags] == [
        ("_twstart", "TIMESTAMP"), ("count(*)", "BIGINT"), ("avg(amps)", "DOUBLE"),
        ("tag_tbname", "VARCHAR(270)"),
    ]  # fmt: skip
    assert "wal.d.out1" in meters.log.topics("wal.")
    assert state(meters) == [["s1", "Running", ""]]
    path, asked = meters.calc.asked[-1]
    assert path == "/describe" and asked["spec"]["uid"] == 0
    kept = meters.records("catalog")[-2:]
    controls = [read(record.key, record.value)[2].control for record in kept]
    assert controls == [-1, 0]


def test_period_counts_from_the_server_s_midnight_and_its_slots_know_every_child(meters: Any) -> None:
    meters.restart(timezone="Asia/Shanghai")
    meters("CREATE STREAM s1 PERIOD(10s) FROM meters PARTITION BY tbname NOTIFY('ws://a:1')")
    defined, *told = meters.controls()
    assert isinstance(defined, control.DefineStream)
    assert defined.spec.trigger == Period(Duration(10, "s"), timezone="Asia/Shanghai")
    children = {child.name for record in told for child in record.children}
    assert children == {"m1", "m2"}
    meters("CREATE STREAM s2 PERIOD(10s) FROM meters NOTIFY('ws://a:1')")
    meters("CREATE STREAM s3 PERIOD(10s) NOTIFY('ws://a:1')")
    assert all(isinstance(record, control.DefineStream) for record in meters.controls()[1 + len(told) :])
    assert entry(meters, "s3").spec.source is None
    assert state(meters) == [[name, "Running", ""] for name in ("s1", "s2", "s3")]


def test_slots_are_told_the_tags_that_the_groups_are_made_of(meters: Any) -> None:
    meters(STREAM.format(by="room, site"))
    children = meters.gateway.context.catalog.children
    slots = meters.gateway.context.settings.slots
    told = [record for record in meters.controls() if isinstance(record, control.KnowChildren)]
    assert {child.name: record.slot for record in told for child in record.children} == {
        name: slot_of("wal.d.meters", name.encode(), slots) for name in ("m1", "m2")
    }
    assert {child for record in told for child in record.children} == set(children.values())
    assert isinstance(meters.controls()[0], control.DefineStream)
    assert entry(meters).control == len(meters.controls()) - 1


def test_slots_are_told_of_children_that_lived_before(meters: Any) -> None:
    meters("DROP TABLE m2")
    meters("CREATE TABLE m2 USING meters TAGS (2, NULL)")
    meters(STREAM.format(by="tbname"))
    told = [record for record in meters.controls() if isinstance(record, control.KnowChildren)]
    assert [(c.name, c.incarnation) for record in told for c in record.children] == [("m2", 1)]


def test_names_given_for_the_output_columns_are_its_names(meters: Any) -> None:
    sql = STREAM.format(by="tbname").replace("INTO out1", "INTO out1 (at, n, mean)")
    meters(sql)
    assert [c.name for c in meters.gateway.context.catalog.tables["d", "out1"].columns] == ["at", "n", "mean"]


@pytest.mark.parametrize(("sql", "code", "column"), [
    (STREAM.format(by="tbname").replace("meters", "absent"), ErrorCode.UNKNOWN_TABLE, 50),
    (STREAM.format(by="floor"), ErrorCode.UNKNOWN_COLUMN, 70),
    (STREAM.format(by="tbname").replace("out1", "nowhere.out1"), ErrorCode.UNKNOWN_DATABASE, 82),
    (STREAM.format(by="tbname").replace("out1", "one"), ErrorCode.BAD_STREAM, 82),
    (STREAM.format(by="tbname").replace("out1", "m1"), ErrorCode.BAD_STREAM, 82),
    (STREAM.format(by="tbname").replace("s1 ", "nowhere.s1 "), ErrorCode.UNKNOWN_DATABASE, 15),
])  # fmt: skip
def test_what_cannot_be_is_refused_and_nothing_is_left(
    meters: Any, sql: str, code: ErrorCode, column: int
) -> None:
    error = meters.refused(sql)
    assert (error.code, error.position) == (code, Position(1, column)), error


def test_a_result_that_cannot_be_stored_is_refused(meters: Any) -> None:
    meters.calc.describes(("n", "BIGINT"), ("ts", "TIMESTAMP"))
    assert "TIMESTAMP" in meters.refused(STREAM.format(by="tbname")).message
    meters.calc.describes(("ts", "TIMESTAMP"), ("n", "BIGINT"), ("n", "INT"))
    assert "n" in meters.refused(STREAM.format(by="tbname")).message


def test_an_existing_output_must_match(meters: Any) -> None:
    meters("CREATE STABLE out1 (ts TIMESTAMP, n BIGINT, mean DOUBLE) TAGS (tag_tbname VARCHAR(270))")
    assert "does not match" in meters.refused(STREAM.format(by="tbname")).message
    uid = meters.gateway.context.catalog.tables["d", "out1"].uid
    meters(STREAM.format(by="tbname").replace("INTO out1", "INTO out1 (ts, n, mean)"))
    assert meters.gateway.context.catalog.tables["d", "out1"].uid == uid


@pytest.mark.parametrize(("clause", "code", "column"), [
    ("OUTPUT_SUBTABLE(site)", ErrorCode.TYPE_MISMATCH, 17),
    ("OUTPUT_SUBTABLE(concat('r_', nope(site)))", ErrorCode.UNKNOWN_FUNCTION, 30),
    ("OUTPUT_SUBTABLE(max(tbname))", ErrorCode.NOT_ALLOWED, 17),
    ("OUTPUT_SUBTABLE('one')", ErrorCode.TABLE_EXISTS, 17),
    ("OUTPUT_SUBTABLE('m1')", ErrorCode.TABLE_EXISTS, 17),
    ("OUTPUT_SUBTABLE('out1')", ErrorCode.TABLE_EXISTS, 17),
    ("TAGS (a INT AS 99999999999)", ErrorCode.INVALID_VALUE, 16),
    ("TAGS (a INT AS site, b INT AS tbname)", ErrorCode.TYPE_MISMATCH, 31),
    ("TAGS (a JSON AS '{}')", ErrorCode.TYPE_MISMATCH, 17),
])  # fmt: skip
def test_names_and_tags_of_sub_tables_are_typed_at_create(
    meters: Any, clause: str, code: ErrorCode, column: int
) -> None:
    sql = STREAM.format(by="tbname, site").replace("INTO out1", f"INTO out1 \n{clause}")
    error = meters.refused(sql)
    assert (error.code, error.position) == (code, Position(2, column)), error
    assert ("d", "out1") not in meters.gateway.context.catalog.tables


def test_a_name_of_all_groups_may_be_a_sub_table_s(meters: Any) -> None:
    meters("CREATE STABLE out1 (_twstart TIMESTAMP, `count(*)` BIGINT, `avg(amps)` DOUBLE) TAGS (site INT)")
    meters("CREATE TABLE every USING out1 TAGS (1)")
    meters(STREAM.format(by="site").replace("INTO out1", "INTO out1 OUTPUT_SUBTABLE('every')"))
    assert state(meters) == [["s1", "Running", ""]]


@pytest.mark.parametrize(("before", "told", "shown"), [
    # calc-svc counts from CREATE on
    ("", Position(1, 69), Position(1, 69)),
    ("   ", Position(1, 69), Position(1, 72)),
    ("\n\n  ", Position(1, 69), Position(3, 71)),
    ("\n", Position(2, 4), Position(3, 4)),
    ("", None, Position(1, 62)),
])  # fmt: skip
def test_errors_in_the_query_stand_where_the_user_wrote_it(
    meters: Any, before: str, told: Position | None, shown: Position
) -> None:
    meters.calc.error = MillraceError(ErrorCode.UNKNOWN_COLUMN, "no column amp", told)
    text = "CREATE STREAM s1 INTERVAL(1s) SLIDING(1s) FROM one INTO o AS SELECT amp FROM one"
    assert meters.refused(before + text).position == shown


def test_a_stream_is_refused_while_calc_svc_is_away(meters: Any) -> None:
    meters.calc.away = True
    assert meters.refused(STREAM.format(by="tbname")).code is ErrorCode.UNAVAILABLE


def test_streams_in_a_ring_are_refused(meters: Any) -> None:
    meters.calc.describes(("ts", "TIMESTAMP"), ("v", "INT"))
    meters(PLAIN.format(name="a", source="one", into="two"))
    meters(PLAIN.format(name="b", source="two", into="three"))
    error = meters.refused(PLAIN.format(name="c", source="three", into="one"))
    assert error.code is ErrorCode.BAD_STREAM
    meters(PLAIN.format(name="c", source="three", into="four"))


def test_a_name_is_taken_once(meters: Any) -> None:
    meters(STREAM.format(by="tbname"))
    assert meters.refused(STREAM.format(by="tbname")).code is ErrorCode.STREAM_EXISTS
    again = STREAM.format(by="tbname").replace("STREAM s1", "STREAM IF NOT EXISTS s1")
    before = meters.catalog_records()
    meters(again)
    assert meters.catalog_records() == before


def test_a_catalog_that_changed_while_calc_svc_described_is_looked_at_again(meters: Any) -> None:
    calls = []

    def change() -> None:
        calls.append(1)
        if len(calls) == 1:
            meters("DROP STABLE meters")
            meters("CREATE STABLE meters (ts TIMESTAMP, amps FLOAT) TAGS (site INT)")

    meters.calc.before = change
    meters(STREAM.format(by="tbname"))
    source = entry(meters).spec.source
    assert source is not None
    assert source.table == meters.gateway.context.catalog.tables["d", "meters"]
    assert len(calls) == 2


def test_stop_and_start_are_confirmed_before_they_answer(meters: Any) -> None:
    meters(STREAM.format(by="tbname"))
    uid = entry(meters).spec.uid
    meters("STOP STREAM s1")
    assert state(meters) == [["s1", "Stopped", ""]]
    meters("STOP STREAM s1")
    meters("INSERT INTO m1 VALUES (1, 1)")
    ends = meters.log.end_offsets("wal.d.meters")
    meters("START STREAM s1")
    meters("START STREAM IGNORE UNTREATED s1")
    assert meters.controls()[1:] == [control.StopStream(uid), control.StartStream(uid, ends, 1)]
    assert state(meters) == [["s1", "Running", ""]]
    meters.restart()
    assert (entry(meters).wanted, entry(meters).epoch) == ("Running", 1)


def test_without_trigger_svc_a_stream_waits_and_a_stop_says_so(meters: Any) -> None:
    meters.restart(accept_seconds=0.1, apply_seconds=0.2)
    with meters.trigger.busy:
        meters(STREAM.format(by="tbname"))
        assert state(meters) == [["s1", "Init", ""]]
        with pytest.raises(MillraceError) as caught:
            meters("STOP STREAM s1")
        assert caught.value.code is ErrorCode.TIMEOUT
        assert state(meters) == [["s1", "Init", ""]]
        with pytest.raises(MillraceError):
            meters("DROP STREAM s1")
        assert state(meters) == []


def test_a_failed_stream_says_why(meters: Any) -> None:
    meters(STREAM.format(by="tbname"))
    uid = entry(meters).spec.uid
    board = meters.gateway.context.board
    for message, shown in [("no room", ["s1", "Failed", "no room"]), ("", ["s1", "Running", ""])]:
        said = status.StreamFailure(uid, message)
        meters.log.append([Message("status", status.key(said), status.encode(said))])
        meters.log.append([Message("status", b"x", b'{"about":"something newer"}')])
        control_ = status.Applied(board.applied + 1)
        meters.log.append([Message("status", status.key(control_), status.encode(control_))])
        assert board.wait_applied(control_.control, 5)
        assert state(meters) == [shown]


def _fail(meters: Any, message: str, slot: int | None) -> None:
    said = status.StreamFailure(entry(meters).spec.uid, message, slot)
    applied = status.Applied(meters.gateway.context.board.applied + 1)
    for news in (said, applied):
        meters.log.append([Message("status", status.key(news), status.encode(news))])
    assert meters.gateway.context.board.wait_applied(applied.control, 5)


def test_a_stream_that_was_set_aside_is_started_anew(meters: Any) -> None:
    meters(STREAM.format(by="tbname"))
    uid = entry(meters).spec.uid
    _fail(meters, "no such column", None)
    meters("START STREAM s1")
    assert isinstance(meters.controls()[-1], control.DefineStream), "its calculation failed, it runs"
    _fail(meters, "ValueError: no", 3)
    meters("START STREAM s1")
    started = meters.controls()[-1]
    assert isinstance(started, control.StartStream) and (started.uid, started.epoch) == (uid, 1)
    assert entry(meters).epoch == 1
    meters("RECALCULATE STREAM s1 FROM 0")
    restarted, asked = meters.controls()[-2:]
    assert isinstance(restarted, control.StartStream) and restarted.epoch == 2
    assert asked == control.RecalculateStream(uid, 0)
    _fail(meters, "", 3)
    meters("START STREAM s1")
    meters("RECALCULATE STREAM s1 FROM 0")
    assert [type(one) for one in meters.controls()[-2:]] == [control.RecalculateStream] * 2


def test_a_control_record_that_nobody_understands_holds_up_no_start(meters: Any) -> None:
    meters(STREAM.format(by="tbname"))
    meters.log.append([Message("control", None, b'{"op":"no such"}'), Message("control", None, b"\xff")])
    meters.restart()
    assert state(meters)[0][0] == "s1"


def test_a_dropped_stream_leaves_its_output(meters: Any) -> None:
    meters(STREAM.format(by="tbname"))
    uid = entry(meters).spec.uid
    meters("DROP STREAM d.s1", None)
    assert meters.controls()[-1] == control.DropStream(uid)
    assert ("d", "out1") in meters.gateway.context.catalog.tables
    for verb in ("DROP", "START", "STOP"):
        assert meters.refused(f"{verb} STREAM s1").code is ErrorCode.UNKNOWN_STREAM
        meters(f"{verb} STREAM IF EXISTS s1")
    meters(STREAM.format(by="tbname"))
    assert entry(meters).spec.uid != uid


def test_a_database_that_a_foreign_stream_needs_stays(meters: Any) -> None:
    meters("CREATE DATABASE e", None)
    meters("CREATE DATABASE f", None)
    meters("CREATE TABLE f.src (ts TIMESTAMP, v INT)", None)
    meters.calc.describes(("ts", "TIMESTAMP"), ("v", "INT"))
    meters("CREATE STREAM e.s INTERVAL(1s) SLIDING(1s) FROM d.one INTO f.o AS SELECT ts, v FROM f.src", None)
    for db in ("d", "f"):
        assert meters.refused(f"DROP DATABASE {db}", None).code is ErrorCode.DATABASE_IN_USE
    uid = meters.gateway.context.catalog.streams["e", "s"].spec.uid
    meters("DROP DATABASE e", None)
    assert control.DropStream(uid) in meters.controls()
    meters("DROP DATABASE d", None)
    meters("DROP DATABASE f", None)
    assert meters.gateway.context.catalog.databases == {}


# -- crashes -------------------------------------------------------------------------------------------------


def test_a_definition_that_was_not_sent_is_sent_at_the_next_start(meters: Any) -> None:
    meters(STREAM.format(by="site"))
    cut = msgspec.structs.replace(
        entry(meters), spec=msgspec.structs.replace(entry(meters).spec, uid=77), control=-1
    )
    meters.log.append([Message("catalog", key_of(cut), encode(cut))])
    before = len(meters.controls())
    meters.restart()
    sent = meters.controls()[before:]
    assert isinstance(sent[0], control.DefineStream)
    assert sent[0].spec == cut.spec
    assert sum(len(r.children) for r in sent if isinstance(r, control.KnowChildren)) == 2
    assert entry(meters).control == before + len(sent) - 1
    meters.restart()
    assert len(meters.controls()) == before + len(sent)


def test_a_number_that_was_not_kept_is_found_at_the_next_start(meters: Any) -> None:
    meters(STREAM.format(by="tbname"))
    known = entry(meters)
    cut = msgspec.structs.replace(known, control=-1)
    meters.log.append([Message("catalog", key_of(cut), encode(cut))])
    meters.restart()
    assert entry(meters) == known
    assert len(meters.controls()) == 1


@pytest.mark.parametrize("record", ["stop", "drop"])
def test_a_control_record_that_the_catalog_did_not_follow_is_followed(meters: Any, record: str) -> None:
    meters(STREAM.format(by="tbname"))
    uid = entry(meters).spec.uid
    said = control.StopStream(uid) if record == "stop" else control.DropStream(uid)
    meters.log.append([Message("control", b"d.s1", control.encode(said))])
    assert meters.gateway.context.board.wait_applied(1, 5)
    meters.restart()
    assert state(meters) == ([["s1", "Stopped", ""]] if record == "stop" else [])


def test_a_creation_that_was_answered_with_an_error_does_not_come_true_later(meters: Any) -> None:
    log, append = meters.log, meters.log.append

    def failing(messages: Any, timeout: float = 30) -> Any:
        places = append(messages, timeout)
        if messages[0].topic == "control":
            log.append = append
            raise MillraceError(ErrorCode.TIMEOUT, "the answer is lost")
        return places

    log.append = failing
    with pytest.raises(MillraceError) as caught:
        meters(STREAM.format(by="tbname"))
    assert caught.value.code is ErrorCode.TIMEOUT
    assert state(meters) == []
    meters("CREATE DATABASE e", None)
    defined, dropped = meters.controls()
    assert isinstance(defined, control.DefineStream)
    assert dropped == control.DropStream(defined.spec.uid)
    meters(STREAM.format(by="tbname"))
    assert state(meters) == [["s1", "Running", ""]]

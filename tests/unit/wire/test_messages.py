"""Messages between services survive the wire; names of topics and slots are the same for everyone."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.catalog import Catalog, encode, key_of
from millrace_core.errors import ErrorCode, MillraceError, Position, WireError
from millrace_core.model.schema import Child, Column, Database, Table, child_uid, stable_hash
from millrace_core.model.stream import Condition, Duration, Options, Output, Source, StreamSpec
from millrace_core.model.types import TIMESTAMP, TYPES, DataType
from millrace_core.trigger.types import Event, Interval
from millrace_core.wire import control, events, regroup, status, topics
from millrace_core.wire.virtual import Link

TABLE = Table("d", "m", "super", 9, "us", (Column("ts", TIMESTAMP),), (Column("site", DataType("INT")),))
SPEC = StreamSpec(
    uid=5,
    db="d",
    name="s",
    sql="CREATE STREAM s",
    trigger=Interval(Duration(10, "s"), Duration(5, "s"), Duration(1, "s")),
    source=Source(TABLE, "c1"),
    partition=("tbname", "site"),
    options=Options(watermark=Duration(1, "m")),
    output=Output("d", "o"),
)


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_table_name_makes_a_topic_name_and_comes_back(db: str, table: str) -> None:
    topic = topics.wal_topic(db, table)
    assert topics.table_of(topic) == (db, table)
    assert all(c.isascii() and (c.isalnum() or c in "._-") for c in topic)


def test_every_topic_is_named_once() -> None:
    names = [topic.name for topic in topics.TOPICS]
    assert len(set(names)) == len(names)
    assert not any(name.startswith(topics.WAL_PREFIX) for name in names)


@pytest.mark.parametrize(
    "record",
    [
        control.DefineStream(SPEC, {0: 4}, 2),
        control.DefineStream(
            StreamSpec(1, "d", "e", "", Event(Condition("v > 1", ("v",)), Condition("v < 1", ("v",)))), {}
        ),
        control.StopStream(5),
        control.StartStream(5, {0: 7, 1: 8}, 3),
        control.DropStream(5),
        control.ChangeTable(TABLE),
        control.DropTable(9, "wal.d.m"),
        control.KnowChildren(3, (Child("d", "m", "c1", (1, "x", None)),)),
        control.KnowOrigins(
            3, 5, TABLE, (TABLE,), {"wal.d.m": {0: 7}}, (Link("wal.d.m", "c1", "v", (("amps", "x"),)),)
        ),
    ],
)
def test_control_records_survive_the_wire(record: control.AnyControl) -> None:
    assert control.decode_control(control.encode(record)) == record


def test_trigger_batches_survive_the_wire() -> None:
    group = events.Group(2**62, ("c1", 4), "c1")
    event = events.TriggerEvent("ab", "CLOSE", "LIVE", group, 1, 2, 3, 4, detail={"curState": 7})
    batch = events.TriggerBatch(5, 0, 17, 99, {0: 12}, [event])
    assert events.decode(events.encode(batch)) == batch


def test_regrouped_rows_survive_the_wire() -> None:
    message = regroup.Regrouped(5, 0, 1, 2, events.Group(0, (), None), "c1", {0: 3}, 4, b"\x01" * 8)
    assert regroup.decode(regroup.encode(message)) == message
    with pytest.raises(WireError, match="the times have 3 bytes"):
        regroup.decode(regroup.encode(msgspec.structs.replace(message, ts=b"abc")))


@pytest.mark.parametrize(
    "record",
    [status.Applied(4), status.StreamFailure(5, "why"), status.Counters("trigger-svc", 5, 1, {"late": 2})],
)
def test_status_records_survive_the_wire(record: status.AnyStatus) -> None:
    assert status.decode(status.encode(record)) == record
    assert status.key(record)


def test_trigger_ids_are_a_pure_function_of_stream_group_and_start() -> None:
    assert events.trigger_id(1, 2, 3) == events.trigger_id(1, 2, 3)
    assert len({events.trigger_id(s, g, t) for s in range(5) for g in range(5) for t in range(5)}) == 125
    assert events.trigger_id(7, 123, -60_000) == "0d35b981d142fab5", "what is stored already has these"


INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.integers(1, 2**53), st.lists(st.tuples(st.integers(0, 2**63 - 1) | st.just(5), INT64)))
def test_trigger_ids_of_many_windows_are_those_of_each(stream: int, windows: list[tuple[int, int]]) -> None:
    groups, starts = [group for group, _ in windows], [start for _, start in windows]
    ids = [f"{stable_hash('trigger', stream, group, start):016x}" for group, start in windows]
    assert events.trigger_ids(stream, groups, starts) == ids


def test_a_child_made_again_is_another_table() -> None:
    assert child_uid("d", "c1", 0) != child_uid("d", "c1", 1)
    assert 0 < child_uid("d", "c1") < 2**63


def test_the_catalog_follows_its_records() -> None:
    catalog = Catalog()
    child = Child("d", "m", "c1", (1,))
    for record in (Database("d"), TABLE, child):
        catalog.apply(key_of(record), encode(record))
    assert catalog.find("d", "m") == (TABLE, None)
    assert catalog.find("d", "c1") == (TABLE, child)
    assert list(catalog.children_of(TABLE)) == [child]
    catalog.apply(key_of(child), None)
    assert catalog.find("d", "c1") is None
    assert list(catalog.children_of(TABLE)) == []
    with pytest.raises(WireError, match="not the key of a definition"):  # a newer writer's
        catalog.apply(b"planet\x1fmars", b"{}")


def test_errors_cross_services_whole() -> None:
    error = MillraceError(ErrorCode.UNKNOWN_TABLE, "table d.x does not exist", Position(2, 15))
    again = MillraceError.from_wire(error.to_wire())
    assert (again.code, str(again)) == (error.code, str(error))
    assert "line 2, column 15" in str(again)
    numbers = [code.value.number for code in ErrorCode]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize(
    ("text", "name"), [("binary", "VARCHAR"), ("int  unsigned", "INT UNSIGNED"), ("Bool", "BOOL")]
)
def test_types_have_aliases(text: str, name: str) -> None:
    assert DataType.of(text).name == name
    assert name in TYPES


def test_an_unknown_type_is_an_error() -> None:
    with pytest.raises(MillraceError, match="unknown data type geometry"):
        DataType.of("geometry")

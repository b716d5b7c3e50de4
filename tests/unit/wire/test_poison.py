"""Whatever lies in a topic is read, or is one error with its cause; a dead letter of it always fits."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core import catalog
from millrace_core.errors import ErrorCode, WireError
from millrace_core.model.continuous import ContinuousQuery
from millrace_core.model.device import Device, Series
from millrace_core.model.insert_trigger import DoneUpTo, InsertTrigger
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import Duration, StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.trigger.types import Period
from millrace_core.wire import (
    control,
    dead,
    diagnosis,
    events,
    notices,
    recalc,
    registrations,
    regroup,
    status,
)
from millrace_core.wire.diagnosis import Diagnosis
from millrace_core.wire.rows.decoder import RowDecoder
from millrace_core.wire.topics import (
    CATALOG,
    CLOCK,
    CONTROL,
    HANDOVER,
    NOTIFICATIONS,
    RECALC,
    REGISTRATIONS,
    REGROUP,
    STATUS,
    TOPICS,
    TRIGGERS,
    WAL_PATTERN,
    buried_by,
    slot_for,
    table_of,
    wal_topic,
)
from millrace_wal.record import MAX_MESSAGE_BYTES

from ...poison import INNER, MALFORMED, MEGABYTES, SAMPLES, Cell, cells

READS: dict[str, Callable[[bytes | None, bytes | None], Any]] = {
    CATALOG.name: catalog.read, CONTROL.name: control.RECORDS.read, CLOCK.name: control.TICKS.read,
    REGROUP.name: regroup.MESSAGES.read, TRIGGERS.name: events.BATCHES.read,
    RECALC.name: recalc.REQUESTS.read, HANDOVER.name: recalc.HANDOVERS.read,
    NOTIFICATIONS.name: notices.BATCHES.read, STATUS.name: status.read,
    REGISTRATIONS.name: registrations.REGISTERED.read,
}  # fmt: skip
TABLE = Table("d", "t", "normal", 1, "ms", (Column("ts", TIMESTAMP), Column("v", DataType("INT"))))
CELLS = [cell for topic in INNER for cell in cells(topic)]


def test_every_topic_that_is_read_says_who_makes_its_dead_letters() -> None:
    assert (
        set(READS)
        == {topic.name for topic in INNER}
        == {topic.name for topic in TOPICS} - {"dead-letters", "insert-triggers"}
    )
    assert buried_by("wal.d.m") == buried_by("wal.a") == "calc-svc"
    assert buried_by("dead-letters") is buried_by("somebody's own") is None


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_message_is_understood_or_one_kind_of_error(cell: Cell) -> None:
    if not cell.letters and cell.value is None:
        return  # it deletes a key; there is nothing to understand
    if not cell.letters:
        READS[cell.topic](cell.key, cell.value)
        return
    with pytest.raises(WireError) as caught:
        READS[cell.topic](cell.key, cell.value)
    assert caught.value.code is ErrorCode.UNDECODABLE
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("topic", list(READS))
def test_good_messages_are_understood(topic: str) -> None:
    READS[topic](SAMPLES[topic].key, SAMPLES[topic].value)


@pytest.mark.parametrize("topic", list(READS))
@given(
    key=st.none() | st.binary(max_size=20) | st.sampled_from([b"1/0", b"paused/1/2", b"table\x1fa\x1fb"]),
    value=st.none() | st.binary(max_size=40) | st.sampled_from([b"[" * 9_999, b"\x91" * 9_999, b"1" * 999]),
)
def test_nothing_else_is_raised_whatever_is_written(
    topic: str, key: bytes | None, value: bytes | None
) -> None:
    try:
        READS[topic](key, value)
    except WireError as error:
        assert error.code is ErrorCode.UNDECODABLE


def test_numbers_beyond_what_is_computed_with_are_refused() -> None:
    for read, key, value in (
        (control.TICKS.read, None, b'{"now":9223372036854775808}'),
        (control.RECORDS.read, b"", b'{"op":"recalculate","uid":1,"first":-9223372036854775809}'),
    ):
        with pytest.raises(WireError):
            read(key, value)


@pytest.mark.parametrize("topic", MALFORMED)
def test_a_malformed_topic_name_is_no_tables_and_has_a_slot(topic: str) -> None:
    with pytest.raises(WireError, match="is not that of a table") as caught:
        table_of(topic)
    assert caught.value.code is ErrorCode.UNKNOWN_TABLE
    assert slot_for(topic, None, 8) in range(8)


@given(st.text(min_size=1), st.text(min_size=1))
def test_the_pattern_takes_the_topic_of_every_table(db: str, table: str) -> None:

    assert re.fullmatch(WAL_PATTERN, wal_topic(db, table))


@pytest.mark.parametrize("length", [0, 1, dead.KEPT, 4_300_000, 4_800_000, MAX_MESSAGE_BYTES])
def test_a_letter_fits_whatever_the_message(length: int) -> None:
    value = (MEGABYTES * 2)[:length]
    error = WireError(ErrorCode.UNDECODABLE, "x" * 9_000_000)
    letter = dead.letter("wal.d.m", 3, 4, b"m1", value, error, "calc-svc")
    text = dead.encode(letter)
    assert len(text) <= dead.LARGEST < MAX_MESSAGE_BYTES
    assert dead.decode(text) == letter == dead.letter("wal.d.m", 3, 4, b"m1", value, error, "calc-svc")
    assert letter.detail.endswith("… (9000000 characters)")
    if length < 4_700_000:
        assert (letter.value, letter.truncated) == (value, {})
    else:
        assert letter.value == value[: dead.KEPT]
        assert letter.truncated == {"value": dead.Whole(length, hashlib.sha256(value).hexdigest())}


def test_a_long_key_is_cut_as_a_long_value_is() -> None:
    letter = dead.letter("t", 0, 0, MEGABYTES, None, WireError(ErrorCode.UNDECODABLE, "no"), "calc-svc")
    assert letter.key == MEGABYTES[: dead.KEPT] and set(letter.truncated) == {"key"}
    assert len(dead.encode(letter)) <= dead.LARGEST


@pytest.mark.parametrize("begin", [b"", b"{", b'{"ts":1,"', b"[", b"\xff\xff\xff\xff", b"\x00{"])
def test_megabytes_of_garbage_in_a_table_cost_no_other_message(begin: bytes) -> None:
    rows = [b'{"ts":1,"v":1}', begin + MEGABYTES, b'[{"ts":2,"v":2},{"ts":3}]']
    found = RowDecoder(TABLE).decode(rows)
    assert [one.index for one in found.bad] == [1]
    assert found.frame["ts"].to_list() == [1, 2, 3]
    assert len(found.bad[0].error.message) < 1_000


@pytest.mark.parametrize(
    "operation",
    [
        b'{"op":"delete","first":0,"last":9223372036854775808}',
        b'{"op":"create","tags":{},"incarnation":1e300}',
        b'{"op":"altered","version":-9223372036854775809}', b'{"op":"rename"}', b"[" * 100_000, b"",
    ],
)  # fmt: skip
def test_operations_that_cannot_be_done_are_bad(operation: bytes) -> None:
    found = RowDecoder(TABLE).decode([b"\x00" + operation, b'{"ts":1,"v":1}'])
    assert [one.index for one in found.bad] == [0] and not found.operations
    assert found.frame["ts"].to_list() == [1]


STATUSES = [
    status.Applied(1), status.StreamFailure(1, "m"), status.StreamFailure(1, "m", 2),
    status.StreamPaused(1, 2, 3, "m"), status.TriggersHeld(1, -2, 3), status.Counters("calc-svc", 0, -1, {}),
    status.ReadUpTo("wal.d.m", {}), status.Recalculation(1, 2, 3, "MANUAL", 0, 1, "Running", 0.5, 0, 0),
    status.Stored("here", "wal.d.m", 1, {}), status.Problem("calc-svc", "table/wal.d.m", "m"),
    status.Buried("wal.a", {}), status.QueryRuns(7),
]  # fmt: skip


def test_every_kind_of_status_is_read_and_its_key_deleted() -> None:
    assert {type(one) for one in STATUSES} == set(get_args(status.AnyStatus))
    for one in STATUSES:
        assert status.read(status.key(one), status.encode(one)) == one
        assert status.read(status.key(one), None) is None
    answer = Diagnosis(1, 2, 3)
    key = diagnosis.key(1, 2)
    assert status.read(key, diagnosis.encode(answer)) == answer
    assert status.read(key, None) is None


RECORDS = [
    Database("d"), TABLE, Child("d", "t", "c\x1f1", ()), catalog.User("u", "p"), catalog.Grant("u"),
    catalog.Tombstone("d", "t", "c", 1), catalog.Snode(1), catalog.Anode(1, "u"),
    ContinuousQuery("q", 1, "CREATE CQ q", "root", "UTC", 0, 1000, 0, 1000, 0),
    Device("d", "root.d.d1", (Series("v", "DOUBLE", "v"),)),
    InsertTrigger(
        "t", 1, False, True, "root.**", "m:C", {}, "OPTIMISTIC", "root", begins=(DoneUpTo("w", 1, {0: 5}),)
    ),
    catalog.StreamEntry(StreamSpec(1, "d", "s", "", Period(Duration(1, "s"))), "Running", 0, 0),
]  # fmt: skip


def test_every_kind_of_definition_is_read_and_its_key_deleted() -> None:
    assert {type(one) for one in RECORDS} == set(catalog.KINDS.values())
    for one in RECORDS:
        key = catalog.key_of(one)
        kind, names, found = catalog.read(key, catalog.encode(one))
        assert (catalog.KINDS[kind], found) == (type(one), one)
        assert catalog.read(key, None) == (kind, names, None)

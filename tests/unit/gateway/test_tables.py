"""Databases and tables: what DDL leaves in the catalog and the WAL, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from api_gateway.catalog.topics import WalTopics
from millrace_core.errors import ErrorCode, MillraceError, Position
from millrace_core.model.schema import child_uid
from millrace_core.wire import control, operations
from millrace_wal import MemoryLog, Message

METERS = "CREATE STABLE meters (ts TIMESTAMP, amps FLOAT) TAGS (site INT, room VARCHAR(8))"


def test_a_database_is_there_once_and_keeps_its_precision(rig: Any) -> None:
    rig("CREATE DATABASE e PRECISION 'ns'", None)
    assert rig.gateway.context.catalog.databases["e"].precision == "ns"
    assert rig("CREATE DATABASE IF NOT EXISTS e PRECISION 'us'", None).rows == [[0]]
    assert rig.gateway.context.catalog.databases["e"].precision == "ns"
    error = rig.refused("CREATE DATABASE e", None)
    assert (error.code, error.position) == (ErrorCode.DATABASE_EXISTS, Position(1, 17))
    assert rig.refused("CREATE DATABASE information_schema", None).code is ErrorCode.NOT_ALLOWED


def test_a_table_comes_with_its_topic(rig: Any) -> None:
    rig(METERS)
    rig("CREATE TABLE d.one (ts TIMESTAMP, v INT)", None)
    assert len(rig.log.end_offsets("wal.d.meters")) == 4
    assert len(rig.log.end_offsets("wal.d.one")) == 1
    rig("CREATE TABLE IF NOT EXISTS one (ts TIMESTAMP, other INT)")
    assert [c.name for c in rig.gateway.context.catalog.tables["d", "one"].columns] == ["ts", "v"]


@pytest.mark.parametrize(("sql", "code", "column"), [
    ("CREATE TABLE one (ts TIMESTAMP, v INT)", ErrorCode.TABLE_EXISTS, 14),
    ("CREATE TABLE m1 (ts TIMESTAMP, v INT)", ErrorCode.TABLE_EXISTS, 14),
    ("CREATE TABLE m1 USING meters TAGS (1, 'a')", ErrorCode.TABLE_EXISTS, 14),
    ("CREATE TABLE m2 USING meters TAGS (1, 'a') m2 USING meters TAGS (1, 'a')", ErrorCode.TABLE_EXISTS, 44),
    ("CREATE TABLE nowhere.t (ts TIMESTAMP, v INT)", ErrorCode.UNKNOWN_DATABASE, 14),
    ("CREATE TABLE m2 USING absent TAGS (1, 'a')", ErrorCode.UNKNOWN_TABLE, 23),
    ("CREATE TABLE m2 USING one TAGS (1)", ErrorCode.NOT_ALLOWED, 23),
    ("CREATE TABLE m2 USING meters TAGS (1)", ErrorCode.SYNTAX, 36),
    ("CREATE TABLE m2 USING meters TAGS ('x', 'a')", ErrorCode.TYPE_MISMATCH, 36),
    ("CREATE TABLE m2 USING meters TAGS (1, 'ninechars')", ErrorCode.INVALID_VALUE, 39),
    ("CREATE TABLE m2 USING meters (floor) TAGS (1)", ErrorCode.UNKNOWN_COLUMN, 31),
    ("CREATE TABLE m2 USING meters (site, site) TAGS (1, 2)", ErrorCode.INVALID_VALUE, 37),
    ("CREATE TABLE m2 USING meters TAGS (1, 'a') m3 USING meters TAGS (1, 2, 3)", ErrorCode.SYNTAX, 66),
    ("DROP TABLE one, absent", ErrorCode.UNKNOWN_TABLE, 17),
    ("DROP STABLE one", ErrorCode.NOT_ALLOWED, 13),
    ("DROP DATABASE nowhere", ErrorCode.UNKNOWN_DATABASE, 15),
    ("USE nowhere", ErrorCode.UNKNOWN_DATABASE, 5),
])  # fmt: skip
def test_what_cannot_be_is_refused_at_its_place(rig: Any, sql: str, code: ErrorCode, column: int) -> None:
    rig(METERS)
    rig("CREATE TABLE one (ts TIMESTAMP, v INT)")
    rig("CREATE TABLE m1 USING meters TAGS (1, 'a')")
    error = rig.refused(sql)
    assert (error.code, error.position) == (code, Position(1, column)), error


def test_without_a_database_a_name_must_have_one(rig: Any) -> None:
    error = rig.refused(METERS, None)
    assert (error.code, error.position) == (ErrorCode.NO_DATABASE, Position(1, 15))
    assert rig.refused("SHOW TABLES", None).code is ErrorCode.NO_DATABASE
    assert rig.refused(METERS, "nowhere").code is ErrorCode.UNKNOWN_DATABASE


def test_a_name_whose_topic_would_be_too_long_is_refused(rig: Any) -> None:
    error = rig.refused(f"CREATE TABLE `{'温' * 60}` (ts TIMESTAMP, v INT)")
    assert error.code is ErrorCode.INVALID_VALUE
    assert "too long" in error.message


def test_children_are_in_the_wal_before_they_are_in_the_catalog(rig: Any) -> None:
    rig(METERS)
    rig("CREATE TABLE m1 USING meters TAGS (1, 'a') m2 USING meters (room) TAGS ('b')")
    assert sorted(rig.values("wal.d.meters")) == [
        (b"m1", operations.encode_operation(operations.Register({"site": 1, "room": "a"}))),
        (b"m2", operations.encode_operation(operations.Register({"site": None, "room": "b"}))),
    ]
    child = rig.gateway.context.catalog.children["d", "m2"]
    assert (child.tags, child.uid) == ((None, "b"), child_uid("d", "m2"))
    rig("CREATE TABLE IF NOT EXISTS m2 USING meters TAGS (9, 'z')")
    assert rig.gateway.context.catalog.children["d", "m2"].tags == (None, "b")


def test_a_child_made_again_is_another_child(rig: Any) -> None:
    rig(METERS)
    for incarnation in range(3):
        rig("CREATE TABLE m1 USING meters TAGS (1, 'a')")
        assert rig.gateway.context.catalog.children["d", "m1"].incarnation == incarnation
        rig("DROP TABLE m1")
        assert ("d", "m1") not in rig.gateway.context.catalog.children
        rig.restart()
    told = [operations.decode_operation(value) for _, value in rig.values("wal.d.meters")]
    assert told == [
        step
        for i in range(3)
        for step in (operations.Register({"site": 1, "room": "a"}, i), operations.Drop())
    ]


def test_a_dropped_table_made_again_is_another_table_and_empty(rig: Any) -> None:
    rig(METERS)
    rig("INSERT INTO m1 USING meters TAGS (1, 'a') VALUES (now, 1)")
    old = rig.gateway.context.catalog.tables["d", "meters"]
    ends = rig.log.end_offsets("wal.d.meters")
    rig("DROP STABLE meters")
    assert rig.values("wal.d.meters") == []
    assert rig.controls() == [control.DropTable(old.uid, "wal.d.meters")]
    assert rig.gateway.context.catalog.children == {}
    rig.log.append([Message("wal.d.meters", b"m1", b'{"ts":1}')])  # by a producer that has not heard of it
    rig(METERS)
    assert rig.gateway.context.catalog.tables["d", "meters"].uid != old.uid
    assert rig.values("wal.d.meters") == []
    assert sum(rig.log.end_offsets("wal.d.meters").values()) == sum(ends.values()) + 1, "offsets go on"


def test_a_dropped_tables_topic_goes_after_a_rest(rig: Any) -> None:
    clock = [0.0]
    context = rig.gateway.context
    topics = WalTopics(rig.log, context.board, 5, 180, lambda: clock[0])
    for name in ("early", "late"):
        topics.make("d", name, 1, None)
    topics.retire(["wal.d.early"], -1)
    topics.sweep()
    clock[0] = 100
    topics.retire(["wal.d.late"], -1)
    topics.sweep()
    assert rig.log.topics("wal.") == ["wal.d.early", "wal.d.late"]
    clock[0] = 180
    topics.sweep()
    assert rig.log.topics("wal.") == ["wal.d.late"]
    topics.make("d", "late", 1, None)
    clock[0] = 1_000
    topics.sweep()
    assert rig.log.topics("wal.") == ["wal.d.late"], "it is a table's again"


def test_topics_that_no_table_has_are_deleted_after_a_restart(rig: Any) -> None:
    rig(METERS)
    rig("CREATE TABLE one (ts TIMESTAMP, v INT)")
    rig("DROP TABLE one")
    rig.restart(rest_seconds=0)
    rig.gateway.context.topics.sweep()
    assert rig.log.topics("wal.") == ["wal.d.meters"]


def test_a_super_table_after_a_normal_one_of_the_name(rig: Any) -> None:
    rig("CREATE TABLE meters (ts TIMESTAMP, v INT)")
    rig("DROP TABLE meters")
    rig(METERS)
    assert len(rig.log.end_offsets("wal.d.meters")) == 4


def test_a_dropped_tables_name_waits_for_trigger_svc(rig: Any) -> None:
    rig.restart(accept_seconds=0.2)
    rig("CREATE TABLE one (ts TIMESTAMP, v INT)")
    rig("INSERT INTO one VALUES (now, 1)")
    with rig.trigger.busy:
        rig("DROP TABLE one")
        assert len(rig.values("wal.d.one")) == 1
        error = rig.refused("CREATE TABLE one (ts TIMESTAMP, v INT)")
        assert error.code is ErrorCode.TIMEOUT
    rig.restart()
    rig("CREATE TABLE one (ts TIMESTAMP, v INT)")
    assert rig.values("wal.d.one") == []


def test_a_topic_left_by_a_crash_is_not_the_new_tables(rig: Any) -> None:
    rig.log.ensure_topics([("wal.d.one", 1)])
    rig.log.append([Message("wal.d.one", b"one", b'{"ts":1}')])
    rig("CREATE TABLE one (ts TIMESTAMP, v INT)")
    assert rig.values("wal.d.one") == []


def test_a_database_goes_with_all_that_is_in_it(rig: Any) -> None:
    rig("CREATE DATABASE e", None)
    rig("CREATE TABLE e.kept (ts TIMESTAMP, v INT)", None)
    rig(METERS)
    rig("CREATE TABLE m1 USING meters TAGS (1, 'a') m2 USING meters TAGS (1, 'a')")
    rig("DROP TABLE m2")
    rig("DROP DATABASE d", None)
    catalog = rig.gateway.context.catalog
    assert list(catalog.databases) == ["e"]
    assert list(catalog.tables) == [("e", "kept")]
    assert not catalog.children and not catalog.tombstones
    assert not rig.values("wal.d.meters")
    assert rig("DROP DATABASE IF EXISTS d", None).rows == [[0]]


def test_a_restart_finds_everything_again(rig: Any) -> None:
    rig(METERS)
    rig("CREATE TABLE m1 USING meters TAGS (1, 'a')")
    before = vars(rig.gateway.context.catalog)
    rig.restart()
    assert rig.gateway.context.catalog is not before
    assert vars(rig.gateway.context.catalog) == before


def test_a_drop_that_a_crash_cut_short_is_finished_at_the_next_start(rig: Any) -> None:
    rig(METERS)
    rig("CREATE TABLE m1 USING meters TAGS (1, 'a')")
    table = rig.gateway.context.catalog.tables["d", "meters"]
    # as far as it came: the control record, but not the catalog
    record = control.DropTable(table.uid, "wal.d.meters")
    rig.log.append([Message("control", b"d.meters", control.encode(record))])
    rig.restart()
    assert rig.gateway.context.catalog.tables == {}
    assert rig.gateway.context.catalog.children == {}
    rig(METERS)
    assert not rig.values("wal.d.meters")


class _Lossy(MemoryLog):
    """A log whose next append to a topic is taken, but whose answer is lost."""

    lose = ""

    def append(self, messages: Any, timeout: float = 30) -> list[tuple[int, int]]:
        places = super().append(messages, timeout)
        if self.lose and any(message.topic == self.lose for message in messages):
            self.lose = ""
            raise MillraceError(ErrorCode.TIMEOUT, "no answer")
        return places


def test_what_a_lost_answer_hid_is_read_back_before_the_next_change(rig: Any) -> None:
    log = _Lossy()
    log._topics = rig.log._topics
    rig.gateway.context.log = rig.gateway.context.writer._log = log
    log.lose = "catalog"
    with pytest.raises(MillraceError):
        rig("CREATE DATABASE e", None)
    assert "e" not in rig.gateway.context.catalog.databases
    rig("CREATE DATABASE f", None)
    assert set(rig.gateway.context.catalog.databases) == {"d", "e", "f"}
    assert rig.gateway.context.writer.position == log.end_offsets("catalog")[0]

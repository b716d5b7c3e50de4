"""ALTER TABLE: what it leaves in the catalog, the control topic and the WAL, and what it refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from millrace_core.errors import ErrorCode, Position
from millrace_core.model.schema import Table
from millrace_core.wire import control, operations
from millrace_core.wire.topics import wal_topic

TOPIC = wal_topic("d", "meters")


@pytest.fixture
def meters(rig: Any) -> Any:
    rig("CREATE STABLE meters (ts TIMESTAMP, amps INT, note VARCHAR(8)) TAGS (site INT, room VARCHAR(8))")
    rig("CREATE TABLE m1 USING meters TAGS (1, 'a')")
    rig("CREATE TABLE one (ts TIMESTAMP, v INT, w INT)")
    return rig


def table(rig: Any, name: str = "meters") -> Table:
    found: Table = rig.gateway.context.catalog.tables["d", name]
    return found


def names(rig: Any, name: str = "meters") -> tuple[list[str], list[str]]:
    found = table(rig, name)
    return [c.name for c in found.columns], [t.name for t in found.tags]


def test_a_new_definition_is_in_force_from_the_ends_of_the_topic_on(meters: Any) -> None:
    meters("INSERT INTO m1 VALUES (1, 1, 'x')")
    ends = meters.log.end_offsets(TOPIC)
    meters("ALTER STABLE meters ADD COLUMN volts DOUBLE")
    found = table(meters)
    assert names(meters) == (["ts", "amps", "note", "volts"], ["site", "room"])
    assert [dict(revision.until) for revision in found.earlier] == [ends]
    assert [c.name for c in found.earlier[0].columns] == ["ts", "amps", "note"]
    assert meters.controls()[-1] == control.ChangeTable(found)
    marks = [r for r in meters.records(TOPIC) if operations.versions_needed([r.value]) == [(0, 1)]]
    assert {record.partition for record in marks} == set(ends)
    meters("INSERT INTO m1 (ts, volts) VALUES (2, 0.5)")
    assert [value for key, value in meters.values(TOPIC) if key == b"m1"][-1] == b'{"ts":2,"volts":0.5}'


def test_each_change_of_columns_and_tags(meters: Any) -> None:
    meters("ALTER STABLE meters DROP COLUMN amps")
    meters("ALTER STABLE meters MODIFY COLUMN note VARCHAR(20)")
    meters("ALTER STABLE meters ADD TAG floor INT")
    meters("ALTER STABLE meters RENAME TAG room chamber")
    meters("ALTER STABLE meters MODIFY TAG chamber VARCHAR(9)")
    meters("ALTER STABLE meters DROP TAG site")
    assert names(meters) == (["ts", "note"], ["chamber", "floor"])
    found = table(meters)
    assert (found.columns[1].type.length, found.tags[0].type.length, found.version) == (20, 9, 6)
    assert meters.gateway.context.catalog.children["d", "m1"].tags == ("a", None)
    meters("ALTER TABLE one RENAME COLUMN v volts")
    meters("ALTER TABLE one DROP COLUMN w")
    assert names(meters, "one") == (["ts", "volts"], [])
    assert table(meters, "one").columns[1].identity == "v"


def test_a_column_added_again_is_another_one(meters: Any) -> None:
    meters("ALTER STABLE meters DROP COLUMN amps")
    meters("ALTER STABLE meters ADD COLUMN amps INT")
    first = table(meters).columns[-1]
    meters("ALTER STABLE meters DROP COLUMN amps")
    meters("ALTER STABLE meters ADD COLUMN amps INT")
    assert len({"amps", first.identity, table(meters).columns[-1].identity}) == 3


@pytest.mark.parametrize(("sql", "code", "column"), [
    ("ALTER TABLE absent ADD COLUMN x INT", ErrorCode.UNKNOWN_TABLE, 13),
    ("ALTER STABLE one ADD COLUMN x INT", ErrorCode.NOT_ALLOWED, 14),
    ("ALTER TABLE m1 ADD COLUMN x INT", ErrorCode.NOT_ALLOWED, 13),
    ("ALTER TABLE one ADD TAG x INT", ErrorCode.NOT_ALLOWED, 13),
    ("ALTER STABLE meters RENAME COLUMN amps x", ErrorCode.NOT_ALLOWED, 14),
    ("ALTER STABLE meters ADD COLUMN room INT", ErrorCode.INVALID_VALUE, 32),
    ("ALTER STABLE meters ADD COLUMN tbname INT", ErrorCode.INVALID_VALUE, 32),
    ("ALTER STABLE meters ADD COLUMN j JSON", ErrorCode.INVALID_VALUE, 32),
    ("ALTER STABLE meters DROP COLUMN ts", ErrorCode.INVALID_VALUE, 33),
    ("ALTER STABLE meters DROP COLUMN room", ErrorCode.UNKNOWN_COLUMN, 33),
    ("ALTER STABLE meters DROP TAG amps", ErrorCode.UNKNOWN_COLUMN, 30),
    ("ALTER STABLE meters MODIFY COLUMN amps BIGINT", ErrorCode.INVALID_VALUE, 35),
    ("ALTER STABLE meters MODIFY COLUMN note VARCHAR(8)", ErrorCode.INVALID_VALUE, 35),
    ("ALTER STABLE meters MODIFY COLUMN note NCHAR(80)", ErrorCode.INVALID_VALUE, 35),
    ("ALTER STABLE meters RENAME TAG site room", ErrorCode.INVALID_VALUE, 37),
    ("ALTER STABLE meters SET TAG site = 1", ErrorCode.NOT_ALLOWED, 14),
    ("ALTER TABLE one SET TAG site = 1", ErrorCode.NOT_ALLOWED, 13),
    ("ALTER TABLE m1 SET TAG nope = 1", ErrorCode.UNKNOWN_COLUMN, 24),
    ("ALTER TABLE m1 SET TAG site = 1, site = 2", ErrorCode.INVALID_VALUE, 34),
    ("ALTER TABLE m1 SET TAG site = 'x'", ErrorCode.TYPE_MISMATCH, 31),
])  # fmt: skip
def test_what_cannot_be_is_refused_at_its_place(meters: Any, sql: str, code: ErrorCode, column: int) -> None:
    error = meters.refused(sql)
    assert (error.code, error.position) == (code, Position(1, column)), error


def test_the_last_column_and_the_last_tag_stay(meters: Any) -> None:
    meters("ALTER STABLE meters DROP COLUMN amps")
    meters("ALTER STABLE meters DROP TAG site")
    assert "only column" in meters.refused("ALTER STABLE meters DROP COLUMN note").message
    assert "only tag" in meters.refused("ALTER STABLE meters DROP TAG room").message


def test_tags_change_in_order_with_the_rows(meters: Any) -> None:
    meters("INSERT INTO m1 VALUES (1, 1, 'x')")
    meters("ALTER TABLE m1 SET TAG room = 'b'")
    meters("INSERT INTO m1 VALUES (2, 1, 'x')")
    assert meters.gateway.context.catalog.children["d", "m1"].tags == (1, "b")
    operation = operations.encode_operation(operations.Retag({"site": 1, "room": "b"}))
    assert [value for key, value in meters.values(TOPIC) if key == b"m1"][-2] == operation


def test_a_tag_that_a_stream_groups_by_is_locked(meters: Any) -> None:
    meters.calc.describes(("ts", "TIMESTAMP"), ("n", "BIGINT"))
    meters(
        "CREATE STREAM s SESSION(ts, 2s) FROM meters PARTITION BY site INTO o"
        " AS SELECT _twstart AS ts, count(*) AS n FROM %%trows"
    )
    error = meters.refused("ALTER TABLE m1 SET TAG room = 'b', site = 2")
    assert (error.code, error.position) == (ErrorCode.NOT_ALLOWED, Position(1, 36))
    meters("ALTER TABLE m1 SET TAG site = 1, room = 'b'")  # the same value as before
    meters("DROP STREAM s")
    meters("ALTER TABLE m1 SET TAG site = 2")
    assert meters.gateway.context.catalog.children["d", "m1"].tags == (2, "b")


def test_a_tag_that_a_stream_groups_by_is_not_dropped(meters: Any) -> None:
    meters.calc.describes(("ts", "TIMESTAMP"), ("n", "BIGINT"))
    meters("ALTER STABLE meters ADD TAG floor INT")
    for name, trigger in (("s", "FROM meters PARTITION BY site"), ("t", "FROM m1 PARTITION BY tbname, room")):
        meters(
            f"CREATE STREAM {name} SESSION(ts, 2s) {trigger} INTO o{name}"
            " AS SELECT _twstart AS ts, count(*) AS n FROM %%trows"
        )
    for tag, stream in (("site", "d.s"), ("room", "d.t")):
        error = meters.refused(f"ALTER STABLE meters DROP TAG {tag}")
        assert (error.code, error.position) == (ErrorCode.NOT_ALLOWED, Position(1, 30))
        assert f"the tag {tag}" in error.message and f"the stream {stream} groups by it" in error.message
    meters("STOP STREAM s")
    assert "d.s" in meters.refused("ALTER STABLE meters DROP TAG site").message
    meters("ALTER STABLE meters RENAME TAG site place")
    assert "d.s" in meters.refused("ALTER STABLE meters DROP TAG place").message
    meters("ALTER STABLE meters ADD TAG site INT")  # another one than the stream's
    meters("ALTER STABLE meters DROP TAG site")
    meters("ALTER STABLE meters DROP TAG floor")
    meters("DROP STREAM s")
    meters("ALTER STABLE meters DROP TAG place")
    assert [tag.name for tag in table(meters).tags] == ["room"]


def test_a_crash_behind_the_control_record_is_mended(meters: Any) -> None:
    before = table(meters)
    meters("ALTER STABLE meters ADD TAG floor INT")
    after = table(meters)
    child = meters.gateway.context.catalog.children["d", "m1"]
    # as if the catalog had not been written
    meters.gateway.context.writer.write([before, msgspec.structs.replace(child, tags=(1, "a"), version=0)])
    meters.restart()
    assert table(meters) == after
    assert meters.gateway.context.catalog.children["d", "m1"].tags == (1, "a", None)

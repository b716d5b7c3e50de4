"""Rows that protocols write: typed cells by column and by row; what is refused before anything is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api_gateway.access.caller import Caller
from api_gateway.tables.children import Using
from api_gateway.tables.find import TableName
from api_gateway.tables.write import Columns, GivenRows, by_row, given, write
from millrace_core.errors import ErrorCode, MillraceError, Position
from millrace_core.wire import operations

from .conftest import NOW

ROOT = Caller("root", NOW)
ANN = Caller("ann", NOW)


@pytest.fixture
def meters(rig: Any) -> Any:
    rig("CREATE STABLE meters (ts TIMESTAMP, amps FLOAT, note VARCHAR(3)) TAGS (site INT)")
    rig("CREATE TABLE m1 USING meters TAGS (1)")
    rig("CREATE TABLE one (ts TIMESTAMP, v INT)")
    rig("CREATE USER ann PASS 'secret'")
    return rig


def rows(name: str, columns: Columns, using: Using | None = None) -> GivenRows:
    return GivenRows(TableName("d", name, Position(1, 7)), given(columns), using)


def refused(rig: Any, *some: GivenRows, caller: Caller = ROOT) -> MillraceError:
    """The error of rows that must be refused; nothing may be written."""
    before = rig.catalog_records(), rig.wal()
    with pytest.raises(MillraceError) as caught:
        write(rig.gateway.context, some, caller)
    assert (rig.catalog_records(), rig.wal()) == before
    return caught.value


def test_columns_are_one_message_for_each_table(meters: Any) -> None:
    some = [rows("m1", {"ts": [1, 2], "amps": [1.5, None]}), rows("one", {"v": [7], "ts": [3]})]
    assert write(meters.gateway.context, some, ROOT) == 3
    assert json.loads(meters.values("wal.d.meters")[-1][1]) == [
        {"ts": 1, "amps": 1.5}, {"ts": 2, "amps": None},
    ]  # fmt: skip
    assert meters.values("wal.d.one") == [(b"one", b'{"v":7,"ts":3}')]


def test_rows_may_have_columns_of_their_own(meters: Any) -> None:
    some = by_row(TableName("d", "m1"), [
        {"ts": 1, "amps": 1.0}, {"ts": 2, "amps": 2.0}, {"ts": 3, "note": "x"}, {"ts": 4, "amps": 4.0},
    ])  # fmt: skip
    assert write(meters.gateway.context, some, ROOT) == 4
    assert [json.loads(value) for _, value in meters.values("wal.d.meters")[1:]] == [
        [{"ts": 1, "amps": 1.0}, {"ts": 2, "amps": 2.0}], {"ts": 3, "note": "x"}, {"ts": 4, "amps": 4.0},
    ]  # fmt: skip


def test_a_child_is_made_with_its_first_rows(meters: Any) -> None:
    using = Using(TableName("d", "meters"), lambda _: (9,))
    some = [rows("m9", {"ts": [1]}, using), rows("m9", {"ts": [2]}, using), rows("m9", {"ts": [3]})]
    assert write(meters.gateway.context, some, ROOT) == 3
    assert meters.gateway.context.catalog.children["d", "m9"].tags == (9,)
    mine = [value for key, value in meters.values("wal.d.meters") if key == b"m9"]
    assert mine[0] == operations.encode_operation(operations.Register({"site": 9}))
    assert [json.loads(value)["ts"] for value in mine[1:]] == [1, 2, 3]
    # it is there now: its tags stay
    again = Using(TableName("d", "meters"), lambda _: (8,))
    write(meters.gateway.context, [rows("m9", {"ts": [4]}, again)], ROOT)
    assert meters.gateway.context.catalog.children["d", "m9"].tags == (9,)


def test_a_child_can_be_made_without_rows(meters: Any) -> None:
    using = Using(TableName("d", "meters"), lambda _: (9,))
    assert write(meters.gateway.context, [rows("m9", {"ts": [], "amps": []}, using)], ROOT) == 0
    assert ("d", "m9") in meters.gateway.context.catalog.children
    assert len([key for key, _ in meters.values("wal.d.meters") if key == b"m9"]) == 1


@pytest.mark.parametrize(("name", "columns", "code"), [
    ("absent", {"ts": [1]}, ErrorCode.UNKNOWN_TABLE),
    ("meters", {"ts": [1]}, ErrorCode.NOT_ALLOWED),
    ("virt", {"ts": [1]}, ErrorCode.NOT_ALLOWED),
    ("m1", {"ts": [1], "volts": [1]}, ErrorCode.UNKNOWN_COLUMN),
    ("m1", {"ts": [1, 2], "amps": [1]}, ErrorCode.INVALID_VALUE),
    ("m1", {"amps": [1]}, ErrorCode.INVALID_VALUE),
    ("m1", {"ts": [1, None]}, ErrorCode.INVALID_VALUE),
    ("m1", {"ts": ["1"]}, ErrorCode.TYPE_MISMATCH),
    ("m1", {"ts": [1], "amps": [1e300]}, ErrorCode.INVALID_VALUE),
    ("m1", {"ts": [1], "note": ["long"]}, ErrorCode.INVALID_VALUE),
])  # fmt: skip
def test_one_bad_part_and_nothing_is_written(
    meters: Any, name: str, columns: dict[str, list[object]], code: ErrorCode
) -> None:
    meters("CREATE VTABLE virt (ts TIMESTAMP, v INT FROM one.v)")
    error = refused(meters, rows("one", {"ts": [1], "v": [1]}), rows(name, columns))
    assert (error.code, error.position) == (code, Position(1, 7)), error
    assert f"d.{name}" in error.message


def test_a_database_that_is_not_there(meters: Any) -> None:
    error = refused(meters, GivenRows(TableName("nowhere", "t"), given({"ts": [1]})))
    assert error.code is ErrorCode.UNKNOWN_DATABASE


@pytest.mark.parametrize("name", ["one", "other", "fresh"])
def test_a_child_is_one_of_its_own_super_table_alone(meters: Any, name: str) -> None:
    meters("CREATE STABLE others (ts TIMESTAMP, v INT) TAGS (site INT)")
    meters("CREATE TABLE other USING others TAGS (1)")
    mine, others = (Using(TableName("d", of), lambda _: (9,)) for of in ("meters", "others"))
    error = refused(meters, rows("fresh", {"ts": [1]}, others), rows(name, {"ts": [1]}, mine))
    assert error.code is ErrorCode.NOT_ALLOWED


def test_rows_that_no_message_can_hold(meters: Any) -> None:
    meters("CREATE TABLE wide (ts TIMESTAMP, note VARCHAR(65000))")
    error = refused(meters, rows("wide", {"ts": list(range(150)), "note": ["x" * 60_000] * 150}))
    assert error.code is ErrorCode.TOO_LARGE


def test_who_may_not_write_to_one_of_the_tables_writes_nothing(meters: Any) -> None:
    using = Using(TableName("d", "meters"), lambda _: (9,))
    mine, other = rows("m1", {"ts": [1]}), rows("one", {"ts": [1]})
    assert refused(meters, mine, caller=ANN).code is ErrorCode.PERMISSION
    meters("GRANT WRITE ON d.m1 TO ann")
    assert refused(meters, mine, other, caller=ANN).code is ErrorCode.PERMISSION
    assert refused(meters, rows("m9", {"ts": [1]}, using), caller=ANN).code is ErrorCode.PERMISSION
    assert write(meters.gateway.context, [mine], ANN) == 1
    meters("GRANT WRITE ON d.meters TO ann")
    assert write(meters.gateway.context, [rows("m9", {"ts": [1]}, using)], ANN) == 1

"""What goes over IoTDB's RPC in bytes, held against IoTDB's own client: it reads blocks, and writes rows."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from iotdb.Session import Session
from iotdb.tsfile.utils.tsblock_serde import deserialize
from iotdb.utils.IoTDBConstants import TSDataType
from iotdb.utils.NumpyTablet import NumpyTablet
from iotdb.utils.Tablet import Tablet

from millrace_core.errors import WireError
from millrace_core.wire.iotdb import rows
from millrace_core.wire.iotdb.blocks import block
from millrace_core.wire.iotdb.types import NUMBERS, day_of, number_of

DAYS = st.dates(date(1000, 1, 1)).map(date.isoformat)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(), "INT32": st.integers(-(2**31), 2**31 - 1),
    "INT64": st.integers(-(2**63), 2**63 - 1), "TIMESTAMP": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False), "DOUBLE": st.floats(allow_nan=False),
    "TEXT": st.text(st.characters(exclude_categories=["Cs"])), "STRING": st.text("aé€", max_size=3),
    "DATE": DAYS, "BLOB": st.binary(max_size=5).map(lambda data: f"0x{data.hex()}"),
}  # fmt: skip


@st.composite
def tables(draw: st.DrawFn, *, least: int = 0) -> tuple[list[str], list[list[Any]], int]:
    count = draw(st.integers(least, 20))
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    columns = [draw(st.lists(st.none() | VALUES[type_], min_size=count, max_size=count)) for type_ in types]
    return types, columns, count


def shown(type_: str, cell: Any) -> Any:
    """A cell as IoTDB's client reads it."""
    if cell is None:
        return None
    if type_ == "DATE":
        return number_of(cell)
    if type_ == "BLOB":
        return bytes.fromhex(cell[2:])
    return cell.encode() if isinstance(cell, str) else cell


@given(tables())
def test_a_block_is_what_the_client_reads(table: tuple[list[str], list[list[Any]], int]) -> None:
    types, columns, count = table
    times = [1000 * row - 5 for row in range(count)]
    read_times, read, nulls, positions = deserialize(memoryview(block(types, columns, times, count)))
    assert (read_times.tolist(), positions) == (times, count)
    for type_, cells, values, indicator in zip(types, columns, read, nulls, strict=True):
        there = [shown(type_, cell) for cell in cells if cell is not None]
        found = values.tolist()
        if type_ == "BOOLEAN":  # a bit of each row, NULL or not
            found = [value for value, cell in zip(found, cells, strict=True) if cell is not None]
        assert found == there
        assert (indicator is None) == (None not in cells)
        if indicator is not None:
            assert indicator.tolist() == [cell is None for cell in cells]


def test_rows_without_times_have_zeros() -> None:
    read_times, (texts,), _, positions = deserialize(memoryview(block(["TEXT"], [["a", "b"]], None, 2)))
    assert (read_times.tolist(), texts.tolist(), positions) == ([0, 0], [b"a", b"b"], 2)


def sent(type_: str, cell: Any) -> Any:
    """A cell as somebody gives it to IoTDB's client."""
    if cell is None:
        return None
    if type_ == "DATE":
        return date.fromisoformat(cell)
    return bytes.fromhex(cell[2:]) if type_ == "BLOB" else cell


def came(type_: str, cell: Any) -> Any:
    return bytes.fromhex(cell[2:]) if type_ == "BLOB" and cell is not None else cell


@given(tables(least=1))
def test_a_tablet_of_the_client_is_read(table: tuple[list[str], list[list[Any]], int]) -> None:
    types, columns, count = table
    given_rows = [
        [sent(type_, column[row]) for type_, column in zip(types, columns, strict=True)]
        for row in range(count)
    ]
    names = [f"m{number}" for number in range(len(types))]
    made = Tablet("root.p.d", names, [TSDataType[type_] for type_ in types], given_rows, list(range(count)))
    assert rows.times(made.get_binary_timestamps(), count) == list(range(count))
    found = rows.tablet(made.get_binary_values(), types, count)
    assert found == [
        [came(type_, cell) for cell in column] for type_, column in zip(types, columns, strict=True)
    ]


def test_a_tablet_of_arrays() -> None:
    made = NumpyTablet(
        "root.p.d", ["a", "b"], [TSDataType.INT32, TSDataType.TEXT],
        [np.array([1, 2, 3], ">i4"), np.array(["x", "", "é"])], np.array([5, 6, 7], ">i8"),
    )  # fmt: skip
    made.mark_none_value(0, 1)
    assert rows.tablet(made.get_binary_values(), ["INT32", "TEXT"], 3) == [[1, None, 3], ["x", "", "é"]]


@given(tables(least=1))
def test_a_record_of_the_client_is_read(table: tuple[list[str], list[list[Any]], int]) -> None:
    types, columns, _ = table
    cells = [
        (type_, column[0]) for type_, column in zip(types, columns, strict=True) if column[0] is not None
    ]
    data = Session.value_to_bytes(
        [NUMBERS[type_] for type_, _ in cells], [sent(type_, cell) for type_, cell in cells]
    )
    found = rows.record(data, len(cells))
    assert found.types == [type_ for type_, _ in cells]
    assert found.values == [came(type_, cell) for type_, cell in cells]


def test_a_null_of_other_clients() -> None:
    assert rows.record(b"\xfe\x00\x01", 2) == rows.Record([None, "BOOLEAN"], [None, True])


@given(st.binary(max_size=40), st.lists(st.sampled_from(sorted(VALUES)), max_size=3), st.integers(-2, 9))
def test_bytes_that_are_none_are_refused(data: bytes, types: list[str], count: int) -> None:
    for read in (
        lambda: rows.tablet(data, types, count), lambda: rows.times(data, count),
        lambda: rows.record(data, count),
    ):  # fmt: skip
        try:
            read()
        except WireError as error:
            assert "the values do not match their types" in error.message


def test_a_type_that_there_is_not() -> None:
    with pytest.raises(WireError, match="77 is not a data type"):
        rows.type_of(77)
    assert day_of(20260131) == "2026-01-31"
    assert day_of(-1) == "-1"

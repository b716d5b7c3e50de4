"""Cells given as Python values: what fits is what fits in a JSON message of a producer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Column, Table
from millrace_core.model.types import TYPES, DataType
from millrace_core.wire.rows.decoder import RowDecoder
from millrace_core.wire.rows.given import checked_columns

LENGTHS = {"VARCHAR": 4, "NCHAR": 3, "VARBINARY": 4}
NAMES = [name for name in TYPES if name != "JSON"]
TABLE = Table(
    "d", "t", "normal", 1, "ms",
    (Column("ts", DataType("TIMESTAMP")), *(
        Column(f"c{i}", DataType(name, LENGTHS.get(name))) for i, name in enumerate(NAMES)
    )),
)  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
CELLS = st.one_of(
    st.none(), st.booleans(), TEXT, st.integers(-(2**65), 2**65),
    st.sampled_from([
        bound + step
        for info in TYPES.values() if info.low is not None and info.high is not None
        for bound in (info.low, info.high) for step in (-1, 0, 1)
    ]),
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([3.4e38, 3.5e38, -3.5e38]),
    st.lists(st.integers(), max_size=1), st.just({}),
)  # fmt: skip


def fits(columns: dict[str, list[Any]]) -> bool:
    try:
        found = checked_columns(columns, TABLE)
    except MillraceError:
        return False
    for name, cells in columns.items():
        column = TABLE.column(name)
        assert column is not None
        if column.type.name in ("FLOAT", "DOUBLE"):  # an int becomes the nearest double
            cells = [cell if cell is None else float(cell) for cell in cells]
        assert found[name] == cells
    return True


@given(st.sampled_from([f"c{i}" for i in range(len(NAMES))]), st.lists(CELLS, min_size=1, max_size=3))
@example(f"c{NAMES.index('FLOAT')}", [2**53 + 1])
def test_what_fits_is_what_a_producer_may_send(name: str, cells: list[Any]) -> None:
    times = list(range(len(cells)))
    rows = [{"ts": time, name: cell} for time, cell in zip(times, cells, strict=True)]
    decoded = RowDecoder(TABLE).decode([msgspec.json.encode(rows)])
    assert fits({"ts": times, name: cells}) == (not decoded.bad)


@pytest.mark.parametrize(("columns", "code", "said"), [
    ({"ts": [1], "w": [1]}, ErrorCode.UNKNOWN_COLUMN, "d.t has no column w"),
    ({"ts": [1, 2], "c1": [True]}, ErrorCode.INVALID_VALUE, "ts has 2, c1 has 1"),
    ({"c1": [True]}, ErrorCode.INVALID_VALUE, "key column ts"),
    ({"ts": [1, None]}, ErrorCode.INVALID_VALUE, "ts: row 1"),
    ({"ts": [1, 2], "c2": [1, 128]}, ErrorCode.INVALID_VALUE, "c2: row 1: 128"),
    ({"ts": [1, 2], "c2": [1, "x"]}, ErrorCode.TYPE_MISMATCH, "c2: row 1: 'x' is not a value of type TINY"),
    ({"ts": [1], "c9": [2**64]}, ErrorCode.INVALID_VALUE, "c9: row 0: 18446744073709551616"),
    ({"ts": [1], "c11": [float("nan")]}, ErrorCode.INVALID_VALUE, "c11: row 0: NaN"),
    ({"ts": [1], "c11": [float("inf")]}, ErrorCode.INVALID_VALUE,
     "c11: row 0: a value is out of range for DOUBLE"),
    ({"ts": [1], "c12": ["\ud800"]}, ErrorCode.INVALID_VALUE, "c12: row 0: it contains characters"),
])  # fmt: skip
def test_what_does_not_fit_is_told_with_its_place(
    columns: dict[str, list[Any]], code: ErrorCode, said: str
) -> None:
    with pytest.raises(MillraceError, match=said) as caught:
        checked_columns(columns, TABLE)
    assert caught.value.code is code


def test_every_part_of_a_key_must_be_given() -> None:
    both = (Column("ts", DataType("TIMESTAMP")), Column("k", DataType("INT"), composite_key=True))
    table = Table("d", "t", "normal", 1, "ms", both)
    assert checked_columns({"ts": [1], "k": [2]}, table) == {"ts": [1], "k": [2]}
    for columns in ({"ts": [1]}, {"ts": [1], "k": [None]}):
        with pytest.raises(MillraceError, match="k"):
            checked_columns(columns, table)

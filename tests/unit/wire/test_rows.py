"""WAL values: every shape decodes to the same rows, bad messages are named and cost no good one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.errors import ErrorCode
from millrace_core.model.schema import Column, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.wire.rows import Delete, Drop, Register, RowDecoder, encode_operation, encode_rows

TABLE = Table(
    "power",
    "meters",
    "super",
    7,
    "ms",
    (
        Column("ts", TIMESTAMP),
        Column("amps", DataType("FLOAT")),
        Column("phase", DataType("TINYINT")),
        Column("note", DataType("VARCHAR", 4)),
        Column("on", DataType("BOOL")),
    ),
    (Column("site", DataType("INT")),),
)
NAMES = [column.name for column in TABLE.columns]

row = st.fixed_dictionaries(
    {"ts": st.integers(-(2**63), 2**63 - 1)},
    optional={
        "amps": st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False),
        "phase": st.none() | st.integers(-128, 127),
        "note": st.none() | st.text(max_size=4).filter(lambda text: len(text.encode()) <= 4),
        "on": st.none() | st.booleans(),
    },
)


def decoded_rows(values: list[bytes]) -> list[tuple[int, dict[str, object]]]:
    """(message index, the cells that the message gave) of every row."""
    decoded = RowDecoder(TABLE).decode(values)
    assert not decoded.bad
    rows = []
    for place, (index, cells) in enumerate(
        zip(decoded.message.tolist(), decoded.frame.iter_rows(named=True), strict=True)
    ):
        given_cells = {
            n: v for n, v in cells.items() if not decoded.absent.get(n, np.zeros(place + 1))[place]
        }
        rows.append((index, given_cells))
    return rows


@given(st.lists(st.lists(row, min_size=1, max_size=3), max_size=6))
def test_what_is_encoded_is_decoded(messages: list[list[dict[str, object]]]) -> None:
    values = [encode_rows(rows) for rows in messages]
    expected = [(i, cells) for i, rows in enumerate(messages) for cells in rows]
    assert decoded_rows(values) == expected


@given(st.lists(row, min_size=1, max_size=5))
def test_arrays_of_rows_and_tagged_rows_say_the_same(rows: list[dict[str, object]]) -> None:
    plain = decoded_rows([json.dumps(rows).encode()])
    assert decoded_rows([json.dumps({"tags": {"site": 1}, "rows": rows}, indent=1).encode()]) == plain


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(-128, 127)), min_size=1))
def test_column_arrays_say_the_same_as_rows(cells: list[tuple[int, int | None]]) -> None:
    columns = {"ts": [ts for ts, _ in cells], "phase": [phase for _, phase in cells]}
    rows = [{"ts": ts, "phase": phase} for ts, phase in cells]
    assert decoded_rows([json.dumps(columns).encode()]) == decoded_rows([json.dumps(rows).encode()])


BAD = [
    (b"", "neither a JSON object nor an array"),
    (b"7", "neither a JSON object nor an array"),
    (b'{"ts":1', "truncated"),
    (b'{"amps":1.5}', "missing required field `ts`"),
    (b'{"ts":"1"}', "Expected `int`, got `str` - at `$.ts`"),
    (b'{"ts":1,"phase":300}', "<= 127 - at `$.phase`"),
    (b'{"ts":1,"amps":"x"}', "got `str` - at `$.amps`"),
    (b'{"ts":1,"volts":2}', "unknown field `volts`"),
    (b'{"ts":1,"note":"abcde"}', "note: longer than 4 bytes"),
    ('{"ts":1,"note":"äöü"}'.encode(), "note: longer than 4 bytes"),
    (b'{"ts":[1,2],"amps":[1.5]}', "column arrays differ in length"),
    (b'[{"ts":1},{"ts":null}]', "got `null`"),
    (b'{"ts":1}\n{"ts":2}', "trailing characters"),
    (b"\xff\xfe", "neither a JSON object nor an array"),
    (b'\x00{"op":"explode"}', "operation"),
]


@pytest.mark.parametrize(("value", "why"), BAD)
def test_a_bad_message_is_named_and_the_others_count(value: bytes, why: str) -> None:
    decoded = RowDecoder(TABLE).decode([b'{"ts":1}', value, b'[{"ts":2},{"ts":3}]'])
    assert decoded.frame["ts"].to_list() == [1, 2, 3]
    assert decoded.message.tolist() == [0, 2, 2]
    [bad] = decoded.bad
    assert bad.index == 1
    assert bad.error.code in (ErrorCode.UNDECODABLE, ErrorCode.INVALID_VALUE)
    assert why in bad.error.message


@given(st.lists(st.sampled_from([value for value, _ in BAD] + [b'{"ts":5}', b'[{"ts":6}]']), max_size=8))
def test_batches_are_invisible(values: list[bytes]) -> None:
    decoder = RowDecoder(TABLE)
    whole = decoder.decode(values)
    single = [decoder.decode([value]) for value in values]
    assert whole.frame["ts"].to_list() == [ts for part in single for ts in part.frame["ts"].to_list()]
    assert sorted(bad.index for bad in whole.bad) == [i for i, part in enumerate(single) if part.bad]


def test_operations_keep_their_place() -> None:
    operations = [Register({"site": 3}, 1), Delete(5, 9), Drop()]
    values = [encode_operation(operation) for operation in operations]
    decoded = RowDecoder(TABLE).decode([values[0], b'{"ts":1}', *values[1:]])
    assert decoded.operations == [(0, operations[0]), (2, operations[1]), (3, operations[2])]
    assert decoded.message.tolist() == [1]

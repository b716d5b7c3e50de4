"""Arrow messages: the same rows as in JSON, in any mixture; a faulty one is bad and costs no other."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.errors import ErrorCode
from millrace_core.model.schema import Column, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.wire.operations import Delete, encode_operation
from millrace_core.wire.rows.arrow import encode_frame
from millrace_core.wire.rows.decoded import Decoded
from millrace_core.wire.rows.decoder import RowDecoder, encode_rows

from ...conftest import examples


def stream(batches: Sequence[pa.RecordBatch], schema: pa.Schema | None = None, **options: Any) -> bytes:
    """These batches as one stream."""
    sink = pa.BufferOutputStream()
    written = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_stream(sink, schema or batches[0].schema, options=written) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def columns(**arrays: pa.Array) -> bytes:
    """One batch of these columns."""
    return stream([pa.record_batch(list(arrays.values()), names=list(arrays))])


TABLE = Table(
    "power", "meters", "super", 7, "us",
    (
        Column("ts", TIMESTAMP),
        Column("amps", DataType("FLOAT")),
        Column("phase", DataType("TINYINT")),
        Column("total", DataType("BIGINT UNSIGNED")),
        Column("note", DataType("VARCHAR", 6)),
        Column("name", DataType("NCHAR", 3)),
        Column("on", DataType("BOOL")),
        Column("raw", DataType("VARBINARY", 8)),
        Column("seen", TIMESTAMP),
    ),
    (Column("site", DataType("INT")),),
)  # fmt: skip

short = st.text(st.characters(codec="utf-8"), max_size=3).filter(lambda text: len(text.encode()) <= 6)
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "amps": st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False),
    "phase": st.none() | st.integers(-128, 127),
    "total": st.none() | st.integers(0, 2**64 - 1),
    "note": st.none() | short,
    "name": st.none() | short,
    "on": st.none() | st.booleans(),
    "raw": st.none() | short,
    "seen": st.none() | st.integers(-(2**63), 2**63 - 1),
}
INTS = {"phase": (pa.int8(), pa.int16(), pa.int64()), "total": (pa.uint64(),), "seen": (pa.int64(),)}
TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))
ARROW: dict[str, tuple[pa.DataType, ...]] = {
    **INTS,
    "ts": (pa.int64(), pa.timestamp("us"), pa.timestamp("us", "Europe/Berlin")),
    "seen": (pa.int64(), pa.timestamp("us")),
    "amps": (pa.float32(), pa.float64()),
    "note": TEXTS,
    "name": TEXTS,
    "on": (pa.bool_(),),
    "raw": (*TEXTS, pa.binary(), pa.large_binary(), pa.binary_view()),
}


@st.composite
def a_message(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Rows that name the same columns, and how they are written: in each of the encodings."""
    names = ["ts", *draw(st.lists(st.sampled_from(sorted(CELLS)), unique=True))]
    row = st.fixed_dictionaries({n: CELLS.get(n, st.integers(-(2**63), 2**63 - 1)) for n in names})
    rows = draw(st.lists(row, min_size=1, max_size=4))
    cells = {n: [r[n] for r in rows] for n in names}
    types = {n: draw(st.sampled_from(ARROW[n])) for n in names}
    arrays = {n: arrow(cells[n], types[n]) for n in draw(st.permutations(names))}
    whole = pa.record_batch(list(arrays.values()), names=list(arrays))
    cut = draw(st.integers(0, len(rows)))
    # dictionaries of two batches would have to be one: pyarrow replaces them, which polars reads too
    values = [
        encode_rows(rows),
        json.dumps(cells).encode(),
        stream([whole]),
        stream([whole])[:-8],  # the end mark may be left out
        stream([whole.slice(0, cut), whole.slice(cut)]),
        encode_frame(pl.DataFrame([pl.Series(n, v, SMALL[n], strict=False) for n, v in cells.items()])),
    ]
    return rows, values


SMALL = {
    "ts": pl.Int64, "amps": pl.Float32, "phase": pl.Int8, "total": pl.UInt64, "note": pl.String,
    "name": pl.String, "on": pl.Boolean, "raw": pl.String, "seen": pl.Int64,
}  # fmt: skip


def arrow(cells: list[Any], type_: pa.DataType) -> pa.Array:
    """Cells as JSON has them, as an array of this type."""
    if pa.types.is_dictionary(type_):
        return pa.array(cells, pa.string()).dictionary_encode().cast(type_)
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or type_ == pa.binary_view():
        return pa.array([None if c is None else c.encode() for c in cells], type_)
    if pa.types.is_timestamp(type_):
        return pa.array(cells, pa.int64()).cast(type_)
    return pa.array(cells, type_)


def shown(decoded: Decoded) -> list[Any]:
    """Everything that was decoded, as one value to compare."""
    absent = {n: mask.tolist() for n, mask in decoded.absent.items() if mask.any()}
    told = [(bad.index, bad.error.code) for bad in decoded.bad]
    return [
        decoded.frame.schema,
        decoded.frame.rows(),
        decoded.message.tolist(),
        absent,
        decoded.operations,
        told,
    ]


@settings(max_examples=examples(30))
@given(st.lists(a_message(), max_size=4), st.randoms(use_true_random=False))
def test_any_mixture_of_encodings_gives_the_same_rows(
    messages: list[tuple[list[dict[str, Any]], list[bytes]]], choose: random.Random
) -> None:
    decoder = RowDecoder(TABLE)
    between = [encode_operation(Delete(1, 2)), b"7"]
    plain = [values[0] for _, values in messages] + between
    mixed = [choose.choice(values) for _, values in messages] + between
    assert shown(decoder.decode(mixed)) == shown(decoder.decode(plain))


def test_the_same_rows_in_each_type() -> None:
    cells: dict[str, list[Any]] = {
        "ts": [3, 1, 2], "amps": [1.5, None, -2.0], "phase": [1, None, -128], "total": [2**64 - 1, None, 0],
        "note": ["a", None, "äöü"], "name": ["温度计", None, ""], "on": [True, None, False],
        "raw": ["x", None, ""], "seen": [5, None, -5],
    }  # fmt: skip
    plain = shown(RowDecoder(TABLE).decode([json.dumps(cells).encode()]))
    for name, types in ARROW.items():
        for type_ in types:
            arrays = {n: arrow(c, type_ if n == name else ARROW[n][0]) for n, c in cells.items()}
            assert shown(RowDecoder(TABLE).decode([columns(**arrays)])) == plain, type_


def one(value: bytes, table: Table = TABLE) -> Decoded:
    return RowDecoder(table).decode([value])


TS = pa.array([1, 2])
UNITS = [
    ("s", [-1, 5], [-1_000_000, 5_000_000]),
    ("ms", [-1, 5], [-1000, 5000]),
    ("us", [-1, 5], [-1, 5]),
    ("ns", [-3000, 5000], [-3, 5]),
]


@pytest.mark.parametrize(("unit", "given_ticks", "ticks"), UNITS)
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Shanghai", "No/Where"])
def test_timestamps_of_any_unit(
    unit: str, given_ticks: list[int], ticks: list[int], zone: str | None
) -> None:
    times = pa.array(given_ticks).cast(pa.timestamp(unit, zone))
    assert one(columns(ts=times, seen=times)).frame.select("ts", "seen").rows() == [(t, t) for t in ticks]


def test_a_binary_cell_may_be_any_bytes() -> None:
    found = one(columns(ts=TS, raw=pa.array([b"\xff\x00", b""])))
    assert found.frame["raw"].to_list() == [b"\xff\x00", b""]


def test_a_column_of_no_type_is_null_and_not_absent() -> None:
    found = one(columns(ts=TS, note=pa.nulls(2), amps=pa.nulls(2)))
    assert found.frame.select("note", "amps").rows() == [(None, None)] * 2
    assert sorted(found.absent) == ["name", "on", "phase", "raw", "seen", "total"]


def test_each_batch_has_its_own_nulls_and_buffers() -> None:
    columns_ = (
        Column("ts", TIMESTAMP),
        Column("note", DataType("VARCHAR", 99)),
        *TABLE.columns[6:7],
        TABLE.columns[2],
    )
    table = Table("d", "t", "normal", 1, "ms", columns_)
    rows = [
        {"ts": at, "note": f"long enough for a buffer of its own {at}" if at % 3 else "short",
         "on": None if at > 30 else at % 2 == 0, "phase": at if at < 9 or at % 4 else None}
        for at in range(40)
    ]  # fmt: skip
    schema = pa.schema(
        [("note", pa.string_view()), ("on", pa.bool_()), ("phase", pa.int8()), ("ts", pa.timestamp("ms"))]
    )
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    whole = pa.record_batch(arrays, schema=schema)
    cuts = [0, 3, 3, 12, 29, 40]
    parts = [whole.slice(begin, end - begin) for begin, end in itertools.pairwise(cuts)]
    plain = shown(RowDecoder(table).decode([encode_rows(rows)]))
    assert shown(RowDecoder(table).decode([stream(parts)])) == plain
    several = RowDecoder(table).decode([stream([part]) for part in parts])
    assert several.frame.rows() == plain[1]
    assert several.message.tolist() == [0] * 3 + [2] * 9 + [3] * 17 + [4] * 11


def test_dictionaries_of_different_messages_are_kept_apart() -> None:
    values = [
        columns(ts=pa.array([at]), note=pa.array([text]).dictionary_encode()) for at, text in enumerate("abc")
    ]
    found = RowDecoder(TABLE).decode(values)
    assert found.frame["note"].to_list() == ["a", "b", "c"]


def nested(depth: int) -> bytes:
    type_: pa.DataType = pa.int8()
    for _ in range(depth):
        type_ = pa.list_(type_)
    return columns(ts=TS, amps=pa.nulls(2, type_))


GOOD = columns(ts=TS, amps=pa.array([1.0, 2.0]))
UNDECODABLE, INVALID_VALUE = ErrorCode.UNDECODABLE, ErrorCode.INVALID_VALUE
BAD: list[tuple[Callable[[], bytes], str, ErrorCode]] = [
    (lambda: columns(amps=pa.array([1.0])), "missing required column `ts`", UNDECODABLE),
    (lambda: columns(ts=TS, volts=TS), "no column `volts`", UNDECODABLE),
    (lambda: columns(ts=TS, site=TS), "no column `site`", UNDECODABLE),
    (lambda: columns(ts=pa.array([1, None])), "ts: null, but each row", UNDECODABLE),
    (lambda: columns(ts=pa.nulls(2)), "ts: Arrow's null does not fit TIMESTAMP", UNDECODABLE),
    (lambda: columns(ts=pa.array([1.5, 2])), "ts: Arrow's float64 does not fit", UNDECODABLE),
    (lambda: columns(ts=pa.array(["1", "2"])), "ts: Arrow's utf8 does not fit", UNDECODABLE),
    (lambda: columns(ts=pa.array([1, 2], pa.date32())), "ts: Arrow's date does not fit", UNDECODABLE),
    (lambda: columns(ts=pa.array([1, 2**63], pa.uint64())), "9223372036854775808 is out", UNDECODABLE),
    (lambda: columns(ts=pa.array([1500, 2000]).cast(pa.timestamp("ns"))), "1500 (ns) is not a whole number",
     UNDECODABLE),
    (lambda: columns(ts=pa.array([2**62, 1]).cast(pa.timestamp("ms"))), "out of range for us",
     UNDECODABLE),
    (lambda: columns(ts=pa.array([2**62, 1]).cast(pa.timestamp("s"))), "out of range for us",
     UNDECODABLE),
    (lambda: columns(ts=TS, phase=pa.array([1, 300])), "phase: 300 is out of range for TINYINT",
     UNDECODABLE),
    (lambda: columns(ts=TS, phase=pa.array([1.0, 2.0])), "phase: Arrow's float64", UNDECODABLE),
    (lambda: columns(ts=TS, total=pa.array([1, -1])), "total: -1 is out of range for", UNDECODABLE),
    (lambda: columns(ts=TS, on=pa.array([1, 0])), "on: Arrow's int64 does not fit BOOL", UNDECODABLE),
    (lambda: columns(ts=TS, note=pa.array([b"a", b"b"])), "note: Arrow's binary", UNDECODABLE),
    (lambda: columns(ts=TS, note=pa.array(["a", "1234567"])), "note: a value is longer than 6 bytes",
     INVALID_VALUE),
    (lambda: columns(ts=TS, name=pa.array(["温度", "温度计度"])), "name: a value is longer than 3 characters",
     UNDECODABLE),
    (lambda: columns(ts=TS, amps=pa.array([1, 1e300])), "amps: a value is out of range for FLOAT",
     INVALID_VALUE),
    (lambda: columns(ts=TS, amps=pa.array([1, float("inf")])), "amps: a value is out of range for FLOAT",
     INVALID_VALUE),
    (lambda: columns(ts=TS, amps=pa.array([1, float("nan")])), "amps: NaN is not a value", UNDECODABLE),
    (lambda: nested(1), "amps: Arrow's list does not fit FLOAT", UNDECODABLE),
    (lambda: nested(60), "amps: Arrow's list does not fit FLOAT", UNDECODABLE),
    (lambda: columns(ts=TS, amps=pa.array([1, 2]).dictionary_encode()), "dictionary of int64",
     UNDECODABLE),
    (lambda: stream([pa.record_batch([TS, TS], names=["ts", "ts"])]), "column `ts` appears twice",
     UNDECODABLE),
    (lambda: stream([pa.record_batch([TS], names=["ts"])] * 9, compression="lz4"), "compressed",
     UNDECODABLE),
    (lambda: GOOD[:-9], "truncated", UNDECODABLE),
    (lambda: GOOD[:20], "truncated", UNDECODABLE),
    (lambda: GOOD[:4], "no frame begins at byte 0", UNDECODABLE),
    (lambda: GOOD + b"\0", "1 bytes after the end", UNDECODABLE),
    (lambda: GOOD + GOOD, "after the end", UNDECODABLE),
    (lambda: GOOD[:-8] + GOOD, "one schema, then batches", UNDECODABLE),
    (lambda: b"\xff" * 8, "truncated", UNDECODABLE),
    (lambda: b"\xff\xff\xff\xff\0\0\0\0", "no schema", UNDECODABLE),
]  # fmt: skip


@pytest.mark.parametrize(("make", "why", "code"), BAD, ids=[why for _, why, _ in BAD])
def test_a_bad_message_is_named_and_the_others_count(
    make: Callable[[], bytes], why: str, code: ErrorCode
) -> None:
    decoded = RowDecoder(TABLE).decode([GOOD, make(), columns(ts=pa.array([3])), b'{"ts":4}'])
    assert decoded.frame["ts"].to_list() == [1, 2, 3, 4]
    assert decoded.message.tolist() == [0, 0, 2, 3]
    [bad] = decoded.bad
    assert bad.index == 1 and bad.error.code is code
    assert why in bad.error.message


FAULTS: list[tuple[str, list[Any]]] = [
    ("phase", [1, 300]), ("total", [1, -1]), ("note", ["a", "1234567"]), ("name", ["a", "温度计度"]),
    ("amps", [1, 1e300]), ("volts", [1, 2]), ("on", [1, 2]), ("note", [1, 2]), ("amps", ["1", "2"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "cells"), FAULTS)
def test_a_fault_has_the_code_that_it_has_in_json(name: str, cells: list[Any]) -> None:
    [arrow_bad] = one(columns(ts=TS, **{name: pa.array(cells)})).bad
    [json_bad] = one(json.dumps({"ts": [1, 2], name: cells}).encode()).bad
    assert arrow_bad.error.code is json_bad.error.code


def test_a_faulty_cell_costs_its_message_alone() -> None:
    values = [columns(ts=pa.array([at]), phase=pa.array([phase])) for at, phase in enumerate([1, 300, 3])]
    decoded = RowDecoder(TABLE).decode(values)
    assert decoded.frame.select("ts", "phase").rows() == [(0, 1), (2, 3)]
    assert decoded.absent["note"].tolist() == [True, True]
    assert [bad.index for bad in decoded.bad] == [1]


def test_no_rows_are_no_fault() -> None:
    schema = pa.schema([("ts", pa.int64())])
    for value in (stream([], schema), stream([pa.record_batch([pa.array([], pa.int64())], names=["ts"])])):
        found = RowDecoder(TABLE).decode([value, GOOD])
        assert not found.bad and found.message.tolist() == [1, 1]


ALL = columns(
    ts=pa.array([1, 2, 3], pa.timestamp("ms")), phase=pa.array([1, None, 3]), note=pa.array(["a", None, "c"]),
    name=pa.array(["x", "y", "x"]).dictionary_encode(), on=pa.array([True, None, False]),
    raw=pa.array([b"", b"b", None], pa.binary_view()), amps=pa.array([1.5, 2, None]),
)  # fmt: skip


def test_hostile_bytes_never_raise() -> None:
    chance = random.Random(5)
    decoder = RowDecoder(TABLE)
    read = 0
    for _ in range(300):
        value = bytearray(ALL)
        for _ in range(chance.randint(1, 4)):
            value[chance.randrange(4, len(value))] = chance.choice(
                [0, 1, 2, 127, 128, 255, chance.randrange(256)]
            )
        if chance.random() < 0.2:
            del value[chance.randrange(4, len(value)) :]
        decoded = decoder.decode([GOOD, bytes(value), b'{"ts":9}'])
        assert decoded.frame["ts"].to_list()[:2] == [1, 2] and decoded.frame["ts"].to_list()[-1] == 9
        good = [place for place in (0, 1, 2) if place not in {bad.index for bad in decoded.bad}]
        assert set(decoded.message.tolist()) <= set(good)
        assert len(json.dumps([repr(row) for row in decoded.frame.rows()])) > 0
        read += not decoded.bad
    assert 0 < read < 300


def test_what_millrace_writes_other_readers_can_read() -> None:
    frame = pl.DataFrame({"ts": [1, 2], "note": ["a", None]}, schema={"ts": pl.Int64, "note": pl.String})
    table = pa.ipc.open_stream(encode_frame(frame)).read_all()
    assert table.schema == pa.schema([("ts", pa.int64()), ("note", pa.large_string())])
    assert table.to_pylist() == frame.to_dicts()
    assert np.array_equal(one(encode_frame(frame)).frame["ts"].to_numpy(), [1, 2])

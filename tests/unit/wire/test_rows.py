"""WAL values: every shape decodes to the same rows, bad messages are named and cost no good one."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.errors import ErrorCode
from millrace_core.model.schema import Column, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.wire.operations import (
    Altered,
    Delete,
    Drop,
    Register,
    encode_operation,
    operation_in,
    versions_needed,
)
from millrace_core.wire.rows.decoded import Bad
from millrace_core.wire.rows.decoder import RowDecoder, encode_rows

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
    (b'{"ts":1,"note":"abcde"}', "note: a value is longer than 4 bytes"),
    ('{"ts":1,"note":"äöü"}'.encode(), "note: a value is longer than 4 bytes"),
    (b'{"ts":[1,2],"amps":[1.5]}', "column arrays have different lengths"),
    (b'[{"ts":1},{"ts":null}]', "got `null`"),
    (b'{"ts":1}\n{"ts":2}', "trailing characters"),
    (b"\xff\xfe", "neither a JSON object nor an array"),
    (b'\x00{"op":"explode"}', "operation"),
    (b'\x00{"op":"\xff"}', "operation"),
    (b'{"ts":99999999999999999999}', "<= 9223372036854775807 - at `$.ts`"),
    (b'{"ts":' + b"9" * 400 + b"}", "<= 9223372036854775807 - at `$.ts`"),
    (b'{"ts":[1,99999999999999999999]}', "int"),
    (b'{"ts":1,"amps":1e300}', "amps: a value is out of range for FLOAT"),
    (b'{"tags":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b'},"rows":[{"ts":1}]}', "unknown field `tags`"),
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


LINES = [b"", b" ", b' {"ts":1}', b'{"ts":2}\n', b'{"ts":3}\n{"ts":4}', b'{\n"ts":7}', b'\n{"ts":8}']
"""What a decoder that reads all messages in one go, line by line, could take for others."""


@given(
    st.lists(
        st.sampled_from([None, *(value for value, _ in BAD), *LINES, b'{"ts":5}', b'[{"ts":6}]']), max_size=8
    )
)
def test_batches_are_invisible(values: list[bytes | None]) -> None:
    decoder = RowDecoder(TABLE)
    whole = decoder.decode(values)
    single = [decoder.decode([value]) for value in values]
    assert whole.frame["ts"].to_list() == [ts for part in single for ts in part.frame["ts"].to_list()]
    assert sorted(bad.index for bad in whole.bad) == [i for i, part in enumerate(single) if part.bad]


def test_an_unsigned_number_beyond_64_bits_is_bad() -> None:
    columns = (TABLE.columns[0], Column("total", DataType("BIGINT UNSIGNED")))
    table = Table("power", "totals", "normal", 8, "ms", columns)
    values = [b'{"ts":1,"total":%d}' % (2**64 - 1), b'[{"ts":2,"total":%d},{"ts":3}]' % 2**64, b'{"ts":4}']
    decoded = RowDecoder(table).decode(values)
    assert decoded.frame.rows() == [(1, 2**64 - 1), (4, None)]
    assert decoded.message.tolist() == [0, 2]
    [bad] = decoded.bad
    assert bad.index == 1 and bad.error.message == f"total: a value is greater than {2**64 - 1}"


VALUES: list[bytes | None] = [None, b"", b'{"ts":1}', b"\x00", encode_operation(Drop())]


@given(st.lists(st.sampled_from([*VALUES, *(encode_operation(Altered(i)) for i in (2, 3))]), max_size=6))
def test_versions_are_found_among_all_values(values: list[bytes | None]) -> None:
    operations = [(place, operation_in(value)) for place, value in enumerate(values)]
    expected = [(place, one.version) for place, one in operations if isinstance(one, Altered)]
    assert versions_needed(values) == expected


def test_operations_keep_their_place() -> None:
    operations = [Register({"site": 3}, 1), Delete(5, 9), Drop()]
    values = [encode_operation(operation) for operation in operations]
    decoded = RowDecoder(TABLE).decode([values[0], b'{"ts":1}', *values[1:]])
    assert decoded.operations == [(0, operations[0]), (2, operations[1]), (3, operations[2])]
    assert decoded.message.tolist() == [1]


# -- column names that JSON escapes --------------------------------------------------------------------------

ESCAPED = '"\\\n\x00\x1f'
PLAIN = [f"plain{i}" for i in range(len(NAMES))]
NO_COLUMN = ["c0", "c1", "\x7f'", '\x7f/"', "volts", "\\"]
TAGS = {"si\\te": [{'"': 1}], "\x7f/": 2}
odd_names = st.lists(
    st.text(ESCAPED + "\x7f'/?@J_ab(, )é\ue000\U0001f600", min_size=1, max_size=6),
    min_size=len(NAMES),
    max_size=len(NAMES),
    unique=True,
).filter(lambda names: set("".join(names)) & set(ESCAPED) and not set(names) & set(NO_COLUMN))
cell = (
    st.none() | st.booleans() | st.integers(-129, 128)
    | st.floats(width=16, allow_nan=False, allow_infinity=False)
    | st.text("a\"\\':,{ é\x7f", max_size=5) | st.sampled_from([{'a"': 1}, [[]]])
)  # fmt: skip
# each field: the number of its column, or a name that is none, and its cell; a column may come twice
fields = st.lists(st.tuples(st.sampled_from([0, 1, 2, 3, 4, 1, 2, 3, 4, *NO_COLUMN]), cell), max_size=4)
good_fields = row.map(lambda cells: [(NAMES.index(name), value) for name, value in cells.items()])
message = st.tuples(
    st.sampled_from(["row", "rows", "tagged", "columns"]),
    st.lists(
        good_fields | fields | st.tuples(good_fields, fields).map(lambda two: [*two[0], *two[1]]), max_size=3
    ),
)


def renamed(table: Table, names: list[str]) -> Table:
    columns = tuple(Column(name, c.type) for name, c in zip(names, table.columns, strict=True))
    return Table(table.db, table.name, table.kind, table.uid, table.precision, columns, table.tags)


def written(
    names: list[str], shape: str, rows: list[list[tuple[int | str, object]]], ascii_only: bool
) -> bytes:
    """A message of this shape, as a producer writes it that may name a field twice."""

    def text(value: object) -> str:
        return json.dumps(value, ensure_ascii=ascii_only)

    def fields_of(cells: list[tuple[int | str, object]]) -> str:
        parts = [(names[n] if isinstance(n, int) else n, value) for n, value in cells]
        return "{" + ", ".join(f"{text(name)} : {text(value)}" for name, value in parts) + "}"

    every = "[" + ",".join(map(fields_of, rows)) + "]"
    match shape:
        case "row":
            return fields_of(rows[0] if rows else []).encode()
        case "rows":
            return every.encode()
        case "tagged":
            return f'{{"tags": {text(TAGS)}, "rows": {every}}}'.encode()
    return fields_of([(n, [value]) for cells in rows for n, value in cells]).encode()


@given(odd_names, st.lists(message, max_size=4), st.booleans())
def test_names_change_nothing(
    names: list[str], messages: list[tuple[str, list[list[tuple[int | str, object]]]]], ascii_only: bool
) -> None:
    odd = RowDecoder(renamed(TABLE, names)).decode([written(names, *m, ascii_only) for m in messages])
    plain = RowDecoder(renamed(TABLE, PLAIN)).decode([written(PLAIN, *m, ascii_only) for m in messages])
    assert odd.frame.columns == names
    assert odd.frame.rows() == plain.frame.rows()
    assert odd.message.tolist() == plain.message.tolist()
    assert {n: mask.tolist() for n, mask in odd.absent.items()} == {
        names[PLAIN.index(n)]: mask.tolist() for n, mask in plain.absent.items()
    }
    assert odd.operations == plain.operations

    def said(bad: Bad) -> tuple[int, ErrorCode, str]:
        text = bad.error.message
        for at, name in enumerate(names):
            text = text.replace(PLAIN[at], name)
        return bad.index, bad.error.code, text

    assert [(bad.index, bad.error.code, bad.error.message) for bad in odd.bad] == list(map(said, plain.bad))


MALFORMED = [
    rb'{"a\"b":1;}',
    rb'{"a\u0022b" : 1, "x\\":2}}',
    rb'{"a\"b":1,"x\\":"\"',
    rb'{"a\"b"',
    rb'{"a\"b":1,"\ud800":2}',
    rb'{"a\"b":1,"x\q":2}',
    b'{"a\\"b":1,"x\n":2}',
    rb'[{"a\"b":1},{"a\"b":1,]',
    rb'{"a\"b":1}' + b"\n;",
    rb'{"a\"b":1,"x\\',
]


@pytest.mark.parametrize("value", MALFORMED)
def test_malformed_messages_are_bad_at_their_own_place(value: bytes) -> None:
    table = renamed(TABLE, ['a"b', "x\\", "x\n", "p", "q"])
    [bad] = RowDecoder(table).decode([value]).bad
    with pytest.raises(msgspec.DecodeError) as generic:
        msgspec.json.decode(value)
    assert bad.error.message == str(generic.value)


def test_a_value_of_quotes_alone_takes_no_quadratic_time() -> None:
    table = renamed(TABLE, ['a"b', *NAMES[1:]])
    value = b'{"a\\"b' + b'\\"' * 500_000
    [bad] = RowDecoder(table).decode([value]).bad
    assert "truncated" in bad.error.message

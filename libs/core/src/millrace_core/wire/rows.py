"""WAL messages: JSON rows in, typed columns out; and the operations that share the topic with them.

The first byte tells what a value is: ``{`` one row, an object of column arrays or tagged rows, ``[`` an array
of rows, 0x00 an operation of Millrace (JSON follows). Decoding is strict: a value of another type, out of
range or too long, or a field that the table does not have, makes the message bad, as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from millrace_core.errors import ErrorCode, WireError
from millrace_core.model.schema import Column, Table
from millrace_core.model.types import DataType
from millrace_core.wire.names import caret, caret_keys, from_caret

OPERATION_MARK = b"\x00"
MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding a message of anybody's raises; a tag may be nested thousands of levels deep."""

POLARS: dict[str, Any] = {
    "int64": pl.Int64, "int32": pl.Int32, "int16": pl.Int16, "int8": pl.Int8,
    "uint64": pl.UInt64, "uint32": pl.UInt32, "uint16": pl.UInt16, "uint8": pl.UInt8,
    "float32": pl.Float32, "float64": pl.Float64, "bool": pl.Boolean,
}  # fmt: skip


def polars_type(type_: DataType) -> Any:
    """The Polars dtype of a column of this type."""
    if type_.name == "VARBINARY":
        return pl.Binary
    return POLARS.get(type_.info.numpy, pl.String)


class Register(msgspec.Struct, frozen=True, tag="create", tag_field="op"):
    """A child table of this key begins here, with these tags."""

    tags: dict[str, object]
    incarnation: int = 0


class Drop(msgspec.Struct, frozen=True, tag="drop", tag_field="op"):
    """The table of this key ends here; its rows are gone."""


class Retag(msgspec.Struct, frozen=True, tag="retag", tag_field="op"):
    """The child table of this key has these tags from here on: all of them, by name."""

    tags: dict[str, object]


class Altered(msgspec.Struct, frozen=True, tag="altered", tag_field="op"):
    """In each partition, under any key: who reads on needs the table's definition of this version."""

    version: int


class Delete(msgspec.Struct, frozen=True, tag="delete", tag_field="op"):
    """Rows of the table of this key with ``first <= ts <= last`` are gone."""

    first: int
    last: int


Operation = Register | Drop | Delete | Retag | Altered
_operation: msgspec.json.Decoder[Operation] = msgspec.json.Decoder(Operation)


class _Tags(msgspec.Struct):
    """What tagged rows register, without the rows."""

    tags: dict[str, Any]


_tags = msgspec.json.Decoder(_Tags)


def version_needed(value: bytes | None) -> int:
    """The version of its table that a WAL value asks for; 0 for all values but :class:`Altered`."""
    operation = operation_in(value)
    return operation.version if isinstance(operation, Altered) else 0


def encode_operation(operation: Operation) -> bytes:
    return OPERATION_MARK + msgspec.json.encode(operation)


def operation_in(value: bytes | None) -> Operation | None:
    """The operation that a message holds; None for one with rows, and for a bad one."""
    if value is None or value[:1] != OPERATION_MARK:
        return None
    try:
        return _operation.decode(value[1:])
    except MALFORMED:
        return None


@dataclass(frozen=True, slots=True)
class Bad:
    """A message that was not used: its index in the input, and why."""

    index: int
    error: WireError


@dataclass(slots=True)
class Decoded:
    """What a sequence of messages held.

    ``frame``: all rows, one column per column of the table, in message order; ``message``: int32[rows], the
    index of each row's message; ``absent``: for columns that some rows do not name at all, bool[rows] (such a
    row leaves a stored value as it is, unlike a null). ``operations``: (message index, operation).
    """

    frame: pl.DataFrame
    message: np.ndarray
    absent: dict[str, np.ndarray] = field(default_factory=dict)
    operations: list[tuple[int, Operation]] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)


def _python_type(type_: DataType) -> Any:
    info = type_.info
    if info.integer:
        # msgspec takes bounds of signed 64 bits only; wider ones are checked by the column's dtype
        if info.high is not None and info.high < 2**63:
            return Annotated[int, msgspec.Meta(ge=info.low, le=info.high)]
        return Annotated[int, msgspec.Meta(ge=0)]
    if type_.name in ("FLOAT", "DOUBLE"):
        return float
    if type_.name == "BOOL":
        return bool
    if type_.name == "NCHAR" and type_.length is not None:
        return Annotated[str, msgspec.Meta(max_length=type_.length)]
    return str


class RowDecoder:
    """Decodes the WAL messages of one table. Build it once per table definition; it is cheap to call."""

    def __init__(self, table: Table) -> None:
        self.table = table
        names = [f"c{i}" for i in range(len(table.columns))]
        rename = {n: caret(c.name) for n, c in zip(names, table.columns, strict=True)}
        # columns whose names msgspec does not take: the keys of all messages are rewritten, which costs time
        self._rewrites = any(rename[n] != c.name for n, c in zip(names, table.columns, strict=True))
        key, *types = [_python_type(c.type) for c in table.columns]
        row_fields: list[Any] = [("c0", key)]
        row_fields += [(n, t | None | UnsetType, UNSET) for n, t in zip(names[1:], types, strict=True)]
        column_fields: list[Any] = [("c0", list[key])]  # type: ignore[valid-type]
        column_fields += [
            (n, list[t | None] | UnsetType, UNSET)  # type: ignore[valid-type]
            for n, t in zip(names[1:], types, strict=True)
        ]
        options: dict[str, Any] = {"rename": rename, "forbid_unknown_fields": True, "gc": False}
        row: Any = msgspec.defstruct("Row", row_fields, **options)
        columns = msgspec.defstruct("Columns", column_fields, **options)
        tagged: Any = msgspec.defstruct(
            "Tagged", [("tags", dict[str, Any]), ("rows", list[row])], forbid_unknown_fields=True
        )
        self._row, self._columns, self._tagged = row, columns, tagged
        self._names = names
        self._list: Any = list[row]
        self._one: dict[Any, msgspec.json.Decoder[Any]] = {
            shape: msgspec.json.Decoder(shape) for shape in (row, columns, tagged, self._list)
        }

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Decode messages (each a WAL value). Bad ones are left out and reported; the others all count."""
        read = values
        if self._rewrites:
            read = [caret_keys(v) if v and v[:1] in (b"{", b"[") else v for v in values]
        plain = self._one_row_each(read)
        if plain is not None:
            return self._check_cells(self._in_columns(plain, list(range(len(plain))), [], []))
        parts: list[tuple[int, Any]] = []
        operations: list[tuple[int, Operation]] = []
        bad: list[Bad] = []
        objects: list[int] = []
        arrays: list[int] = []
        for index, value in enumerate(values):
            first = value[:1] if value else b""
            if first == b"{":
                objects.append(index)
            elif first == b"[":
                arrays.append(index)
            elif first == OPERATION_MARK:
                self._operation(index, value, operations, bad)
            else:
                bad.append(Bad(index, _undecodable("the value is neither a JSON object nor an array")))
        self._shapes(read, objects, (self._row, self._columns, self._tagged), parts, bad)
        self._shapes(read, arrays, (self._list,), parts, bad)
        if self._rewrites:
            for index, item in parts:
                if type(item) is self._tagged:
                    item.tags = _tags.decode(values[index]).tags
        if (objects and arrays) or bad:
            parts.sort(key=lambda part: part[0])
        decoded = self._assemble(parts, operations, bad)
        return self._check_cells(decoded)

    def _one_row_each(self, values: Sequence[bytes]) -> list[Any] | None:
        """The rows, if every message is one row on one line; None otherwise.

        It is what producers send most, and what costs most a row: nothing is done here for each message.
        """
        joined = b"\n".join(values)
        breaks = len(values) - 1
        if joined[:1] != b"{" or joined.count(b"\n{") != breaks or joined.count(b"\n") != breaks:
            return None
        try:
            rows = self._one[self._row].decode_lines(joined)
        except MALFORMED:
            return None
        return rows if len(rows) == len(values) else None

    @staticmethod
    def _operation(index: int, value: bytes, operations: list[tuple[int, Operation]], bad: list[Bad]) -> None:
        try:
            operations.append((index, _operation.decode(value[1:])))
        except MALFORMED as error:
            bad.append(Bad(index, _undecodable(f"operation: {error}")))

    def _shapes(
        self, values: Sequence[bytes], indexes: list[int], shapes: tuple[Any, ...],
        parts: list[tuple[int, Any]], bad: list[Bad],
    ) -> None:  # fmt: skip
        """Decode all in one call when they are of one shape (the common case), else one by one."""
        if not indexes:
            return
        joined = b"\n".join([values[i] for i in indexes])
        for shape in shapes:
            try:
                items = self._one[shape].decode_lines(joined)
            except MALFORMED:
                continue
            if len(items) == len(indexes):  # a message of several lines gives more: one by one then
                parts.extend(zip(indexes, items, strict=True))
                return
        for index in indexes:
            self._single(index, values[index], shapes, parts, bad)

    def _single(
        self, index: int, value: bytes, shapes: tuple[Any, ...], parts: list[tuple[int, Any]], bad: list[Bad]
    ) -> None:
        errors: list[str] = []
        for shape in shapes:
            try:
                parts.append((index, self._one[shape].decode(value)))
                return
            except MALFORMED as error:
                errors.append(str(error))
        # rows are what most producers send: the first shape's error says most
        said = from_caret(errors[0]) if self._rewrites else errors[0]
        bad.append(Bad(index, _undecodable(said)))

    def _assemble(
        self, parts: list[tuple[int, Any]], operations: list[tuple[int, Operation]], bad: list[Bad]
    ) -> Decoded:
        rows: list[Any] = []
        message: list[int] = []
        for index, item in parts:
            kind = type(item)
            if kind is self._row:
                rows.append(item)
                message.append(index)
                continue
            if kind is list:
                found = item
            elif kind is self._tagged:
                operations.append((index, Register(item.tags)))
                found = item.rows
            else:
                found = self._spread(index, item, bad)
            rows.extend(found)
            message.extend([index] * len(found))
        return self._in_columns(rows, message, operations, bad)

    def _in_columns(
        self, rows: list[Any], message: list[int], operations: list[tuple[int, Operation]], bad: list[Bad]
    ) -> Decoded:
        rows, message = self._within_unsigned(rows, message, bad)
        columns, absent = {}, {}
        for name, column in zip(self._names, self.table.columns, strict=True):
            series, missing = _series(column, list(map(attrgetter(name), rows)))
            columns[column.name] = series
            if missing is not None:
                absent[column.name] = missing
        operations.sort(key=lambda pair: pair[0])
        frame = pl.DataFrame(columns)
        return Decoded(frame, np.asarray(message, dtype=np.int32), absent, operations, bad)

    def _within_unsigned(
        self, rows: list[Any], message: list[int], bad: list[Bad]
    ) -> tuple[list[Any], list[int]]:
        """Without messages with a number beyond unsigned 64 bits: msgspec's bounds end at signed ones."""
        for name, column in zip(self._names, self.table.columns, strict=True):
            high = column.type.info.high
            if high is None or high < 2**63:
                continue
            cells = [getattr(row, name) for row in rows]
            over = {
                m for m, cell in zip(message, cells, strict=True) if isinstance(cell, int) and cell > high
            }
            if over:
                bad += [Bad(m, _undecodable(f"{column.name}: more than {high}")) for m in sorted(over)]
                kept = [i for i, m in enumerate(message) if m not in over]
                rows, message = [rows[i] for i in kept], [message[i] for i in kept]
        return rows, message

    def _spread(self, index: int, item: Any, bad: list[Bad]) -> list[Any]:
        """Rows of an object of column arrays."""
        given = {n: getattr(item, n) for n in self._names if getattr(item, n) is not UNSET}
        lengths = {len(v) for v in given.values()}
        if len(lengths) != 1:
            bad.append(Bad(index, _undecodable(f"column arrays differ in length: {sorted(lengths)}")))
            return []
        names = list(given)
        make: Callable[..., Any] = self._row
        return [make(**dict(zip(names, cells, strict=True))) for cells in zip(*given.values(), strict=True)]

    def _check_cells(self, decoded: Decoded) -> Decoded:
        """Without the messages that hold a cell of those that msgspec cannot check (see :func:`_beyond`)."""
        for column in self.table.columns:
            found = _beyond(column, decoded.frame[column.name])
            if found is not None:
                cells, why = found
                over = np.unique(decoded.message[cells.fill_null(False).to_numpy()])
                error = _undecodable(f"{column.name}: {why}", ErrorCode.INVALID_VALUE)
                decoded = _without(decoded, over, [Bad(int(i), error) for i in over])
        return decoded


def _beyond(column: Column, cells: pl.Series) -> tuple[pl.Series, str] | None:
    """Which cells the column cannot hold, and why: a VARCHAR's length is in bytes, and a number of JSON may
    be beyond a float. None if it can hold all."""
    if column.type.name in ("FLOAT", "DOUBLE"):
        over, why = cells.is_infinite(), f"beyond {column.type}"
    elif column.type.name == "VARCHAR" and column.type.length is not None:
        over, why = cells.str.len_bytes() > column.type.length, f"longer than {column.type.length} bytes"
    else:
        return None
    return (over, why) if over.any() else None


def _without(decoded: Decoded, messages: np.ndarray, errors: list[Bad]) -> Decoded:
    keep = ~np.isin(decoded.message, messages)
    gone = set(messages.tolist())
    return Decoded(
        decoded.frame.filter(pl.Series(keep)),
        decoded.message[keep],
        {name: mask[keep] for name, mask in decoded.absent.items()},
        [pair for pair in decoded.operations if pair[0] not in gone],
        decoded.bad + errors,
    )


def _series(column: Column, cells: list[Any]) -> tuple[pl.Series, np.ndarray | None]:
    """A typed column of the cells, and which cells were not given (None: all were)."""
    dtype = polars_type(column.type)
    if UNSET not in cells:
        return _typed(column.name, cells, dtype), None
    missing = np.fromiter((cell is UNSET for cell in cells), dtype=bool, count=len(cells))
    return _typed(column.name, [None if cell is UNSET else cell for cell in cells], dtype), missing


def _typed(name: str, cells: list[Any], dtype: Any) -> pl.Series:
    if dtype == pl.Binary:
        cells = [None if cell is None else cell.encode() for cell in cells]
    return pl.Series(name, cells, dtype=dtype, strict=True)


def _undecodable(
    detail: str, code: Literal[ErrorCode.UNDECODABLE, ErrorCode.INVALID_VALUE] = ErrorCode.UNDECODABLE
) -> WireError:
    return WireError(code, detail)


def encode_rows(rows: Sequence[dict[str, object]]) -> bytes:
    """Rows (column name -> value) as a WAL value: one object, or an array of them."""
    return msgspec.json.encode(rows[0] if len(rows) == 1 else rows)

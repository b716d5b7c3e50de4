"""WAL values in JSON: one row, an array of rows, column arrays, tagged rows.

Decoding is strict: a value of another type, out of range or too long, or a field that the table does not
have, makes the whole message bad.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from millrace_core.model.schema import Column, Table
from millrace_core.model.types import DataType
from millrace_core.wire.operations import Operation, Register
from millrace_core.wire.reading import MALFORMED
from millrace_core.wire.rows.decoded import Bad, Decoded, polars_type, typed, undecodable
from millrace_core.wire.rows.names import caret, caret_keys, from_caret


class _Tags(msgspec.Struct):
    """What tagged rows register, without the rows."""

    tags: dict[str, Any]


_tags = msgspec.json.Decoder(_Tags)


def python_type(type_: DataType) -> Any:
    info = type_.info
    if info.integer:
        # msgspec only takes bounds of signed 64 bits; wider ones are checked by the column's dtype
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


class JsonRows:
    """Decodes the JSON messages of one table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        names = [f"c{i}" for i in range(len(table.columns))]
        rename = {n: caret(c.name) for n, c in zip(names, table.columns, strict=True)}
        # if msgspec does not take some column's name, the keys of all messages are rewritten, which costs
        # time
        self._rewrites = any(rename[n] != c.name for n, c in zip(names, table.columns, strict=True))
        key, *types = [python_type(c.type) for c in table.columns]
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

    def one_row_each(self, values: Sequence[bytes | None]) -> Decoded | None:
        """What messages hold if each is a single row on a single line; None if one is not, or is bad or null.

        Producers mostly send such messages, and they cost most per row: so nothing is done here for each
        message.
        """
        try:
            joined = b"\n".join(map(caret_keys, values) if self._rewrites else values)  # type: ignore[arg-type]
        except TypeError:  # one is null
            return None
        breaks = len(values) - 1
        if joined[:1] != b"{" or joined.count(b"\n{") != breaks or joined.count(b"\n") != breaks:
            return None
        try:
            rows = self._one[self._row].decode_lines(joined)
        except MALFORMED:
            return None
        return self._in_columns(rows, range(len(rows)), [], []) if len(rows) == len(values) else None

    def decode(self, values: Sequence[bytes], objects: list[int], arrays: list[int]) -> Decoded:
        """Decode those of ``values`` (given by index) that begin as objects or as arrays; bad ones are
        reported."""
        read = values
        if self._rewrites:
            read = [caret_keys(v) if v and v[:1] in (b"{", b"[") else v for v in values]
        parts: list[tuple[int, Any]] = []
        bad: list[Bad] = []
        self._shapes(read, objects, (self._row, self._columns, self._tagged), parts, bad)
        self._shapes(read, arrays, (self._list,), parts, bad)
        if self._rewrites:
            for index, item in parts:
                if type(item) is self._tagged:
                    item.tags = _tags.decode(values[index]).tags
        if (objects and arrays) or bad:
            parts.sort(key=lambda part: part[0])
        return self._assemble(parts, bad)

    def _shapes(
        self, values: Sequence[bytes], indexes: list[int], shapes: tuple[Any, ...],
        parts: list[tuple[int, Any]], bad: list[Bad],
    ) -> None:  # fmt: skip
        """Decode all in one call if they have the same shape (the common case), otherwise one by one."""
        if not indexes:
            return
        joined = b"\n".join([values[i] for i in indexes])
        for shape in shapes:
            try:
                items = self._one[shape].decode_lines(joined)
            except MALFORMED:
                continue
            if len(items) == len(indexes):  # a message of several lines gives more items
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
        # most producers send rows: so the first shape's error says most
        said = from_caret(errors[0]) if self._rewrites else errors[0]
        bad.append(Bad(index, undecodable(said)))

    def _assemble(self, parts: list[tuple[int, Any]], bad: list[Bad]) -> Decoded:
        rows: list[Any] = []
        message: list[int] = []
        operations: list[tuple[int, Operation]] = []
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
        self, rows: list[Any], message: Sequence[int], operations: list[tuple[int, Operation]], bad: list[Bad]
    ) -> Decoded:
        rows, message = self._within_unsigned(rows, message, bad)
        columns, absent = {}, {}
        for name, column in zip(self._names, self.table.columns, strict=True):
            series, missing = _series(column, list(map(attrgetter(name), rows)))
            columns[column.name] = series
            if missing is not None:
                absent[column.name] = missing
        frame = pl.DataFrame(columns)
        each = isinstance(message, range)
        of_rows = np.arange(len(message), dtype=np.int32) if each else np.array(message, dtype=np.int32)
        return Decoded(frame, of_rows, absent, operations, bad)

    def _within_unsigned(
        self, rows: list[Any], message: Sequence[int], bad: list[Bad]
    ) -> tuple[list[Any], Sequence[int]]:
        """Leave out messages with a number beyond unsigned 64 bits: msgspec's bounds end at signed ones."""
        for name, column in zip(self._names, self.table.columns, strict=True):
            high = column.type.info.high
            if high is None or high < 2**63:
                continue
            cells = [getattr(row, name) for row in rows]
            over = {
                m for m, cell in zip(message, cells, strict=True) if isinstance(cell, int) and cell > high
            }
            if over:
                bad += [
                    Bad(m, undecodable(f"{column.name}: a value is greater than {high}"))
                    for m in sorted(over)
                ]
                kept = [i for i, m in enumerate(message) if m not in over]
                rows, message = [rows[i] for i in kept], [message[i] for i in kept]
        return rows, message

    def _spread(self, index: int, item: Any, bad: list[Bad]) -> list[Any]:
        """Rows of an object of column arrays."""
        given = {n: getattr(item, n) for n in self._names if getattr(item, n) is not UNSET}
        lengths = {len(v) for v in given.values()}
        if len(lengths) != 1:
            bad.append(
                Bad(index, undecodable(f"the column arrays have different lengths: {sorted(lengths)}"))
            )
            return []
        names = list(given)
        make: Callable[..., Any] = self._row
        return [make(**dict(zip(names, cells, strict=True))) for cells in zip(*given.values(), strict=True)]


def _series(column: Column, cells: list[Any]) -> tuple[pl.Series, np.ndarray | None]:
    """A typed column of the cells, and which cells were not given (None: all were)."""
    dtype = polars_type(column.type)
    if UNSET not in cells:
        return typed(column.name, cells, dtype), None
    missing = np.fromiter((cell is UNSET for cell in cells), dtype=bool, count=len(cells))
    return typed(column.name, [None if cell is UNSET else cell for cell in cells], dtype), missing

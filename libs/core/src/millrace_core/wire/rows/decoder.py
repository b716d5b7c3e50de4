"""Decodes WAL values into typed columns and operations, whatever format each is written in.

The first byte tells what a value is: ``{`` one row, an object of column arrays or tagged rows; ``[`` an array
of rows (``rows.json``); four bytes 0xFF an Arrow IPC stream (``rows.arrow``); 0x00 an operation of Millrace
(``operations``). A message that does not fit its table is bad as a whole, and does not affect any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import polars as pl

from millrace_core.model.schema import Table
from millrace_core.wire.operations import OPERATION_MARK, Operation, decode_operation
from millrace_core.wire.reading import MALFORMED
from millrace_core.wire.rows.arrow import MANY_ROWS, ArrowRows, encode_frame
from millrace_core.wire.rows.arrow_stream import CONTINUATION
from millrace_core.wire.rows.decoded import (
    Bad,
    Decoded,
    check_cells,
    polars_type,
    together,
    typed,
    undecodable,
)
from millrace_core.wire.rows.json import JsonRows


class RowDecoder:
    """Decodes the WAL messages of one table. Build it once per table definition; it is cheap to call."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._json, self._arrow = JsonRows(table), ArrowRows(table)

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages (each a WAL value; a null one is as bad as an empty one). Bad ones are left out and
        reported; the others all count."""
        found = self._json.one_row_each(values) if values and (values[0] or b"")[:1] == b"{" else None
        if found is None:
            found = self._by_encoding([value or b"" for value in values])
        return check_cells(found, self.table.columns)

    def _by_encoding(self, values: Sequence[bytes]) -> Decoded:
        objects: list[int] = []
        arrays: list[int] = []
        arrow: list[int] = []
        operations: list[tuple[int, Operation]] = []
        bad: list[Bad] = []
        for index, value in enumerate(values):
            first = value[:1]
            if first == b"{":
                objects.append(index)
            elif first == b"[":
                arrays.append(index)
            elif value[:4] == CONTINUATION:
                arrow.append(index)
            elif first == OPERATION_MARK:
                _operation(index, value, operations, bad)
            else:
                bad.append(Bad(index, undecodable(f"the value is neither a JSON object nor an array{_NOR}")))
        parts = [self._arrow.decode(values, arrow)] if arrow else []
        if objects or arrays or not arrow:
            parts.append(self._json.decode(values, objects, arrays))
        found = together(parts) if len(parts) > 1 else parts[0]
        found.operations = sorted(found.operations + operations, key=lambda pair: pair[0])
        found.bad = sorted(found.bad + bad, key=lambda one: one.index)
        return found


_NOR = ", nor an Arrow IPC stream"


def _operation(index: int, value: bytes, operations: list[tuple[int, Operation]], bad: list[Bad]) -> None:
    try:
        operations.append((index, decode_operation(value)))
    except MALFORMED as error:
        bad.append(Bad(index, undecodable(f"operation: {error}")))


def encode_columns(columns: Mapping[str, Sequence[object]], table: Table) -> bytes:
    """Rows of a table as a WAL value: Arrow if they are many, else JSON. ``columns``: name -> cells in the
    form that JSON has, of the column's type, and equally many in each column."""
    count = len(next(iter(columns.values())))
    if count < MANY_ROWS:
        return encode_rows(
            [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        )
    types = {column.name: polars_type(column.type) for column in table.columns}
    return encode_frame(
        pl.DataFrame([typed(name, list(cells), types[name]) for name, cells in columns.items()])
    )


def encode_rows(rows: Sequence[dict[str, object]]) -> bytes:
    """Rows (column name -> value) as a WAL value: one JSON object, or an array of them."""
    return msgspec.json.encode(rows[0] if len(rows) == 1 else rows)

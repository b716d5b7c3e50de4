"""WAL values that are Arrow IPC streams, as producers with many rows per message send them (decision 0023).

Messages of one schema are read as one stream, and all their rows are checked at once. What fits a column in
JSON fits it here, and a faulty cell makes its whole message bad.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from millrace_core.errors import WireError
from millrace_core.model.schema import TICKS_PER_SECOND, Column, Table
from millrace_core.wire.rows.arrow_cells import read_cells
from millrace_core.wire.rows.arrow_stream import KEPT_BYTES, Family, Field, IpcStream, schema_of, take_apart
from millrace_core.wire.rows.decoded import Bad, Decoded, polars_type, together, undecodable, without

MANY_ROWS = 64
"""From this many rows on, Millrace itself writes Arrow: with fewer rows, JSON costs less (decision 0023)."""

MOST_SCHEMAS = 256
"""How many schemas that fit a decoder remembers."""
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Ticks of a second."""
_ACCEPTED: dict[str, frozenset[Family]] = {
    "TIMESTAMP": frozenset({"int", "timestamp", "null"}),
    "BOOL": frozenset({"bool", "null"}),
    "FLOAT": frozenset({"float", "int", "null"}),
    "DOUBLE": frozenset({"float", "int", "null"}),
    "VARCHAR": frozenset({"text", "null"}),
    "NCHAR": frozenset({"text", "null"}),
    "VARBINARY": frozenset({"binary", "text", "null"}),
}
"""What a column accepts; integer columns accept integers."""
_INTEGERS: frozenset[Family] = frozenset({"int", "null"})

Fault = tuple[pl.Series, pl.Series, Callable[[object], str]]
"""Which rows have a cell that the column cannot hold, the cells as they came, and what to say about one."""


def encode_frame(frame: pl.DataFrame) -> bytes:
    """Rows as a WAL value: an uncompressed stream of one batch, in types that every Arrow reader knows."""
    sink = io.BytesIO()
    frame.rechunk().write_ipc_stream(sink, compat_level=pl.CompatLevel.oldest())
    return sink.getvalue()


class ArrowRows:
    """Decodes the Arrow messages of one table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._columns = {column.name: column for column in table.columns}
        self._types = {column.name: polars_type(column.type) for column in table.columns}
        self._checked: dict[bytes, tuple[Field, ...]] = {}

    def decode(self, values: Sequence[bytes], places: Sequence[int]) -> Decoded:
        """Decode the ``values`` at ``places``; bad ones are reported."""
        bad: list[Bad] = []
        of_schema: dict[bytes, list[tuple[int, IpcStream]]] = {}
        parts: list[Decoded] = []
        for place in places:
            try:
                stream = take_apart(values[place], self._check)
            except WireError as error:
                bad.append(Bad(place, error))
                continue
            # a dictionary in one value does not apply to the next
            if stream.alone:
                parts.append(self._read([(place, stream)]))
            else:
                of_schema.setdefault(stream.schema, []).append((place, stream))
        parts += [self._read(streams) for streams in of_schema.values()]
        if len(parts) == 1:
            parts[0].bad += bad
            return parts[0]
        none = Decoded(pl.DataFrame(schema=self._types), np.zeros(0, dtype=np.int32), bad=bad)
        return together([none, *parts])

    def _check(self, schema: bytes) -> tuple[Field, ...]:
        """The columns of a schema. :raises WireError: if the table does not have all of them, in these
        types"""
        if schema in self._checked:
            return self._checked[schema]
        fields = schema_of(schema)
        for field in fields:
            column = self._columns.get(field.name)
            if column is None:
                raise undecodable(f"Arrow: the table has no column `{field.name}`")
            key = column is self.table.columns[0]
            accepted = _ACCEPTED.get(column.type.name, _INTEGERS) - ({"null"} if key else set())
            if field.family not in accepted:
                raise undecodable(f"{field.name}: Arrow's {field.type} does not fit {column.type}")
        if self.table.key.name not in {field.name for field in fields}:
            raise undecodable(f"Arrow: missing required column `{self.table.key.name}`")
        if len(self._checked) >= MOST_SCHEMAS:
            self._checked.clear()
        if len(schema) <= KEPT_BYTES:
            self._checked[schema] = fields
        return fields

    def _read(self, streams: Sequence[tuple[int, IpcStream]]) -> Decoded:
        """Read all rows of values that have the same schema."""
        fields = self._check(streams[0][1].schema)
        try:
            cells = read_cells([stream for _, stream in streams], fields)
        except WireError as error:
            if len(streams) > 1:
                return together([self._read([one]) for one in streams])
            none = pl.DataFrame(schema=self._types)
            return Decoded(none, np.zeros(0, dtype=np.int32), bad=[Bad(streams[0][0], error)])
        rows = np.array([stream.rows for _, stream in streams], dtype=np.int64)
        places = np.array([place for place, _ in streams], dtype=np.int32)
        return self._fit(cells, np.repeat(places, rows), fields)

    def _fit(self, came: dict[str, pl.Series], message: np.ndarray, fields: Sequence[Field]) -> Decoded:
        """Rows as the table's columns, without the messages that have a cell that does not fit."""
        given = {field.name: field for field in fields}
        columns: dict[str, pl.Series] = {}
        errors: dict[int, WireError] = {}
        for name, column in self._columns.items():
            if name not in given:
                columns[name] = pl.Series(name, [None], self._types[name]).new_from_index(0, len(message))
                continue
            cells = came[name]
            columns[name], faults = _cast(cells, given[name], column, self.table)
            if name == self.table.key.name and cells.null_count():
                faults.append((cells.is_null(), cells, lambda _: "null, but each row must have a time"))
            for rows, said, say in faults:
                first = np.flatnonzero(rows.fill_null(False).to_numpy())
                places, at = np.unique(message[first], return_index=True)
                for place, row in zip(places.tolist(), first[at].tolist(), strict=True):
                    errors.setdefault(place, undecodable(f"{name}: {say(said[row])}"))
        absent = {name: np.ones(len(message), dtype=bool) for name in self._columns if name not in given}
        decoded = Decoded(pl.DataFrame(columns), message, absent if len(message) else {})
        if not errors:
            return decoded
        return without(decoded, [Bad(place, error) for place, error in sorted(errors.items())])


def _cast(cells: pl.Series, field: Field, column: Column, table: Table) -> tuple[pl.Series, list[Fault]]:
    """Cells in the column's dtype, and which of them it cannot hold."""
    dtype: Any = polars_type(column.type)
    if field.family == "timestamp":
        return _ticks(cells, field.unit, table)
    if field.family == "text" and cells.dtype != pl.String:
        cells = cells.cast(pl.String)  # it was a dictionary
    found = cells if cells.dtype == dtype else cells.cast(dtype, strict=False)
    faults: list[Fault] = []
    if found.null_count() > cells.null_count():
        lost = found.is_null() & cells.is_not_null()
        faults.append((lost, cells, lambda cell: f"{cell} is out of range for {column.type}"))
    if field.family == "float" and (unknown := found.is_nan()).any():
        faults.append((unknown, cells, lambda _: "NaN is not a value; use null"))
    if column.type.name == "NCHAR" and column.type.length is not None:
        long = found.str.len_chars() > column.type.length
        if long.any():
            faults.append((long, cells, lambda _: f"a value is longer than {column.type.length} characters"))
    return found, faults


def _ticks(cells: pl.Series, unit: str, table: Table) -> tuple[pl.Series, list[Fault]]:
    """Timestamps as ticks of the table's precision, and which of them cannot be converted without loss."""
    from_, to = _UNITS[unit], TICKS_PER_SECOND[table.precision]
    if from_ == to:
        return cells, []
    if from_ > to:
        factor = from_ // to
        lost, found = cells % factor != 0, cells // factor
        why = f"is not a whole number of {table.precision}"
    else:
        factor = to // from_
        most = (2**63 - 1) // factor
        lost, found = (cells > most) | (cells < -most), cells * factor
        why = f"is out of range for {table.precision}"
    return found, [(lost, cells, lambda cell: f"{cell} ({unit}) {why}")] if lost.any() else []

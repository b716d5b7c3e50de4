"""Columns as Spark and Delta hold them: Arrow types, and names that every file format takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import polars as pl
import pyarrow as pa

from millrace_core.model.schema import Column
from millrace_core.model.types import DataType
from millrace_core.wire.rows.decoded import polars_type

ARROW: dict[str, pa.DataType] = {
    "BIGINT": pa.int64(), "INT": pa.int32(), "SMALLINT": pa.int16(), "TINYINT": pa.int8(),
    "BOOLEAN": pa.bool_(), "DECIMAL(20,0)": pa.decimal128(20, 0), "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(), "STRING": pa.string(), "BINARY": pa.binary(),
}  # fmt: skip
_PLAIN = re.compile(r"[a-z0-9_]")


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type that Spark and Delta hold a column of this type in."""
    return ARROW[type_.info.spark]


def stored_name(name: str) -> str:
    """A column's name in files: any character outside ``[a-z0-9_]`` becomes ``-xx`` per byte, for Delta
    refuses some characters and does not distinguish upper and lower case."""
    return "".join(c if _PLAIN.match(c) else "".join(f"-{b:02x}" for b in c.encode()) for c in name)


def to_arrow(frame: pl.DataFrame, types: Sequence[tuple[str, pa.DataType]]) -> pa.Table:
    """The frame with its columns in these Arrow types (Spark knows no unsigned integers)."""
    return _table({name: (frame[name], type_) for name, type_ in types})


def _table(columns: Mapping[str, tuple[pl.Series, pa.DataType | None]]) -> pa.Table:
    """Name -> cells and Arrow type; None: the nearest that Spark knows. Column by column, since of few rows
    Polars' planning takes longer than all the rest."""
    found = []
    for series, wanted in columns.values():
        cells = series.to_arrow()
        type_ = wanted or _PLAIN_TYPES.get(cells.type, cells.type)
        found.append(cells if cells.type == type_ else cells.cast(type_))
    return pa.Table.from_arrays(found, list(columns))


def from_arrow(table: pa.Table, columns: Sequence[Column]) -> pl.DataFrame:
    """The inverse for a table's own columns, in their order."""
    empty = pl.DataFrame(schema={c.name: polars_type(c.type) for c in columns})
    found = table.select([c.name for c in columns]).cast(empty.to_arrow().schema)
    return pl.DataFrame(pl.from_arrow(found)).cast(empty.schema)


_PLAIN_TYPES: dict[object, pa.DataType] = {
    pa.large_string(): pa.string(), pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(), pa.binary_view(): pa.binary(),
    pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0), pa.null(): pa.string(),
}  # fmt: skip


def plain_arrow(frame: pl.DataFrame) -> pa.Table:
    """The frame with each column in the nearest type that Spark knows."""
    return _table({series.name: (series, None) for series in frame.iter_columns()})

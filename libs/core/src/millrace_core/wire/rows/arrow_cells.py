"""Cells of Arrow batches as columns.

Columns of fixed width are read directly from the values, with a single copy and without other threads. Polars
reads the rest (text, bytes, dictionaries) and checks its contents.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from millrace_core.wire.rows.arrow_stream import END, Family, Field, Frame, IpcStream
from millrace_core.wire.rows.decoded import undecodable

_FIXED: frozenset[Family] = frozenset({"int", "float", "bool", "timestamp"})
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
"""What Polars raises for a stream that it cannot read."""

Batch = tuple[bytes, int, Frame]
"""A value, where the body of a batch begins in it, and what the metadata of the batch say."""


def read_cells(streams: Sequence[IpcStream], fields: Sequence[Field]) -> dict[str, pl.Series]:
    """The columns of streams that have the same schema, by name; timestamps stay in their unit.

    :raises WireError: UNDECODABLE if one of the streams is malformed
    """
    batches = [(stream.value, body, frame) for stream in streams for body, frame in stream.batches]
    count = sum(frame.rows for _, _, frame in batches)
    rest = [field.name for field in fields if field.family not in _FIXED and field.family != "null"]
    found = _polars(streams, rest, count) if rest else {}
    for number, field in enumerate(fields):
        if field.family in _FIXED:
            found[field.name] = _fixed(batches, fields, number)
        elif field.family == "null":
            found[field.name] = pl.Series(field.name, [None]).new_from_index(0, count)
    return found


def _polars(streams: Sequence[IpcStream], names: Sequence[str], count: int) -> dict[str, pl.Series]:
    joined = b"".join([streams[0].schema, *(stream.rest for stream in streams), END])
    try:
        frame = pl.read_ipc_stream(joined, columns=list(names)).rechunk()
    except _UNREADABLE as error:
        raise undecodable(f"Arrow: {(str(error) or 'malformed').splitlines()[0]}") from error
    if len(frame) != count:
        raise undecodable(f"Arrow: the columns have {len(frame)} rows, but the batches have {count}")
    return {name: frame[name] for name in names}


def _buffers(fields: Sequence[Field], views: tuple[int, ...]) -> list[int]:
    """The number of the first buffer of each column, and how many buffers there are."""
    more = iter(views)
    found = [0]
    for field in fields:
        found.append(found[-1] + (2 + next(more, 0) if field.viewed else field.buffers))
    return found


def _fixed(batches: Sequence[Batch], fields: Sequence[Field], number: int) -> pl.Series:
    """Column ``number`` of all batches."""
    field = fields[number]
    places: dict[tuple[int, ...], list[int]] = {}
    dtype = np.dtype("int64" if field.unit else field.type)
    cells: list[np.ndarray] = [np.zeros(0, dtype)]
    known: list[np.ndarray] = []
    nulls = any(number < len(frame.nulls) and frame.nulls[number] for _, _, frame in batches)
    for value, body, frame in batches:
        firsts = places.get(frame.views) or places.setdefault(frame.views, _buffers(fields, frame.views))
        if len(frame.nulls) != len(fields) or len(frame.buffers) != firsts[-1]:
            raise undecodable("Arrow: a batch does not have the columns of its schema")
        rows, first = frame.rows, firsts[number]
        at, size = frame.buffers[first + 1]
        if field.family == "bool":
            cells.append(_bits(value, body + at, size, rows))
        elif size < rows * dtype.itemsize:
            raise undecodable(
                f"Arrow: {field.name}: {size} bytes are too few for {rows} rows of {field.type}"
            )
        else:
            cells.append(np.frombuffer(value, dtype, rows, body + at) if rows else cells[0])
        if nulls:
            at, size = frame.buffers[first]
            valid = _bits(value, body + at, size, rows) if frame.nulls[number] else np.ones(rows, bool)
            known.append(valid)
    whole = np.concatenate(cells)
    series = pl.Series(field.name, whole.astype(np.float32) if dtype == np.float16 else whole)
    return series.set(pl.Series(~np.concatenate(known)), None) if nulls else series


def _bits(value: bytes, at: int, size: int, rows: int) -> np.ndarray:
    """bool[rows] of a bitmap."""
    count = -(-rows // 8)
    if size < count:
        raise undecodable(f"Arrow: a bitmap of {size} bytes is too short for {rows} rows")
    if not rows:
        return np.zeros(0, bool)
    return np.unpackbits(np.frombuffer(value, np.uint8, count, at), count=rows, bitorder="little").view(bool)

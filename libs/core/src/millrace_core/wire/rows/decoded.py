"""What messages of one table hold, whatever format they were written in: typed columns, operations, what is
bad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl

from millrace_core.errors import ErrorCode, WireError
from millrace_core.model.schema import Column
from millrace_core.model.types import DataType
from millrace_core.wire.operations import Operation

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


def typed(name: str, cells: list[Any], dtype: Any) -> pl.Series:
    """Cells in the form that JSON has (text for bytes), as a column of this dtype."""
    if dtype == pl.Binary:
        cells = [None if cell is None else cell.encode() for cell in cells]
    return pl.Series(name, cells, dtype=dtype, strict=True)


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


def undecodable(
    detail: str, code: Literal[ErrorCode.UNDECODABLE, ErrorCode.INVALID_VALUE] = ErrorCode.UNDECODABLE
) -> WireError:
    """The error that says why a message is bad."""
    return WireError(code, detail)


def together(parts: Sequence[Decoded]) -> Decoded:
    """Puts together parts with the same columns that were decoded separately, in the order of the messages.
    The rows of one message must be in one part."""
    message = np.concatenate([part.message for part in parts])
    order = np.argsort(message, kind="stable")
    absent = {}
    for name in {name for part in parts for name in part.absent}:
        masks = [part.absent.get(name, np.zeros(len(part.message), dtype=bool)) for part in parts]
        absent[name] = np.concatenate(masks)[order]
    return Decoded(
        pl.concat([part.frame for part in parts])[order],
        message[order],
        absent,
        sorted((pair for part in parts for pair in part.operations), key=lambda pair: pair[0]),
        sorted((bad for part in parts for bad in part.bad), key=lambda bad: bad.index),
    )


def without(decoded: Decoded, errors: Sequence[Bad]) -> Decoded:
    """All but the messages that turned out bad."""
    gone = [bad.index for bad in errors]
    keep = ~np.isin(decoded.message, gone)
    return Decoded(
        decoded.frame.filter(pl.Series(keep)),
        decoded.message[keep],
        {name: mask[keep] for name, mask in decoded.absent.items() if mask[keep].any()},
        [pair for pair in decoded.operations if pair[0] not in set(gone)],
        decoded.bad + list(errors),
    )


def check_cells(decoded: Decoded, columns: Sequence[Column]) -> Decoded:
    """What was decoded, without messages with a cell that the dtype of its column could hold but the column
    cannot."""
    for column in columns:
        found = beyond(column, decoded.frame[column.name])
        if found is not None:
            cells, why = found
            over = np.unique(decoded.message[cells.fill_null(False).to_numpy()])
            error = undecodable(f"{column.name}: {why}", ErrorCode.INVALID_VALUE)
            decoded = without(decoded, [Bad(int(i), error) for i in over])
    return decoded


def beyond(column: Column, cells: pl.Series) -> tuple[pl.Series, str] | None:
    """Which cells the column cannot hold, and why: a VARCHAR's length is in bytes, and a number may exceed
    the range of a float. None if it can hold all."""
    if column.type.name in ("FLOAT", "DOUBLE"):
        over, why = cells.is_infinite(), f"a value is out of range for {column.type}"
    elif column.type.name == "VARCHAR" and column.type.length is not None:
        over, why = (
            cells.str.len_bytes() > column.type.length,
            f"a value is longer than {column.type.length} bytes",
        )
    else:
        return None
    return (over, why) if over.any() else None

"""Checks cells that are given as Python values against a table, by the rules for producers' JSON messages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Column, Table
from millrace_core.wire.rows.decoded import beyond, polars_type, typed
from millrace_core.wire.rows.json import python_type


def checked_columns(columns: Mapping[str, Sequence[object]], table: Table) -> dict[str, list[object]]:
    """Rows of ``table``, column by column, if they fit it: name -> cells, as many in each column.

    A cell is an int (TIMESTAMP: ticks of the table's precision), a float (an int will do), a bool, a str (for
    a VARBINARY too: its bytes as UTF-8 text), or None for NULL. Nothing is converted: ``"1"`` is not an INT.
    Columns that are left out keep what is stored; the key columns must be there, and not NULL.

    :raises MillraceError: UNKNOWN_COLUMN, TYPE_MISMATCH or INVALID_VALUE; it names the column and the row,
        counted from 0.
    """
    found: dict[str, list[object]] = {}
    for name, cells in columns.items():
        column = table.column(name)
        if column is None:
            raise MillraceError(ErrorCode.UNKNOWN_COLUMN, f"{table.db}.{table.name} has no column {name}")
        found[name] = _checked(cells, column)
    for column in table.columns:
        if column.name == table.key.name or column.composite_key:
            _check_key(column.name, found.get(column.name))
    lengths = {len(cells) for cells in found.values()}
    if len(lengths) > 1:
        counted = ", ".join(f"{name} has {len(cells)}" for name, cells in found.items())
        message = f"the columns must have the same number of cells: {counted}"
        raise MillraceError(ErrorCode.INVALID_VALUE, message)
    return found


def _check_key(name: str, cells: Sequence[object] | None) -> None:
    if cells is None:
        raise MillraceError(ErrorCode.INVALID_VALUE, f"the key column {name} must be given a value")
    if None in cells:
        row = cells.index(None)
        raise MillraceError(ErrorCode.INVALID_VALUE, f"{name}: row {row}: a key column cannot be NULL")


def _checked(cells: Sequence[object], column: Column) -> list[object]:
    """Check the cells of one column. The whole column is checked at once; single cells are looked at only if
    one is bad."""
    kind: Any = list[python_type(column.type) | None]  # type: ignore[misc]
    try:
        found: list[object] = msgspec.convert(list(cells), kind)
    except msgspec.ValidationError as error:
        row, cell, why = _first_bad(cells, column, str(error))
        # of the right type, but out of range or too long
        alike = type(cell) is getattr(python_type(column.type), "__origin__", None)
        raise MillraceError(
            ErrorCode.INVALID_VALUE if alike else ErrorCode.TYPE_MISMATCH,
            f"{column.name}: row {row}: {_shown(cell)} is not a value of type {column.type}: {why}",
        ) from None
    if column.type.info.high is not None:
        _check_range(found, column)
    if column.type.name in ("FLOAT", "DOUBLE"):
        _check_numbers(found, column)
    _check_lengths(found, column)
    return found


def _first_bad(cells: Sequence[object], column: Column, why: str) -> tuple[int, object, str]:
    kind: Any = python_type(column.type) | None
    for row, cell in enumerate(cells):
        try:
            msgspec.convert(cell, kind)
        except msgspec.ValidationError as error:
            return row, cell, str(error)
    return 0, cells[0], why


def _check_range(cells: Sequence[object], column: Column) -> None:
    """Check upper bounds here, because msgspec only knows bounds of signed 64 bits."""
    high = column.type.info.high
    for row, cell in enumerate(cells):
        if isinstance(cell, int) and high is not None and cell > high:
            raise _bad(column, row, f"{cell} is out of range for {column.type}")


def _check_numbers(cells: Sequence[object], column: Column) -> None:
    for row, cell in enumerate(cells):
        if isinstance(cell, float) and math.isnan(cell):
            raise _bad(column, row, "NaN is not a value; use NULL")


def _check_lengths(cells: Sequence[object], column: Column) -> None:
    """Refuse cells that the type could hold in general but this column cannot."""
    try:
        over = beyond(column, typed(column.name, list(cells), polars_type(column.type)))
    except UnicodeEncodeError:
        row = next(row for row, cell in enumerate(cells) if isinstance(cell, str) and not _is_text(cell))
        raise _bad(column, row, "it contains characters that cannot be encoded as UTF-8") from None
    if over is not None:
        rows, why = over
        raise _bad(column, rows.arg_true()[0], why)


def _shown(cell: object) -> str:
    return repr(cell)[:64]


def _is_text(cell: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in cell)


def _bad(column: Column, row: int, why: str) -> MillraceError:
    return MillraceError(ErrorCode.INVALID_VALUE, f"{column.name}: row {row}: {why}")

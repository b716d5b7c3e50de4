"""Literals become column values: what INSERT and TAGS mean, by the column's type.

As in TDengine, a quoted number fits a numeric column, a number or TRUE/FALSE fits BOOL and text columns, a
fraction in an integer column is rounded half away from zero, and quoted NULL is NULL in columns that do not
hold text. Unlike in TDengine, an empty string is not a number.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from millrace_core.errors import ErrorCode, MillraceError, Position, SqlError
from millrace_core.language.lexer import DOUBLE_QUOTED, SINGLE_QUOTED, unquote
from millrace_core.language.statements import InsertTable, Literal
from millrace_core.language.times import INTEGER, TimeContext, timestamp
from millrace_core.model.schema import Column, Table
from millrace_core.model.types import DataType

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_BASED = re.compile(r"[+-]?0(?:[xX][0-9a-fA-F]+|[bB][01]+)")
_STRING = re.compile(rf"{SINGLE_QUOTED}|{DOUBLE_QUOTED}", re.DOTALL)
_BOOLS = {"true": True, "false": False}
_FLOAT_MAX = float(np.finfo(np.float32).max)


def insert_columns(
    part: InsertTable, columns: Sequence[Column], session: TimeContext
) -> dict[str, list[object]]:
    """The rows of one table of INSERT, column by column, in the order written.

    ``columns``: the columns that the cells are for, in order (see ``target_columns``). Values are int (also
    for TIMESTAMP: ticks), float, bool, str or None.

    :raises SqlError: INVALID_VALUE or TYPE_MISMATCH, at the first bad cell of the first column that has one.
    """
    if part.rows.width != len(columns):
        raise SqlError(
            ErrorCode.SYNTAX,
            f"{part.name}: the rows have {part.rows.width} values, but {len(columns)} are expected",
            part.rows.position(0, 0),
        )
    found: dict[str, list[object]] = {}
    for index, (column, cells) in enumerate(zip(columns, part.rows.columns(), strict=True)):
        try:
            found[column.name] = column_values(cells, column.type, session)
        except MillraceError:
            row, error = _first_bad(cells, column.type, session)
            raise _at(error, column.name, part.rows.position(row, index)) from None
    return found


def target_columns(part: InsertTable, table: Table) -> tuple[Column, ...]:
    """The columns that the cells of INSERT are for: those named, or all.

    :raises SqlError: UNKNOWN_COLUMN for a name that is not a column; INVALID_VALUE if a key is not named.
    :raises SqlError: UNKNOWN_COLUMN for a name that is not a column; INVALID_VALUE if a key column
        is not named.
    """
    if not part.columns:
        return table.columns
    found = []
    for name in part.columns:
        column = table.column(name.text)
        if column is None:
            raise SqlError(ErrorCode.UNKNOWN_COLUMN, f"{part.name} has no column {name.text}", name.position)
        found.append(column)
    for column in (table.key, *(c for c in table.columns if c.composite_key)):
        if column not in found:
            raise SqlError(
                ErrorCode.INVALID_VALUE, f"{part.name}: the key column {column.name} must be given a value",
                part.columns[0].position,
            )  # fmt: skip
    return tuple(found)


def insert_rows(part: InsertTable, table: Table, session: TimeContext) -> dict[str, list[object]]:
    """Rows of INSERT for ``table``, column by column, all checked; no key is NULL."""
    columns = target_columns(part, table)
    found = insert_columns(part, columns, session)
    for index, column in enumerate(columns):
        key = column.name == table.key.name or column.composite_key
        if key and None in found[column.name]:
            where = part.rows.position(found[column.name].index(None), index)
            raise SqlError(ErrorCode.INVALID_VALUE, f"the key column {column.name} cannot be NULL", where)
    return found


def literal_value(literal: Literal, column: Column, session: TimeContext) -> object:
    """The value of one literal: a tag's, say; :raises SqlError: with its position."""
    try:
        return _value(literal.text, column.type, session)
    except MillraceError as error:
        raise _at(error, column.name, literal.position) from None


def _at(error: MillraceError, column: str, position: Position) -> SqlError:
    return SqlError(error.code, f"{column}: {error.message}", position)


def _first_bad(cells: Sequence[str], type_: DataType, session: TimeContext) -> tuple[int, MillraceError]:
    for row, cell in enumerate(cells):
        try:
            _value(cell, type_, session)
        except MillraceError as error:
            return row, error
    raise AssertionError("no cell is bad")


# -- columns at a time ---------------------------------------------------------------------------------------


def column_values(cells: Sequence[str], type_: DataType, session: TimeContext) -> list[object]:
    """Values of the literals ``cells`` (as written) in a column of this type.

    :raises MillraceError: INVALID_VALUE or TYPE_MISMATCH if one does not fit.
    """
    if not cells:
        return []
    if type_.info.integer and type_.name != "TIMESTAMP":
        return _integers(cells, type_, session)
    if type_.name in ("FLOAT", "DOUBLE"):
        return _floats(cells, type_, session)
    if type_.name in ("VARCHAR", "NCHAR"):
        return _texts(cells, type_, session)
    return [_value(cell, type_, session) for cell in cells]


def _plain(cells: Sequence[str]) -> bool:
    """Whether no cell has underscores or digits of other scripts: Python's numbers allow them,
    literals do not."""
    joined = "".join(cells)
    return joined.isascii() and "_" not in joined


def _integers(cells: Sequence[str], type_: DataType, session: TimeContext) -> list[object]:
    # columns of plain integers are by far the commonest: convert them in C, then check the least and
    # the greatest
    low, high = type_.info.low, type_.info.high
    assert low is not None and high is not None
    try:
        found = list(map(int, cells))
    except ValueError:
        return [_value(cell, type_, session) for cell in cells]
    if not _plain(cells) or min(found) < low or max(found) > high:
        return [_value(cell, type_, session) for cell in cells]
    return list(found)


def _floats(cells: Sequence[str], type_: DataType, session: TimeContext) -> list[object]:
    try:
        found = list(map(float, cells))
    except ValueError:
        return [_value(cell, type_, session) for cell in cells]
    limit = _FLOAT_MAX if type_.name == "FLOAT" else math.inf
    # float() also accepts nan and infinity, which are not literals
    if not _plain(cells) or not all(-limit <= value <= limit and abs(value) != math.inf for value in found):
        return [_value(cell, type_, session) for cell in cells]
    return list(found)


def _texts(cells: Sequence[str], type_: DataType, session: TimeContext) -> list[object]:
    # ASCII in single quotes, without escapes: drop the quotes; one byte is one character
    joined = "".join(cells)
    plain = joined.isascii() and "\\" not in joined and "\x00" not in joined
    if (
        not plain
        or joined.count("'") != 2 * len(cells)
        or not all(cell[0] == cell[-1] == "'" for cell in cells)
    ):
        return [_value(cell, type_, session) for cell in cells]
    if type_.length is not None and max(map(len, cells)) - 2 > type_.length:
        return [_value(cell, type_, session) for cell in cells]
    return [cell[1:-1] for cell in cells]


# -- one at a time -------------------------------------------------------------------------------------------


def _value(cell: str, type_: DataType, session: TimeContext) -> object:
    cell = cell.strip()
    quoted = _STRING.fullmatch(cell) is not None
    text = unquote(cell) if quoted else cell
    if text.lower() == "null" and (not quoted or type_.name not in ("VARCHAR", "NCHAR", "VARBINARY")):
        return None
    if type_.name == "TIMESTAMP":
        return timestamp(cell, session)
    return _CONVERT[type_.name](text, quoted, type_)


def _mismatch(text: str, type_: DataType) -> MillraceError:
    return MillraceError(ErrorCode.TYPE_MISMATCH, f"{text[:64]!r} is not a value of type {type_}")


def _out_of_range(text: str, type_: DataType) -> MillraceError:
    info = type_.info
    span = f" ({info.low} to {info.high})" if info.integer else ""
    return MillraceError(ErrorCode.INVALID_VALUE, f"{text} is out of range for {type_}{span}")


def _integer(text: str, _quoted: bool, type_: DataType) -> int:
    number = text.strip()
    if INTEGER.fullmatch(number):
        value = int(number)
    elif _BASED.fullmatch(number):
        value = int(number, 0)
    elif _NUMBER.fullmatch(number):
        real = float(number)
        if math.isinf(real):
            raise _out_of_range(text, type_)
        value = int(math.copysign(math.floor(abs(real) + 0.5), real))
    else:
        raise _mismatch(text, type_)
    low, high = type_.info.low, type_.info.high
    if (low is not None and value < low) or (high is not None and value > high):
        raise _out_of_range(text, type_)
    return value


def _float(text: str, _quoted: bool, type_: DataType) -> float:
    number = text.strip()
    if _BASED.fullmatch(number):
        return float(int(number, 0))
    if not _NUMBER.fullmatch(number):
        raise _mismatch(text, type_)
    value = float(number)
    if abs(value) > (_FLOAT_MAX if type_.name == "FLOAT" else math.inf) or math.isinf(value):
        raise _out_of_range(text, type_)
    return value


def _bool(text: str, _quoted: bool, type_: DataType) -> bool:
    lower = text.strip().lower()
    if lower in _BOOLS:
        return _BOOLS[lower]
    if _BASED.fullmatch(lower):
        return int(lower, 0) != 0
    if _NUMBER.fullmatch(lower):
        return float(lower) != 0
    raise _mismatch(text, type_)


def _text(text: str, quoted: bool, type_: DataType, *, size: Callable[[str], int], unit: str) -> str:
    if not quoted and not _NUMBER.fullmatch(text) and text.lower() not in _BOOLS:
        raise _mismatch(text, type_)
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise MillraceError(
            ErrorCode.INVALID_VALUE, f"{text[:64]!r} contains characters that are not allowed in text"
        )
    length = size(text)
    if type_.length is not None and length > type_.length:
        raise MillraceError(
            ErrorCode.INVALID_VALUE,
            f"the value is too long: {length} {unit}, but {type_} allows {type_.length}",
        )
    return text


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _json(text: str, quoted: bool, type_: DataType) -> str | None:
    """A JSON tag: an object, as text; an empty string is NULL."""
    if not quoted:
        raise _mismatch(text, type_)
    if not text.strip():
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise MillraceError(ErrorCode.INVALID_VALUE, f"{text[:64]!r} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise MillraceError(ErrorCode.INVALID_VALUE, f"{text[:64]!r} is not a JSON object")
    return text


def _binary(text: str, quoted: bool, type_: DataType) -> str:
    r"""VARBINARY: plain text, or ``\x`` and hexadecimal digits. It travels as text, so it must be UTF-8."""
    if text.startswith("\\x"):
        try:
            text = bytes.fromhex(text[2:]).decode()
        except ValueError as error:
            raise MillraceError(
                ErrorCode.INVALID_VALUE, f"{text[:64]!r} must be hexadecimal digits that encode valid UTF-8"
            ) from error
    return _text(text, quoted, type_, size=_utf8_length, unit="bytes")


_CONVERT: dict[str, Callable[[str, bool, DataType], object]] = {
    "BOOL": _bool, "FLOAT": _float, "DOUBLE": _float, "JSON": _json, "VARBINARY": _binary,
    "VARCHAR": partial(_text, size=_utf8_length, unit="bytes"),
    "NCHAR": partial(_text, size=len, unit="characters"),
    **{
        f"{width}{sign}": _integer
        for width in ("TINYINT", "SMALLINT", "INT", "BIGINT") for sign in ("", " UNSIGNED")
    },
}  # fmt: skip

"""Rows that clients of IoTDB's RPC send: records (one row, each value with its type), tablets (columns)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from millrace_core.errors import ErrorCode, WireError
from millrace_core.wire.iotdb.types import ARRAYS, NAMES, day_of

_NULL = 0xFE
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Record:
    """The values of one row; ``types``: None for a NULL."""

    types: list[str | None]
    values: list[object]


def type_of(number: int) -> str:
    """:raises WireError: for a number that is not a type."""
    if number not in NAMES:
        raise _bad(f"{number} is not a data type")
    return NAMES[number]


def record(data: bytes, count: int) -> Record:
    """The values of a row of ``count`` measurements. :raises WireError: if the data are not that."""
    reader = _Reader(data)
    types: list[str | None] = []
    values: list[object] = []
    for _ in range(count):
        number = reader.take(1)[0]
        type_ = None if number == _NULL else type_of(number)
        types.append(type_)
        values.append(None if type_ is None else reader.cells(type_, 1)[0])
    reader.finish()
    return Record(types, values)


def times(data: bytes, rows: int) -> list[int]:
    """The times of rows, in milliseconds. :raises WireError: if there are not as many."""
    reader = _Reader(data)
    found: list[int] = reader.array(">i8", rows)
    reader.finish()
    return found


def tablet(data: bytes, types: Sequence[str], rows: int) -> list[list[object]]:
    """The columns of a tablet: the values of each column one after the other; then, if any value is NULL, one
    byte per column (1: bits follow, the first row in the lowest bit).

    :raises WireError: if the data are not that.
    """
    reader = _Reader(data)
    columns = [reader.cells(type_, rows) for type_ in types]
    if reader.left:
        for cells in columns:
            if reader.take(1) != b"\0":
                bits = np.frombuffer(reader.take(rows // 8 + 1), np.uint8)
                nulls = np.unpackbits(bits, bitorder="little")[:rows]
                for row in np.flatnonzero(nulls):
                    cells[row] = None
    reader.finish()
    return columns


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._place

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise _bad(f"{count} bytes are expected, but only {self.left} are left")
        self._place += count
        return self._data[self._place - count : self._place]

    def array(self, kind: str, rows: int) -> list[Any]:
        if rows < 0:
            raise _bad(f"the number of rows cannot be {rows}")
        dtype = np.dtype(kind)
        found: list[Any] = np.frombuffer(self.take(dtype.itemsize * rows), dtype).tolist()
        return found

    def cells(self, type_: str, rows: int) -> list[object]:
        if type_ in ARRAYS:
            found = self.array(ARRAYS[type_], rows)
            return found if type_ != "DATE" else [day_of(number) for number in found]
        return [self._text(type_) for _ in range(rows)]

    def _text(self, type_: str) -> str | bytes:
        (length,) = _LENGTH.unpack(self.take(_LENGTH.size))
        data = self.take(length)
        if type_ == "BLOB":
            return data
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise _bad(f"a {type_} value is not valid UTF-8") from None

    def finish(self) -> None:
        if self.left:
            raise _bad(f"there are {self.left} bytes too many")


def _bad(why: str) -> WireError:
    return WireError(ErrorCode.UNDECODABLE, f"the values do not match their types: {why}")

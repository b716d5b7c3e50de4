"""The rows of an answer as a TsBlock, the form in which IoTDB's RPC sends them.

Layout: int32 number of columns; one byte per column: its type; int32 number of rows; one byte for the time
and for each column: its encoding; the time; the columns. A column is a byte (1: some values are NULL, and one
bit per row follows, the first row in the highest bit), then the values that are not NULL; for BOOLEAN one bit
per row.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from millrace_core.wire.iotdb.types import ARRAYS, NUMBERS, number_of

_INT = struct.Struct(">i")
_BYTES, _INTS, _LONGS, _TEXTS = 0, 1, 2, 3
_LAYOUTS = {
    "BOOLEAN": (NUMBERS["BOOLEAN"], _BYTES), "INT32": (NUMBERS["INT32"], _INTS),
    "INT64": (NUMBERS["INT64"], _LONGS), "FLOAT": (NUMBERS["FLOAT"], _INTS),
    "DOUBLE": (NUMBERS["DOUBLE"], _LONGS), "TEXT": (NUMBERS["TEXT"], _TEXTS),
    "TIMESTAMP": (NUMBERS["INT64"], _LONGS), "DATE": (NUMBERS["INT32"], _INTS),
    "STRING": (NUMBERS["TEXT"], _TEXTS), "BLOB": (NUMBERS["TEXT"], _TEXTS),
}  # fmt: skip
"""For each type: the type that a block declares for it, and the encoding of its column."""


def block(
    types: Sequence[str], columns: Sequence[Sequence[object]], times: Sequence[int] | None, rows: int
) -> bytes:
    """``columns``: cells as Python values, as answers have them (None: NULL; a BLOB is ``0x`` and hexadecimal
    digits). ``times``: milliseconds; None: the rows have no times, and zeros are written."""
    layouts = [_LAYOUTS[type_] for type_ in types]
    parts = [
        _INT.pack(len(types)), bytes([number for number, _ in layouts]), _INT.pack(rows),
        bytes([_LONGS, *(encoding for _, encoding in layouts)]), b"\0",
        np.array(times, ">i8").tobytes() if times is not None else bytes(8 * rows),
    ]  # fmt: skip
    parts += [_column(type_, cells) for type_, cells in zip(types, columns, strict=True)]
    return b"".join(parts)


def _column(type_: str, cells: Sequence[object]) -> bytes:
    nulls = np.array([cell is None for cell in cells], np.bool_)
    head = b"\1" + np.packbits(nulls).tobytes() if nulls.any() else b"\0"
    if type_ == "BOOLEAN":
        return head + np.packbits(np.array([cell is True for cell in cells], np.bool_)).tobytes()
    values = [cell for cell in cells if cell is not None]
    if type_ == "DATE":
        values = [number_of(str(cell)) for cell in values]
    if type_ in ARRAYS:
        return head + np.array(values, ARRAYS[type_]).tobytes()
    texts = [_bytes(type_, str(cell)) for cell in values]
    return head + b"".join(part for text in texts for part in (_INT.pack(len(text)), text))


def _bytes(type_: str, text: str) -> bytes:
    return bytes.fromhex(text[2:]) if type_ == "BLOB" else text.encode()

"""IoTDB's types, as its RPC numbers them and lays out their values: everything is big-endian."""

from __future__ import annotations

from collections.abc import Mapping

NUMBERS: Mapping[str, int] = {
    "BOOLEAN": 0, "INT32": 1, "INT64": 2, "FLOAT": 3, "DOUBLE": 4, "TEXT": 5, "TIMESTAMP": 8, "DATE": 9,
    "BLOB": 10, "STRING": 11,
}  # fmt: skip
NAMES: Mapping[int, str] = {number: name for name, number in NUMBERS.items()}
ARRAYS: Mapping[str, str] = {
    "BOOLEAN": "?", "INT32": ">i4", "INT64": ">i8", "TIMESTAMP": ">i8", "FLOAT": ">f4", "DOUBLE": ">f8",
    "DATE": ">i4",
}  # fmt: skip
"""The types with values of fixed length, as NumPy names them; a DATE is a number such as 20260131."""


def day_of(number: int) -> str:
    """A DATE as text; a number that is not a date gives a text that is not one."""
    return (
        f"{number // 10_000:04d}-{number // 100 % 100:02d}-{number % 100:02d}" if number > 0 else str(number)
    )


def number_of(day: str) -> int:
    """The inverse of :func:`day_of`."""
    return int(day.replace("-", ""))

"""Data types of columns: one table, which the validator, the wire format, the store and the planner read.

Timestamps are integers everywhere inside: ticks since 1970-01-01 UTC in the database's precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from millrace_core.errors import ErrorCode, MillraceError


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """One row of the type table.

    ``numpy``: dtype of a column in memory; ``spark``: the SQL type that Spark computes with; ``size``: bytes
    as REST clients see them (None: the type's length); ``low``/``high``: the range of integers.
    """

    numpy: str
    spark: str
    size: int | None
    low: int | None = None
    high: int | None = None

    @property
    def integer(self) -> bool:
        return self.low is not None


def _signed(bits: int) -> tuple[int, int]:
    # in TDengine the lowest value stands for NULL, but its SQL accepts it; so do we
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


TYPES: dict[str, TypeInfo] = {
    "TIMESTAMP": TypeInfo("int64", "BIGINT", 8, *_signed(64)),
    "BOOL": TypeInfo("bool", "BOOLEAN", 1),
    "TINYINT": TypeInfo("int8", "TINYINT", 1, *_signed(8)),
    "SMALLINT": TypeInfo("int16", "SMALLINT", 2, *_signed(16)),
    "INT": TypeInfo("int32", "INT", 4, *_signed(32)),
    "BIGINT": TypeInfo("int64", "BIGINT", 8, *_signed(64)),
    "TINYINT UNSIGNED": TypeInfo("uint8", "SMALLINT", 1, 0, (1 << 8) - 1),
    "SMALLINT UNSIGNED": TypeInfo("uint16", "INT", 2, 0, (1 << 16) - 1),
    "INT UNSIGNED": TypeInfo("uint32", "BIGINT", 4, 0, (1 << 32) - 1),
    "BIGINT UNSIGNED": TypeInfo("uint64", "DECIMAL(20,0)", 8, 0, (1 << 64) - 1),
    "FLOAT": TypeInfo("float32", "FLOAT", 4),
    "DOUBLE": TypeInfo("float64", "DOUBLE", 8),
    "VARCHAR": TypeInfo("object", "STRING", None),
    "NCHAR": TypeInfo("object", "STRING", None),
    "VARBINARY": TypeInfo("object", "BINARY", None),
    "JSON": TypeInfo("object", "STRING", None),
}

ALIASES: dict[str, str] = {
    "BINARY": "VARCHAR",
    "INTEGER": "INT",
    "BOOLEAN": "BOOL",
}

TEXT = frozenset({"VARCHAR", "NCHAR", "JSON"})
MAX_LENGTH = 65_517  # bytes of the longest VARCHAR, as in TDengine
MOST_BYTES = 4
"""The most bytes of a character in UTF-8."""


class DataType(msgspec.Struct, frozen=True):
    """The type of a column: a name of :data:`TYPES`, and a length for text and binary ones."""

    name: str
    length: int | None = None

    @property
    def info(self) -> TypeInfo:
        return TYPES[self.name]

    @property
    def size(self) -> int:
        """Bytes as REST clients see them in ``column_meta``."""
        if self.info.size is not None:
            return self.info.size
        return self.length if self.length is not None else 4095

    def holds(self, other: DataType) -> bool:
        """Whether every value of the other type, which has the same name, can be stored uncut under this one:
        a text or binary type must be at least as long."""
        return self.name == other.name and (self.length or 0) >= (other.length or 0)

    def __str__(self) -> str:
        return f"{self.name}({self.length})" if self.length is not None else self.name

    @staticmethod
    def of(name: str, length: int | None = None) -> DataType:
        """The type with this SQL name (any case, aliases too); :raises MillraceError: if there is none."""
        upper = " ".join(name.upper().split())
        upper = ALIASES.get(upper, upper)
        if upper not in TYPES:
            raise MillraceError(ErrorCode.INVALID_VALUE, f"unknown data type {name}")
        return DataType(upper, length)


TIMESTAMP = DataType("TIMESTAMP")
BIGINT = DataType("BIGINT")
DOUBLE = DataType("DOUBLE")
BOOL = DataType("BOOL")

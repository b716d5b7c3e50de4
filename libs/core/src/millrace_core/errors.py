"""One root error and one table of codes: whose fault an error is, whether to retry, and what a client sees.

The numbers are those that TDengine's clients know (without their high half, 0x8000, which TDengine's REST
service leaves out too).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Fault(Enum):
    """Whose fault an error is: the user's, something's outside, or ours."""

    USER = "user"
    EXTERNAL = "external"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a SQL text: line and column count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"

    def within(self, begin: Position) -> Position:
        """The same place, counted from ``begin``, where a part of the text begins."""
        column = self.column - (begin.column - 1 if self.line == begin.line else 0)
        return Position(self.line - begin.line + 1, column)

    def beyond(self, begin: Position) -> Position:
        """The place, counted from ``begin``, in terms of the whole text: the inverse of within."""
        return Position(self.line + begin.line - 1, self.column + (begin.column - 1 if self.line == 1 else 0))


@dataclass(frozen=True, slots=True)
class Code:
    """One row of the table of error codes."""

    number: int
    http: int
    fault: Fault
    retry: bool = False


class ErrorCode(Enum):
    """Every error that leaves Millrace, with its number, HTTP status, fault and whether to retry."""

    SYNTAX = Code(0x2600, 400, Fault.USER)
    INVALID_VALUE = Code(0x2601, 400, Fault.USER)
    UNKNOWN_COLUMN = Code(0x2602, 400, Fault.USER)
    UNKNOWN_TABLE = Code(0x2603, 404, Fault.USER)
    AMBIGUOUS_COLUMN = Code(0x2604, 400, Fault.USER)
    TYPE_MISMATCH = Code(0x2605, 400, Fault.USER)
    UNKNOWN_FUNCTION = Code(0x2606, 400, Fault.USER)
    NOT_ALLOWED = Code(0x2607, 400, Fault.USER)
    UNSUPPORTED = Code(0x2608, 400, Fault.USER)
    NO_DATABASE = Code(0x2616, 400, Fault.USER)
    BAD_STREAM = Code(0x2651, 400, Fault.USER)
    TABLE_EXISTS = Code(0x0360, 409, Fault.USER)
    UNKNOWN_DATABASE = Code(0x0388, 404, Fault.USER)
    DATABASE_EXISTS = Code(0x0381, 409, Fault.USER)
    DATABASE_IN_USE = Code(0x03A3, 409, Fault.USER)
    HELD_BY_STREAM = Code(0x03F3, 409, Fault.USER)
    STREAM_EXISTS = Code(0x03F0, 409, Fault.USER)
    UNKNOWN_STREAM = Code(0x03F1, 404, Fault.USER)
    ANODE_UNREACHABLE = Code(0x0441, 502, Fault.EXTERNAL)
    USER_EXISTS = Code(0x0350, 409, Fault.USER)
    UNKNOWN_USER = Code(0x0351, 404, Fault.USER)
    AUTHENTICATION = Code(0x0357, 401, Fault.USER)
    PERMISSION = Code(0x0303, 403, Fault.USER)
    TOO_LARGE = Code(0x0125, 413, Fault.USER)
    TOO_MANY = Code(0x0128, 429, Fault.USER)
    QUERY_TIMEOUT = Code(0x0714, 504, Fault.USER)
    QUERY_KILLED = Code(0x022D, 409, Fault.USER)
    UNKNOWN_QUERY = Code(0x030C, 404, Fault.USER)
    UNDECODABLE = Code(0x0126, 400, Fault.USER)
    UNAVAILABLE = Code(0x000B, 503, Fault.EXTERNAL, retry=True)
    TIMEOUT = Code(0x0129, 504, Fault.EXTERNAL, retry=True)
    DAMAGED = Code(0x0104, 500, Fault.EXTERNAL, retry=True)
    INTERNAL = Code(0x0100, 500, Fault.INTERNAL)


class MillraceError(Exception):
    """The root of all errors that Millrace raises on purpose.

    ``message`` says what is wrong and names the thing; ``position`` says where in the SQL text, if there is
    one.
    """

    def __init__(self, code: ErrorCode, message: str, position: Position | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.position = position

    def __str__(self) -> str:
        return f"{self.message} ({self.position})" if self.position else self.message

    def to_wire(self) -> dict[str, object]:
        """The error as one service reports it to another: ``{code, message, line, column}``."""
        wire: dict[str, object] = {"code": self.code.name, "message": self.message}
        if self.position:
            wire |= {"line": self.position.line, "column": self.position.column}
        return wire

    @staticmethod
    def from_wire(wire: dict[str, object]) -> MillraceError:
        """The inverse of :meth:`to_wire`; an unknown code becomes ``INTERNAL``."""
        name = str(wire.get("code"))
        code = ErrorCode[name] if name in ErrorCode.__members__ else ErrorCode.INTERNAL
        line, column = wire.get("line"), wire.get("column")
        where = Position(line, column) if isinstance(line, int) and isinstance(column, int) else None
        return MillraceError(code, str(wire.get("message")), where)


class SqlError(MillraceError):
    """The SQL text is wrong: it does not parse, names what does not exist, or is not allowed."""


class CatalogError(MillraceError):
    """A definition clashes with the catalog: it exists already, does not exist, or is in use."""


class PlanError(MillraceError):
    """A query cannot be planned or run."""


class WireError(MillraceError):
    """A message cannot be decoded, or does not fit its table."""

"""Types of expressions, kept on the nodes: a Millrace type, and for TIMESTAMP the precision of its ticks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from sqlglot import exp

from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.query.nodes import position_of
from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.model.types import BIGINT, BOOL, DOUBLE, MAX_LENGTH, MOST_BYTES, TIMESTAMP, DataType

__all__ = ["BIGINT", "BOOL", "DOUBLE", "NULL", "TIMESTAMP", "Typed", "typed"]

NULL = DataType("VARCHAR", 0)
"""The type of a bare NULL; it gives way to any other type."""
TBNAME = DataType("VARCHAR", 270)

MOST_CHARACTERS = MAX_LENGTH // MOST_BYTES
_REAL = {"FLOAT": 39, "DOUBLE": 309}
"""The most digits before the point."""
_FRACTION = 7

N = TypeVar("N", bound=exp.Expr)


@dataclass(frozen=True, slots=True)
class Typed:
    """A type, and for TIMESTAMP its precision."""

    type: DataType
    precision: Precision | None = None

    def __deepcopy__(self, memo: object) -> Typed:
        # trees are copied often, and every node has its type; it never changes
        return self

    @property
    def timestamp(self) -> bool:
        return self.type.name == "TIMESTAMP"

    @property
    def integer(self) -> bool:
        return self.type.info.integer and not self.timestamp

    @property
    def real(self) -> bool:
        return self.type.name in ("FLOAT", "DOUBLE")

    @property
    def number(self) -> bool:
        return self.integer or self.real

    @property
    def text(self) -> bool:
        return self.type.info.spark == "STRING"

    @property
    def null(self) -> bool:
        return self.type == NULL


def typed(node: exp.Expr) -> Typed:
    """The type that was found for the node."""
    return node.meta["typed"]  # type: ignore[no-any-return]


def with_type(node: N, type_: Typed | DataType) -> N:
    node.meta["typed"] = type_ if isinstance(type_, Typed) else Typed(type_)
    return node


def spark_type(type_: DataType) -> exp.DataType:
    return _parsed_type(type_.info.spark).copy()


@lru_cache
def _parsed_type(name: str) -> exp.DataType:
    return exp.DataType.build(name, dialect="spark")


def cast(node: exp.Expr, type_: Typed | DataType) -> exp.Expr:
    """``CAST(node AS the Spark type)``, typed."""
    data_type = type_.type if isinstance(type_, Typed) else type_
    return with_type(exp.Cast(this=node, to=spark_type(data_type)), type_)


def number(value: int) -> exp.Expr:
    """An integer constant."""
    node: exp.Expr = exp.Literal.number(abs(value))
    return exp.Paren(this=exp.Neg(this=node)) if value < 0 else node


def rescale(node: exp.Expr, source: Precision, target: Precision) -> exp.Expr:
    """Ticks of one precision as ticks of another, rounded down."""
    ratio = TICKS_PER_SECOND[target] / TICKS_PER_SECOND[source]
    if ratio >= 1:
        scaled: exp.Expr = node if ratio == 1 else exp.Mul(this=wrap(node), expression=number(int(ratio)))
    else:
        divisor = TICKS_PER_SECOND[source] // TICKS_PER_SECOND[target]
        floor = exp.Paren(this=exp.Sub(this=wrap(node.copy()), expression=floor_mod(node, divisor)))
        scaled = exp.IntDiv(this=floor, expression=number(divisor))
    return with_type(scaled, Typed(TIMESTAMP, target))


def wrap(node: exp.Expr) -> exp.Expr:
    """The node, in parentheses if it is an operator."""
    if isinstance(node, (exp.Binary, exp.Unary, exp.Between, exp.In)) and not isinstance(
        node, (exp.Paren, exp.Dot)
    ):
        return exp.Paren(this=node)
    return node


def floor_mod(node: exp.Expr, divisor: int) -> exp.Expr:
    """``node`` modulo a positive constant, never negative (Spark's % takes the sign of the dividend)."""
    rest = exp.Paren(this=exp.Mod(this=wrap(node), expression=number(divisor)))
    return exp.Paren(
        this=exp.Mod(
            this=exp.Paren(this=exp.Add(this=rest, expression=number(divisor))), expression=number(divisor)
        )
    )


def fail(code: ErrorCode, message: str, node: exp.Expr) -> SqlError:
    """The error, at the node's place."""
    return SqlError(code, message, position_of(node))


# -- lengths of texts -------------------------------------------------------------------------------


def room(type_: Typed) -> int:
    """The length of a text type: in bytes, for NCHAR in characters. A JSON tag has no length of its own."""
    if type_.type.length is not None:
        return type_.type.length
    return MAX_LENGTH


def bytes_of(type_: Typed) -> int:
    """The most bytes that a text of the type has."""
    return room(type_) * (MOST_BYTES if type_.type.name == "NCHAR" else 1)


def text_of(length: int, types: list[Typed]) -> Typed:
    """The type of a text of this length that is made from texts of these types."""
    if any(type_.type.name == "NCHAR" for type_ in types):
        return Typed(DataType("NCHAR", max(1, min(length, MOST_CHARACTERS))))
    return Typed(DataType("VARCHAR", max(1, min(length, MAX_LENGTH))))


def written(type_: Typed) -> int:
    """The most bytes of a value written as text: digits, a sign, six digits after the point."""
    if type_.text or type_.type.name == "VARBINARY":
        return bytes_of(type_)
    if type_.real:
        return 1 + _REAL[type_.type.name] + _FRACTION
    info = type_.type.info
    if info.low is None or info.high is None:
        return len("false")
    return max(len(str(info.low)), len(str(info.high)))


def common(types: list[Typed], at: exp.Expr) -> Typed:
    """The type that values of all these types can be converted to (CASE, COALESCE, UNION).

    :raises SqlError: TYPE_MISMATCH for text next to numbers and the like.
    """
    known = [type_ for type_ in types if not type_.null]
    if not known:
        return Typed(NULL)
    first = known[0]
    if all(type_ == first for type_ in known):
        return first
    if all(type_.text for type_ in known):
        return text_of(max(map(room, known)), known)
    if all(type_.number or type_.type.name == "BOOL" for type_ in known):
        return Typed(DOUBLE) if any(type_.real for type_ in known) else Typed(BIGINT)
    if any(type_.timestamp for type_ in known) and all(type_.timestamp or type_.integer for type_ in known):
        return next(type_ for type_ in known if type_.timestamp)
    names = " and ".join(dict.fromkeys(type_.type.name for type_ in known))
    raise fail(ErrorCode.TYPE_MISMATCH, f"{names} are not compatible", at)

"""Types in spelled-out conditions: Spark's implicit conversions, and the type that several values share."""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import NamedTuple

from millrace_core.model.expression import AnyExpression, Call, Constant

WHOLE = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
NUMBERS = ("BIGINT", "DECIMAL", "FLOAT", "DOUBLE")
_WIDER: dict[str, tuple[str, ...]] = {
    "BOOLEAN": (*NUMBERS, "STRING"),
    "BIGINT": ("DECIMAL", "FLOAT", "DOUBLE", "STRING"),
    "DECIMAL": ("FLOAT", "DOUBLE", "STRING"),
    "FLOAT": ("DOUBLE",),
}
"""Type -> types that its values are implicitly converted to."""


class Value(NamedTuple):
    """A spelled expression and its type, one of those of ``trigger.rows.expressions``, or DATE or NULL.

    A DECIMAL with ``digits`` after the point is a constant; its text is in ``node``.
    """

    node: AnyExpression
    kind: str
    digits: int = 0


def kind_of(spark: str) -> str:
    """The type of a column or cast of this Spark type: all integers are BIGINT."""
    return "BIGINT" if spark in WHOLE else "DECIMAL" if spark.startswith("DECIMAL") else spark


def real(value: float) -> AnyExpression:
    """A DOUBLE constant."""
    if isfinite(value):
        return Constant(value)
    return Call("parse_real", (Constant(str(value)),))  # JSON has no such number


def common_kind(values: list[Value]) -> str:
    """The common type of all values; NULL if none of them has a type."""
    kinds = {value.kind for value in values} - {"NULL"}
    if "BOOLEAN" in kinds and len(kinds) > 1:
        kinds = kinds - {"BOOLEAN"} | {"BIGINT"}
    if len(kinds) < 2:
        return kinds.pop() if kinds else "NULL"
    if "DOUBLE" in kinds or {"DECIMAL", "FLOAT"} <= kinds:
        return "DOUBLE"
    return next(kind for kind in ("FLOAT", "DECIMAL", "BIGINT", "STRING") if kind in kinds)


def scaled(value: Value, digits: int) -> AnyExpression | None:
    """A number as DECIMAL with this many digits after the point; None for a constant that is too large."""
    constant = value.node.value if isinstance(value.node, Constant) else None
    if constant is not None and value.kind in NUMBERS:
        number = int(Decimal(str(constant)).scaleb(digits))
        return Call("cast", (Constant(number), Constant("DECIMAL"))) if abs(number) < 1 << 63 else None
    found = converted(value, "DECIMAL")
    return found if found is None or not digits else Call("scaled", (found, Constant(digits)))


def converted(value: Value, kind: str) -> AnyExpression | None:
    """The value as Spark converts it implicitly; None where Spark does not."""
    node = value.node
    if value.digits:
        if kind not in ("DOUBLE", "FLOAT"):
            return None
        assert isinstance(node, Constant)
        found = real(float(str(node.value)))
        return found if kind == "DOUBLE" else Call("cast", (found, Constant(kind)))
    if value.kind == kind:
        return node
    if value.kind == "NULL":
        return node if kind == "DATE" else Call("cast", (node, Constant(kind)))
    if kind == "DOUBLE" and value.kind == "BIGINT" and isinstance(node, Constant) and node.value is not None:
        return Constant(float(node.value))
    return Call("cast", (node, Constant(kind))) if kind in _WIDER.get(value.kind, ()) else None

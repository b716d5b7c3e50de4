"""Spark's functions in conditions on rows: which operations of ``trigger.rows.expressions`` they become."""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Protocol

from sqlglot import exp

from millrace_core.conditions.types import Value
from millrace_core.errors import SqlError
from millrace_core.model.expression import AnyExpression, Call, Constant


class Spells(Protocol):
    """What spells out the arguments of a call (``conditions.spelling``)."""

    def visit(self, node: exp.Expr) -> Value: ...

    def as_kind(self, value: Value, kind: str, at: exp.Expr) -> AnyExpression: ...

    def common(self, nodes: list[exp.Expr], exact: bool = False) -> tuple[list[AnyExpression], str]: ...

    def refused(self, node: exp.Expr) -> SqlError: ...


Visitor = Callable[[Spells, exp.Expr], Value]
_MERGING = {"COALESCE": "coalesce", "GREATEST": "greatest", "LEAST": "least"}


def name_of(node: exp.Expr) -> str:
    return node.name.upper() if isinstance(node, exp.Anonymous) else node.key.upper()


def arguments_of(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of a call in order."""
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    found: list[exp.Expr] = []
    for key in node.arg_types:
        value = node.args.get(key)
        found += value if isinstance(value, list) else [value] if isinstance(value, exp.Expr) else []
    return found


def _merged(spelling: Spells, node: exp.Expr) -> Value:
    values, kind = spelling.common(arguments_of(node))
    return Value(Call(_MERGING[name_of(node)], tuple(values)), kind)


def _nullif(spelling: Spells, node: exp.Expr) -> Value:
    first, second = arguments_of(node)
    value = spelling.visit(first)
    sides, kind = spelling.common([first, second])
    if kind == value.kind:
        return Value(Call("nullif", tuple(sides)), kind)
    null = spelling.as_kind(Value(Constant(None), "NULL"), value.kind, node)
    return Value(Call("case", (Call("eq", tuple(sides)), null, value.node)), value.kind)


def _same_number(spelling: Spells, node: exp.Expr) -> Value:
    """ABS, CEIL, FLOOR, ROUND: whole numbers stay whole."""
    operation = name_of(node).lower()
    first, *others = arguments_of(node)
    if any(not isinstance(other.unnest(), exp.Literal) or other.unnest().name != "0" for other in others):
        raise spelling.refused(node)
    value = spelling.visit(first)
    if value.kind in ("BIGINT", "DECIMAL") and not value.digits:
        return value._replace(node=Call("abs", (value.node,))) if operation == "abs" else value
    if operation == "abs" and value.kind == "FLOAT":
        return Value(Call("abs", (value.node,)), "FLOAT")
    number = spelling.as_kind(value, "DOUBLE", first)
    return Value(Call(operation, (number,)), "BIGINT" if operation in ("ceil", "floor") else "DOUBLE")


def _days(spelling: Spells, node: exp.Expr) -> Value:
    """DATE_ADD and the difference of dates: both count days."""
    first, second, *_ = arguments_of(node)
    left, right = spelling.visit(first), spelling.visit(second)
    operation, kind = ("add", "DATE") if name_of(node) == "DATE_ADD" else ("sub", "BIGINT")
    if left.kind != "DATE" or right.kind not in ("DATE", "BIGINT"):
        raise spelling.refused(node)
    return Value(Call(operation, (left.node, right.node)), kind)


def _constant_first(spelling: Spells, node: exp.Expr) -> Value:
    """LOCATE and CONCAT_WS: the first argument is a constant text."""
    first, *others = arguments_of(node)
    if not (isinstance(first, exp.Literal) and first.is_string and (first.name or len(others) > 1)):
        raise spelling.refused(node)
    texts = [spelling.as_kind(spelling.visit(other), "STRING", other) for other in others]
    located = name_of(node) == "LOCATE"
    name, kind = ("locate", "BIGINT") if located else ("concat_ws", "STRING")
    if located and len(others) != 1:
        raise spelling.refused(node)
    return Value(Call(name, (Constant(first.name), *texts)), kind)


def _replace(spelling: Spells, node: exp.Expr) -> Value:
    this, old, new = arguments_of(node)
    if not (isinstance(old, exp.Literal) and old.is_string and old.name):
        raise spelling.refused(node)
    texts = [spelling.as_kind(spelling.visit(side), "STRING", side) for side in (this, new)]
    return Value(Call("replace", (texts[0], Constant(old.name), texts[1])), "STRING")


def _pad(spelling: Spells, node: exp.Expr) -> Value:
    this, width, fill = arguments_of(node)
    if not (isinstance(width, exp.Literal) and isinstance(fill, exp.Literal) and len(fill.name) == 1):
        raise spelling.refused(node)
    text = spelling.as_kind(spelling.visit(this), "STRING", this)
    return Value(Call("pad", (text, Constant(int(width.name)), Constant(fill.name))), "STRING")


def _substring(spelling: Spells, node: exp.Expr) -> Value:
    this, *places = arguments_of(node)
    text = spelling.as_kind(spelling.visit(this), "STRING", this)
    numbers = [spelling.as_kind(spelling.visit(place), "BIGINT", place) for place in places]
    return Value(Call("substring", (text, *numbers)), "STRING")


_BY_CONSTANTS = {
    "TRANSLATE": "translate",
    "REGEXP_REPLACE": "replace_matches",
    "REGEXP_EXTRACT": "first_match",
}


def _by_constants(spelling: Spells, node: exp.Expr) -> Value:
    """Functions that treat a text by constant texts; REGEXP_EXTRACT always gives the first group."""
    this, *others = arguments_of(node)
    if name_of(node) == "REGEXP_EXTRACT":
        others = others[:1]
    if not all(isinstance(other, exp.Literal) and other.is_string for other in others):
        raise spelling.refused(node)
    text = spelling.as_kind(spelling.visit(this), "STRING", this)
    return Value(Call(_BY_CONSTANTS[name_of(node)], (text, *(Constant(o.name) for o in others))), "STRING")


_REAL, _TEXT = ("DOUBLE",), ("STRING",)


_REALS = ("SQRT", "EXP", "LN", "SIGN", "SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "DEGREES", "RADIANS")
SIMPLE: dict[str, tuple[str, tuple[str, ...], str]] = {
    **{name: (name.lower(), _REAL, "DOUBLE") for name in _REALS},
    **dict.fromkeys(("POW", "POWER"), ("pow", _REAL * 2, "DOUBLE")),
    **dict.fromkeys(("CONCAT", "DPIPE"), ("concat", _TEXT, "STRING")),
    "DIV": ("div", _REAL * 2, "DOUBLE"),
    "INTDIV": ("whole_div", ("BIGINT",) * 2, "BIGINT"),
    "BITWISEAND": ("bit_and", ("BIGINT",) * 2, "BIGINT"),
    "BITWISEOR": ("bit_or", ("BIGINT",) * 2, "BIGINT"),
    "NOT": ("not", ("BOOLEAN",), "BOOLEAN"),
    "LENGTH": ("chars", _TEXT, "BIGINT"),
    "OCTET_LENGTH": ("bytes", _TEXT, "BIGINT"),
    "RIGHT": ("right", ("STRING", "BIGINT"), "STRING"),
}
"""Spark's function -> operation, types of its arguments (CONCAT takes any number), type of the result."""

NAMED: dict[str, Visitor] = {
    **dict.fromkeys(("ABS", "CEIL", "FLOOR", "ROUND"), _same_number),
    **dict.fromkeys(_MERGING, _merged),
    **dict.fromkeys(("DATE_ADD", "DATEDIFF"), _days),
    **dict.fromkeys(("LOCATE", "CONCAT_WS"), _constant_first),
    **dict.fromkeys(_BY_CONSTANTS, _by_constants),
    "NULLIF": _nullif,
    "REPLACE": _replace,
    "LPAD": _pad,
    "SUBSTRING": _substring,
    "PI": lambda spelling, node: Value(Constant(pi), "DOUBLE"),
}
"""By the name of Spark's function, where :data:`SIMPLE` does not do."""

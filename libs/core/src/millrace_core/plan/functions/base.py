"""What the tables of scalar functions are made of: a row, the call that it builds, and kinds of arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.language.query.nodes import DurationLiteral
from millrace_core.model.schema import Precision
from millrace_core.model.stream import Duration
from millrace_core.model.types import DataType
from millrace_core.plan.types.typed import BIGINT, Typed, cast, common, fail, typed, wrap
from millrace_core.timeline import ticks

MOST_TEXT = DataType("VARCHAR", 4096)


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call that is being lowered. ``precision``, ``timezone``, ``database``, ``user``: those of the query;
    ``now``: nanoseconds since the epoch, as an expression; ``node``: the call itself, for errors."""

    name: str
    args: list[exp.Expr]
    node: exp.Expr
    precision: Precision
    timezone: str
    database: str | None
    now: exp.Expr
    user: str | None = None

    @property
    def types(self) -> list[Typed]:
        return [typed(arg) for arg in self.args]

    @property
    def ticks(self) -> Precision:
        """The precision of the first argument, which is a time."""
        return self.types[0].precision or self.precision


Rule = Callable[[list[Typed], exp.Expr, Precision], Typed]
Build = Callable[[FunctionCall], exp.Expr]


@dataclass(frozen=True, slots=True)
class Function:
    """One row of the table: ``least``..``most`` arguments (``most`` None: any number) of these ``kinds``
    (names of :data:`KINDS`; the last one also counts for all further arguments)."""

    least: int
    most: int | None
    result: Rule
    build: Build
    kinds: tuple[str, ...] = ("any",)

    def kind(self, i: int) -> str:
        return self.kinds[min(i, len(self.kinds) - 1)]


def _number(type_: Typed) -> bool:
    return type_.number or type_.type.name == "BOOL"


KINDS: dict[str, tuple[str, Callable[[Typed], bool]]] = {
    "any": ("anything", lambda type_: True),
    "number": ("numbers", _number),
    "integer": ("integers", lambda type_: type_.integer),
    "text": ("text", lambda type_: type_.text and type_.type.name != "JSON"),
    "bytes": ("text or VARBINARY", lambda type_: type_.text or type_.type.name == "VARBINARY"),
    "code": ("numbers or text", lambda type_: type_.number or type_.text),
    "time": ("timestamps", lambda type_: type_.timestamp or type_.integer),
    "extent": ("numbers or timestamps", lambda type_: _number(type_) or type_.timestamp),
    "duration": ("durations such as 1s", lambda type_: True),
    "condition": ("a condition", lambda type_: True),
}
"""Kinds of arguments: their names in errors, and the test of an argument's type. NULL is of any kind."""


def check_kind(kind: str, name: str, i: int, node: exp.Expr) -> None:
    """:raises SqlError: TYPE_MISMATCH for an argument of another kind."""
    words, test = KINDS[kind]
    duration = isinstance(node, DurationLiteral)
    wrong = duration != (kind == "duration") and not isinstance(node, exp.Null)
    if wrong or not (typed(node).null or test(typed(node))):
        given = node.sql() if wrong and isinstance(node, exp.Literal) else typed(node).type.name
        given = "a duration" if duration else given
        raise fail(ErrorCode.TYPE_MISMATCH, f"{name} takes {words}, not {given} (argument {i + 1})", node)


def check_count(node: exp.Expr, given: int, least: int, most: int | None) -> None:
    """:raises SqlError: INVALID_VALUE for too few or too many arguments."""
    if given < least or (most is not None and given > most):
        wanted = str(least) if most == least else f"{least} to {most}" if most else f"at least {least}"
        raise fail(ErrorCode.INVALID_VALUE, f"{node.name} takes {wanted} arguments, not {given}", node)


def constant_number(node: exp.Expr, name: str, what: str, low: float, high: float) -> float:
    """The value of an argument that must be a constant number within bounds.

    :raises SqlError: INVALID_VALUE, naming the argument and what is allowed.
    """
    inner = node.unnest()
    sign = -1 if isinstance(inner, exp.Neg) else 1
    inner = inner.this.unnest() if isinstance(inner, exp.Neg) else inner
    if not isinstance(inner, exp.Literal) or inner.is_string:
        raise fail(ErrorCode.INVALID_VALUE, f"{name}: {what} must be a constant number", node)
    value = sign * float(inner.name)
    if not low <= value <= high:
        message = f"{name}: {what} must be from {low:g} to {high:g}, not {value:g}"
        raise fail(ErrorCode.INVALID_VALUE, message, node)
    return value


def constant_choice(node: exp.Expr, name: str, what: str, allowed: tuple[str, ...]) -> str:
    """The value, in lower case, of an argument that must be one of these constants (texts or numbers).

    :raises SqlError: INVALID_VALUE, naming the argument and what is allowed.
    """
    if not isinstance(node, exp.Literal) or node.name.lower() not in allowed:
        given = node.name if isinstance(node, exp.Literal) else "an expression"
        message = f"{name}: {what} must be one of {', '.join(allowed)}, not {given}"
        raise fail(ErrorCode.INVALID_VALUE, message, node)
    return node.name.lower()


def constant_text(node: exp.Expr, name: str, what: str) -> str:
    """:raises SqlError: INVALID_VALUE if the argument is not a constant text."""
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise fail(ErrorCode.INVALID_VALUE, f"{name}: {what} must be a constant string", node)
    return node.name


def duration_ticks(node: exp.Expr, precision: Precision) -> int:
    """Ticks of a duration literal; :raises SqlError: if it is not one, or its length is not fixed."""
    if not isinstance(node, DurationLiteral):
        raise fail(ErrorCode.INVALID_VALUE, "expected a duration such as 10s", node)
    try:
        return ticks(Duration(node.this, node.args["unit"]), precision)
    except MillraceError as error:
        raise fail(error.code, error.message, node) from None


def unit_ticks(node: exp.Expr, name: str, precision: Precision) -> int:
    """Ticks of a time unit, which must be positive; :raises SqlError: likewise."""
    unit = duration_ticks(node, precision)
    if unit <= 0:
        raise fail(ErrorCode.INVALID_VALUE, f"{name}: the time unit must be positive", node)
    return unit


# -- rules of result types ----------------------------------------------------------------------------


def fixed(type_: DataType) -> Rule:
    return lambda types, node, precision: Typed(type_)


def same(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    return types[0]


def common_type(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    return common(types, node)


# -- builders -----------------------------------------------------------------------------------------


def node_of(kind: type[exp.Expr], *keys: str) -> Build:
    """``kind(key=argument, …)`` with the arguments in this order."""
    return lambda call: kind(**dict(zip(keys, call.args, strict=False)))


def spark(name: str) -> Build:
    """Spark's own function of that name."""
    return lambda call: exp.Anonymous(this=name, expressions=call.args)


def of_one_type(it: FunctionCall, values: list[exp.Expr]) -> list[exp.Expr]:
    """The values, prepared for a result of the call's type: Spark does not take BOOL beside numbers."""
    wanted = typed(it.node)
    mixed = wanted.number and any(typed(value).type.name == "BOOL" for value in values)
    return [cast(value, wanted) for value in values] if mixed else values


def counted(value: exp.Expr) -> exp.Expr:
    """The value; a BOOL becomes 0 or 1."""
    return cast(value, BIGINT) if typed(value).type.name == "BOOL" else value


def is_null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=wrap(node.copy()), expression=exp.Null())


def any_null(nodes: list[exp.Expr]) -> exp.Expr:
    """Whether one of the values is NULL; constants are not tested."""
    tests = [is_null(node) for node in nodes if not isinstance(node, exp.Literal)]
    found = tests[0] if tests else exp.Boolean(this=False)
    for test in tests[1:]:
        found = exp.Or(this=found, expression=test)
    return found

"""The table of series functions: those that give many rows, or look at neighbouring rows.

The rules about names, arguments and company are TDengine 3.3.7's; what the functions give is in ``build.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.language.query.nodes import DurationLiteral
from millrace_core.plan.aggregates.table import AGGREGATES
from millrace_core.plan.series import build
from millrace_core.plan.types.typed import BIGINT, DOUBLE, Typed, fail

Reader = Callable[[exp.Expr, str], object]
"""Reads a constant argument; also gets the argument's name, for errors."""
REQUIRED = object()


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant argument: ``name``, how it is read, and its default."""

    name: str
    read: Reader
    default: object = REQUIRED


@dataclass(frozen=True, slots=True)
class SeriesFunction:
    """One row of the table.

    ``takes``/``accepted``: which types its first argument may have, as a test and in words; ``constants``:
    the other arguments. ``company``: a word; functions with the same word may stand together in a SELECT;
    None: it must stand alone. ``known_only``: it sees only rows whose value is not NULL. ``grouped``: it
    can also give rows for each group and window. ``timed``: it needs the rows' time. ``build`` None: it has
    a pass of its own.
    """

    takes: Callable[[Typed], bool]
    accepted: str
    result: Callable[[Typed], Typed]
    build: build.Build | None
    constants: tuple[Constant, ...] = ()
    company: Callable[[tuple[object, ...]], str | None] = lambda constants: None
    known_only: bool = False
    grouped: bool = False
    timed: bool = True


def _whole(low: int, high: int) -> Reader:
    def read(node: exp.Expr, what: str) -> int:
        text = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
        if not (text.isdigit() and low <= int(text) <= high):
            raise fail(ErrorCode.INVALID_VALUE, f"{what} must be an integer from {low} to {high}", node)
        return int(text)

    return read


def _operator(node: exp.Expr, what: str) -> str:
    text = node.name.upper() if isinstance(node, exp.Literal) and node.is_string else ""
    if text not in build.OPERATORS:
        names = ", ".join(f"'{name}'" for name in build.OPERATORS)
        raise fail(ErrorCode.INVALID_VALUE, f"{what} must be one of {names}", node)
    return text


def _number(node: exp.Expr, what: str) -> exp.Expr:
    inner = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(inner, exp.Literal) or inner.is_string:
        raise fail(ErrorCode.INVALID_VALUE, f"{what} must be a constant number", node)
    return exp.Paren(this=node.copy()) if isinstance(node, exp.Neg) else node.copy()


def _duration(node: exp.Expr, what: str) -> exp.Expr:
    if not isinstance(node, DurationLiteral) or node.this <= 0:
        raise fail(ErrorCode.INVALID_VALUE, f"{what} must be a duration longer than zero, such as 1s", node)
    return node


def _unit(node: exp.Expr, what: str) -> exp.Expr:
    if not isinstance(node, DurationLiteral) or node.this != 1 or node.args["unit"] not in "buasmhdw":
        message = f"{what} must be one of 1b, 1u, 1a, 1s, 1m, 1h, 1d, 1w"
        raise fail(ErrorCode.INVALID_VALUE, message, node)
    return node


def _number_type(type_: Typed) -> bool:
    return type_.number


def _any_type(type_: Typed) -> bool:
    return not type_.null


def _same(type_: Typed) -> Typed:
    return type_


def _difference(type_: Typed) -> Typed:
    return Typed(DOUBLE if type_.real else BIGINT)


def _sum(type_: Typed) -> Typed:
    return AGGREGATES["sum"].result([type_], exp.Null())


def _fixed(type_: Typed) -> Callable[[Typed], Typed]:
    return lambda _: type_


def _together(word: str) -> Callable[[tuple[object, ...]], str | None]:
    return lambda constants: word


_K100 = Constant("k", _whole(1, 100))
_K1000 = Constant("k", _whole(1, 1000))
_STATE = (Constant("operator", _operator), Constant("value", _number))

SERIES: dict[str, SeriesFunction] = {
    "diff": SeriesFunction(
        lambda type_: type_.number or type_.timestamp or type_.type.name == "BOOL",
        "numbers, timestamps and BOOL", _difference, build.diff,
        (Constant("ignore_option", _whole(0, 3), 0),), _together("diff"),
    ),
    "derivative": SeriesFunction(
        _number_type, "numbers", _fixed(Typed(DOUBLE)), build.derivative,
        (Constant("interval", _duration), Constant("ignore_negative", _whole(0, 1))),
        lambda constants: "derivative" if constants[1] == 0 else None,
    ),
    "csum": SeriesFunction(_number_type, "numbers", _sum, build.csum, (), _together("every row")),
    "mavg": SeriesFunction(
        _number_type, "numbers", _fixed(Typed(DOUBLE)), build.mavg, (_K1000,), known_only=True
    ),
    "statecount": SeriesFunction(
        _number_type, "numbers", _fixed(Typed(BIGINT)), build.statecount, _STATE, _together("every row")
    ),
    "stateduration": SeriesFunction(
        _number_type, "numbers", _fixed(Typed(BIGINT)), build.stateduration,
        (*_STATE, Constant("unit", _unit, None)), _together("every row"),
    ),
    "top": SeriesFunction(
        _number_type, "numbers", _same, build.top, (_K100,), known_only=True, grouped=True, timed=False
    ),
    "bottom": SeriesFunction(
        _number_type, "numbers", _same, build.bottom, (_K100,), known_only=True, grouped=True, timed=False
    ),
    "sample": SeriesFunction(
        _any_type, "columns", _same, build.sample, (_K1000,), known_only=True, grouped=True, timed=False
    ),
    "unique": SeriesFunction(_any_type, "columns", _same, build.unique),
    "tail": SeriesFunction(
        _any_type, "columns", _same, build.tail, (_K100, Constant("offset", _whole(0, 100), 0))
    ),
    "interp": SeriesFunction(
        _any_type, "columns", _same, None, (Constant("ignore_null_values", _whole(0, 1), 0),),
        lambda constants: f"interp {constants[0]}",
    ),
}  # fmt: skip

"""Types of calls: their arguments are counted and checked against the tables of functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.plan.aggregates.cols import type_cols
from millrace_core.plan.aggregates.table import AGGREGATES, COLS
from millrace_core.plan.analytics.forecast import NAME as FORECAST
from millrace_core.plan.analytics.forecast import type_forecast
from millrace_core.plan.functions.base import check_count, check_kind
from millrace_core.plan.functions.scalar import FUNCTIONS, LATER, cast_type
from millrace_core.plan.scope import near
from millrace_core.plan.series.table import SERIES, type_series
from millrace_core.plan.types.typed import BIGINT, TIMESTAMP, Typed, fail, number, typed, with_type

if TYPE_CHECKING:
    from millrace_core.plan.expressions.annotate import Typer


def type_call(typer: Typer, node: exp.Expr) -> exp.Expr:
    """Type a call and its arguments.

    :raises SqlError: UNKNOWN_FUNCTION, INVALID_VALUE, TYPE_MISMATCH, NOT_ALLOWED, UNSUPPORTED, at its place.
    """
    name = node.name
    if name == "cast":
        return _cast(typer, node)
    if name == COLS:
        return type_cols(typer, node)
    if name in AGGREGATES:
        return _aggregate(typer, node)
    if name in SERIES:
        return type_series(node, typer)
    if name == FORECAST:
        return type_forecast(typer, node)
    function = FUNCTIONS.get(name)
    if function is None:
        raise _unknown(node)
    check_count(node, len(node.expressions), function.least, function.most)
    args = [_argument(typer, node, i, function.kind(i)) for i in range(len(node.expressions))]
    node.set("expressions", args)
    return with_type(node, function.result([typed(arg) for arg in args], node, typer.ctx.precision))


def _unknown(node: exp.Expr) -> MillraceError:
    if node.name in LATER:
        message = f"the function {node.name} is not supported{LATER[node.name]}"
        return fail(ErrorCode.UNSUPPORTED, message, node)
    known = [*FUNCTIONS, *AGGREGATES, *SERIES, "cast", FORECAST]
    if node.name.startswith("st_"):
        return fail(ErrorCode.UNSUPPORTED, f"geometry functions such as {node.name} are not supported", node)
    message = f"unknown function {node.name}{near(node.name, known)}"
    return fail(ErrorCode.UNKNOWN_FUNCTION, message, node)


def _argument(typer: Typer, call: exp.Expr, i: int, kind: str) -> exp.Expr:
    """An argument, which must be of a kind (``functions.base.KINDS``)."""
    found = typer.visit(call.expressions[i])
    if kind == "condition":
        return typer.condition(found)
    if kind == "time" and typed(found).text and not typed(found).null:
        found = _time(typer, found)
    check_kind(kind, call.name, i, found)
    return found


def _time(typer: Typer, side: exp.Expr) -> exp.Expr:
    """A text as a time of the query's precision; NULL where it is none."""
    wanted = Typed(TIMESTAMP, typer.ctx.precision)
    if not isinstance(side, exp.Literal):
        flag = with_type(number(1), BIGINT)
        return with_type(exp.Anonymous(this="to_unixtimestamp", expressions=[side, flag]), wanted)
    try:
        return typer.timestamp(side, wanted)
    except MillraceError:
        return with_type(exp.Null(), wanted)


def _aggregate(typer: Typer, node: exp.Expr) -> exp.Expr:
    row = AGGREGATES[node.name]
    if typer.aggregate is not None:
        message = f"{node.name} cannot stand inside {typer.aggregate}"
        raise fail(ErrorCode.NOT_ALLOWED, message, node)
    if typer.ctx.placeholders and not row.streams:
        raise fail(ErrorCode.NOT_ALLOWED, f"{node.name} cannot be used in a stream", node)
    check_count(node, len(node.expressions), row.least, row.most)
    args: list[exp.Expr] = []
    typer.aggregate = node.name
    try:
        for i, argument in enumerate(node.expressions):
            star = isinstance(argument, exp.Star)
            if star and node.name != "count":
                raise fail(ErrorCode.INVALID_VALUE, f"{node.name} takes a column, not *", node)
            args.append(argument if star else _argument(typer, node, i, row.kind(i)))
    finally:
        typer.aggregate = None
    node.set("expressions", args)
    return with_type(node, row.result([typed(arg) for arg in args if "typed" in arg.meta], node))


def _cast(typer: Typer, node: exp.Expr) -> exp.Expr:
    assert isinstance(node, exp.Anonymous)
    target = cast_type(node)
    this = typer.visit(node.expressions[0])
    wanted = Typed(target, typer.ctx.precision if target == TIMESTAMP else None)
    if wanted.timestamp and typed(this).text:
        this = typer.timestamp(this, wanted) if isinstance(this, exp.Literal) else _time(typer, this)
    node.set("expressions", [this])
    return with_type(node, wanted)

"""Calls of FORECAST: how they are typed and lowered."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.plan.functions.protocols import Lowering, Typing
from millrace_core.plan.types.typed import fail, typed, with_type

FORECAST = "forecast"


def type_forecast(typing: Typing, node: exp.Expr) -> exp.Expr:
    """Type a call: it has the type of its column.

    :raises SqlError: NOT_ALLOWED inside an aggregate or a clause, INVALID_VALUE without a column.
    """
    if typing.aggregate is not None:
        raise fail(ErrorCode.NOT_ALLOWED, f"{FORECAST} cannot be used inside {typing.aggregate}", node)
    if not node.expressions:
        raise fail(ErrorCode.INVALID_VALUE, "the first argument of forecast must be a column", node)
    typing.aggregate = FORECAST
    try:
        node.set("expressions", [typing.visit(argument) for argument in node.expressions])
    finally:
        typing.aggregate = None
    return with_type(node, typed(node.expressions[0]))


def lower_forecast_call(lowering: Lowering, node: exp.Expr) -> exp.Expr:
    """Only the column: covariates and options are read by the pass that rewrites the SELECT."""
    node.set("expressions", [lowering.visit(node.expressions[0]), *node.expressions[1:]])
    return node

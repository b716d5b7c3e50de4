"""Calls of aggregate functions: how they are typed and lowered.

A lowered call has ``meta["aggregate"]``, the function's name, and ``meta["arguments"]``.
"""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.language.query.nodes import DurationLiteral
from millrace_core.plan.aggregates.base import Gathering
from millrace_core.plan.aggregates.table import AGGREGATES
from millrace_core.plan.functions.arguments import typed_argument
from millrace_core.plan.functions.base import check_count
from millrace_core.plan.functions.protocols import Lowering, Typing
from millrace_core.plan.join_pair import timed_by
from millrace_core.plan.types.typed import fail, typed, with_type


def type_aggregate(typing: Typing, node: exp.Expr) -> exp.Expr:
    """:raises SqlError: NOT_ALLOWED where no aggregate can stand, INVALID_VALUE, TYPE_MISMATCH."""
    row = AGGREGATES[node.name]
    if typing.aggregate is not None:
        message = f"{node.name} cannot be used inside {typing.aggregate}"
        raise fail(ErrorCode.NOT_ALLOWED, message, node)
    if typing.ctx.placeholders and not row.streams:
        raise fail(ErrorCode.NOT_ALLOWED, f"{node.name} cannot be used in a stream", node)
    check_count(node, len(node.expressions), row.least, row.most)
    args: list[exp.Expr] = []
    typing.aggregate = node.name
    try:
        for i, argument in enumerate(node.expressions):
            star = isinstance(argument, exp.Star)
            if star and node.name != "count":
                raise fail(ErrorCode.INVALID_VALUE, f"{node.name} needs a column, not *", node)
            args.append(argument if star else typed_argument(typing, node, i, row.kind(i)))
    finally:
        typing.aggregate = None
    node.set("expressions", args)
    return with_type(node, row.result([typed(arg) for arg in args if "typed" in arg.meta], node))


def lower_aggregate(lowering: Lowering, node: exp.Expr) -> exp.Expr:
    row = AGGREGATES[node.name]
    args = [arg if isinstance(arg, DurationLiteral) else lowering.visit(arg) for arg in node.expressions]
    order = order_of(lowering, node, row.timed or row.build is None)
    if row.build is None:  # the pass lower_running will build it
        node.set("expressions", args)
        node.meta["running"] = True
        return node
    made = row.build(Gathering(node.name, args, order, node, lowering.ctx.precision))
    made.meta.update(aggregate=node.name, arguments=args)
    return made


def order_of(lowering: Lowering, node: exp.Expr, needed: bool) -> exp.Expr:
    """The expression that orders the rows which a call reads; NULL if no order is needed.

    :raises SqlError: NOT_ALLOWED if an order is needed and there is no time column.
    """
    timed = timed_by(lowering.scope, node.expressions)
    if timed is None and needed:
        raise fail(ErrorCode.NOT_ALLOWED, f"{node.name} needs a table with a time column", node)
    return timed.order() if needed and timed is not None else exp.Null()

"""Calls of scalar functions, CAST among them: how they are typed and lowered."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.language.query.nodes import DurationLiteral
from millrace_core.plan.functions.arguments import time_of, typed_argument
from millrace_core.plan.functions.base import FunctionCall, check_count
from millrace_core.plan.functions.casts import cast_type, convert
from millrace_core.plan.functions.protocols import Lowering, Typing
from millrace_core.plan.functions.quotients import quotient, whole_quotient
from millrace_core.plan.functions.scalar import FUNCTIONS
from millrace_core.plan.types.typed import BIGINT, TIMESTAMP, Typed, cast, typed, with_type

CAST = "cast"


def type_function(typing: Typing, node: exp.Expr) -> exp.Expr:
    """:raises SqlError: INVALID_VALUE for a wrong number of arguments, TYPE_MISMATCH for wrong types."""
    function = FUNCTIONS[node.name]
    check_count(node, len(node.expressions), function.least, function.most)
    args = [typed_argument(typing, node, i, function.kind(i)) for i in range(len(node.expressions))]
    node.set("expressions", args)
    return with_type(node, function.result([typed(arg) for arg in args], node, typing.ctx.precision))


def lower_function(lowering: Lowering, node: exp.Expr) -> exp.Expr:
    given = node.expressions
    args = [arg if isinstance(arg, DurationLiteral) else lowering.visit(arg) for arg in given]
    ctx = lowering.ctx
    call = FunctionCall(node.name, args, node, ctx.precision, ctx.timezone, ctx.database, ctx.now, ctx.user)
    return cast(FUNCTIONS[node.name].build(call), typed(node))


def type_cast(typing: Typing, node: exp.Expr) -> exp.Expr:
    assert isinstance(node, exp.Anonymous)
    target = cast_type(node)
    this = typing.visit(node.expressions[0])
    wanted = Typed(target, typing.ctx.precision if target == TIMESTAMP else None)
    if wanted.timestamp and typed(this).text:
        this = typing.timestamp(this, wanted) if isinstance(this, exp.Literal) else time_of(typing, this)
    node.set("expressions", [this])
    return with_type(node, wanted)


def lower_cast(lowering: Lowering, node: exp.Expr) -> exp.Expr:
    if (division := whole_quotient(node)) is not None:
        sides = [lowering.of_type(side, Typed(BIGINT)) for side in (division.this, division.expression)]
        return convert(quotient(*sides), typed(node))
    return convert(lowering.visit(node.expressions[0]), typed(node), cut_bytes=not lowering.condition)

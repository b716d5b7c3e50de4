"""Arguments of calls: they are typed, and checked against the kinds that the tables of functions name."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import MillraceError
from millrace_core.plan.functions.base import check_kind
from millrace_core.plan.functions.protocols import Typing
from millrace_core.plan.types.typed import BIGINT, TIMESTAMP, Typed, number, typed, with_type


def typed_argument(typing: Typing, call: exp.Expr, i: int, kind: str) -> exp.Expr:
    """Type a call's argument.

    :raises SqlError: TYPE_MISMATCH if it is not of the kind (``base.KINDS``).
    """
    found = typing.visit(call.expressions[i])
    if kind == "condition":
        return typing.condition(found)
    if kind == "time" and typed(found).text and not typed(found).null:
        found = time_of(typing, found)
    check_kind(kind, call.name, i, found)
    return found


def time_of(typing: Typing, side: exp.Expr) -> exp.Expr:
    """A text as a time in the query's precision; NULL if it is not a time."""
    wanted = Typed(TIMESTAMP, typing.ctx.precision)
    if not isinstance(side, exp.Literal):
        flag = with_type(number(1), BIGINT)
        return with_type(exp.Anonymous(this="to_unixtimestamp", expressions=[side, flag]), wanted)
    try:
        return typing.timestamp(side, wanted)
    except MillraceError:
        return with_type(exp.Null(), wanted)

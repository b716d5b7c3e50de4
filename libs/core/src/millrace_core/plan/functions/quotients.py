"""``cast(a / b AS <whole type>)`` of whole numbers: calculated in whole numbers.

As DOUBLEs, nanoseconds since 1970 lose their last digits: ``cast(_tlocaltime/1000000 AS TIMESTAMP)`` (seed
000's own example) would now and then be a millisecond early.
"""

from __future__ import annotations

from sqlglot import exp

from millrace_core.plan.types.typed import BIGINT, Typed, number, typed, with_type, wrap


def whole_quotient(call: exp.Expr) -> exp.Expr | None:
    """The division inside a typed ``cast`` call, if it can be done in whole numbers; else None."""
    division = call.expressions[0].unnest()
    if not isinstance(division, exp.Div) or not typed(call).type.info.integer:
        return None
    sides = (typed(division.this), typed(division.expression))
    whole = all(
        (side.integer or side.timestamp) and side.type.info.spark != "DECIMAL(20,0)" for side in sides
    )
    return division if whole else None


def quotient(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """``left / right`` of two lowered BIGINTs, without its fraction; NULL for a division by zero."""
    by = exp.Nullif(this=right, expression=number(0))
    # once the remainder is subtracted there is nothing to round, whichever way an engine rounds
    rest = exp.Mod(this=wrap(left.copy()), expression=by)
    even = exp.Paren(this=exp.Sub(this=wrap(left), expression=rest))
    return with_type(exp.IntDiv(this=even, expression=by.copy()), Typed(BIGINT))

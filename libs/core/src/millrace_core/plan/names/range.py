"""``_qstart``, ``_qend`` and ``_qduration``: the time range that WHERE leaves for a user's query."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.plan.model import Bound
from millrace_core.plan.scope import Context, Relation, Scope, TimeBounds, column, own
from millrace_core.plan.spark.pieces import text
from millrace_core.plan.types.typed import BIGINT, TIMESTAMP, Typed, cast, fail, typed, with_type

RANGE_COLUMNS = ("_qstart", "_qend", "_qduration")
FIRST, LAST = -(1 << 63), (1 << 63) - 1
"""The ends of a range without bounds."""


def range_column(node: exp.Column, timed: Relation) -> exp.Expr:
    """The pseudo column, until the range is known; ``timed``: the table whose time the range bounds."""
    assert timed.key is not None
    if node.find_ancestor(exp.Where, exp.Join) is not None:
        raise fail(ErrorCode.NOT_ALLOWED, f"{node.name} cannot be used in WHERE or ON", node)
    precision = timed.columns[timed.key].precision
    type_ = Typed(BIGINT) if node.name == "_qduration" else Typed(TIMESTAMP, precision)
    return with_type(column(node.name), type_)


def set_range(scope: Scope, ctx: Context) -> None:
    """Replace the pseudo columns by the ends of the range, which are inclusive.

    :raises SqlError: NOT_ALLOWED in a stream, whose ranges are those of its triggers.
    """
    for node in list(own(scope.select)):
        if not (isinstance(node, exp.Column) and not node.table and node.name in RANGE_COLUMNS):
            continue
        if ctx.placeholders:
            raise fail(ErrorCode.NOT_ALLOWED, f"{node.name} cannot be used in a stream", node)
        draft = scope.timed.draft if scope.timed is not None else None
        first, last = _ends((draft.low, draft.high) if draft is not None else ([], []))
        lasted = min(last - first, LAST)
        value = {"_qstart": first, "_qend": last, "_qduration": lasted}[node.name]
        # as a text, because the digits of the least BIGINT are not a BIGINT without their sign
        node.replace(with_type(cast(text(str(value)), BIGINT), typed(node)))


def _ends(bounds: TimeBounds) -> tuple[int, int]:
    low, high = (Bound(tuple(terms)).evaluate({}) if terms else None for terms in bounds)
    return FIRST if low is None else low, LAST if high is None else high

"""``cols(selection, result, …)``: results from the row that a selection function selects.

``SELECT cols(max(v), ts, w AS x)`` gives the time and ``w`` of the row with the largest ``v``, as one result
column each. Inside, it is an aggregate whose second argument is the result.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.plan.aggregates.calls import order_of
from millrace_core.plan.aggregates.table import AGGREGATES, COLS
from millrace_core.plan.functions.base import check_count
from millrace_core.plan.functions.protocols import Lowering, Typing
from millrace_core.plan.types.typed import fail, typed, with_type


def each_result(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]] | None:
    """For a ``cols`` call in the result list, one call for each result, with the result as it was written."""
    if not (isinstance(node, exp.Anonymous) and node.name == COLS and len(node.expressions) > 1):
        return None
    return _each(node)


def _each(node: exp.Anonymous) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    selection, *results = node.expressions
    for result in results:
        bare = result.this if isinstance(result, exp.Alias) else result
        call = exp.Anonymous(this=COLS, expressions=[selection.copy(), bare])
        call.meta.update({key: node.meta[key] for key in ("line", "col") if key in node.meta})
        yield call, result


def type_cols(typing: Typing, node: exp.Expr) -> exp.Expr:
    """Give the call the type of its result.

    :raises SqlError: NOT_ALLOWED if the first argument does not select a single row, INVALID_VALUE for
        several results where only one can stand.
    """
    check_count(node, len(node.expressions), 2, 2)
    selection, result = node.expressions
    row = AGGREGATES.get(selection.name) if isinstance(selection, exp.Anonymous) else None
    if row is None or row.pick is None:
        able = ", ".join(name for name, row in AGGREGATES.items() if row.pick is not None)
        message = f"the first argument of cols must be a function that selects one row: {able}"
        raise fail(ErrorCode.NOT_ALLOWED, message, selection)
    if typing.aggregate is not None:
        raise fail(ErrorCode.NOT_ALLOWED, f"cols cannot be used inside {typing.aggregate}", node)
    selection = typing.visit(selection)
    found = typing.row_value(result.this if isinstance(result, exp.Alias) else result, "cols")
    node.set("expressions", [selection, found])
    return with_type(node, typed(found))


def lower_cols(lowering: Lowering, node: exp.Expr) -> exp.Expr:
    selection, result = node.expressions
    pick = AGGREGATES[selection.name].pick
    assert pick is not None  # the type pass has checked it
    args = [lowering.visit(arg) for arg in selection.expressions]
    made = pick(lowering.visit(result), args, order_of(lowering, selection, True))
    made.meta.update(aggregate=COLS, arguments=args)
    return made

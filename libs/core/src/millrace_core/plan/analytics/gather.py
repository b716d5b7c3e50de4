"""What ANOMALY_WINDOW and FORECAST share: a column, an algorithm, and arrays of rows for it.

The rows of each partition become one array, in order. A function over whole arrays answers with an array,
which is then exploded into its elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from millrace_core.analytics import Analysis, AnalysisKind
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.plan.levels import SERIES_ROWS, alias, known, when
from millrace_core.plan.scope import Context, Relation, column
from millrace_core.plan.spark.pieces import call, text
from millrace_core.plan.types.typed import fail, typed

VALUES, FOUND, EACH = "_values", "_found", "_each"
"""Columns: the algorithm's input for a partition, its answer, and one element of the exploded answer."""


def check_column(node: exp.Expr, relations: list[Relation], what: str) -> None:
    """Check for one plain numeric column: not an expression, tag, time, text or BOOL.

    :raises SqlError: NOT_ALLOWED, TYPE_MISMATCH, at its place.
    """
    if not isinstance(node, exp.Column):
        raise fail(ErrorCode.NOT_ALLOWED, f"the first argument of {what} must be a plain column", node)
    relation = next((one for one in relations if one.alias == node.table), None)
    table = relation.draft.table if relation is not None and relation.draft is not None else None
    if node.name == "tbname" or (table is not None and table.tag(node.name) is not None):
        raise fail(ErrorCode.NOT_ALLOWED, f"{what} needs a column, but {node.name} is a tag", node)
    type_ = typed(node)
    if not type_.number or type_.null:
        message = f"{what} needs a numeric column, but {node.name} is {type_.type}"
        raise fail(ErrorCode.TYPE_MISMATCH, message, node)


def read_analysis(kind: AnalysisKind, options: exp.Expr | None, at: exp.Expr, ctx: Context) -> Analysis:
    """The algorithm and its parameters.

    :raises SqlError: what is wrong with the options, at their place; if there are none, at ``at``.
    """
    try:
        return ctx.catalog.directory().read(kind, options.name if options is not None else "", ctx.precision)
    except MillraceError as error:
        raise fail(error.code, error.message, at if options is None else options) from None


def gathered(
    source: exp.Expr,
    parts: Sequence[exp.Expr],
    arrays: Mapping[str, Mapping[str, exp.Expr]],
    handed: Sequence[exp.Expr] = (),
) -> exp.Select:
    """One row for each partition of ``source`` (a FROM): the columns ``handed``, and named arrays of the
    partition's rows. An element is a struct of these fields; the first field orders the array."""
    made = exp.Select(
        expressions=[*handed, *(alias(name, _array(fields)) for name, fields in arrays.items())]
    )
    made.set("from_", source)
    if parts:
        made.set("group", exp.Group(expressions=[part.copy() for part in parts]))
    made.meta["inner"] = True
    return made


def _array(fields: Mapping[str, exp.Expr]) -> exp.Expr:
    struct = exp.Struct(
        expressions=[
            exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=node.copy())
            for name, node in fields.items()
        ]
    )
    return exp.ArraySort(this=exp.ArrayAgg(this=struct))


def answer(function: str, analysis: Analysis) -> exp.Expr:
    """The call of a function over the array VALUES."""
    return call(function, column(VALUES, SERIES_ROWS), text(analysis.text()))


def of_each(*path: str) -> exp.Expr:
    """A field of an element of the exploded answer."""
    found: exp.Expr = column(EACH, SERIES_ROWS)
    for name in path:
        found = exp.Dot(this=found, expression=exp.to_identifier(name, quoted=True))
    return found


def or_raise(value: exp.Expr, failed: exp.Expr, type_: str) -> exp.Expr:
    """The value; if something went wrong, the query fails with that."""
    raised = exp.Cast(this=call("RAISE_ERROR", failed), to=exp.DataType.build(type_))
    return when(known(failed), raised, value)

"""ANOMALY_WINDOW(column[, 'options']): windows of neighbouring rows that an algorithm considers anomalous.

The rows of each partition are gathered into one array. A function over whole arrays numbers the windows, and
the array is exploded into rows again. If an algorithm cannot handle a partition (too few rows), the
partition's rows say so: a stream then goes on with the other partitions, while a user's query fails.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from millrace_core.analytics import Analysis
from millrace_core.errors import ErrorCode
from millrace_core.plan.analytics.gather import (
    EACH,
    FOUND,
    VALUES,
    answer,
    check_column,
    gathered,
    of_each,
    or_raise,
    read_analysis,
)
from millrace_core.plan.clauses import Clauses
from millrace_core.plan.keys import Keys
from millrace_core.plan.levels import SERIES_ROWS, alias, known, rows_of
from millrace_core.plan.scope import Context, Relation, Scope, column
from millrace_core.plan.spark.pieces import call
from millrace_core.plan.types.typed import BIGINT, DOUBLE, cast, fail
from millrace_core.plan.windows.rows import NUMBER, Cut, SelectedRows, first_to_last

FUNCTION = "millrace_anomalies"
"""``(array<struct<n, t, v>>, text) -> array<struct<w, e>>``: for each row, in order, the number of its window
(NULL: in none); the first row also says what went wrong."""
FAILED = "_failed"
"""What went wrong in a partition: a column of the rows, and of a stream's result."""
_PLACE, _VALUE, _ROWS = "_n", "_v", "_rows"


@dataclass(frozen=True, slots=True)
class Failing:
    """The column that says what went wrong in a row's partition, if the result has it: the last of
    the window's keys."""

    column: exp.Column


def read_window(window: exp.Expr, relations: list[Relation], ctx: Context) -> Analysis:
    """Check the clause, whose column is typed.

    :raises SqlError: TYPE_MISMATCH, NOT_ALLOWED, INVALID_VALUE, UNSUPPORTED, at its place.
    """
    node, *rest = window.expressions
    check_column(node, relations, "ANOMALY_WINDOW")
    if len(rest) > 1 or (rest and not (isinstance(rest[0], exp.Literal) and rest[0].is_string)):
        raise fail(
            ErrorCode.INVALID_VALUE,
            "the options of ANOMALY_WINDOW must be a single string: 'algo=…, …'",
            rest[0],
        )
    return read_analysis("anomaly-detection", rest[0] if rest else None, window, ctx)


def tells_failures(scope: Scope, ctx: Context) -> bool:
    """Whether the SELECT's result can have the column FAILED: it belongs to a stream, aggregates, and keeps
    all of its rows."""
    select = scope.select
    cut = ("limit", "offset", "distinct")
    return (
        bool(ctx.placeholders)
        and bool(select.meta.get("root"))
        and not scope.record(Clauses).partitions
        and not any(select.args.get(key) for key in cut)
        and any(node.meta.get("aggregate") for node in select.walk())
    )


def cut_anomalies(window: exp.Expr, rows: SelectedRows, *, tells: bool) -> Cut:
    """Cut the rows; those in no window are left out. ``tells``: what goes wrong goes into the column FAILED
    of one row of its partition; otherwise the query fails."""
    analysis: Analysis = window.meta["analysis"]
    place = cast(rows.over(exp.RowNumber(), None), BIGINT)
    rows.level({_PLACE: place, _VALUE: cast(window.expressions[0], DOUBLE)})
    names = [name for name in rows.names if name not in (_PLACE, _VALUE)]
    place = rows.column(_PLACE)
    kept = {_PLACE: place} | {name: rows.column(name) for name in names}
    given = {"n": place, "t": rows.time, "v": rows.column(_VALUE)}
    arrays = {_ROWS: kept, VALUES: given}
    partitions = gathered(rows.scope.select.args["from_"], rows.parts, arrays)
    asked = exp.Select(
        expressions=[
            alias(_ROWS, column(_ROWS, SERIES_ROWS)),
            alias(FOUND, answer(FUNCTION, analysis)),
        ],
        from_=exp.From(this=rows_of(partitions)),
    )
    pair = call("ARRAYS_ZIP", column(_ROWS, SERIES_ROWS), column(FOUND, SERIES_ROWS))
    each = exp.Select(expressions=[alias(EACH, exp.Explode(this=pair))], from_=exp.From(this=rows_of(asked)))
    found, failed = of_each(FOUND, "w"), of_each(FOUND, "e")
    apart = exp.Select(
        expressions=[
            *(alias(name, of_each(_ROWS, name)) for name in names),
            alias(NUMBER, found if tells else or_raise(found, failed.copy(), "INT")),
            alias(FAILED, failed),
        ],
        from_=exp.From(this=rows_of(each)),
    )
    select = rows.scope.select
    select.set("from_", exp.From(this=rows_of(apart, rows.relation.alias)))
    select.where(known(rows.column(NUMBER)), copy=False)
    rows.names = [*names, NUMBER, FAILED]
    if tells:
        rows.scope.note(Failing(rows.column(FAILED)))
    return first_to_last(rows)


def tell_failures(scope: Scope, ctx: Context) -> None:
    """Make FAILED the last column of the result."""
    if scope.found(Failing) is None:
        return
    reference = scope.record(Keys).order[-1]
    select = scope.select
    select.append("expressions", alias(FAILED, reference.copy()))
    where = select.args.get("where")
    if where is not None:  # HAVING does not apply to failures
        either = exp.Or(this=exp.Paren(this=where.this), expression=known(reference))
        select.set("where", exp.Where(this=either))

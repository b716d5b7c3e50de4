"""ANOMALY_WINDOW(column[, 'options']): windows of neighbouring rows that an algorithm finds anomalous.

The rows of each partition are gathered into one array, a function over whole arrays numbers the windows,
and the rows come apart again. What an algorithm cannot do with a partition (too few rows) is told beside its
rows: a stream then goes on with the other partitions, a user's query fails.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from millrace_core.analytics import Analysis
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.plan.scope import Context, Relation, Scope, column
from millrace_core.plan.spark.levels import SERIES_ROWS, alias, known, rows_of, when
from millrace_core.plan.spark.pieces import call, text
from millrace_core.plan.types.typed import BIGINT, DOUBLE, cast, fail, typed
from millrace_core.plan.windows.rows import NUMBER, Cut, Rows, first_to_last

FUNCTION = "millrace_anomalies"
"""``(array<struct<n, t, v>>, text) -> array<struct<w, e>>``: for the rows in order the number of each one's
window (NULL: in none), and beside the first one what went wrong."""
FAILED = "_failed"
"""What went wrong in a partition: a column of the rows, and of a stream's result."""
_PLACE, _VALUE = "_n", "_v"
_ROWS, _VALUES, _FOUND, _EACH = "_rows", "_values", "_found", "_each"


def read_window(window: exp.Expr, relations: list[Relation], ctx: Context) -> Analysis:
    """Check the clause, whose column is typed.

    :raises SqlError: TYPE_MISMATCH, NOT_ALLOWED, INVALID_VALUE, UNSUPPORTED, at its place.
    """
    node, *rest = window.expressions
    check_column(node, relations, "ANOMALY_WINDOW")
    if len(rest) > 1 or (rest and not (isinstance(rest[0], exp.Literal) and rest[0].is_string)):
        raise fail(
            ErrorCode.INVALID_VALUE, "the options of ANOMALY_WINDOW are one text: 'algo=…, …'", rest[0]
        )
    options = rest[0].name if rest else ""
    try:
        return ctx.catalog.directory().read("anomaly-detection", options, ctx.precision)
    except MillraceError as error:
        raise fail(error.code, error.message, rest[0] if rest else window) from None


def check_column(node: exp.Expr, relations: list[Relation], what: str) -> None:
    """One plain numeric column: no expression, tag, time, text or BOOL.

    :raises SqlError: NOT_ALLOWED, TYPE_MISMATCH, at its place.
    """
    if not isinstance(node, exp.Column):
        raise fail(ErrorCode.NOT_ALLOWED, f"{what} takes one plain column first", node)
    relation = next((one for one in relations if one.alias == node.table), None)
    table = relation.draft.table if relation is not None and relation.draft is not None else None
    if node.name == "tbname" or (table is not None and table.tag(node.name) is not None):
        raise fail(ErrorCode.NOT_ALLOWED, f"{what} takes a column; {node.name} is a tag", node)
    type_ = typed(node)
    if not type_.number or type_.null:
        message = f"{what} takes a numeric column; {node.name} is {type_.type}"
        raise fail(ErrorCode.TYPE_MISMATCH, message, node)


def tells_failures(scope: Scope, ctx: Context) -> bool:
    """Whether the SELECT's result can have the column FAILED: it is a stream's, aggregates, and keeps all of
    its rows."""
    select = scope.select
    cut = ("limit", "offset", "distinct")
    return (
        bool(ctx.placeholders)
        and bool(select.meta.get("root"))
        and not scope.partitions
        and not any(select.args.get(key) for key in cut)
        and any(node.meta.get("aggregate") for node in select.walk())
    )


def cut_anomalies(window: exp.Expr, rows: Rows, *, tells: bool) -> Cut:
    """Cut the rows; those in no window are left out. ``tells``: what goes wrong becomes the column FAILED
    of one row of its partition, otherwise the query fails."""
    analysis: Analysis = window.meta["analysis"]
    place = cast(rows.over(exp.RowNumber(), None), BIGINT)
    rows.level({_PLACE: place, _VALUE: cast(window.expressions[0], DOUBLE)})
    names = [name for name in rows.names if name not in (_PLACE, _VALUE)]
    gathered = _gathered(rows, names)
    asked = exp.Select(
        expressions=[
            alias(_ROWS, column(_ROWS, SERIES_ROWS)),
            alias(_FOUND, call(FUNCTION, column(_VALUES, SERIES_ROWS), text(analysis.text()))),
        ],
        from_=exp.From(this=rows_of(gathered)),
    )
    pair = call("ARRAYS_ZIP", column(_ROWS, SERIES_ROWS), column(_FOUND, SERIES_ROWS))
    each = exp.Select(expressions=[alias(_EACH, exp.Explode(this=pair))], from_=exp.From(this=rows_of(asked)))
    apart = exp.Select(
        expressions=[
            *(alias(name, _field(_ROWS, name)) for name in names),
            alias(NUMBER, _number(tells)),
            alias(FAILED, _field(_FOUND, "e")),
        ],
        from_=exp.From(this=rows_of(each)),
    )
    select = rows.scope.select
    select.set("from_", exp.From(this=rows_of(apart, rows.relation.alias)))
    select.where(known(rows.column(NUMBER)), copy=False)
    rows.names = [*names, NUMBER, FAILED]
    if tells:
        rows.scope.failed = rows.column(FAILED)
    return first_to_last(rows)


def _gathered(rows: Rows, names: list[str]) -> exp.Select:
    """A row for each partition: its rows, and what the algorithm is given of them, both in order."""
    place = rows.column(_PLACE)
    given = {"n": place, "t": rows.time, "v": rows.column(_VALUE)}
    kept = {_PLACE: place} | {name: rows.column(name) for name in names}
    select = rows.scope.select
    made = exp.Select(expressions=[alias(_ROWS, array_in_order(kept)), alias(_VALUES, array_in_order(given))])
    made.set("from_", select.args["from_"])
    if rows.parts:
        made.set("group", exp.Group(expressions=[part.copy() for part in rows.parts]))
    made.meta["inner"] = True
    return made


def array_in_order(fields: Mapping[str, exp.Expr]) -> exp.Expr:
    """The structs of all rows, in the order of their first fields."""
    struct = exp.Struct(
        expressions=[
            exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=node.copy())
            for name, node in fields.items()
        ]
    )
    return exp.ArraySort(this=exp.ArrayAgg(this=struct))


def _field(array: str, name: str) -> exp.Expr:
    row = exp.Dot(this=column(_EACH, SERIES_ROWS), expression=exp.to_identifier(array, quoted=True))
    return exp.Dot(this=row, expression=exp.to_identifier(name, quoted=True))


def _number(tells: bool) -> exp.Expr:
    found = _field(_FOUND, "w")
    if tells:
        return found
    failed = _field(_FOUND, "e")
    raised = exp.Cast(this=call("RAISE_ERROR", failed), to=exp.DataType.build("INT"))
    return when(known(failed), raised, found)


def tell_failures(scope: Scope, ctx: Context) -> None:
    """Make FAILED the last column of the result."""
    if scope.failed is None:
        return
    reference = scope.keys[-1]
    select = scope.select
    select.append("expressions", alias(FAILED, reference.copy()))
    where = select.args.get("where")
    if where is not None:  # HAVING is not asked of it
        either = exp.Or(this=exp.Paren(this=where.this), expression=known(reference))
        select.set("where", exp.Where(this=either))

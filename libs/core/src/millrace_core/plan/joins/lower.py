"""TDengine's own joins. One relation *drives* them, the left of a LEFT join and the right of a RIGHT one.

SEMI gives each driving row with one row that matches it, ANTI gives the driving rows that nothing matches.
ASOF and WINDOW match rows by how near their times are (``near.py``).
"""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.language.query.nodes import NearJoin
from millrace_core.plan.join_pair import NearPair, Pair
from millrace_core.plan.joins.near import lower_near
from millrace_core.plan.joins.read import read_near, time_order, used_columns
from millrace_core.plan.keys import Keys
from millrace_core.plan.levels import alias, ascending, rows_of
from millrace_core.plan.scope import Context, Scope, column
from millrace_core.plan.types.typed import BIGINT, fail, number, with_type
from millrace_core.plan.windows.rows import JOINED, join_rows

ROW, FIRST = "_row", "_first"
KINDS = ("SEMI", "ANTI", "ASOF", "WINDOW")


def read_joins(scope: Scope, ctx: Context) -> None:
    """Note which relation drives the SELECT's join, if it is of one of these kinds, and read its clause.

    :raises SqlError: at anything that such a join cannot have.
    """
    joins = scope.select.args.get("joins") or []
    special = next((join for join in joins if (join.args.get("kind") or "").upper() in KINDS), None)
    if special is None:
        return
    if len(joins) > 1:
        message = f"{special.args['kind']} JOIN cannot be combined with other joins"
        raise fail(ErrorCode.NOT_ALLOWED, message, special)
    left, right = scope.relations
    driving, other = (left, right) if special.args["side"] == "LEFT" else (right, left)
    if driving.key is None or other.key is None:
        message = f"{special.args['kind']} JOIN needs tables with time columns"
        raise fail(ErrorCode.NOT_ALLOWED, message, special)
    pair = Pair(special, driving, other)
    scope.note(read_near(pair, scope, ctx) if isinstance(special, NearJoin) else pair)


def lower_joins(scope: Scope, ctx: Context) -> None:
    """Turn the SELECT's joins into Spark's; rows come in the order of the driving relation's rows."""
    pair = scope.found(Pair)
    if isinstance(pair, NearPair):
        lower_near(pair, scope)
    elif pair is not None and pair.join.args["kind"] == "SEMI":
        _lower_semi(pair, scope)
    elif pair is not None:
        _lower_anti(pair, scope)


def _lower_anti(pair: Pair, scope: Scope) -> None:
    """Keep the rows of an outer join that lack the other side: only there is that side's time NULL."""
    assert pair.other.key is not None
    missing = exp.Is(this=pair.other.column(pair.other.key), expression=exp.Null())
    pair.join.set("kind", None)
    scope.select.where(missing, copy=False)


def _lower_semi(pair: Pair, scope: Scope) -> None:
    """Number the driving rows, join them, and for each keep the first of the rows that match."""
    select, driving = scope.select, pair.driving
    names = used_columns(scope, driving)
    place = next(
        place for place in (select.args["from_"], pair.join) if place.this.alias_or_name == driving.alias
    )
    numbered = exp.Window(
        this=exp.RowNumber(), order=exp.Order(expressions=[ascending(node) for node in time_order(driving)])
    )
    rows = exp.Select(expressions=[alias(name, column(name, driving.alias)) for name in names])
    rows.append("expressions", alias(ROW, numbered))
    rows.set("from_", exp.From(this=place.this.copy()))
    place.set("this", rows_of(rows, driving.alias))
    pair.join.set("kind", None)
    pair.join.set("side", None)
    row = with_type(column(ROW, driving.alias), BIGINT)
    first = exp.Window(
        this=exp.RowNumber(),
        partition_by=[row.copy()],
        order=exp.Order(expressions=[ascending(node) for node in time_order(pair.other)]),
    )
    where = select.args.get("where")
    select.set("where", None)
    beside = {ROW: row, FIRST: first}
    join_rows(scope, [where] if where is not None else [], beside)
    select.set("where", where)
    select.where(exp.EQ(this=column(FIRST, JOINED), expression=number(1)), copy=False)
    scope.record(Keys).order = [column(ROW, JOINED)]

"""The pass that turns series functions into nested SELECTs with window functions."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.plan.clauses import Clauses
from millrace_core.plan.keys import Keys
from millrace_core.plan.levels import Levels, carry, known, over_level, row_order, rows_of
from millrace_core.plan.scope import Context, Scope, own
from millrace_core.plan.series.build import Built, SeriesCall, typed_value
from millrace_core.plan.series.table import SERIES
from millrace_core.plan.types.typed import fail
from millrace_core.plan.windows.filling import Filling


def lower_series(scope: Scope, ctx: Context) -> None:
    """Give a SELECT with series functions its levels; leave any other as it is.

    :raises SqlError: NOT_ALLOWED where a function cannot stand, or cannot stand beside the others.
    """
    select = scope.select
    calls = series_calls(scope)
    if not calls or SERIES[calls[0].name].build is None:
        return
    keys = _keys(scope, calls)
    timed = scope.timed
    order = row_order(scope)
    if not order or (timed is None and any(SERIES[call.name].timed for call in calls)):
        raise fail(ErrorCode.NOT_ALLOWED, f"{calls[0].name} needs a table with a time column", calls[0])
    time = timed.columns[timed.key] if timed is not None and timed.key is not None else None
    levels = Levels(keys, order, timed is not None)
    built: dict[exp.Expr, Built] = {}
    for call in dict.fromkeys(calls):
        row = SERIES[call.name]
        assert row.build is not None
        if row.known_only:
            select.where(known(call.expressions[0]), copy=False)
        precision = (time.precision if time is not None else None) or ctx.precision
        value = levels.base(call.expressions[0])
        built[call] = row.build(SeriesCall(levels, value, call.meta["constants"], precision))
    outer = _outer(scope, levels, keys, built)
    outer.set("from_", exp.From(this=rows_of(levels.select(select))))
    _filter(outer, list(built.values()))
    given = scope.record(Keys)
    given.parts = list(levels.keys[: len(keys) - given.windows])
    given.order = [*levels.keys, *levels.order]
    scope.select = outer


def series_calls(scope: Scope) -> list[exp.Expr]:
    """The series functions of the SELECT, checked: they stand in its results, and beside what they may.

    :raises SqlError: NOT_ALLOWED.
    """
    select = scope.select
    calls = [n for p in select.expressions for n in p.walk() if n.meta.get("series")]
    inside = {id(call) for call in calls}
    for node in own(select):
        if node.meta.get("series") and id(node) not in inside:
            raise fail(ErrorCode.NOT_ALLOWED, f"{node.name} can be used only in a result column", node)
    if not calls:
        return calls
    for node in own(select):
        if node.meta.get("aggregate"):
            message = f"{calls[0].name} cannot be used together with the aggregate {node.meta['aggregate']}"
            raise fail(ErrorCode.NOT_ALLOWED, message, node)
    if select.args.get("having") is not None:
        raise fail(
            ErrorCode.NOT_ALLOWED, f"HAVING cannot be used with {calls[0].name}", select.args["having"]
        )
    first, *others = calls
    company = SERIES[first.name].company(first.meta["constants"])
    for other in others:
        if other == first:
            continue
        if company is None or SERIES[other.name].company(other.meta["constants"]) != company:
            message = f"{other.name} cannot be used together with {first.name}: they return different rows"
            raise fail(ErrorCode.NOT_ALLOWED, message, other)
    return calls


def _keys(scope: Scope, calls: list[exp.Expr]) -> list[exp.Expr]:
    select = scope.select
    group = select.args.get("group")
    for call in calls:
        if (group is not None or scope.record(Clauses).windowed) and not SERIES[call.name].grouped:
            names = ", ".join(name for name, row in SERIES.items() if row.grouped)
            message = f"{call.name} cannot be used with GROUP BY or a window; only {names} can"
            raise fail(ErrorCode.NOT_ALLOWED, message, call)
    if (filling := scope.found(Filling)) is not None:
        raise fail(ErrorCode.NOT_ALLOWED, f"FILL cannot be used with {calls[0].name}", filling.at)
    found = [*(select.args.get("partition_by") or []), *(group.expressions if group is not None else [])]
    select.set("partition_by", None)
    select.set("group", None)
    return found


def _outer(scope: Scope, levels: Levels, keys: list[exp.Expr], built: dict[exp.Expr, Built]) -> exp.Select:
    """The outermost level: the results, with their order and limits."""
    select = scope.select
    order = select.args.get("order")
    outer = exp.Select(expressions=select.expressions)

    def placed(node: exp.Expr) -> exp.Expr | None:
        """What replaces a part of an expression over the columns of the levels."""
        if node.meta.get("series"):
            return typed_value(built[node], node)
        return levels.base(node) if node in keys or isinstance(node, exp.Column) else None

    for projection in outer.expressions:
        projection.set("this", over_level(projection.this, placed))
    for ordered in order.expressions if order is not None else []:
        if not ordered.this.meta.get("result"):
            ordered.set("this", over_level(ordered.this, placed))
    carry(select, outer)
    return outer


def _filter(outer: exp.Select, built: list[Built]) -> None:
    """Keep the rows for which at least one of the functions has a result."""
    never = built[0].never
    if never is not None:
        outer.where(exp.Not(this=exp.Paren(this=never.copy())), copy=False)
    keeps = [one.keep for one in built]
    wanted = [exp.Paren(this=keep.copy()) for keep in keeps if keep is not None]
    if len(wanted) == len(keeps):
        outer.where(exp.or_(*wanted, copy=False), copy=False)

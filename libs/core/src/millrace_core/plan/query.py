"""Planning: a query goes through :data:`PASSES`, one SELECT after another, the inner ones first."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from millrace_core.catalog import Catalog, Definitions
from millrace_core.errors import ErrorCode
from millrace_core.language.query import parse_query
from millrace_core.language.query.nodes import CLAUSES, position_of
from millrace_core.language.query.size import too_deep
from millrace_core.model.schema import Precision
from millrace_core.plan.analytics.forecast import lower_forecast
from millrace_core.plan.bounds import find_bounds
from millrace_core.plan.clauses import check_clauses
from millrace_core.plan.explain import explain, explained
from millrace_core.plan.expressions.annotate import annotate
from millrace_core.plan.expressions.lower import lower_expressions
from millrace_core.plan.fill.interp import lower_interp
from millrace_core.plan.fill.windows import fill_windows
from millrace_core.plan.forced import forced_row
from millrace_core.plan.joins.lower import lower_joins, read_joins
from millrace_core.plan.keys import Keys
from millrace_core.plan.limits import limit_partitions
from millrace_core.plan.model import Plan
from millrace_core.plan.names.range import set_range
from millrace_core.plan.names.resolve import name_results, resolve_columns, resolve_tables
from millrace_core.plan.names.stars import expand_stars
from millrace_core.plan.notify import add_notify
from millrace_core.plan.scope import Context, Relation, Result, Scope, column, near
from millrace_core.plan.shape import set_wise
from millrace_core.plan.split.group import split_aggregates
from millrace_core.plan.split.running import lower_running
from millrace_core.plan.split.series import lower_series
from millrace_core.plan.types.typed import BIGINT, Typed, cast, common, fail, number, rescale, with_type
from millrace_core.plan.windows.anomaly import Failing, tell_failures
from millrace_core.plan.windows.lower import lower_windows

Pass = Callable[[Scope, Context], None]


def type_results(scope: Scope, ctx: Context) -> None:
    """Cast the results to exactly their types, and timestamps to the query's precision."""
    root = scope.select.meta.get("root")
    for i, (projection, result) in enumerate(zip(scope.select.expressions, scope.results, strict=False)):
        type_ = result.typed
        this = projection.this
        if root and type_.precision is not None and type_.precision != ctx.precision:
            this = rescale(this, type_.precision, ctx.precision)
            scope.results[i] = Result(result.name, result.alias, Typed(type_.type, ctx.precision))
        if not isinstance(this, (exp.Column, exp.Cast)) or _differs(this, type_):
            this = cast(this, type_)
        projection.set("this", this)


def _differs(node: exp.Expr, type_: Typed) -> bool:
    found: Typed | None = node.meta.get("typed")
    return found is None or found.type.info.spark != type_.type.info.spark


def order_rows(scope: Scope, ctx: Context) -> None:
    """Order the rows, unless the query does: those of one table by its time, those of a join by the time of
    the table that drives it, windows by their own."""
    select = scope.select
    if select.args.get("order") is not None or select.args.get("distinct"):
        return
    if not (select.meta.get("root") or select.args.get("limit")):
        return
    keys: list[exp.Expr] = [key.copy() for key in scope.record(Keys).order]
    plain = select.args.get("from_") is not None and isinstance(select.args["from_"].this, exp.Table)
    sides = {(join.args.get("side") or "").upper() for join in select.args.get("joins") or []}
    if plain and not keys and scope.timed is not None and "FULL" not in sides:
        keys = _time_keys(scope.timed)
    if keys:
        select.set("order", exp.Order(expressions=[exp.Ordered(this=key, nulls_first=True) for key in keys]))


def _time_keys(relation: Relation) -> list[exp.Expr]:
    if relation.key is None or relation.draft is None:
        return []
    keys: list[exp.Expr] = [relation.column(relation.key)]
    return [*keys, relation.column("tbname")] if relation.many_tables else keys


PASSES: tuple[Pass, ...] = (
    check_clauses,
    resolve_tables,
    expand_stars,
    name_results,
    add_notify,
    resolve_columns,
    annotate,
    read_joins,
    find_bounds,
    set_range,
    lower_expressions,
    lower_joins,
    lower_running,
    lower_windows,
    lower_running,
    lower_interp,
    lower_forecast,
    lower_series,
    split_aggregates,
    fill_windows,
    tell_failures,
    type_results,
    order_rows,
    limit_partitions,
)
"""Every pass gets the scope of a SELECT and the context of the query, and rewrites the SELECT."""


def plan(tree: exp.Expr, ctx: Context) -> Plan:
    """Plan a parsed query in its context.

    :raises SqlError: with the place of what is wrong.
    """
    tree.meta["root"] = True
    try:
        planned = _planned(tree, ctx)
    except RecursionError:
        # within the limits of the text, but deeper once functions have become Spark's
        raise too_deep(position_of(tree)) from None
    results: list[Result] = planned.meta["results"]
    return Plan(
        sources=tuple(draft.use() for draft in ctx.drafts),
        result=tuple(result.column for result in results),
        uses=frozenset(ctx.uses),
        precision=ctx.precision,
        one_tree=planned,
        set_tree=set_wise(planned) if ctx.placeholders else None,
        notify=ctx.notify is not None,
        forced_tree=forced_row(planned) if ctx.force_output else None,
        failed=bool(planned.meta.get("failed")),
    )


def _planned(tree: exp.Expr, ctx: Context) -> exp.Expr:
    if isinstance(tree, exp.Subquery):
        tree.this.meta.update({key: tree.meta[key] for key in ("root",) if key in tree.meta})
        return _planned(tree.this, ctx)
    if isinstance(tree, exp.SetOperation):
        return _union(tree, ctx)
    if not isinstance(tree, exp.Select):
        raise fail(ErrorCode.UNSUPPORTED, "expected a SELECT", tree)
    for place in [tree.args.get("from_"), *(tree.args.get("joins") or [])]:
        if place is not None and isinstance(place.this, exp.Subquery):
            place.this.set("this", _planned(place.this.this, ctx))
    scope = Scope(tree)
    for apply in PASSES:
        apply(scope, ctx)
    scope.select.meta["results"] = scope.results
    scope.select.meta["failed"] = scope.found(Failing) is not None
    return scope.select


def _union(tree: exp.SetOperation, ctx: Context) -> exp.Expr:
    if any(tree.args.get(key) for key in CLAUSES):
        raise fail(
            ErrorCode.UNSUPPORTED, "a window or PARTITION BY must belong to a single SELECT of a UNION", tree
        )
    if ctx.notify is not None:
        raise fail(ErrorCode.UNSUPPORTED, "NOTIFY with WHERE is not supported with a UNION yet", ctx.notify)
    sides: list[exp.Expr] = []
    for key in ("this", "expression"):
        planned = _planned(tree.args[key], ctx)
        if planned.args.get("limit") or planned.args.get("order"):
            results = planned.meta["results"]
            planned = exp.Subquery(this=planned)
            planned.meta["results"] = results
        sides.append(planned)
        tree.set(key, planned)
    left, right = (side.meta["results"] for side in sides)
    if len(left) != len(right):
        message = (
            f"the SELECTs of a UNION must have the same number of columns, not {len(left)} and {len(right)}"
        )
        raise fail(ErrorCode.TYPE_MISMATCH, message, tree)
    results = [_merged(a, b, tree) for a, b in zip(left, right, strict=True)]
    for side in sides:
        _cast_branch(side, results)
    order = tree.args.get("order")
    for ordered in order.expressions if order is not None else []:
        _order_union(ordered, results)
    tree.meta["results"] = results
    return tree


def _merged(a: Result, b: Result, at: exp.Expr) -> Result:
    return Result(a.name, a.alias, common([a.typed, b.typed], at))


def _cast_branch(side: exp.Expr, results: list[Result]) -> None:
    """Give a branch of a UNION the names and types of the whole."""
    select = side.this if isinstance(side, exp.Subquery) else side
    if isinstance(select, exp.SetOperation):
        for key in ("this", "expression"):
            _cast_branch(select.args[key], results)
        return
    for projection, result in zip(select.expressions, results, strict=False):
        if _differs(projection.this, result.typed):
            projection.set("this", cast(projection.this, result.typed))
        projection.set("alias", exp.to_identifier(result.alias, quoted=True))


def _order_union(ordered: exp.Expr, results: list[Result]) -> None:
    this = ordered.this
    found = None
    if isinstance(this, exp.Literal) and this.name.isdigit() and 1 <= int(this.name) <= len(results):
        found = results[int(this.name) - 1]
    elif isinstance(this, exp.Column):
        found = next((result for result in results if result.name == this.name), None)
    if found is None:
        names = [result.name for result in results]
        message = f"ORDER BY of a UNION can use only its result columns{near(this.name, names)}"
        raise fail(ErrorCode.UNKNOWN_COLUMN, message, this)
    reference = column(found.alias)
    reference.meta.update(resolved=True, result=found.alias)
    ordered.set("this", reference)


def seen_of(definitions: Definitions, tree: exp.Expr, database: str | None) -> Catalog:
    """The part of the catalog that the query names, which is enough to plan it."""
    names = {
        (node.db or database or "", node.name)
        for node in tree.find_all(exp.Table)
        if isinstance(node.this, exp.Identifier)
    }
    lists = ("operation_modifiers", "distinct", "group")  # each of these may ask for a super table's children
    families = any(select.args.get(key) for select in tree.find_all(exp.Select) for key in lists)
    return definitions.part(sorted(names), families=families)


def plan_query(
    sql: str, database: str | None, definitions: Definitions, timezone: str, now_ns: int,
    user: str | None = None,
) -> Plan:  # fmt: skip
    """Plan a user's SELECT, or the rows of its EXPLAIN. It has no placeholders: run ``one_sql({})``.

    ``database``: the one that unqualified names mean; ``now_ns``: what ``now`` means; ``user``: who asks. The
    ``definitions`` are asked once, for what the query names.

    :raises SqlError: with the place of what is wrong.
    """
    asked = explained(sql)
    tree = parse_query(*asked) if asked is not None else parse_query(sql)
    now = with_type(number(now_ns), BIGINT)
    seen = seen_of(definitions, tree, database)
    precision = _precision(tree, database, seen)
    found = plan(tree, Context(seen, database, timezone, precision, now, user=user))
    return found if asked is None else explain(found)


def _precision(tree: exp.Expr, database: str | None, catalog: Catalog) -> Precision:
    """The precision of the first table's database."""
    precision = catalog.databases[database].precision if database in catalog.databases else "ms"
    tables = list(tree.find_all(exp.Table))
    for table in tables:
        name = table.args["db"].name if table.args.get("db") else database
        if name in catalog.databases:
            return catalog.databases[name].precision
    return "ms" if tables else precision  # only tables of information_schema

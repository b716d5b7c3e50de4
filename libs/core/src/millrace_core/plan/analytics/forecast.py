"""FORECAST(column[, covariates…][, 'options']): forecast rows, in users' queries (seed 001, TDgpt).

As in ``anomaly.py``, the rows of each partition are gathered into an array. The function gives an array of
forecast rows, each of which becomes a row of the result.
"""

from __future__ import annotations

from functools import partial

from sqlglot import exp

from millrace_core.analytics import Analysis
from millrace_core.errors import ErrorCode
from millrace_core.model.types import DataType
from millrace_core.plan.analytics.calls import FORECAST
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
from millrace_core.plan.functions.scalar import convert
from millrace_core.plan.keys import Keys
from millrace_core.plan.levels import (
    SERIES_ROWS,
    alias,
    ascending,
    carry,
    over,
    over_level,
    row_order,
    rows_of,
)  # fmt: skip
from millrace_core.plan.scope import Context, Relation, Scope, column, own
from millrace_core.plan.types.typed import BIGINT, DOUBLE, TIMESTAMP, Typed, cast, fail, typed, with_type

FUNCTION = "millrace_forecast"
"""``(array<struct<n, t, v>>, text) -> array<struct<t, v, low, high, e>>``."""
PSEUDO = {"_frowts": "t", "_flow": "low", "_fhigh": "high"}
"""Pseudo columns of a SELECT with FORECAST: the time of a forecast row, and the bounds of its value."""


def calls_of(select: exp.Expr) -> list[exp.Expr]:
    return [node for node in own(select) if isinstance(node, exp.Anonymous) and node.name == FORECAST]


def forecast_column(name: str, scope: Scope) -> exp.Column | None:
    """The pseudo column of that name, if the SELECT has it; that needs FORECAST."""
    timed = scope.timed
    if name not in PSEUDO or timed is None or timed.key is None or not calls_of(scope.select):
        return None
    time = Typed(TIMESTAMP, timed.columns[timed.key].precision)
    return with_type(column(name), time if name == "_frowts" else Typed(DataType("FLOAT")))


def lower_forecast(scope: Scope, ctx: Context) -> None:
    """Rewrite a SELECT with FORECAST.

    :raises SqlError: NOT_ALLOWED in streams and beside what gives different rows; for wrong options.
    """
    select = scope.select
    calls = calls_of(select)
    if not calls:
        return
    _check_place(scope, ctx, calls)
    relation = scope.timed
    if relation is None or relation.key is None:
        raise fail(ErrorCode.NOT_ALLOWED, "forecast needs a table with a time column", calls[0])
    analysis = _read(calls[0], scope.relations, ctx)
    keys = list(select.args.get("partition_by") or [])
    select.set("partition_by", None)
    outer = exp.Select(expressions=select.expressions)
    places = [*select.expressions]
    order = select.args.get("order")
    if order is not None:
        places += [ordered for ordered in order.expressions if not ordered.this.meta.get("result")]
    for place in places:
        place.set("this", over_level(place.this, partial(_to_come, keys=keys)))
    carry(select, outer)
    outer.set("from_", exp.From(this=rows_of(_rows_to_come(scope, keys, calls[0].expressions[0], analysis))))
    parts = [_key(at) for at in range(len(keys))]
    scope.note(Keys([*parts, column("_t", SERIES_ROWS)], list(parts)))
    scope.select = outer


def _check_place(scope: Scope, ctx: Context, calls: list[exp.Expr]) -> None:
    select = scope.select
    if ctx.placeholders:
        raise fail(ErrorCode.NOT_ALLOWED, "forecast cannot be used in a stream", calls[0])
    if any(other != calls[0] for other in calls[1:]):
        raise fail(ErrorCode.NOT_ALLOWED, "a SELECT can have only one forecast", calls[1])
    if scope.record(Clauses).windowed or select.args.get("group") is not None:
        raise fail(ErrorCode.NOT_ALLOWED, "forecast cannot be used with GROUP BY or a window", calls[0])
    inside = {id(node) for result in select.expressions for node in result.walk()}
    for node in own(select):
        if node.meta.get("aggregate") or node.meta.get("series"):
            what = node.meta.get("aggregate") or node.name
            raise fail(ErrorCode.NOT_ALLOWED, f"forecast cannot be used together with {what}", calls[0])
        pseudo = isinstance(node, exp.Column) and not node.table and node.name in PSEUDO
        if pseudo and id(node) not in inside and node.find_ancestor(exp.Order) is None:
            raise fail(ErrorCode.NOT_ALLOWED, f"{node.name} can be used only in a result column", node)


def _read(node: exp.Expr, relations: list[Relation], ctx: Context) -> Analysis:
    first, *rest = node.expressions
    check_column(first, relations, "forecast")
    last = rest[-1] if rest else None
    given = isinstance(last, exp.Literal) and last.is_string
    analysis = read_analysis("forecast", last if given else None, node, ctx)
    for covariate in rest[:-1] if given else rest:
        check_column(covariate, relations, "forecast")
        message = f"the algorithm {analysis.algorithm} does not support covariates"
        raise fail(ErrorCode.UNSUPPORTED, message, covariate)
    return analysis


def _key(at: int) -> exp.Column:
    return column(f"_k{at}", SERIES_ROWS)


def _to_come(node: exp.Expr, keys: list[exp.Expr]) -> exp.Expr | None:
    """What replaces a part of an expression over the forecast rows."""
    if isinstance(node, exp.Anonymous) and node.name == FORECAST:
        found = with_type(column("_v", SERIES_ROWS), Typed(DOUBLE))
        return with_type(convert(found, typed(node)), typed(node))
    if node in keys:
        return with_type(_key(keys.index(node)), typed(node))
    if isinstance(node, exp.Column):
        if node.table or node.name not in PSEUDO:
            message = f"column {node.name} cannot be used with forecast: it is not a grouping column"
            raise fail(ErrorCode.NOT_ALLOWED, message, node)
        name = "_t" if node.name == "_frowts" else node.name
        return with_type(cast(column(name, SERIES_ROWS), typed(node)), typed(node))
    return None


def _rows_to_come(scope: Scope, keys: list[exp.Expr], value: exp.Expr, analysis: Analysis) -> exp.Select:
    """``_k0`` …, ``_t``, ``_v``, ``_flow``, ``_fhigh``: keys, time, value and bounds of each forecast row."""
    select = scope.select
    order = row_order(scope)
    place = over(exp.RowNumber(), keys, [ascending(node.copy()) for node in order])
    named = [alias(f"_k{at}", key.copy()) for at, key in enumerate(keys)]
    named += [alias("_n", cast(place, BIGINT)), alias("_t", order[0].copy())]
    select.set("expressions", [*named, alias("_v", cast(value.copy(), DOUBLE))])
    handed = [alias(f"_k{at}", _key(at)) for at in range(len(keys))]
    cells = {name: column(f"_{name}", SERIES_ROWS) for name in ("n", "t", "v")}
    source = exp.From(this=rows_of(select))
    made = gathered(source, [_key(at) for at in range(len(keys))], {VALUES: cells}, handed)
    levels = [
        alias(FOUND, answer(FUNCTION, analysis)),
        alias(EACH, exp.Explode(this=column(FOUND, SERIES_ROWS))),
    ]
    for level in levels:
        made = exp.Select(
            expressions=[*(one.copy() for one in handed), level], from_=exp.From(this=rows_of(made))
        )
    results: dict[str, exp.Expr] = {
        "_t": of_each("t"), "_flow": of_each("low"), "_fhigh": of_each("high"),
        "_v": or_raise(of_each("v"), of_each("e"), "DOUBLE"),
    }  # fmt: skip
    expressions = [*(one.copy() for one in handed), *(alias(name, node) for name, node in results.items())]
    return exp.Select(expressions=expressions, from_=exp.From(this=rows_of(made)))

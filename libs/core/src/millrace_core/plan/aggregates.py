"""The table of aggregate functions: name -> type of the result, Spark SQL expression, and which row it picks.

A *selection* function (min, max, first, last, last_row) takes its value from one row; columns beside it in
the result come from that row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from millrace_core.model.types import DataType
from millrace_core.plan.typed import BIGINT, DOUBLE, Typed, cast, typed, wrap

UNSIGNED = DataType("BIGINT UNSIGNED")
Order = exp.Expr
Pick = Callable[[exp.Expr, list[exp.Expr], Order], exp.Expr]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row of the table.

    ``build(args, order)``: the expression; ``order`` tells the rows' order in time. ``counts``: gives 0 over
    no rows, so a query with it gives a row then. ``pick(column, args, order)``: another column's value in
    the row that a selection function selects.
    """

    result: Callable[[list[Typed], exp.Expr], Typed]
    build: Callable[[list[exp.Expr], Order], exp.Expr]
    counts: bool = False
    pick: Pick | None = None
    numbers: bool = True


def _same(types: list[Typed], node: exp.Expr) -> Typed:
    return types[0]


def _fixed(type_: DataType) -> Callable[[list[Typed], exp.Expr], Typed]:
    return lambda types, node: Typed(type_)


def _sum_type(types: list[Typed], node: exp.Expr) -> Typed:
    if types[0].real:
        return Typed(DOUBLE)
    return Typed(UNSIGNED if types[0].type.name.endswith("UNSIGNED") else BIGINT)


def _sum(args: list[exp.Expr], order: Order) -> exp.Expr:
    type_ = typed(args[0])
    total = _sum_type([type_], args[0])
    value = cast(args[0], BIGINT) if type_.type.name == "BOOL" else args[0]
    return cast(exp.Sum(this=value), total)


def _statistic(kind: type[exp.Expr]) -> Callable[[list[exp.Expr], Order], exp.Expr]:
    return lambda args, order: kind(this=cast(args[0], DOUBLE))


def _spread(args: list[exp.Expr], order: Order) -> exp.Expr:
    value = cast(args[0], DOUBLE)
    return exp.Sub(this=exp.Max(this=value), expression=exp.Min(this=value.copy()))


def _count(args: list[exp.Expr], order: Order) -> exp.Expr:
    return exp.Count(this=args[0], big_int=True)


def _distinct(args: list[exp.Expr], order: Order) -> exp.Expr:
    return exp.Count(this=exp.Distinct(expressions=[args[0]]))


def known(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=wrap(value.copy()), expression=exp.Null()))


def _where(aggregate: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    if condition is None:
        return aggregate
    return exp.Filter(this=aggregate, expression=exp.Where(this=condition))


def _by(kind: type[exp.Expr], value: exp.Expr, order: Order, condition: exp.Expr | None) -> exp.Expr:
    """The value in the first or last row that meets the condition; boxed, so that a NULL counts as well."""
    box = exp.Struct(expressions=[exp.PropertyEQ(this=exp.to_identifier("v"), expression=value.copy())])
    found = _where(kind(this=box, expression=order.copy()), condition)
    return exp.Dot(this=exp.Paren(this=found), expression=exp.to_identifier("v"))


def _first(args: list[exp.Expr], order: Order) -> exp.Expr:
    return _where(exp.ArgMin(this=args[0], expression=order.copy()), known(args[0]))


def _last(args: list[exp.Expr], order: Order) -> exp.Expr:
    return _where(exp.ArgMax(this=args[0], expression=order.copy()), known(args[0]))


def _pick_first(column: exp.Expr, args: list[exp.Expr], order: Order) -> exp.Expr:
    return _by(exp.ArgMin, column, order, known(args[0]))


def _pick_last(column: exp.Expr, args: list[exp.Expr], order: Order) -> exp.Expr:
    return _by(exp.ArgMax, column, order, known(args[0]))


def _pick_extreme(kind: type[exp.Expr]) -> Pick:
    """The earliest of the rows with the smallest (ArgMin) or largest (ArgMax) value."""

    def pick(column: exp.Expr, args: list[exp.Expr], order: Order) -> exp.Expr:
        time = order.expressions[0] if isinstance(order, exp.Struct) else order
        earlier = exp.Neg(this=time.copy()) if kind is exp.ArgMax else time.copy()
        rank = exp.Struct(expressions=[args[0].copy(), earlier])
        return _by(kind, column, rank, known(args[0]))

    return pick


AGGREGATES: dict[str, Aggregate] = {
    "count": Aggregate(_fixed(BIGINT), _count, counts=True, numbers=False),
    "hyperloglog": Aggregate(_fixed(BIGINT), _distinct, counts=True, numbers=False),
    "sum": Aggregate(_sum_type, _sum),
    "avg": Aggregate(_fixed(DOUBLE), _statistic(exp.Avg)),
    "stddev": Aggregate(_fixed(DOUBLE), _statistic(exp.StddevPop)),
    "stddev_pop": Aggregate(_fixed(DOUBLE), _statistic(exp.StddevPop)),
    "var_pop": Aggregate(_fixed(DOUBLE), _statistic(exp.VariancePop)),
    "variance": Aggregate(_fixed(DOUBLE), _statistic(exp.VariancePop)),
    "spread": Aggregate(_fixed(DOUBLE), _spread),
    "min": Aggregate(
        _same, lambda a, order: exp.Min(this=a[0]), pick=_pick_extreme(exp.ArgMin), numbers=False
    ),
    "max": Aggregate(
        _same, lambda a, order: exp.Max(this=a[0]), pick=_pick_extreme(exp.ArgMax), numbers=False
    ),
    "first": Aggregate(_same, _first, pick=_pick_first, numbers=False),
    "last": Aggregate(_same, _last, pick=_pick_last, numbers=False),
    "last_row": Aggregate(
        _same,
        lambda args, order: _by(exp.ArgMax, args[0], order, None),
        pick=lambda column, args, order: _by(exp.ArgMax, column, order, None),
        numbers=False,
    ),
}

EACH_COLUMN = frozenset({"first", "last", "last_row"})
"""Functions that take ``*`` and several columns: one result column each."""

"""The table of aggregate functions: name -> arguments, type of the result, Spark SQL expression.

A *selection* function (min, max, first, last, last_row) takes its value from one row; other columns in the
result come from the same row. Functions that look at neighbouring rows are in ``running.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from millrace_core.model.types import DataType
from millrace_core.plan.aggregates.base import Aggregate, Gathering, Order, Pick, known, of_rows
from millrace_core.plan.aggregates.histogram import histogram
from millrace_core.plan.functions.base import constant_choice, constant_number, constant_text
from millrace_core.plan.functions.text_lengths import LONGEST
from millrace_core.plan.functions.text_sizes import bounded
from millrace_core.plan.spark.pieces import as_text, call, chain, text, when
from millrace_core.plan.types.typed import (
    BIGINT,
    DOUBLE,
    Typed,
    cast,
    number,
    text_of,
    typed,
    written,
)

UNSIGNED = DataType("BIGINT UNSIGNED")
MOST_PERCENTILES = 10
_BIN = DataType("VARCHAR", 512)
_LINE = text_of(len("{slop:, intercept:}") + 2 * written(Typed(DOUBLE)), []).type


def _same(types: list[Typed], node: exp.Expr) -> Typed:
    return types[0]


def _second(types: list[Typed], node: exp.Expr) -> Typed:
    return types[1]


def _fixed(type_: DataType) -> Callable[[list[Typed], exp.Expr], Typed]:
    return lambda types, node: Typed(type_)


def _sum_type(types: list[Typed], node: exp.Expr) -> Typed:
    if types[0].real:
        return Typed(DOUBLE)
    return Typed(UNSIGNED if types[0].type.name.endswith("UNSIGNED") else BIGINT)


def _sum(it: Gathering) -> exp.Expr:
    type_ = typed(it.value)
    total = _sum_type([type_], it.value)
    value = cast(it.value, BIGINT) if type_.type.name == "BOOL" else it.value
    return cast(exp.Sum(this=value), total)


def _statistic(kind: type[exp.Expr]) -> Aggregate:
    return Aggregate(_fixed(DOUBLE), lambda it: kind(this=cast(it.value, DOUBLE)))


def _spread(it: Gathering) -> exp.Expr:
    value = it.value if typed(it.value).timestamp else cast(it.value, DOUBLE)
    return exp.Sub(this=exp.Max(this=value), expression=exp.Min(this=value.copy()))


def _count(it: Gathering) -> exp.Expr:
    return exp.Count(this=it.value, big_int=True)


def _distinct(it: Gathering) -> exp.Expr:
    return exp.Count(this=exp.Distinct(expressions=[it.value]))


def _mode(it: Gathering) -> exp.Expr:
    """The most frequent value; of equally frequent ones the least, so that a replay gives the same."""
    return call("MODE", it.value, exp.Boolean(this=True))


# -- percentiles --------------------------------------------------------------------------------------


def _percentile_type(types: list[Typed], node: exp.Expr) -> Typed:
    if len(types) == 2:
        return Typed(DOUBLE)
    return text_of(len("[]") + (len(types) - 1) * (written(Typed(DOUBLE)) + len(", ")), [])


def _quantile(it: Gathering, at: exp.Expr) -> exp.Expr:
    """Interpolated on a straight line between the two nearest values."""
    share = constant_number(at, it.name, "the percentage", 0, 100) / 100
    return call("PERCENTILE", cast(it.value.copy(), DOUBLE), exp.Literal.number(f"{share:.17g}"))


def _percentile(it: Gathering) -> exp.Expr:
    found = [_quantile(it, at) for at in it.args[1:]]
    if len(found) == 1:
        return found[0]
    parts = [text("[")]
    for i, one in enumerate(found):
        parts += [text(", ")] if i else []
        parts.append(call("FORMAT_STRING", text("%.6f"), one))
    some = exp.GT(this=exp.Count(this=it.value.copy(), big_int=True), expression=number(0))
    return when((some, chain([*parts, text("]")])))


def _apercentile(it: Gathering) -> exp.Expr:
    """Exact whichever method is asked for, and so closer to the truth than either."""
    if len(it.args) > 2:
        constant_choice(it.args[2], it.name, "the method", ("default", "t-digest"))
    return _quantile(it, it.args[1])


def _group_concat(it: Gathering) -> exp.Expr:
    """The texts in order of time, with the columns of a row joined; rows with a NULL are left out."""
    separator = constant_text(it.args[-1], it.name, "the separator") if len(it.args) > 1 else ","
    values = [as_text(arg) for arg in (it.args[:-1] or it.args)]
    value = chain(values) if len(values) > 1 else values[0]
    listed = exp.GroupConcat(this=value, separator=text(separator))
    order = exp.Order(expressions=[exp.Ordered(this=it.order.copy(), nulls_first=True)])
    return bounded(it.name, it.node, exp.WithinGroup(this=listed, expression=order))


# -- selections ---------------------------------------------------------------------------------------


def _first(it: Gathering) -> exp.Expr:
    return of_rows(exp.ArgMin(this=it.value, expression=it.order.copy()), known(it.value))


def _last(it: Gathering) -> exp.Expr:
    return of_rows(exp.ArgMax(this=it.value, expression=it.order.copy()), known(it.value))


def _by(kind: type[exp.Expr], value: exp.Expr, order: Order, condition: exp.Expr | None) -> exp.Expr:
    """The value in the first or last row that meets the condition; boxed, so that NULL counts as a value."""
    box = exp.Struct(expressions=[exp.PropertyEQ(this=exp.to_identifier("v"), expression=value.copy())])
    found = of_rows(kind(this=box, expression=order.copy()), condition)
    return exp.Dot(this=exp.Paren(this=found), expression=exp.to_identifier("v"))


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


# -- over rows in their order ---------------------------------------------------------------------------

RUNNING: dict[str, Aggregate] = {
    "elapsed": Aggregate(_fixed(DOUBLE), None, most=2, kinds=("any", "duration")),
    "twa": Aggregate(_fixed(DOUBLE), None),
    "irate": Aggregate(_fixed(DOUBLE), None),
    "leastsquares": Aggregate(_fixed(_LINE), None, least=3, most=3),
}
"""The functions that ``running.py`` builds."""

ANY = ("any",)
COLS = "cols"
"""Picks another column from the row that its first argument selects (``cols.py``)."""

AGGREGATES: dict[str, Aggregate] = {
    "count": Aggregate(_fixed(BIGINT), _count, kinds=ANY, counts=True),
    "hyperloglog": Aggregate(_fixed(BIGINT), _distinct, kinds=ANY, counts=True),
    "sum": Aggregate(_sum_type, _sum),
    "avg": _statistic(exp.Avg),
    "stddev": _statistic(exp.StddevPop),
    "stddev_pop": _statistic(exp.StddevPop),
    "std": _statistic(exp.StddevPop),
    "stddev_samp": _statistic(exp.StddevSamp),
    "var_pop": _statistic(exp.VariancePop),
    "variance": _statistic(exp.VariancePop),
    "var_samp": Aggregate(_fixed(DOUBLE), lambda it: call("VAR_SAMP", cast(it.value, DOUBLE))),
    "spread": Aggregate(_fixed(DOUBLE), _spread, kinds=("extent",)),
    "mode": Aggregate(_same, _mode, kinds=ANY),
    "percentile": Aggregate(
        _percentile_type, _percentile, least=2, most=1 + MOST_PERCENTILES, kinds=("number",), streams=False
    ),
    "apercentile": Aggregate(
        _fixed(DOUBLE), _apercentile, least=2, most=3, kinds=("number", "number", "text")
    ),
    "histogram": Aggregate(
        _fixed(_BIN), histogram, least=4, most=4, kinds=("number", "text", "text", "integer")
    ),
    "group_concat": Aggregate(
        _fixed(LONGEST), _group_concat, least=1, most=None, kinds=("text",), timed=True
    ),
    "min": Aggregate(_same, lambda it: exp.Min(this=it.value), kinds=ANY, pick=_pick_extreme(exp.ArgMin)),
    "max": Aggregate(_same, lambda it: exp.Max(this=it.value), kinds=ANY, pick=_pick_extreme(exp.ArgMax)),
    "first": Aggregate(_same, _first, kinds=ANY, pick=_pick_first, timed=True),
    "last": Aggregate(_same, _last, kinds=ANY, pick=_pick_last, timed=True),
    "last_row": Aggregate(
        _same,
        lambda it: _by(exp.ArgMax, it.value, it.order, None),
        kinds=ANY,
        pick=lambda column, args, order: _by(exp.ArgMax, column, order, None),
        timed=True,
    ),
    COLS: Aggregate(_second, None, least=2, most=2, kinds=ANY),
    **RUNNING,
}

EACH_COLUMN = frozenset({"first", "last", "last_row"})
"""Functions that take ``*`` or several columns, and then give one result column for each."""

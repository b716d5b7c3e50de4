"""What each series function becomes in Spark's window functions.

A build function gets the levels, the function's argument (a column of the innermost level) and its constants.
It adds the columns that it needs, and returns the value and which rows are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from millrace_core.model.schema import Precision
from millrace_core.plan.aggregates.table import AGGREGATES
from millrace_core.plan.functions.scalar import duration_ticks
from millrace_core.plan.levels import (
    Levels,
    ascending,
    descending,
    known,
    last_known,
    when,
)  # fmt: skip
from millrace_core.plan.types.typed import BIGINT, DOUBLE, cast, number, typed, with_type

SHORT = 8
"""Up to this many rows, ``mavg`` adds them one by one, which is as fast as blocks."""


@dataclass(frozen=True, slots=True)
class SeriesCall:
    """A call that is being built. ``value``: its argument; ``precision``: that of the rows' time."""

    levels: Levels
    value: exp.Column
    constants: tuple[object, ...]
    precision: Precision

    def whole(self, at: int) -> int:
        found = self.constants[at]
        assert isinstance(found, int)
        return found

    @property
    def time(self) -> exp.Column:
        assert self.levels.time is not None
        return self.levels.time.copy()


@dataclass(frozen=True, slots=True)
class Built:
    """``value``: the result, over the outermost level; ``keep``: whether the row has a result. A row for
    which no function of the SELECT has one is left out. ``never``: rows that are left out in any case."""

    value: exp.Expr
    keep: exp.Expr | None = None
    never: exp.Expr | None = None


Build = Callable[[SeriesCall], Built]


def diff(call: SeriesCall) -> Built:
    """The value minus the last one before it that is not NULL. A difference too large for BIGINT wraps
    around, so whether it is negative is decided by comparing the two values."""
    levels, option = call.levels, call.whole(0)
    previous = levels.add(1, levels.over(last_known(call.value.copy()), "before"))
    row = levels.add(1, levels.over(exp.RowNumber()))
    real = typed(call.value).real
    sides = [cast(side.copy(), DOUBLE if real else BIGINT) for side in (call.value, previous)]
    value: exp.Expr = exp.Sub(this=sides[0], expression=sides[1])
    if option in (1, 3):
        value = when(exp.GTE(this=call.value.copy(), expression=previous.copy()), value)
    keep = known(value) if option in (2, 3) else None
    return Built(value, keep, never=exp.EQ(this=row, expression=number(1)))


def derivative(call: SeriesCall) -> Built:
    """The change since the last row with a value, per unit of time."""
    levels = call.levels
    unit = call.constants[0]
    assert isinstance(unit, exp.Expr)
    ticks = duration_ticks(unit, call.precision)
    previous = levels.add(1, levels.over(last_known(call.value.copy()), "before"))
    time = when(known(call.value), call.time)
    before = levels.add(1, levels.over(last_known(time), "before"))
    change = exp.Sub(this=cast(call.value.copy(), DOUBLE), expression=cast(previous.copy(), DOUBLE))
    scaled = exp.Mul(this=exp.Paren(this=change), expression=cast(number(ticks), DOUBLE))
    elapsed = exp.Nullif(
        this=exp.Paren(this=exp.Sub(this=call.time, expression=before.copy())), expression=number(0)
    )
    keep: exp.Expr = exp.And(this=known(call.value), expression=known(previous))
    if call.whole(1) == 1:
        rising = exp.GTE(this=call.value.copy(), expression=previous.copy())
        keep = exp.And(this=keep, expression=rising)
    return Built(exp.Div(this=scaled, expression=cast(elapsed, DOUBLE)), keep)


def csum(call: SeriesCall) -> Built:
    """The sum of the values up to this row; a row without a value has no sum."""
    levels = call.levels
    type_ = AGGREGATES["sum"].result([typed(call.value)], call.value)
    total = levels.add(1, levels.over(exp.Sum(this=cast(call.value.copy(), type_)), "so far"))
    return Built(when(known(call.value), total), known(call.value))


def mavg(call: SeriesCall) -> Built:
    """The average of the last k values; there is none before the k-th. The rows have no NULLs.

    A frame of k rows would cost k steps for each row. So rows are put into blocks of k: the last k rows are
    the last rows of one block and the first ones of the next, and the sums of both grow row by row.
    """
    levels, k = call.levels, call.whole(0)
    row = levels.add(1, levels.over(exp.RowNumber()))
    value, enough = cast(call.value.copy(), DOUBLE), exp.GTE(this=row, expression=number(k))
    if k <= SHORT:
        return Built(levels.add(1, levels.over(exp.Avg(this=value), k)), enough)
    before = exp.Paren(this=exp.Sub(this=row.copy(), expression=number(1)))
    block = exp.IntDiv(this=before, expression=number(k))
    first = levels.add(2, levels.over(exp.Sum(this=value.copy()), "so far", within=[block]))
    back = levels.over(exp.Sum(this=value.copy()), "so far", order=levels.reversed(), within=[block.copy()])
    last = exp.Lag(this=levels.add(2, back), offset=number(k - 1))
    rest = levels.add(3, levels.over(last))
    whole = exp.EQ(this=exp.Mod(this=row.copy(), expression=number(k)), expression=number(0))
    both = exp.Add(this=first.copy(), expression=rest)
    total = exp.Paren(this=when(whole, first, both))
    return Built(exp.Div(this=total, expression=cast(number(k), DOUBLE)), enough)


OPERATORS: dict[str, type[exp.Binary]] = {
    "LT": exp.LT, "GT": exp.GT, "LE": exp.LTE, "GE": exp.GTE, "NE": exp.NEQ, "EQ": exp.EQ,
}  # fmt: skip


def _state(call: SeriesCall) -> tuple[exp.Expr, exp.Expr]:
    """The condition (NULL for NULL), and a column of level 1 that counts how often it has not been met so
    far: the count is the same for all rows of a run."""
    operator, limit = call.constants[0], call.constants[1]
    assert isinstance(operator, str) and isinstance(limit, exp.Expr)
    met = exp.Paren(this=OPERATORS[operator](this=call.value.copy(), expression=limit.copy()))
    missed = when(exp.Not(this=met.copy()), number(1), number(0))
    return met, call.levels.add(1, call.levels.over(exp.Sum(this=missed), "so far"))


def statecount(call: SeriesCall) -> Built:
    """How many consecutive rows meet the condition; -1 where it is not met."""
    met, run = _state(call)
    counted = exp.Count(this=when(met.copy(), number(1)), big_int=True)
    count = call.levels.add(2, call.levels.over(counted, "so far", within=[run]))
    return Built(_run_value(met, count))


def stateduration(call: SeriesCall) -> Built:
    """How long the condition has been met, in whole units; -1 where it is not met."""
    met, run = _state(call)
    unit = call.constants[2]
    ticks = duration_ticks(unit, call.precision) if isinstance(unit, exp.Expr) else 1
    first = exp.Min(this=when(met.copy(), call.time))
    start = call.levels.add(2, call.levels.over(first, "so far", within=[run]))
    elapsed = exp.Paren(this=exp.Sub(this=call.time, expression=start))
    return Built(_run_value(met, exp.IntDiv(this=elapsed, expression=number(ticks))))


def _run_value(met: exp.Expr, value: exp.Expr) -> exp.Expr:
    found = when(met.copy(), value)
    found.append("ifs", exp.If(this=exp.Not(this=met.copy()), true=number(-1)))
    return found


def _ranked(call: SeriesCall, order: list[exp.Ordered], last: int, skipped: int = 0) -> Built:
    rank = call.levels.add(1, call.levels.over(exp.RowNumber(), order=order))
    keep: exp.Expr = exp.LTE(this=rank, expression=number(skipped + last))
    if skipped:
        keep = exp.And(this=exp.GT(this=rank.copy(), expression=number(skipped)), expression=keep)
    return Built(call.value.copy(), keep)


def top(call: SeriesCall) -> Built:
    """The k greatest values; of equal values the earliest."""
    return _ranked(call, [descending(call.value.copy()), *call.levels.ordered()], call.whole(0))


def bottom(call: SeriesCall) -> Built:
    return _ranked(call, [ascending(call.value.copy()), *call.levels.ordered()], call.whole(0))


def tail(call: SeriesCall) -> Built:
    return _ranked(call, call.levels.reversed(), call.whole(0), call.whole(1))


def sample(call: SeriesCall) -> Built:
    """k rows; the same ones as long as the rows are the same."""
    order = [ascending(call.levels.ticket()), *call.levels.ordered()]
    return _ranked(call, order, call.whole(0))


def unique(call: SeriesCall) -> Built:
    """The first row of each value; NULL counts as a value."""
    first = call.levels.over(exp.RowNumber(), within=[call.value])
    row = call.levels.add(1, first)
    return Built(call.value.copy(), exp.EQ(this=row, expression=number(1)))


def typed_value(built: Built, node: exp.Expr) -> exp.Expr:
    """The value, with the type that the call has."""
    return with_type(cast(built.value.copy(), typed(node)), typed(node))

"""Aggregate functions over ordered rows: elapsed, twa, irate, leastsquares.

They read columns of window functions over the rows of a partition, made before these are grouped
(:data:`PARTS`), on two levels for all calls together. Under INTERVAL the rows of all windows are seen, so
that twa and elapsed know what lies beside a window; other windows are partitions of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.language.query.nodes import IntervalWindow
from millrace_core.model.schema import TICKS_PER_SECOND
from millrace_core.plan.aggregates.base import Gathering, known, of_rows
from millrace_core.plan.functions.base import constant_number, unit_ticks
from millrace_core.plan.levels import last_known
from millrace_core.plan.scope import Context, Scope, column, own
from millrace_core.plan.spark.pieces import call, chain, text, when
from millrace_core.plan.types.typed import (
    DOUBLE,
    TIMESTAMP,
    Typed,
    cast,
    fail,
    number,
    typed,
    with_type,
    wrap,
)
from millrace_core.plan.windows.rows import SelectedRows

MOST = 1e308


@dataclass(frozen=True, slots=True)
class Steps:
    """The columns for the calls over one value; ``number`` tells the values apart."""

    rows: SelectedRows
    number: int

    def name(self, part: str) -> str:
        return f"_{part}_{self.number}"

    def column(self, part: str) -> exp.Expr:
        return self.rows.column(self.name(part))

    def value(self, value: exp.Expr) -> dict[str, exp.Expr]:
        """The first level: the value, and its time (NULL where the value is NULL)."""
        time = when((known(value), self.rows.time.copy()))
        return {self.name("v"): cast(value.copy(), DOUBLE), self.name("t"): time}


def _numbered(steps: Steps) -> exp.Expr:
    count = exp.Count(this=steps.column("v"), big_int=True)
    return when((known(steps.column("v")), steps.rows.over(count)))


def _beside(part: str, after: bool) -> Callable[[Steps], exp.Expr]:
    return lambda steps: steps.rows.over(last_known(steps.column(part)), "before", back=after)


PARTS: dict[str, Callable[[Steps], exp.Expr]] = {
    "c": _numbered,
    "pt": _beside("t", False), "pv": _beside("v", False), "nt": _beside("t", True), "nv": _beside("v", True),
    "low": lambda steps: steps.rows.whole(exp.Min(this=steps.rows.time.copy())),
    "high": lambda steps: steps.rows.whole(exp.Max(this=steps.rows.time.copy())),
}  # fmt: skip
"""Columns of the second level: the number of a row among those with a value (NULL for others); time and value
of the nearest row with a value before it (``pt``, ``pv``) and after it (``nt``, ``nv``); the partition's
first and last time."""


def _minus(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Sub(this=wrap(left.copy()), expression=wrap(right.copy())))


def _plus(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Add(this=wrap(left.copy()), expression=wrap(right.copy())))


def _times(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Mul(this=wrap(left.copy()), expression=wrap(right.copy())))


def _per(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """A quotient of DOUBLEs; NULL for a division by zero."""
    by = exp.Nullif(this=cast(right.copy(), DOUBLE), expression=number(0))
    return exp.Paren(this=exp.Div(this=cast(left.copy(), DOUBLE), expression=by))


def _sum(value: exp.Expr) -> exp.Expr:
    return exp.Sum(this=value)


def _window(name: str, rows: SelectedRows) -> exp.Expr:
    """``_wstart`` or ``_wend``; the pass for windows replaces it by the expression."""
    return with_type(column(name), Typed(TIMESTAMP, typed(rows.time).precision))


# -- elapsed ------------------------------------------------------------------------------------------


def _elapsed(it: Gathering, steps: Steps, interval: bool) -> exp.Expr:
    """From the first row to the last. Under INTERVAL windows count in full, except before the very first and
    after the very last row."""
    rows = steps.rows
    if not (isinstance(it.value, exp.Column) and it.value.name == rows.relation.key):
        raise fail(ErrorCode.NOT_ALLOWED, "elapsed needs the time column", it.value)
    low: exp.Expr = exp.Min(this=it.value.copy())
    high: exp.Expr = exp.Max(this=it.value.copy())
    if interval:
        first, last = exp.Min(this=steps.column("low")), exp.Max(this=steps.column("high"))
        low = call("GREATEST", first, exp.Min(this=_window("_wstart", rows)))
        high = call("LEAST", last, exp.Max(this=_window("_wend", rows)))
    unit = unit_ticks(it.args[1], it.name, it.precision) if len(it.args) > 1 else 1
    return exp.Div(this=cast(_minus(high, low), DOUBLE), expression=cast(number(unit), DOUBLE))


# -- twa ----------------------------------------------------------------------------------------------


def _area(from_: exp.Expr, low: exp.Expr, to: exp.Expr, high: exp.Expr) -> exp.Expr:
    """The area under the line from (from_, low) to (to, high)."""
    return _times(cast(_minus(to, from_), DOUBLE), _times(_plus(low, high), exp.Literal.number("0.5")))


def _between(at: exp.Expr, t0: exp.Expr, v0: exp.Expr, t1: exp.Expr, v1: exp.Expr) -> exp.Expr:
    """The value at a time on the line through two points."""
    return _plus(v0, _times(_minus(v1, v0), _per(_minus(at, t0), _minus(t1, t0))))


def _twa(it: Gathering, steps: Steps, interval: bool) -> exp.Expr:
    """The area under the lines between the points, divided by the time from the first point to the last; a
    single point gives its value. Under INTERVAL, the lines to the points beside a window count up to its
    first and last instant, as in TDengine."""
    rows = steps.rows
    t, v, pt, pv = (steps.column(name) for name in ("t", "v", "pt", "pv"))
    low, high, after = t, t, None
    start, start_value = pt, pv
    if interval:
        nt, nv = steps.column("nt"), steps.column("nv")
        start = call("GREATEST", pt.copy(), _window("_wstart", rows))
        start_value = _between(start, pt, pv, t, v)
        last = _minus(_window("_wend", rows), number(1))
        beyond = exp.GT(this=nt.copy(), expression=last.copy())
        low = when((known(pt), start.copy()), default=t.copy())
        high = when((beyond, last.copy()), default=t.copy())
        after = when((beyond.copy(), _area(t, v, last, _between(last, t, v, nt, nv))), default=number(0))
    moved = exp.LT(this=pt.copy(), expression=t.copy())
    area = _sum(when((moved, _area(start, start_value, t, v)), default=cast(number(0), DOUBLE)))
    total = area if after is None else _plus(area, _sum(after))
    lasted = _minus(exp.Max(this=high.copy()), exp.Min(this=low.copy()))
    only = of_rows(exp.ArgMax(this=v.copy(), expression=it.order.copy()), known(v))
    return exp.Coalesce(this=_per(total, lasted), expressions=[only])


# -- irate --------------------------------------------------------------------------------------------


def _irate(it: Gathering, steps: Steps, interval: bool) -> exp.Expr:
    """Growth per second between the last two values. A value below the one before it counts from 0, like a
    counter that was reset. A single value gives 0."""
    counted = steps.column("c")
    t, v, pt, pv = (steps.column(name) for name in ("t", "v", "pt", "pv"))
    grown = when((exp.GTE(this=v.copy(), expression=pv.copy()), _minus(v, pv)), default=v.copy())
    rate = _times(_per(grown, _minus(t, pt)), number(TICKS_PER_SECOND[it.precision]))
    last = of_rows(exp.ArgMax(this=rate, expression=it.order.copy()), known(v))
    several = exp.GT(this=exp.Max(this=counted), expression=exp.Min(this=counted.copy()))
    none = exp.EQ(this=exp.Count(this=v.copy(), big_int=True), expression=number(0))
    zero = cast(number(0), DOUBLE)
    return when(
        (none, exp.Null()), (several, exp.Coalesce(this=last, expressions=[zero])), default=zero.copy()
    )


# -- leastsquares -------------------------------------------------------------------------------------


def _leastsquares(it: Gathering, steps: Steps, interval: bool) -> exp.Expr:
    """The line through (start, first value), (start + step, second value), … as a text; NULL for fewer than
    two values. Rows of a window have consecutive numbers, so that their slope is that over ``x``."""
    start, step = (
        constant_number(node, it.name, what, -MOST, MOST)
        for node, what in ((it.args[1], "the start"), (it.args[2], "the step"))
    )
    counted = steps.column("c")
    v = steps.column("v")
    slope = _per(call("REGR_SLOPE", v.copy(), cast(counted.copy(), DOUBLE)), _real(step))
    passed = _minus(exp.Avg(this=cast(counted.copy(), DOUBLE)), exp.Min(this=counted.copy()))
    middle = _plus(_real(start), _times(_real(step), passed))
    intercept = _minus(exp.Avg(this=v.copy()), _times(slope, middle))
    line = chain([text("{slop:"), _six(slope), text(", intercept:"), _six(intercept), text("}")])
    several = exp.GT(this=exp.Max(this=counted.copy()), expression=exp.Min(this=counted.copy()))
    return when((several, line))


def _real(value: float) -> exp.Expr:
    return cast(text(repr(value)), DOUBLE)


def _six(value: exp.Expr) -> exp.Expr:
    """Six digits. What rounds to zero has no sign, on whichever side of zero the computer came out."""
    near = exp.Round(this=value.copy(), decimals=number(6))
    return call("FORMAT_STRING", text("%.6f"), _plus(near, cast(number(0), DOUBLE)))


Build = Callable[[Gathering, Steps, bool], exp.Expr]

_BUILT: dict[str, tuple[Build, tuple[str, ...], tuple[str, ...]]] = {
    "elapsed": (_elapsed, (), ("low", "high")),
    "twa": (_twa, ("pt", "pv"), ("nt", "nv")),
    "irate": (_irate, ("c", "pt", "pv"), ()),
    "leastsquares": (_leastsquares, ("c",), ()),
}
"""For each function: how it is built, the parts it needs, and those it needs in addition under INTERVAL."""


def lower_running(scope: Scope, ctx: Context) -> None:
    """Build the calls of these functions: under INTERVAL before the pass for windows, otherwise after it."""
    select = scope.select
    window = select.args.get("window_clause")
    interval = window is not None
    if interval and not isinstance(window, IntervalWindow):
        return
    found = [node for node in own(select) if node.meta.get("running")]
    if not found:
        return
    group = select.args.get("group")
    parts = [*(select.args.get("partition_by") or []), *(group.expressions if group is not None else [])]
    rows = SelectedRows(scope, parts)
    steps: dict[exp.Expr, Steps] = {}
    for node in found:
        steps.setdefault(node.expressions[0], Steps(rows, len(steps)))
    _levels(rows, found, steps, interval)
    precision = typed(rows.time).precision or ctx.precision
    for node in found:
        it = Gathering(node.name, node.expressions, rows.relation.order(), node, precision)
        made = with_type(_BUILT[node.name][0](it, steps[it.value], interval), typed(node))
        made.meta.update(aggregate=node.name, arguments=node.expressions)
        node.replace(made)


def _levels(rows: SelectedRows, found: list[exp.Expr], steps: dict[exp.Expr, Steps], interval: bool) -> None:
    values: dict[str, exp.Expr] = {}
    for node in found:
        if node.name != "elapsed":
            values |= steps[node.expressions[0]].value(node.expressions[0])
    if values:
        rows.level(values)
    windows: dict[str, exp.Expr] = {}
    for node in found:
        _, always, beside = _BUILT[node.name]
        its = steps[node.expressions[0]]
        windows |= {its.name(part): PARTS[part](its) for part in (*always, *(beside if interval else ()))}
    if windows:
        rows.level(windows)

"""The pass for window clauses: windows become groups, and their pseudo columns expressions over these."""

from __future__ import annotations

from functools import partial

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.language.query import nodes
from millrace_core.model.schema import Precision
from millrace_core.plan.expressions.lower import Lowerer
from millrace_core.plan.keys import Keys
from millrace_core.plan.scope import Context, Relation, Scope, column, own
from millrace_core.plan.types.typed import BIGINT, TIMESTAMP, Typed, cast, fail, number, with_type, wrap
from millrace_core.plan.windows.anomaly import Failing, cut_anomalies, read_window, tells_failures
from millrace_core.plan.windows.filling import Filling
from millrace_core.plan.windows.interval import IntervalWindows, with_lengths
from millrace_core.plan.windows.range import range_of
from millrace_core.plan.windows.rows import CUTTERS, STATE, Cutters, SelectedRows, WindowState, cut_rows


def lower_windows(scope: Scope, ctx: Context) -> None:
    """Turn the window clause into further parts of PARTITION BY.

    :raises SqlError: for a clause that is not possible, with its place.
    """
    select = scope.select
    window = select.args.get("window_clause")
    if window is None:
        return
    select.set("window_clause", None)
    if select.args.get("group") is not None:
        message = "GROUP BY cannot be combined with a window clause; use PARTITION BY"
        raise fail(ErrorCode.NOT_ALLOWED, message, select.args["group"])
    relation = scope.timed
    if relation is None or relation.key is None:
        raise fail(ErrorCode.NOT_ALLOWED, "a window needs a table with a time column", window)
    precision = relation.columns[relation.key].precision or ctx.precision
    parts = list(select.args.get("partition_by") or [])
    if isinstance(window, nodes.IntervalWindow):
        keys, values = _interval(scope, ctx, window, relation, precision)
    else:
        keys, values = _of_rows(scope, ctx, window, parts)
    for node in list(own(select)):
        bare = isinstance(node, exp.Column) and not node.args.get("table") and not node.meta.get("result")
        if bare and node.name in values:
            node.replace(with_type(values[node.name].copy(), node.meta["typed"]))
    scope.record(Keys).windows = len(keys)
    select.set("partition_by", [*parts, *keys])


Values = dict[str, exp.Expr]


def _interval(
    scope: Scope, ctx: Context, window: nodes.IntervalWindow, relation: Relation, precision: Precision
) -> tuple[list[exp.Expr], Values]:
    assert relation.key is not None
    with_lengths(window, range_of(scope, relation, ctx)[0], precision, ctx.timezone)
    grid = IntervalWindows.of(window, precision, ctx.timezone)
    key = relation.column(relation.key)
    fill = scope.select.args.get("fill")
    if fill is not None:
        scope.select.set("fill", None)
        scope.note(Filling.of(fill, grid, scope, ctx))
    position = _position(scope, grid, key)
    type_ = Typed(TIMESTAMP, precision)
    if grid.positions == "ticks":
        with_type(position, type_)
    start = with_type(grid.start(position.copy()), type_)
    end = grid.end(position.copy())
    lasts: exp.Expr = exp.Paren(this=exp.Sub(this=wrap(end.copy()), expression=wrap(start.copy())))
    if grid.positions == "ticks":
        lasts = number(grid.interval.ticks)
    return [position], {"_wstart": start, "_wend": end, "_wduration": cast(lasts, BIGINT)}


def _position(scope: Scope, grid: IntervalWindows, key: exp.Expr) -> exp.Expr:
    """The position of a row's window; if windows overlap, a row is repeated for each of its windows."""
    last = grid.position(key)
    overlaps = grid.overlaps
    if overlaps == 1:
        return last
    inner = last.this if isinstance(last, exp.Paren) else last
    n: exp.Expr = column("n", "_win")
    if overlaps * grid.step >= 1 << 31:
        n = cast(n, BIGINT)  # two small constants are INT in Spark: their product could overflow
    back = exp.Mul(this=n, expression=number(grid.step))
    position = exp.Paren(this=exp.Sub(this=inner, expression=back))
    join_numbers(scope.select, overlaps)
    scope.select.where(exp.LT(this=key.copy(), expression=grid.end(position.copy())), copy=False)
    return position


def join_numbers(select: exp.Select, count: int) -> None:
    """Join the numbers below ``count`` as ``_win.n``; they are the same for every trigger."""
    rows = exp.values([(i,) for i in range(count)], alias="_win", columns=["n"])
    for name in rows.find_all(exp.Identifier):
        name.set("quoted", True)
    join = exp.Join(this=rows, kind="CROSS")
    join.meta["constant"] = True
    select.append("joins", join)


def _of_rows(
    scope: Scope, ctx: Context, window: exp.Expr, parts: list[exp.Expr]
) -> tuple[list[exp.Expr], Values]:
    lowering = Lowerer(scope, ctx)
    for key in ("this", "start", "end"):
        if isinstance(window.args.get(key), exp.Expr):
            window.set(key, lowering.visit(window.args[key]))
    if isinstance(window, nodes.AnomalyWindow):
        window.meta["analysis"] = read_window(window, scope.relations, ctx)
    if isinstance(window, nodes.CountWindow | nodes.AnomalyWindow):
        window.set("expressions", [lowering.visit(node) for node in window.expressions])
    # the clause stays in the SELECT while the levels are made, so that its columns are handed on
    scope.select.set("window_clause", window)
    rows = SelectedRows(scope, parts)
    scope.select.set("window_clause", None)
    state = window.this.copy() if isinstance(window, nodes.StateWindow) else exp.Null()
    anomalies = partial(cut_anomalies, tells=tells_failures(scope, ctx))
    cutters: Cutters = {**CUTTERS, nodes.AnomalyWindow: anomalies}
    keys = cut_rows(window, rows, cutters)
    if isinstance(window, nodes.StateWindow):
        # within a window all states are equal, or NULL
        scope.note(WindowState(state, exp.Max(this=rows.column(STATE))))
    start, end, _ = keys
    if (failing := scope.found(Failing)) is not None:
        keys.append(failing.column)
    lasted = exp.Sub(this=end.copy(), expression=start.copy())
    return keys, {"_wstart": start, "_wend": end, "_wduration": exp.Paren(this=lasted)}

"""INTERP(column[, ignore_null_values]) with RANGE(first[, last][, surrounding]) EVERY(step) FILL(mode[, …]).

The rows and the time slices of each partition are put into one order of time. Looking back and ahead
from a slice finds the rows from which its value is made. A slice with a row at exactly its time has
that row's value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.plan.clauses import Clauses
from millrace_core.plan.fill.interp_clauses import ORIGINAL, TIME, Fill, Slices
from millrace_core.plan.functions.scalar import convert
from millrace_core.plan.keys import Keys
from millrace_core.plan.levels import (
    SERIES_ROWS,
    alias,
    ascending,
    carry,
    descending,
    known,
    last_known,
    over,
    over_level,
    row_order,
    rows_of,
    when,
)  # fmt: skip
from millrace_core.plan.scope import Context, Scope, column
from millrace_core.plan.split.series import series_calls
from millrace_core.plan.types.typed import (
    BIGINT,
    BOOL,
    DOUBLE,
    TIMESTAMP,
    Typed,
    cast,
    fail,
    number,
    typed,
    with_type,
)

SLICE = "_slice"
PSEUDO = {"_irowts": TIMESTAMP, "_irowts_origin": TIMESTAMP, "_isfilled": BOOL}
"""Pseudo columns of a SELECT with INTERP, and their types."""


def interp_column(name: str, scope: Scope) -> exp.Column | None:
    """The pseudo column of that name, if the SELECT has it; that needs RANGE."""
    timed = scope.timed
    if name not in PSEUDO or scope.select.args.get("range_clause") is None or timed is None:
        return None
    assert timed.key is not None
    precision = timed.columns[timed.key].precision if PSEUDO[name] == TIMESTAMP else None
    return with_type(column(name), Typed(PSEUDO[name], precision))


def lower_interp(scope: Scope, ctx: Context) -> None:
    """Rewrite a SELECT with INTERP.

    :raises SqlError: NOT_ALLOWED in streams, and if RANGE, EVERY and INTERP do not stand together.
    """
    select = scope.select
    clauses = {key: select.args.get(key) for key in ("range_clause", "every")}
    calls = [call for call in series_calls(scope) if call.name == "interp"]
    if not calls:
        for key, clause in clauses.items():
            if clause is not None:
                name = key.removesuffix("_clause").upper()
                raise fail(ErrorCode.NOT_ALLOWED, f"{name} needs INTERP in the results", clause)
        return
    if ctx.placeholders:
        raise fail(ErrorCode.NOT_ALLOWED, "interp cannot be used in a stream", calls[0])
    if scope.record(Clauses).windowed or select.args.get("group") is not None:
        raise fail(ErrorCode.NOT_ALLOWED, "interp cannot be used with GROUP BY or a window", calls[0])
    relation = scope.timed
    if relation is None or relation.key is None:
        raise fail(ErrorCode.NOT_ALLOWED, "interp needs a table with a time column", calls[0])
    _refuse_pseudo_columns(select)
    slices = Slices.of(scope, relation, ctx, calls[0])
    fill = Fill.of(select, calls, slices)
    for key in ("range_clause", "every", "fill"):
        select.set(key, None)
    scope.select = _Interp(scope, calls, slices, fill).outer()


def _refuse_pseudo_columns(select: exp.Select) -> None:
    """They are only known once the slices are, so they cannot stand in WHERE, ON and PARTITION BY."""
    clauses = [select.args.get("where"), *(join.args.get("on") for join in select.args.get("joins") or [])]
    for clause in [*clauses, *(select.args.get("partition_by") or [])]:
        for node in clause.find_all(exp.Column) if clause is not None else []:
            if not node.table and node.name in PSEUDO:
                raise fail(ErrorCode.NOT_ALLOWED, f"{node.name} can be used only in a result column", node)


@dataclass(frozen=True, slots=True)
class _Slice:
    """What one INTERP gives for a slice. ``there``: whether a row has exactly its time; ``given``: whether
    there is a value at all; ``origin``: the time of the row that the value comes from."""

    value: exp.Expr
    there: exp.Expr
    given: exp.Expr | None
    origin: exp.Expr


@dataclass
class _Interp:
    scope: Scope
    calls: list[exp.Expr]
    slices: Slices
    fill: Fill
    keys: list[exp.Expr] = field(default_factory=list)
    found: list[tuple[str, exp.Expr]] = field(default_factory=list)
    """Window functions over rows and slices, by their names."""

    def outer(self) -> exp.Select:
        select = self.scope.select
        self.keys = list(select.args.get("partition_by") or [])
        select.set("partition_by", None)
        self._fixed_columns()
        made = [self._slice(i, call) for i, call in enumerate(self.calls)]
        outer = exp.Select(expressions=select.expressions)
        places: list[exp.Expr] = list(select.expressions)
        order = select.args.get("order")
        if order is not None:
            places += [ordered for ordered in order.expressions if not ordered.this.meta.get("result")]
        for place in places:
            place.set("this", over_level(place.this, partial(self._placed, made=made)))
        carry(select, outer)
        outer.set("from_", exp.From(this=rows_of(self._searched())))
        outer.where(exp.EQ(this=column(SLICE, SERIES_ROWS), expression=number(1)), copy=False)
        outer.where(exp.LTE(this=column(TIME, SERIES_ROWS), expression=self.slices.last.copy()), copy=False)
        for one in made:
            if one.given is not None:
                outer.where(exp.Paren(this=one.given), copy=False)
        parts = [self._key(i) for i in range(len(self.keys))]
        self.scope.note(Keys([*parts, column(TIME, SERIES_ROWS)], list(parts)))
        return outer

    def _key(self, at: int) -> exp.Column:
        return column(f"_k{at}", SERIES_ROWS)

    def _fixed_columns(self) -> None:
        """Tags beside INTERP become keys as well, if they are the same for all rows of a partition."""
        plain = [key for key in self.keys if isinstance(key, exp.Column)]
        single = {key.table for key in plain if key.name == "tbname"}
        single |= {r.alias for r in self.scope.relations if r.draft is not None and r.draft.child}
        for place in self.scope.select.expressions:
            for node in place.walk(prune=lambda n: n in self.calls or n in self.keys):
                if not isinstance(node, exp.Column) or not node.table or node in self.keys:
                    continue
                relation = next(r for r in self.scope.relations if r.alias == node.table)
                table = relation.draft.table if relation.draft is not None else None
                tag = table is not None and (table.tag(node.name) is not None or node.name == "tbname")
                if not (tag and node.table in single):
                    message = f"column {node.name} cannot be used with interp: it is not a grouping column"
                    raise fail(ErrorCode.NOT_ALLOWED, message, node)
                self.keys.append(node.copy())

    def _placed(self, node: exp.Expr, made: list[_Slice]) -> exp.Expr | None:
        """What replaces a part of an expression over the slices."""
        if node in self.calls:
            return with_type(cast(made[self.calls.index(node)].value.copy(), typed(node)), typed(node))
        if node in self.keys:
            return with_type(self._key(self.keys.index(node)), typed(node))
        if isinstance(node, exp.Column):
            return self._pseudo(node, made[0])
        return None

    def _pseudo(self, node: exp.Column, first: _Slice) -> exp.Expr:
        if node.table or node.name not in PSEUDO:
            message = f"column {node.name} cannot be used with interp: it is not a grouping column"
            raise fail(ErrorCode.NOT_ALLOWED, message, node)
        if node.name == "_irowts":
            return with_type(column(TIME, SERIES_ROWS), typed(node))
        if node.name == "_isfilled":
            return with_type(exp.Not(this=exp.Paren(this=first.there.copy())), typed(node))
        if self.fill.mode not in ORIGINAL:
            message = f"_irowts_origin needs FILL({', '.join(ORIGINAL)}), not {self.fill.mode}"
            raise fail(ErrorCode.NOT_ALLOWED, message, node)
        return with_type(cast(first.origin.copy(), BIGINT), typed(node))

    # -- from the inside --

    def _rows(self) -> exp.Select:
        """The existing rows: keys, time, whatever else orders them, and values."""
        order = row_order(self.scope)
        named = [(f"_k{i}", key) for i, key in enumerate(self.keys)] + [(TIME, order[0])]
        named += [(f"_o{i}", node) for i, node in enumerate(order[1:])]
        named += [(f"_v{i}", call.expressions[0]) for i, call in enumerate(self.calls)]
        select = self.scope.select
        select.set("expressions", [alias(name, node.copy()) for name, node in named])
        return select

    def _with_slices(self) -> exp.Select:
        """The rows, and the slices of each partition: its first row is repeated for each slice, with a number
        from 0 on. (Spark 4.2 cannot plan a UNION that reads the rows twice.)"""
        rows = self._rows()
        names = [node.alias for node in rows.expressions]
        keys = [self._key(i) for i in range(len(self.keys))]
        first = over(exp.RowNumber(), keys, [ascending(column(TIME, SERIES_ROWS))])
        numbered = exp.Select(expressions=[*_handed(names), alias("_row", first)])
        numbered.set("from_", exp.From(this=rows_of(rows)))
        itself = cast(number(-1), BIGINT)
        all_ = self.slices.whole()
        numbers = when(
            exp.EQ(this=column("_row", SERIES_ROWS), expression=number(1)),
            exp.GenerateSeries(start=itself.copy(), end=all_),
            exp.GenerateSeries(start=itself.copy(), end=itself.copy()),
        )
        each = exp.Select(expressions=[*_handed(names), alias("_at", exp.Explode(this=numbers))])
        each.set("from_", exp.From(this=rows_of(numbered)))
        at = column("_at", SERIES_ROWS)
        slice_ = exp.GTE(this=at, expression=number(0))
        times = when(slice_, self.slices.time(at.copy()), column(TIME, SERIES_ROWS))
        flag = when(slice_.copy(), number(1), number(0))
        cells = [alias(TIME, times), alias(SLICE, flag)]
        handed = _handed([name for name in names if name != TIME])
        return exp.Select(expressions=[*handed, *cells], from_=exp.From(this=rows_of(each)))

    def _searched(self) -> exp.Select:
        names = [f"_k{i}" for i in range(len(self.keys))] + [TIME, SLICE]
        found = [alias(name, node) for name, node in self.found]
        return exp.Select(
            expressions=[*_handed(names), *found], from_=exp.From(this=rows_of(self._with_slices()))
        )

    def _search(self, at: int, ahead: bool, known_only: bool) -> tuple[exp.Expr, exp.Expr]:
        """Time and value of the nearest row: at the slice's time or before it; with ``ahead``, after it."""
        name = f"_f{len(self.found)}"
        value = column(f"_v{at}", SERIES_ROWS)
        row: exp.Expr = exp.EQ(this=column(SLICE, SERIES_ROWS), expression=number(0))
        if known_only:
            row = exp.And(this=row, expression=known(value))
        box = exp.Struct(
            expressions=[
                exp.PropertyEQ(this=exp.to_identifier("t"), expression=column(TIME, SERIES_ROWS)),
                exp.PropertyEQ(this=exp.to_identifier("v"), expression=value),
            ]
        )
        # a slice comes after the rows of its own time: looking back finds these, looking ahead does not
        count = len(row_order(self.scope)) - 1
        names = [TIME, SLICE, *(f"_o{i}" for i in range(count))]
        turn = descending if ahead else ascending
        order = [turn(column(n, SERIES_ROWS)) for n in names]
        keys = [self._key(i) for i in range(len(self.keys))]
        self.found.append((name, over(last_known(when(row, box)), keys, order, "so far")))
        found = column(name, SERIES_ROWS)
        time = exp.Dot(this=found, expression=exp.to_identifier("t"))
        return time, exp.Dot(this=found.copy(), expression=exp.to_identifier("v"))

    def _slice(self, at: int, call: exp.Expr) -> _Slice:
        ignore = call.meta["constants"][0] == 1
        mode = self.fill.mode
        filled: exp.Expr
        given: exp.Expr | None
        before = self._search(at, ahead=False, known_only=ignore)
        same = exp.EQ(this=before[0].copy(), expression=column(TIME, SERIES_ROWS))
        there = exp.Coalesce(this=same, expressions=[exp.Boolean(this=False)])
        if mode == "LINEAR":
            filled, given = self._linear(at, before if ignore else None)
            origin = before[0]
        elif mode in ORIGINAL:
            filled, given, origin = self._original(at, before, ignore)
        else:
            filled = self.fill.values[at] if mode == "VALUE" else cast(exp.Null(), typed(call))
            given, origin = (exp.Boolean(this=False) if mode == "NONE" else None), before[0]
        value = when(there.copy(), before[1].copy(), cast(filled, typed(call)))
        wanted = None if given is None else exp.Or(this=there.copy(), expression=exp.Paren(this=given))
        return _Slice(value, there, wanted, when(there.copy(), before[0].copy(), origin.copy()))

    def _original(
        self, at: int, before: tuple[exp.Expr, exp.Expr], ignore: bool
    ) -> tuple[exp.Expr, exp.Expr | None, exp.Expr]:
        """Of the row that PREV, NEXT or NEAR takes: its value, whether there is one, and its time."""
        here = column(TIME, SERIES_ROWS)
        if self.fill.mode == "PREV":
            time, value = before
        else:
            time, value = self._search(at, ahead=True, known_only=ignore)
        if self.fill.mode == "NEAR":
            back = exp.Paren(this=exp.Sub(this=here.copy(), expression=before[0].copy()))
            ahead = exp.Paren(this=exp.Sub(this=time.copy(), expression=here.copy()))
            # of two equally near rows take the earlier one; if there is only one row, the comparison is NULL
            nearer = exp.GT(this=back, expression=ahead)
            alone = exp.Not(this=known(before[0]))
            either = exp.Paren(this=exp.Or(this=nearer, expression=alone))
            later = exp.Paren(this=exp.And(this=known(time), expression=either))
            value = when(later, value.copy(), before[1].copy())
            time = when(later.copy(), time.copy(), before[0].copy())
        if self.slices.surrounding is None:
            return value, known(time), time
        distance = exp.Abs(this=exp.Sub(this=here.copy(), expression=time.copy()))
        inside = exp.LTE(this=distance, expression=number(self.slices.surrounding))
        return when(inside, value, self.fill.values[at]), None, when(inside.copy(), time.copy())

    def _linear(self, at: int, before: tuple[exp.Expr, exp.Expr] | None) -> tuple[exp.Expr, exp.Expr]:
        """The value on the line between the values around the slice, and whether both of these exist."""
        left = before or self._search(at, ahead=False, known_only=True)
        right = self._search(at, ahead=True, known_only=True)
        one, two = (cast(side[1].copy(), DOUBLE) for side in (left, right))
        rise = exp.Paren(this=exp.Sub(this=two, expression=one))
        gone = exp.Paren(this=exp.Sub(this=column(TIME, SERIES_ROWS), expression=left[0].copy()))
        whole = exp.Paren(this=exp.Sub(this=right[0].copy(), expression=left[0].copy()))
        part = exp.Div(this=exp.Mul(this=rise, expression=cast(gone, DOUBLE)), expression=cast(whole, DOUBLE))
        line = with_type(exp.Add(this=one.copy(), expression=part), Typed(DOUBLE))
        given = exp.And(this=known(left[0]), expression=known(right[0]))
        return convert(line, typed(self.calls[at])), given


def _handed(names: list[str]) -> list[exp.Expr]:
    """Columns that are handed on from the level below."""
    return [alias(name, column(name, SERIES_ROWS)) for name in names]

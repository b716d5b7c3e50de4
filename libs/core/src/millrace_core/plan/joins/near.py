"""ASOF and WINDOW JOIN: the rows that match a driving row are a range of positions in the other relation.

The other relation's rows are numbered in order of time, per group of equal columns. A running count over the
rows of both relations tells how many of them lie before an instant; such counts give the first and the last
position that match. So rows that do not match are never compared, however long both relations are. Every
level has the driving relation's own name, so that expressions over it keep their meaning.
"""

from __future__ import annotations

from sqlglot import exp

from millrace_core.plan.join_pair import NearPair
from millrace_core.plan.joins.read import time_order, used_columns
from millrace_core.plan.keys import Keys
from millrace_core.plan.levels import alias, ascending, known, over, rows_of, when
from millrace_core.plan.scope import Relation, Scope, column, own
from millrace_core.plan.types.typed import BIGINT, Typed, cast, number, typed, with_type, wrap

ROW, POSITION, LOW, HIGH, ALL = "_row", "_at", "_low", "_high", "_all"
TIME, AT, SIDE = "_time", "_t", "_side"
BEFORE, UP_TO = 0, 2
"""Where a driving row is sorted among the other's rows (1) of its instant: it counts those before
it, or these too."""


def lower_near(pair: NearPair, scope: Scope) -> None:
    """Turn the SELECT's join into a join on positions."""
    select = scope.select
    first = select.args["from_"].this
    driving_first = first.alias_or_name == pair.driving.alias
    sources = (first, pair.join.this) if driving_first else (pair.join.this, first)
    names = used_columns(scope, pair.driving)
    driving = _Driving(pair, names, *sources).rows()
    select.set("from_", exp.From(this=rows_of(driving, pair.driving.alias)))
    numbered = rows_of(_numbered(pair, used_columns(scope, pair.other), sources[1]), pair.other.alias)
    join = exp.Join(this=numbered, side="LEFT", on=_matches(pair))
    select.set("joins", [join])
    row = with_type(column(ROW, pair.driving.alias), BIGINT)
    scope.record(Keys).order = [row, column(POSITION, pair.driving.alias)]
    gathered = any(node.meta.get("aggregate") or node.meta.get("running") for node in own(select))
    if pair.offsets is not None and gathered:
        select.set("group", exp.Group(expressions=[row.copy()]))


def _key(i: int) -> str:
    return f"_j{i}"


def _numbered(pair: NearPair, names: list[str], source: exp.Expr) -> exp.Select:
    """The other relation's rows with their positions, from 1 on, without rows that cannot equal anything."""
    keys = [key for _, key in pair.keys]
    order = [ascending(node) for node in (pair.times[1].copy(), *time_order(pair.other))]
    position = over(exp.RowNumber(), keys, order)
    columns = [alias(name, column(name, pair.other.alias)) for name in names]
    columns += [alias(_key(i), key.copy()) for i, key in enumerate(keys)]
    columns.append(alias(POSITION, exp.Cast(this=position, to=exp.DataType.build("BIGINT"))))
    return _where_known(exp.Select(expressions=columns, from_=exp.From(this=source.copy())), keys)


def _where_known(select: exp.Select, keys: list[exp.Expr]) -> exp.Select:
    for key in keys:
        select.where(known(key), copy=False)
    return select


def _matches(pair: NearPair) -> exp.Expr:
    here, there = pair.driving.alias, pair.other.alias
    found: exp.Expr = exp.EQ(this=column(POSITION, here), expression=column(POSITION, there))
    inside = exp.LTE(this=column(POSITION, here), expression=column(HIGH, here))
    found = exp.And(this=found, expression=inside)
    for i in range(len(pair.keys)):
        same = exp.EQ(this=column(_key(i), here), expression=column(_key(i), there))
        found = exp.And(this=found, expression=same)
    return found


class _Driving:
    """The driving relation's rows while levels are put around them."""

    def __init__(self, pair: NearPair, names: list[str], source: exp.Expr, other: exp.Expr) -> None:
        self.pair = pair
        self.source, self.other = source, other
        self.relation: Relation = pair.driving
        self.types: dict[str, Typed] = {name: self.relation.columns[name] for name in names}
        self.types[ROW] = Typed(BIGINT)
        self.types[TIME] = typed(pair.times[0])
        self.keys = [_key(i) for i in range(len(pair.keys))]
        self.made: exp.Expr = self._base(names)

    def _column(self, name: str) -> exp.Column:
        return column(name, self.relation.alias)

    def _level(self, columns: dict[str, exp.Expr]) -> exp.Select:
        """A level around what has been made so far."""
        named = [alias(name, node) for name, node in columns.items()]
        return exp.Select(expressions=named, from_=exp.From(this=rows_of(self.made, self.relation.alias)))

    def _handed(self) -> dict[str, exp.Expr]:
        return {name: self._column(name) for name in (*self.types, *self.keys)}

    def _base(self, names: list[str]) -> exp.Select:
        row = over(exp.RowNumber(), [], [ascending(node) for node in time_order(self.relation)])
        columns: dict[str, exp.Expr] = {name: self._column(name) for name in names}
        columns[ROW] = exp.Cast(this=row, to=exp.DataType.build("BIGINT"))
        columns[TIME] = self.pair.times[0].copy()
        columns |= {_key(i): key.copy() for i, (key, _) in enumerate(self.pair.keys)}
        named = [alias(name, node) for name, node in columns.items()]
        return exp.Select(expressions=named, from_=exp.From(this=self.source.copy()))

    def count(self, name: str, side: int, offset: int = 0) -> exp.Expr:
        """How many of the other relation's rows lie before (or at) the driving time plus ``offset``."""
        at: exp.Expr = self._column(TIME)
        if offset:
            at = exp.Add(this=at, expression=number(offset))
        here = self._level({**self._handed(), AT: at, SIDE: number(side)})
        self.made = exp.Union(this=here, expression=self._others(), distinct=False)
        one = exp.Count(this=when(exp.EQ(this=self._column(SIDE), expression=number(1)), number(1)))
        parts = [self._column(key) for key in self.keys]
        order = [ascending(self._column(AT)), ascending(self._column(SIDE))]
        columns = {**self._handed(), SIDE: self._column(SIDE), name: over(one, parts, order, "so far")}
        columns[ALL] = exp.Window(this=one.copy(), partition_by=[part.copy() for part in parts])
        self.made = self._level(columns)
        self.types[name] = self.types[ALL] = Typed(BIGINT)
        mine = self._level(self._handed())
        mine.where(exp.NEQ(this=self._column(SIDE), expression=number(1)), copy=False)
        self.made = mine
        return self._column(name)

    def _others(self) -> exp.Select:
        """The other relation's rows, with as many columns as the driving ones."""
        keys = [key for _, key in self.pair.keys]
        columns: dict[str, exp.Expr] = {n: cast(exp.Null(), type_) for n, type_ in self.types.items()}
        columns |= {_key(i): key.copy() for i, key in enumerate(keys)}
        columns |= {AT: self.pair.times[1].copy(), SIDE: number(1)}
        named = [alias(name, node) for name, node in columns.items()]
        return _where_known(exp.Select(expressions=named, from_=exp.From(this=self.other.copy())), keys)

    def rows(self) -> exp.Select:
        """The driving rows: one for each position that matches, or a single one if nothing matches."""
        low, high = self._range()
        self.made = self._level({**self._handed(), LOW: low, HIGH: high})
        del self.types[ALL]
        self.types[HIGH] = Typed(BIGINT)
        last = exp.Greatest(this=self._column(LOW), expressions=[self._column(HIGH)])
        position: exp.Expr = self._column(LOW)
        if self.pair.most != 1:
            series = exp.GenerateSeries(start=position, end=last, step=number(1))
            position = exp.Explode(this=series)
        return self._level({**self._handed(), POSITION: position})

    def _range(self) -> tuple[exp.Expr, exp.Expr]:
        """The first and the last position; if nothing matches, the last is before the first."""
        most = self.pair.most
        if self.pair.offsets is not None:
            low = _plus(self.count("_before", BEFORE, self.pair.offsets[0]), 1)
            high = self.count("_up_to", UP_TO, self.pair.offsets[1])
        elif self.pair.comparison in (exp.GTE, exp.GT):
            high = self.count("_up_to", UP_TO if self.pair.comparison is exp.GTE else BEFORE)
            assert most is not None
            one = cast(number(1), BIGINT)
            return exp.Greatest(this=_plus(high, 1 - most), expressions=[one]), high.copy()
        else:
            side = UP_TO if self.pair.comparison is exp.LT else BEFORE
            low = _plus(self.count("_before", side), 1)
            high = self._column(ALL)
            if self.pair.comparison is exp.EQ:
                high = self.count("_up_to", UP_TO)
        if most is not None:
            high = exp.Least(this=high, expressions=[_plus(low.copy(), most - 1)])
        return low, high


def _plus(node: exp.Expr, value: int) -> exp.Expr:
    if value == 0:
        return node
    made = exp.Add if value > 0 else exp.Sub
    return made(this=wrap(node), expression=number(abs(value)))

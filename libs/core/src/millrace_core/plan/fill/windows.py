"""FILL: adds the windows of the WHERE range that have no rows, and fills results that are NULL.

Above the windows with rows (``_agg``) come three levels: the neighbours of each window, the windows that are
missing between them, and the filled results. The forced modes give windows even if there are no rows at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.plan.functions.scalar import convert
from millrace_core.plan.keys import Keys
from millrace_core.plan.levels import (
    ascending,
    descending,
    known,
    last_known,
    over,
    over_level,
    rows_of,
    when,
)
from millrace_core.plan.scope import Context, Scope, column
from millrace_core.plan.spark.pieces import refused
from millrace_core.plan.types.typed import BIGINT, DOUBLE, Typed, cast, fail, number, typed, with_type
from millrace_core.plan.windows.filling import MOST_WINDOWS, Filling

AGG, ONE = "_agg", "_one"


def fill_windows(scope: Scope, ctx: Context) -> None:
    """Put the levels of FILL between the windows and the results."""
    if (filling := scope.found(Filling)) is not None:
        _Fill(scope, filling, ctx.notify is not None).apply()


@dataclass
class _Fill:
    """FILL while it is added to a SELECT over ``_agg``. ``filled``: the expressions over the windows with
    rows that become ``_f0``, ``_f1``, …; ``values``: what FILL(VALUE) gives for each."""

    scope: Scope
    filling: Filling
    notified: bool
    filled: list[exp.Expr] = field(default_factory=list)
    values: list[exp.Expr] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    position: str = ""

    def apply(self) -> None:
        outer = self.scope.select
        windows = outer.args["from_"].this.this
        self.names = [projection.alias for projection in windows.expressions]
        *self.parts, self.position = (node.name for node in self.scope.record(Keys).order)
        self._results(outer)
        if (where := outer.args.get("where")) is not None:
            where.set("this", over_level(where.this, self._placed))
        order = outer.args.get("order")
        for ordered in order.expressions if order is not None else []:
            if not ordered.this.meta.get("result"):
                ordered.set("this", over_level(ordered.this, self._placed))
        seen = self._seen(outer.args["from_"])
        outer.set("from_", exp.From(this=rows_of(self._fill(self._missing(seen)), AGG)))

    def _results(self, outer: exp.Select) -> None:
        """The results that are filled: all that are calculated from the windows' rows."""
        projections = list(outer.expressions)
        later = [p for p in projections if self.notified and p.alias == "_notify"]
        chosen = [
            p for p in projections if p not in later and any(map(_of_rows, p.this.find_all(exp.Column)))
        ]
        given = self.filling.values
        wanted = len(chosen) if self.filling.mode == "VALUE" else 0
        if len(given) != wanted:
            message = f"FILL({self.filling.at.this}) takes {wanted} values here, not {len(given)}"
            raise fail(ErrorCode.INVALID_VALUE, message, self.filling.at)
        for i, projection in enumerate(chosen):
            value = _converted(given[i], typed(projection.this)) if given else exp.Null()
            projection.set("this", self._filled(projection.this, value))
        for projection in later:
            projection.set("this", over_level(projection.this, self._placed))

    def _filled(self, node: exp.Expr, value: exp.Expr) -> exp.Expr:
        if node not in self.filled:
            self.filled.append(node.copy())
            self.values.append(value)
        type_: Typed | None = node.meta.get("typed")
        reference = column(f"_f{self.filled.index(node)}", AGG)
        return reference if type_ is None else with_type(reference, type_)

    def _placed(self, node: exp.Expr) -> exp.Expr | None:
        """What replaces a part of a condition or an order over the filled results."""
        if node in self.filled or _of_rows(node):
            return self._filled(node, exp.Null())
        return None

    def _seen(self, windows: exp.Expr) -> exp.Select:
        """The windows with rows, each with the positions of the windows before and after it."""
        position = column(self.position, AGG)
        last = exp.LastValue(this=position)
        parts = [column(name, AGG) for name in self.parts]
        beside = {
            "_before": over(last, parts, [ascending(position.copy())], "before"),
            "_after": over(last.copy(), parts, [descending(position.copy())], "before"),
        }
        seen = exp.Select(expressions=_named({**self._handed(), **beside}), from_=windows)
        if self.filling.forced and not parts:
            one = exp.values([(0,)], alias=ONE, columns=["n"])
            for name in one.find_all(exp.Identifier):
                name.set("quoted", True)
            join = exp.Join(this=one, side="RIGHT", on=exp.Boolean(this=True))
            join.meta["constant"] = True
            seen.append("joins", join)
            seen.meta["always"] = True
        return seen

    def _handed(self) -> dict[str, exp.Expr]:
        return {name: column(name, AGG) for name in self.names}

    def _missing(self, seen: exp.Select) -> exp.Select:
        """All windows: ``_p`` is the position; the other columns are those of the window it was made from."""
        position = column(self.position, AGG)
        begin: exp.Expr = position
        if (first := self.filling.first) is not None:
            if self.filling.grid.overlaps > 1:  # LEAST ignores the NULL of a range without rows
                first = exp.Anonymous(this="LEAST", expressions=[first, position.copy()])
            begin = when(_null(column("_before", AGG)), first, position.copy())
        end: exp.Expr = exp.Sub(this=column("_after", AGG), expression=number(self.filling.grid.step))
        end = when(_null(column("_after", AGG)), self.filling.last or position.copy(), end)
        whole = exp.GenerateSeries(start=begin, end=end, step=number(self.filling.grid.step))
        some: exp.Expr = when(exp.LTE(this=begin.copy(), expression=end.copy()), whole)
        if not self.filling.constant:
            span = exp.Paren(this=exp.Sub(this=exp.Paren(this=end.copy()), expression=begin.copy()))
            too_many = exp.GTE(this=span, expression=number(self.filling.grid.step * MOST_WINDOWS))
            count = exp.IntDiv(this=span.copy(), expression=number(self.filling.grid.step))
            message = f" windows; at most {MOST_WINDOWS} are allowed"
            some = when(too_many, refused("FILL would make ", cast(count, BIGINT), message), some)
        made = {**self._handed(), "_p": exp.Explode(this=some)}
        return exp.Select(expressions=_named(made), from_=exp.From(this=rows_of(seen, AGG)))

    def _fill(self, missing: exp.Select) -> exp.Select:
        """The results of every window: NULL where the window has none, then filled."""
        position = column("_p", AGG)
        own = exp.EQ(this=position, expression=column(self.position, AGG))
        columns: dict[str, exp.Expr] = {name: column(name, AGG) for name in self.parts}
        columns[self.position] = position.copy()
        columns |= {name: node for name, node in self._handed().items() if name not in columns}
        raw = {f"_r{i}": when(own.copy(), node.copy()) for i, node in enumerate(self.filled)}
        level = exp.Select(expressions=_named({**columns, **raw}), from_=exp.From(this=rows_of(missing, AGG)))
        handed: dict[str, exp.Expr] = {name: column(name, AGG) for name in columns}
        results = {
            f"_f{i}": _MODES[self.filling.mode](self, column(f"_r{i}", AGG), i)
            for i in range(len(self.filled))
        }
        return exp.Select(expressions=_named({**handed, **results}), from_=exp.From(this=rows_of(level, AGG)))

    def type_of(self, i: int) -> Typed | None:
        return self.filled[i].meta.get("typed")

    @property
    def time(self) -> exp.Expr:
        """The start of a window, within the last levels."""
        return self.filling.grid.start(column(self.position, AGG))

    def near(self, node: exp.Expr, back: bool) -> exp.Window:
        """The last value up to this window that is not NULL, or the first one from this window on."""
        way = descending if back else ascending
        parts = [column(name, AGG) for name in self.parts]
        return over(last_known(node), parts, [way(column(self.position, AGG))], "so far")


def _of_rows(node: exp.Expr) -> bool:
    """Whether it is a column that is aggregated from a window's rows, and may differ between windows."""
    aggregated = isinstance(node, exp.Column) and node.table == AGG and node.name.startswith("_a")
    return aggregated and not node.meta.get("fixed")


def _named(columns: dict[str, exp.Expr]) -> list[exp.Expr]:
    return [
        exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True)) for name, node in columns.items()
    ]


def _null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=node, expression=exp.Null())


def _converted(value: exp.Expr, wanted: Typed) -> exp.Expr:
    source = typed(value)
    if source.null:
        return exp.Null()
    fits = source.type.name == wanted.type.name or wanted.text or not source.text
    if not fits and isinstance(value, exp.Literal):
        try:
            float(value.name)
            fits = True
        except ValueError:
            fits = False
    if not fits:
        message = f"FILL: a value of type {source.type} does not fit a result of type {wanted.type}"
        raise fail(ErrorCode.TYPE_MISMATCH, message, value)
    return convert(value, wanted)


def _value(fill: _Fill, raw: exp.Expr, i: int) -> exp.Expr:
    return exp.Coalesce(this=raw, expressions=[fill.values[i].copy()])


def _linear(fill: _Fill, raw: exp.Expr, i: int) -> exp.Expr:
    """On the line between the nearest values on both sides, by the windows' starts; NULL if it is
    not a number."""
    type_ = fill.type_of(i)
    if type_ is None or not (type_.number or type_.timestamp):
        return raw
    a, b = (cast(fill.near(raw.copy(), back), DOUBLE) for back in (False, True))
    before, after = _times(fill, raw)
    share = exp.Div(
        this=cast(exp.Paren(this=exp.Sub(this=fill.time, expression=before)), DOUBLE),
        expression=exp.Nullif(
            this=cast(exp.Paren(this=exp.Sub(this=after, expression=before.copy())), DOUBLE),
            expression=number(0),
        ),
    )
    rise = exp.Paren(this=exp.Sub(this=b, expression=a.copy()))
    line = exp.Add(this=a, expression=exp.Mul(this=rise, expression=exp.Paren(this=share)))
    made = with_type(exp.Paren(this=line), DOUBLE)
    return exp.Coalesce(this=raw, expressions=[convert(made, type_) if not type_.real else made])


def _nearest(fill: _Fill, raw: exp.Expr, i: int) -> exp.Expr:
    """The value of the nearest window that has one; of two equally near ones the earlier."""
    before, after = _times(fill, raw)
    to_before = exp.Paren(this=exp.Sub(this=fill.time, expression=before))
    to_after = exp.Paren(this=exp.Sub(this=after, expression=fill.time))
    earlier = exp.LTE(this=to_before, expression=to_after)
    back, ahead = fill.near(raw.copy(), False), fill.near(raw.copy(), True)
    return exp.Coalesce(this=when(earlier, back, ahead), expressions=[back.copy()])


def _times(fill: _Fill, raw: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """The starts of the windows whose values ``near`` gives."""
    found = [fill.near(when(known(raw), fill.time), back) for back in (False, True)]
    return found[0], found[1]


_MODES: dict[str, Callable[[_Fill, exp.Expr, int], exp.Expr]] = {
    "NULL": lambda fill, raw, i: raw,
    "VALUE": _value,
    "PREV": lambda fill, raw, i: fill.near(raw, False),
    "NEXT": lambda fill, raw, i: fill.near(raw, True),
    "LINEAR": _linear,
    "NEAR": _nearest,
}

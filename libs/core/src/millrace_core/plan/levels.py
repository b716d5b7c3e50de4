"""Nested SELECTs over the rows of a query, for functions that look at neighbouring rows.

The innermost level has the query's own FROM and WHERE. Each further level reads the level below it, called
``_ser``, and adds window functions to it. Every level hands on all columns of the level below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from sqlglot import exp

from millrace_core.plan.clauses import Clauses
from millrace_core.plan.scope import Relation, Scope, column
from millrace_core.plan.types.typed import Typed, with_type

SERIES_ROWS = "_ser"

Frame = Literal["before", "so far"]
_FRAMES: dict[Frame, dict[str, str]] = {
    "before": {"end": "1", "end_side": "PRECEDING"},
    "so far": {"end": "CURRENT ROW"},
}


def row_order(scope: Scope) -> list[exp.Column]:
    """The columns that order the SELECT's rows: its time, and ``tbname`` where tables can have equal times.

    A query in FROM has no ``tbname``: all its columns count instead, with its time first. (Rows that were cut
    into windows have only the SELECT's columns, so there the time alone counts.)
    """
    timed = scope.timed
    found: list[exp.Column] = []
    for relation in sorted(scope.relations, key=lambda relation: relation is not timed):
        names = _order_names(relation)
        if scope.record(Clauses).windowed and relation.draft is None:
            names = names[:1]
        found += [relation.column(name) for name in names]
    return found


def _order_names(relation: Relation) -> list[str]:
    if relation.draft is not None and relation.key is not None:
        return [relation.key, "tbname"] if relation.many_tables else [relation.key]
    names = sorted(relation.visible, key=lambda name: name != relation.key)
    return [name for name in names if relation.columns[name].type.name != "JSON"]


def carry(select: exp.Select, outer: exp.Select) -> None:
    """Move the clauses that concern the result to the outermost level."""
    for key in ("distinct", "order", "limit", "offset", "slimit", "soffset"):
        outer.set(key, select.args.get(key))
        select.set(key, None)
    if select.meta.pop("root", False):
        outer.meta["root"] = True


def ascending(node: exp.Expr) -> exp.Ordered:
    return exp.Ordered(this=node, nulls_first=True)


def descending(node: exp.Expr) -> exp.Ordered:
    return exp.Ordered(this=node, desc=True, nulls_first=False)


def over(
    function: exp.Expr,
    partition: Sequence[exp.Expr],
    order: Sequence[exp.Ordered],
    frame: Frame | int | None = None,
) -> exp.Window:
    """``function OVER (…)``. ``frame``: the rows before this one, those up to this one, or the last n."""
    spec = None
    if frame is not None:
        ends = {"end": "CURRENT ROW"} if isinstance(frame, int) else _FRAMES[frame]
        start = "UNBOUNDED" if isinstance(frame, str) else str(frame - 1)
        spec = exp.WindowSpec(kind="ROWS", start=start, start_side="PRECEDING", **ends)
    return exp.Window(
        this=function,
        partition_by=[node.copy() for node in partition],
        order=exp.Order(expressions=list(order)),
        spec=spec,
    )


def last_known(node: exp.Expr) -> exp.Expr:
    """The window function that gives the last value other than NULL."""
    return exp.IgnoreNulls(this=exp.LastValue(this=node))


def known(node: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=exp.Paren(this=node.copy()), expression=exp.Null()))


def when(condition: exp.Expr, value: exp.Expr, otherwise: exp.Expr | None = None) -> exp.Case:
    return exp.Case(ifs=[exp.If(this=condition, true=value)], default=otherwise)


class Levels:
    """The levels while they are being made. ``time``: the rows' time, if they have one."""

    def __init__(self, keys: Sequence[exp.Expr], order: Sequence[exp.Column], timed: bool) -> None:
        self._levels: list[list[tuple[str, exp.Expr]]] = [[]]
        self._found: dict[tuple[int, exp.Expr], exp.Column] = {}
        self.keys = [self.base(key) for key in keys]
        named = [self.base(node) for node in order]
        self.order = [node for i, node in enumerate(named) if i == 0 or node not in self.keys]
        self.time = named[0] if timed else None

    def base(self, node: exp.Expr) -> exp.Column:
        """A column of the innermost level with this value; equal expressions share one column."""
        return self._named(0, node, node.meta.get("typed"))

    def add(self, level: int, node: exp.Expr) -> exp.Column:
        """A column of a level above the innermost one, made from columns of the levels below it."""
        while len(self._levels) <= level:
            self._levels.append([])
        return self._named(level, node, None)

    def _named(self, level: int, node: exp.Expr, type_: Typed | None) -> exp.Column:
        if (level, node) not in self._found:
            name = f"_c{len(self._found)}"
            self._levels[level].append((name, node.copy()))
            found = column(name, SERIES_ROWS)
            self._found[level, node.copy()] = found if type_ is None else with_type(found, type_)
        return self._found[level, node].copy()

    def over(
        self,
        function: exp.Expr,
        frame: Frame | int | None = None,
        order: Sequence[exp.Ordered] | None = None,
        within: Sequence[exp.Expr] = (),
    ) -> exp.Window:
        """A window function over the partition's rows in order, or over those with the same ``within``."""
        found = self.ordered() if order is None else order
        return over(function, [*self.keys, *within], found, frame)

    def ordered(self) -> list[exp.Ordered]:
        return [ascending(node.copy()) for node in self.order]

    def reversed(self) -> list[exp.Ordered]:
        return [descending(node.copy()) for node in self.order]

    def ticket(self) -> exp.Expr:
        """A text that differs for every row, and looks random."""
        parts = [_text(node) for node in self.order]
        joined = exp.Anonymous(this="CONCAT_WS", expressions=[exp.Literal.string("/"), *parts])
        return exp.Anonymous(this="MD5", expressions=[joined])

    def select(self, base: exp.Select) -> exp.Select:
        """The levels as one SELECT; the innermost is ``base`` with its results replaced."""
        base.set("expressions", [alias(name, node) for name, node in self._levels[0]])
        made = base
        names = [name for name, _ in self._levels[0]]
        for level in self._levels[1:]:
            handed = [alias(name, column(name, SERIES_ROWS)) for name in names]
            added = [alias(name, node) for name, node in level]
            made = exp.Select(expressions=[*handed, *added], from_=exp.From(this=rows_of(made)))
            names += [name for name, _ in level]
        return made


def over_level(node: exp.Expr, place: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """Rewrite the expression for the columns of the level below, from the outside in. A part is replaced by
    what ``place`` gives for it; if that is None, the part's own parts are tried."""
    found = place(node)
    if found is not None:
        return found
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expr):
            node.set(key, over_level(value, place))
        elif isinstance(value, list):
            node.set(key, [over_level(one, place) if isinstance(one, exp.Expr) else one for one in value])
    return node


def rows_of(select: exp.Expr, name: str = SERIES_ROWS) -> exp.Subquery:
    return exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))


def alias(name: str, node: exp.Expr) -> exp.Alias:
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def _text(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node.copy(), to=exp.DataType.build("STRING", dialect="spark"))

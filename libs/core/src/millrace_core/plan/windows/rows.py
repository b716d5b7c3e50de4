"""SESSION, STATE_WINDOW, EVENT_WINDOW and COUNT_WINDOW: windows cut from the ordered rows.

Each becomes a few nested SELECTs over the query's rows (``SelectedRows``), per partition. The last level has
``_w``, the window's number, and ``_ws`` and ``_we``, its first and last instant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.language.query import nodes
from millrace_core.plan.functions.scalar import duration_ticks
from millrace_core.plan.levels import Frame, ascending, descending, known, last_known, over, when
from millrace_core.plan.scope import Relation, Scope, column, own
from millrace_core.plan.types.typed import TIMESTAMP, Typed, fail, number, typed, with_type

NUMBER, START, END, STATE = "_w", "_ws", "_we", "_state"
JOINED = "_joined"
MOST_COUNTED = (1 << 31) - 1
STATE_TYPES = "an integer, BOOL or VARCHAR"


class SelectedRows:
    """The rows of a SELECT while levels are put around them.

    Every level is a subquery with the relation's own name, and hands its columns on. So expressions over the
    relation mean the same at each level. ``parts``: the partition's expressions.
    """

    def __init__(self, scope: Scope, parts: list[exp.Expr]) -> None:
        self.scope = scope
        if len(scope.relations) > 1:
            join_rows(scope, parts)
        (self.relation,) = scope.relations
        self.parts = parts
        assert self.relation.key is not None
        self.relation.order()  # so that the columns that it uses are handed on, too
        self.time = self.relation.column(self.relation.key)
        order = [self.time]
        if self.relation.many_tables:
            order.append(self.relation.column("tbname"))
        self.order = order
        used = [node for tree in (scope.select, *parts) for node in own(tree)]
        found = [n.name for n in used if isinstance(n, exp.Column) and n.table == self.relation.alias]
        self.names = list(dict.fromkeys([*(node.name for node in order), *found]))

    def level(self, computed: Mapping[str, exp.Expr], where: exp.Expr | None = None) -> None:
        """Put a level around the rows: FROM and WHERE move inside, ``computed`` joins the columns."""
        select = self.scope.select
        named = {name: self.column(name) for name in self.names} | dict(computed)
        inner = exp.Select(
            expressions=[
                exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))
                for name, node in named.items()
            ]
        )
        for key in ("from_", "joins", "where"):
            inner.set(key, select.args.get(key))
            select.set(key, None)
        alias = exp.TableAlias(this=exp.to_identifier(self.relation.alias, quoted=True))
        select.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
        self.names = list(named)
        if where is not None:
            select.where(where, copy=False)

    def column(self, name: str) -> exp.Column:
        """A column of the level below."""
        return column(name, self.relation.alias)

    def over(
        self,
        function: exp.Expr,
        frame: Frame | None = "so far",
        *,
        back: bool = False,
        within: str | None = None,
    ) -> exp.Window:
        """A window function over the partition's rows in order, or with ``back`` in reverse order; with
        ``within``, only over rows with the same value of that column."""
        way = descending if back else ascending
        keys = [*self.parts, *([self.column(within)] if within else [])]
        return over(function, keys, [way(node.copy()) for node in self.order], frame)

    def whole(self, function: exp.Expr, within: str | None = None) -> exp.Window:
        """A window function over all rows of the partition, or those with the same ``within``."""
        keys = [node.copy() for node in self.parts]
        return exp.Window(this=function, partition_by=[*keys, *([self.column(within)] if within else [])])


def join_rows(scope: Scope, parts: Sequence[exp.Expr], beside: Mapping[str, exp.Expr] | None = None) -> None:
    """Turn joined relations into one, with columns ``relation.column`` and those of ``beside``.

    The SELECT's expressions and the trees in ``parts`` then read that one."""
    select = scope.select
    timed = scope.timed
    assert timed is not None and timed.key is not None
    key = f"{timed.alias}.{timed.key}"
    found: dict[str, exp.Expr] = {key: timed.column(timed.key)}
    types: dict[str, Typed] = {key: timed.columns[timed.key]}
    inner = exp.Select()
    for name in ("from_", "joins", "where"):
        inner.set(name, select.args.get(name))
        select.set(name, None)
    for tree in (select, *parts):
        for node in list(own(tree)):
            if isinstance(node, exp.Column) and node.table:
                name = f"{node.table}.{node.name}"
                found.setdefault(name, node.copy())
                types.setdefault(name, typed(node))
                node.set("this", exp.to_identifier(name, quoted=True))
                node.set("table", exp.to_identifier(JOINED, quoted=True))
    inner.set(
        "expressions",
        [
            exp.Alias(this=n, alias=exp.to_identifier(name, quoted=True))
            for name, n in {**found, **(beside or {})}.items()
        ],
    )
    alias = exp.TableAlias(this=exp.to_identifier(JOINED, quoted=True))
    select.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    scope.relations = [Relation((), JOINED, types, tuple(types), key)]


@dataclass(frozen=True, slots=True)
class WindowState:
    """The expression of a STATE_WINDOW, and its value for a window."""

    expression: exp.Expr
    value: exp.Expr


@dataclass(frozen=True, slots=True)
class Cut:
    """A window's first and last instant, over columns of the last level."""

    start: exp.Expr
    end: exp.Expr


Cutters = Mapping[type[exp.Expr], Callable[[exp.Expr, SelectedRows], Cut]]
"""For each clause, how it cuts the rows."""


def cut_rows(window: exp.Expr, rows: SelectedRows, cutters: Cutters) -> list[exp.Expr]:
    """Cut the rows by the clause, whose expressions are lowered already.

    Returns the start, the end and the number of a row's window, which are to be grouped by.

    :raises SqlError: INVALID_VALUE, NOT_ALLOWED, TYPE_MISMATCH at the clause.
    """
    precision = typed(rows.time).precision or "ms"
    least = window.args.get("true_for")
    shortest = duration_ticks(least, precision) if least is not None else None
    cut = cutters[type(window)](window, rows)
    rows.level({START: cut.start, END: cut.end})
    if shortest is not None:
        lasted = exp.Sub(this=rows.column(END), expression=rows.column(START))
        rows.scope.select.where(exp.GTE(this=exp.Paren(this=lasted), expression=number(shortest)), copy=False)
    type_ = Typed(TIMESTAMP, precision)
    return [with_type(rows.column(START), type_), with_type(rows.column(END), type_), rows.column(NUMBER)]


def first_to_last(rows: SelectedRows) -> Cut:
    """Each window reaches from the first to the last row with its number."""
    start, end = exp.Min(this=rows.time.copy()), exp.Max(this=rows.time.copy())
    return Cut(rows.whole(start, NUMBER), rows.whole(end, NUMBER))


def _total(flag: exp.Expr) -> exp.Expr:
    return exp.Sum(this=when(flag, number(1), number(0)))


def _session(window: exp.Expr, rows: SelectedRows) -> Cut:
    this = window.this
    if not (isinstance(this, exp.Column) and this.name == rows.relation.key):
        raise fail(ErrorCode.NOT_ALLOWED, "SESSION needs the time column", this)
    gap = duration_ticks(window.args["gap"], typed(rows.time).precision or "ms")
    if gap <= 0:
        raise fail(ErrorCode.INVALID_VALUE, "the gap of SESSION must be longer than zero", window.args["gap"])
    rows.level({"_before": rows.over(exp.LastValue(this=rows.time.copy()), "before")})
    far = exp.Sub(this=rows.time.copy(), expression=rows.column("_before"))
    new = exp.GT(this=exp.Paren(this=far), expression=number(gap))
    rows.level({NUMBER: rows.over(_total(new))})
    return first_to_last(rows)


def _event(window: exp.Expr, rows: SelectedRows) -> Cut:
    """The rows up to and including each row that ends a window form a stretch. Within it the window begins at
    the first row that can begin one. So a row that can do both never begins the next window."""
    begins = exp.Paren(this=window.args["start"])
    ends = exp.Paren(this=window.args["end"])
    rows.level({
        NUMBER: exp.Coalesce(this=rows.over(_total(ends.copy()), "before"), expressions=[number(0)]),
        "_ends": rows.whole(_total(ends)),
        "_begins": when(begins, number(1), number(0)),
    })  # fmt: skip
    rows.level({"_open": rows.over(exp.Max(this=rows.column("_begins")), within=NUMBER)})
    closed = exp.LT(this=rows.column(NUMBER), expression=rows.column("_ends"))
    rows.scope.select.where(exp.EQ(this=rows.column("_open"), expression=number(1)), copy=False)
    rows.scope.select.where(closed, copy=False)
    return first_to_last(rows)


def _count(window: exp.Expr, rows: SelectedRows) -> Cut:
    count, *rest = window.expressions
    size = _whole(count, "the number of rows")
    slide = size
    if rest and isinstance(rest[0], (exp.Literal, exp.Neg)):
        slide = _whole(rest.pop(0), "the slide")
    if slide > size:
        raise fail(ErrorCode.INVALID_VALUE, f"the slide {slide} is larger than the window ({size})", window)
    for node in rest:
        _counted_column(node, rows)
    if rest:
        some: list[exp.Expr] = [known(node) for node in rest]
        rows.scope.select.where(exp.Paren(this=exp.or_(*some, copy=False)), copy=False)
    before = exp.Sub(this=rows.over(exp.RowNumber(), None), expression=number(1))
    rows.level({"_n": exp.Cast(this=exp.Paren(this=before), to=exp.DataType.build("BIGINT"))})
    last = exp.IntDiv(this=rows.column("_n"), expression=number(slide))
    if slide == size:
        rows.level({NUMBER: last})
        return first_to_last(rows)
    overlaps = -(-size // slide)
    alias = exp.TableAlias(
        this=exp.to_identifier("_win", quoted=True), columns=[exp.to_identifier("n", quoted=True)]
    )
    numbers = exp.Anonymous(this="RANGE", expressions=[number(0), number(overlaps)])
    join = exp.Join(this=exp.Table(this=numbers, alias=alias), kind="CROSS")
    join.meta["constant"] = True
    rows.scope.select.append("joins", join)
    rows.level({NUMBER: exp.Sub(this=exp.Paren(this=last), expression=column("n", "_win"))})
    first = exp.Mul(this=rows.column(NUMBER), expression=number(slide))
    inside = exp.LT(this=rows.column("_n"), expression=exp.Add(this=first, expression=number(size)))
    rows.scope.select.where(exp.GTE(this=rows.column(NUMBER), expression=number(0)), copy=False)
    rows.scope.select.where(inside, copy=False)
    return first_to_last(rows)


def _whole(node: exp.Expr, what: str) -> int:
    text = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    if not (text.isdigit() and 1 <= int(text) <= MOST_COUNTED):
        raise fail(ErrorCode.INVALID_VALUE, f"{what} must be an integer from 1 to {MOST_COUNTED}", node)
    return int(text)


def _counted_column(node: exp.Expr, rows: SelectedRows) -> None:
    draft = rows.relation.draft
    table = draft.table if draft else None
    if not isinstance(node, exp.Column):
        raise fail(ErrorCode.NOT_ALLOWED, "COUNT_WINDOW allows only columns", node)
    if node.name == "tbname" or (table is not None and table.tag(node.name) is not None):
        raise fail(ErrorCode.NOT_ALLOWED, f"COUNT_WINDOW allows only columns; {node.name} is a tag", node)


def _state(window: exp.Expr, rows: SelectedRows) -> Cut:
    """A window begins where the state differs from the last known one. Rows without a state belong to
    the window between whose rows they lie; between two windows, ``extend`` says which one they belong
    to (0: neither)."""
    _check_state(window.this, rows)
    extend = _extend(window.args.get("extend"))
    state, before, after = (rows.column(name) for name in (STATE, "_before", "_after"))
    rows.level({STATE: window.this})
    rows.level({
        "_before": rows.over(last_known(state.copy()), "before"),
        "_after": rows.over(last_known(state.copy()), back=True),
    })  # fmt: skip
    other: exp.Expr = exp.NEQ(this=state.copy(), expression=before.copy())
    new = exp.And(this=known(state), expression=exp.Paren(this=exp.Or(this=_null(before), expression=other)))
    rows.level({"_new": when(new, number(1), number(0))})
    begins = exp.EQ(this=rows.column("_new"), expression=number(1))
    first = when(begins.copy(), rows.time.copy())
    stated = when(known(state), rows.time.copy())
    computed: dict[str, exp.Expr] = {NUMBER: rows.over(exp.Sum(this=rows.column("_new")))}
    if extend == 1:
        computed["_next"] = rows.over(last_known(first), "before", back=True)
    elif extend == 2:
        computed["_last"] = when(begins, rows.over(last_known(stated), "before"))
    rows.level(computed)
    inside = exp.Or(this=known(state), expression=exp.EQ(this=before.copy(), expression=after.copy()))
    one = rows.column(NUMBER)
    branches = [exp.If(this=inside, true=one)]
    if extend:
        between = exp.And(this=known(before), expression=known(after))
        moved = one.copy() if extend == 1 else exp.Add(this=one.copy(), expression=number(1))
        branches.append(exp.If(this=between, true=moved))
    rows.names.remove(NUMBER)
    rows.level({NUMBER: exp.Case(ifs=branches)}, known(rows.column(NUMBER)))
    return _extended(rows, extend)


def _extended(rows: SelectedRows, extend: int) -> Cut:
    cut = first_to_last(rows)
    if extend == 1:
        until = exp.Sub(this=rows.whole(exp.Min(this=rows.column("_next")), NUMBER), expression=number(1))
        return Cut(cut.start, exp.Coalesce(this=until, expressions=[cut.end]))
    if extend == 2:
        since = exp.Add(this=rows.whole(exp.Max(this=rows.column("_last")), NUMBER), expression=number(1))
        return Cut(exp.Coalesce(this=since, expressions=[cut.start]), cut.end)
    return cut


def _null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=node.copy(), expression=exp.Null())


def _check_state(node: exp.Expr, rows: SelectedRows) -> None:
    type_ = typed(node)
    if not (type_.integer or type_.type.name in ("BOOL", "VARCHAR", "NCHAR")) or type_.null:
        what = f"STATE_WINDOW needs {STATE_TYPES}, not {type_.type}"
        raise fail(ErrorCode.TYPE_MISMATCH, what, node)
    draft = rows.relation.draft
    table = draft.table if draft else None
    if isinstance(node, exp.Column) and table is not None and table.tag(node.name) is not None:
        raise fail(ErrorCode.NOT_ALLOWED, f"STATE_WINDOW needs a column, but {node.name} is a tag", node)


def _extend(node: exp.Expr | None) -> int:
    if node is None:
        return 0
    if not (isinstance(node, exp.Literal) and not node.is_string and node.name in ("0", "1", "2")):
        raise fail(ErrorCode.INVALID_VALUE, "extend must be 0, 1 or 2", node)
    return int(node.name)


CUTTERS: Cutters = {
    nodes.SessionWindow: _session,
    nodes.StateWindow: _state,
    nodes.EventWindow: _event,
    nodes.CountWindow: _count,
}

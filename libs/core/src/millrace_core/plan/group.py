"""Passes that give an aggregate query its two levels, and INTERVAL windows their groups.

Every aggregate query becomes ``SELECT <results over _agg> FROM (SELECT <groups>, <aggregates> … GROUP BY
<groups>) AS _agg``. The inner level is what a set of triggers computes at once; the outer one can be joined
to the triggers themselves, so that those without rows get theirs too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from millrace_core.dialect import query_nodes as nodes
from millrace_core.errors import ErrorCode
from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.plan.aggregates import AGGREGATES
from millrace_core.plan.functions import duration_ticks, fixed_offset
from millrace_core.plan.scope import Context, Relation, Scope, column, own
from millrace_core.plan.typed import BIGINT, TIMESTAMP, Typed, cast, fail, floor_mod, number, with_type, wrap

AGG = "_agg"
MOST_OVERLAPS = 1000


def lower_windows(scope: Scope, ctx: Context) -> None:
    """INTERVAL: the window's start becomes a group, the pseudo columns expressions over it."""
    select = scope.select
    window = select.args.get("window_clause")
    if window is None:
        return
    select.set("window_clause", None)
    relation = scope.timed
    if relation is None or relation.key is None:
        raise fail(ErrorCode.NOT_ALLOWED, "a window needs a table with a time column", window)
    precision = relation.columns[relation.key].precision or ctx.precision
    cut = _Interval.of(window, precision, ctx)
    start = with_type(cut.start(scope, relation), Typed(TIMESTAMP, precision))
    values = {
        "_wstart": start,
        "_wend": exp.Paren(this=exp.Add(this=wrap(start.copy()), expression=number(cut.interval))),
        "_wduration": cast(number(cut.interval), BIGINT),
    }
    for node in list(own(select)):
        bare = isinstance(node, exp.Column) and not node.args.get("table") and not node.meta.get("result")
        if bare and node.name in values:
            node.replace(values[node.name].copy())
    select.set("partition_by", [*(select.args.get("partition_by") or []), start])


@dataclass(frozen=True, slots=True)
class _Interval:
    """INTERVAL(interval, offset) SLIDING(sliding) in ticks; ``shift``: of local midnight, for days.""" ""

    interval: int
    sliding: int
    offset: int
    shift: int

    @staticmethod
    def of(window: exp.Expr, precision: Precision, ctx: Context) -> _Interval:
        if not isinstance(window, nodes.IntervalWindow):
            name = type(window).__name__.removesuffix("Window").upper()
            raise fail(ErrorCode.UNSUPPORTED, f"the window {name} cannot be used in a query yet", window)
        interval = duration_ticks(window.this, precision)
        given = window.args.get("sliding")
        sliding = duration_ticks(given, precision) if given is not None else interval
        offset = duration_ticks(window.args["offset"], precision) if window.args.get("offset") else 0
        if interval < TICKS_PER_SECOND[precision] // 100:
            raise fail(ErrorCode.INVALID_VALUE, "the shortest INTERVAL is 10a", window)
        if not 0 < sliding <= interval:
            raise fail(ErrorCode.INVALID_VALUE, "SLIDING must not be longer than INTERVAL", window)
        if offset >= interval:
            raise fail(ErrorCode.INVALID_VALUE, "the offset must be shorter than INTERVAL", window)
        if interval > sliding * MOST_OVERLAPS:
            raise fail(ErrorCode.INVALID_VALUE, f"a row lies in more than {MOST_OVERLAPS} windows", window)
        shift = 0
        if window.this.args["unit"] in ("d", "w"):
            shift = fixed_offset(ctx.timezone, window) * TICKS_PER_SECOND[precision]
        return _Interval(interval, sliding, offset, shift)

    def start(self, scope: Scope, relation: Relation) -> exp.Expr:
        """The start of a row's window; with overlap each row is taken once per window it lies in."""
        assert relation.key is not None
        key = relation.column(relation.key)
        moved: exp.Expr = key
        if self.shift != self.offset:
            moved = exp.Paren(this=exp.Add(this=key, expression=number(self.shift - self.offset)))
        last = exp.Sub(this=key.copy(), expression=floor_mod(moved, self.sliding))
        overlaps = -(-self.interval // self.sliding)
        if overlaps == 1:
            return exp.Paren(this=last)
        back = exp.Mul(this=column("n", "_win"), expression=number(self.sliding))
        start = exp.Paren(this=exp.Sub(this=last, expression=back))
        _join_numbers(scope.select, overlaps)
        inside = exp.LT(
            this=key.copy(),
            expression=exp.Paren(this=exp.Add(this=start.copy(), expression=number(self.interval))),
        )
        scope.select.where(inside, copy=False)
        return start


def _join_numbers(select: exp.Select, count: int) -> None:
    """Join the numbers below ``count`` as ``_win.n``: the same for every trigger."""
    rows = exp.values([(i,) for i in range(count)], alias="_win", columns=["n"])
    for name in rows.find_all(exp.Identifier):
        name.set("quoted", True)
    join = exp.Join(this=rows, kind="CROSS")
    join.meta["constant"] = True
    select.append("joins", join)


def split_aggregates(scope: Scope, ctx: Context) -> None:
    """Give an aggregate SELECT its two levels.

    :raises SqlError: NOT_ALLOWED for a column that is neither grouped nor picked by a selection function.
    """
    select = scope.select
    keys = [*(select.args.get("partition_by") or []), *_group_keys(select)]
    found = [node for node in own(select) if node.meta.get("aggregate")]
    grouped = bool(_group_keys(select)) or (scope.windowed and bool(keys))
    if not found and not grouped:
        _refuse_having(select)
        select.set("partition_by", None)
        return
    split = _Split(scope, keys, found)
    outer = split.outer()
    _carry(select, outer)
    scope.select = outer


def _group_keys(select: exp.Select) -> list[exp.Expr]:
    group = select.args.get("group")
    return list(group.expressions) if group is not None else []


def _refuse_having(select: exp.Select) -> None:
    if select.args.get("having") is not None:
        raise fail(ErrorCode.NOT_ALLOWED, "HAVING needs GROUP BY or an aggregate", select.args["having"])


def _carry(select: exp.Select, outer: exp.Select) -> None:
    """What concerns the result goes to the outer level."""
    for key in ("distinct", "order", "limit", "offset"):
        outer.set(key, select.args.get(key))
        select.set(key, None)
    if select.meta.pop("root", False):
        outer.meta["root"] = True


@dataclass
class _Split:
    """An aggregate SELECT on its way to two levels."""

    scope: Scope
    keys: list[exp.Expr]
    found: list[exp.Expr]
    inner: list[exp.Expr] = field(default_factory=list)
    """Expressions of the inner level's columns, after the keys."""

    def outer(self) -> exp.Select:
        select = self.scope.select
        projections = select.expressions
        order = select.args.get("order")
        having = select.args.get("having")
        outer = exp.Select(expressions=projections)
        for projection in projections:
            projection.set("this", self.over(projection.this))
        if order is not None:
            for ordered in order.expressions:
                if not ordered.this.meta.get("result"):
                    ordered.set("this", self.over(ordered.this))
        if having is not None:
            outer.set("where", exp.Where(this=self.over(having.this)))
            select.set("having", None)
        if not self.keys:
            self._over_no_rows(outer)
        select.set("expressions", self._columns())
        select.set("partition_by", None)
        select.set("group", exp.Group(expressions=[key.copy() for key in self.keys]) if self.keys else None)
        select.meta["inner"] = True
        alias = exp.TableAlias(this=exp.to_identifier(AGG, quoted=True))
        outer.set("from_", exp.From(this=exp.Subquery(this=select, alias=alias)))
        return outer

    def _columns(self) -> list[exp.Expr]:
        named = [(f"_k{i}", key) for i, key in enumerate(self.keys)]
        named += [(f"_a{i}", node) for i, node in enumerate(self.inner)]
        return [exp.Alias(this=n.copy(), alias=exp.to_identifier(name, quoted=True)) for name, n in named]

    def _over_no_rows(self, outer: exp.Select) -> None:
        """Without groups: one row over no rows if something counts, none otherwise (TDengine's default)."""
        outer.meta["global"] = True
        if any(AGGREGATES[node.meta["aggregate"]].counts for node in self.found):
            outer.meta["always"] = True
            return
        rows = self._inner(exp.Count(this=exp.Star(), big_int=True))
        outer.where(exp.GT(this=rows, expression=number(0)), copy=False)

    def _inner(self, node: exp.Expr) -> exp.Column:
        if node not in self.inner:
            self.inner.append(node)
        return column(f"_a{self.inner.index(node)}", AGG)

    def over(self, node: exp.Expr) -> exp.Expr:
        """The expression over the inner level's columns."""
        if node in self.keys:
            return _like(column(f"_k{self.keys.index(node)}", AGG), node)
        if node.meta.get("aggregate"):
            reference = _like(self._inner(node), node)
            reference.meta["zero"] = AGGREGATES[node.meta["aggregate"]].counts
            return reference
        if isinstance(node, exp.Column):
            return _like(self._inner(self._beside(node)), node)
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(key, self.over(value))
            elif isinstance(value, list):
                node.set(key, [self.over(item) if isinstance(item, exp.Expr) else item for item in value])
        return node

    def _beside(self, node: exp.Column) -> exp.Expr:
        """A column that is not grouped: fixed by the table it is grouped by, or picked with a row."""
        relation = next((r for r in self.scope.relations if r.alias == node.table), None)
        draft = relation.draft if relation else None
        table = draft.table if draft else None
        names = [key.name for key in self.keys if isinstance(key, exp.Column) and key.table == node.table]
        fixed = table is not None and (table.tag(node.name) is not None or node.name == "tbname")
        if fixed and draft is not None and ("tbname" in names or draft.child or draft.own_table):
            return exp.AnyValue(this=node.copy())
        picks = [n for n in self.found if AGGREGATES[n.meta["aggregate"]].pick is not None]
        if len({n.sql() for n in picks}) == 1 and self.scope.timed is not None:
            pick = AGGREGATES[picks[0].meta["aggregate"]].pick
            assert pick is not None
            return pick(node.copy(), picks[0].meta["arguments"], self.scope.timed.order())
        message = f"column {node.name} is neither grouped nor aggregated"
        raise fail(ErrorCode.NOT_ALLOWED, message, node)


def _like(reference: exp.Column, node: exp.Expr) -> exp.Column:
    if "typed" in node.meta:
        with_type(reference, node.meta["typed"])
    return reference

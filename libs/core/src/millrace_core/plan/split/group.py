"""The pass that gives an aggregate query its two levels.

Every aggregate query becomes ``SELECT <results over _agg> FROM (SELECT <groups>, <aggregates> … GROUP BY
<groups>) AS _agg``. The inner level is what a set of triggers computes at once. The outer one can be joined
to the triggers themselves, so that triggers without rows get their results too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.plan.aggregates.table import AGGREGATES
from millrace_core.plan.clauses import Clauses
from millrace_core.plan.join_pair import NearPair, timed_by
from millrace_core.plan.keys import Keys
from millrace_core.plan.levels import known, over_level
from millrace_core.plan.scope import Context, Scope, column, own
from millrace_core.plan.types.typed import fail, number, with_type
from millrace_core.plan.windows.filling import Filling
from millrace_core.plan.windows.lower import join_numbers
from millrace_core.plan.windows.rows import WindowState

AGG = "_agg"
NEEDED = frozenset({"first", "last"})
NULL_WITHOUT = frozenset({"sum", "avg", "min", "max", "spread", "stddev", "stddev_pop", "var_pop"})
"""Aggregates that are NULL if there is no value, and do not make a row for that."""
E = TypeVar("E", bound=exp.Expr)


def split_aggregates(scope: Scope, ctx: Context) -> None:
    """Give an aggregate SELECT its two levels.

    :raises SqlError: NOT_ALLOWED for a column that is neither grouped nor picked by a selection function.
    """
    select = scope.select
    keys = [*(select.args.get("partition_by") or []), *_group_keys(select)]
    found = [node for node in own(select) if node.meta.get("aggregate")]
    grouped = bool(_group_keys(select)) or (scope.record(Clauses).windowed and bool(keys))
    if not found and not grouped:
        _refuse_having(select)
        if partitioned := select.args.get("partition_by"):
            scope.record(Keys).parts = [node.copy() for node in partitioned]
        select.set("partition_by", None)
        return
    given = scope.record(Keys)
    given.order = [column(f"_k{i}", AGG) for i in range(len(keys))]
    given.parts = [key.copy() for key in given.order[: len(keys) - given.windows]]
    split = _Split(scope, keys, found)
    outer = split.outer()
    _carry(select, outer)
    scope.select = outer
    _each_row(scope, outer, split)


def _each_row(scope: Scope, outer: exp.Select, split: _Split) -> None:
    """An aggregate that gives an array (histogram) gives one row for each element."""
    arrays = [node for node in split.inner if node.meta.get("rows")]
    if not arrays:
        return
    others = [node for node in split.found if node != arrays[0]]
    if others or scope.found(Filling) is not None:
        what = others[0].meta["aggregate"] if others else "FILL"
        message = f"{what} cannot be used with {arrays[0].meta['aggregate']}, which returns several rows"
        raise fail(ErrorCode.NOT_ALLOWED, message, arrays[0])
    join_numbers(outer, arrays[0].meta["rows"])
    number_ = column("n", "_win")
    array = column(f"_a{split.inner.index(arrays[0])}", AGG)
    for node in list(own(outer)):
        if node == array:
            following = exp.Add(this=number_.copy(), expression=number(1))
            at = exp.Cast(this=following, to=exp.DataType.build("INT"))
            node.replace(_like(exp.Anonymous(this="ELEMENT_AT", expressions=[node.copy(), at]), node))
    scope.record(Keys).order.append(number_)
    outer.meta["global"] = False


def _group_keys(select: exp.Select) -> list[exp.Expr]:
    group = select.args.get("group")
    return list(group.expressions) if group is not None else []


def _refuse_having(select: exp.Select) -> None:
    if select.args.get("having") is not None:
        raise fail(ErrorCode.NOT_ALLOWED, "HAVING needs GROUP BY or an aggregate", select.args["having"])


def _carry(select: exp.Select, outer: exp.Select) -> None:
    """Move the clauses that concern the result to the outer level."""
    for key in ("distinct", "order", "limit", "offset"):
        outer.set(key, select.args.get(key))
        select.set(key, None)
    if select.meta.pop("root", False):
        outer.meta["root"] = True


@dataclass
class _Split:
    """An aggregate SELECT while it is split into two levels."""

    scope: Scope
    keys: list[exp.Expr]
    found: list[exp.Expr]
    inner: list[exp.Expr] = field(default_factory=list)
    """The expressions of the inner level's columns, which come after the keys."""
    _places: dict[exp.Expr, int] = field(default_factory=dict)
    """Expression -> its place in ``inner``: with thousands of columns, searching for each takes minutes."""
    _key_places: dict[exp.Expr, int] = field(init=False)

    def __post_init__(self) -> None:
        self._key_places = {}
        for place, key in enumerate(self.keys):
            self._key_places.setdefault(key, place)

    def outer(self) -> exp.Select:
        select = self.scope.select
        projections = select.expressions
        order = select.args.get("order")
        having = select.args.get("having")
        outer = exp.Select(expressions=projections)
        for projection in projections:
            projection.set("this", over_level(projection.this, self._placed))
        if order is not None:
            for ordered in order.expressions:
                if not ordered.this.meta.get("result"):
                    ordered.set("this", over_level(ordered.this, self._placed))
        if having is not None:
            outer.set("where", exp.Where(this=over_level(having.this, self._placed)))
            select.set("having", None)
        if not self.keys:
            self._over_no_rows(outer)
        if not self.scope.record(Clauses).windowed and self._only_values(outer):
            some = [known(column(f"_a{self._places[node]}", AGG)) for node in self.found]
            outer.where(exp.or_(*dict.fromkeys(some), copy=False), copy=False)
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
        """Without groups: over no rows, one row if some aggregate counts, else none (TDengine's default)."""
        outer.meta["global"] = True
        if any(AGGREGATES[node.meta["aggregate"]].counts for node in self.found):
            outer.meta["always"] = True
            return
        rows = self._inner(exp.Count(this=exp.Star(), big_int=True))
        outer.where(exp.GT(this=rows, expression=number(0)), copy=False)

    def _only_values(self, outer: exp.Select) -> bool:
        """Whether the results are only aggregates that need a value, first or last among them. Then there is
        no row if all of them are NULL (as in TDengine for first and last)."""
        names = {node.meta["aggregate"] for node in self.found}
        keys = {f"_k{i}" for i in range(len(self.keys))}
        used = {node.name for node in own(outer) if isinstance(node, exp.Column)}
        return bool(names & NEEDED) and names <= NEEDED | NULL_WITHOUT and not used & keys

    def _inner(self, node: exp.Expr) -> exp.Column:
        place = self._places.setdefault(node, len(self.inner))
        if place == len(self.inner):
            self.inner.append(node)
        return column(f"_a{place}", AGG)

    def _placed(self, node: exp.Expr) -> exp.Expr | None:
        """What replaces a part of an expression over the inner level's columns."""
        place = self._key_places.get(node)
        if place is not None:
            return _like(column(f"_k{place}", AGG), node)
        if node.meta.get("aggregate"):
            reference = _like(self._inner(node), node)
            reference.meta["zero"] = AGGREGATES[node.meta["aggregate"]].counts
            return reference
        state = self.scope.found(WindowState)
        if state is not None and node == state.expression:
            return _like(self._inner(state.value), node)
        if isinstance(node, exp.Column):
            beside = self._beside(node)
            reference = _like(self._inner(beside), node)
            reference.meta["fixed"] = beside.meta.get("fixed", False)
            return reference
        return None

    def _beside(self, node: exp.Column) -> exp.Expr:
        """A column that is not grouped: either fixed by the grouping table, or picked along with a row."""
        relation = next((r for r in self.scope.relations if r.alias == node.table), None)
        draft = relation.draft if relation else None
        table = draft.table if draft else None
        names = [key.name for key in self.keys if isinstance(key, exp.Column) and key.table == node.table]
        fixed = table is not None and (table.tag(node.name) is not None or node.name == "tbname")
        pair = self.scope.found(NearPair)
        if pair is not None and pair.offsets is not None and relation is pair.driving:
            return exp.AnyValue(this=node.copy())  # its rows are the groups
        if fixed and draft is not None and ("tbname" in names or draft.child or draft.own_table):
            chosen = exp.AnyValue(this=node.copy())
            chosen.meta["fixed"] = True
            return chosen
        picks = [n for n in self.found if AGGREGATES[n.meta["aggregate"]].pick is not None]
        arguments = picks[0].meta["arguments"] if picks else []
        timed = timed_by(self.scope, arguments)
        if len({n.sql() for n in picks}) == 1 and timed is not None:
            pick = AGGREGATES[picks[0].meta["aggregate"]].pick
            assert pick is not None
            return pick(node.copy(), arguments, timed.order())
        message = f"column {node.name} is neither grouped nor aggregated"
        raise fail(ErrorCode.NOT_ALLOWED, message, node)


def _like(reference: E, node: exp.Expr) -> E:
    if "typed" in node.meta:
        with_type(reference, node.meta["typed"])
    return reference

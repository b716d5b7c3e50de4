"""What is known while a query is planned: the query's surroundings, and the relations a SELECT can name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from millrace_core.catalog import Catalog
from millrace_core.model.schema import Precision, Table
from millrace_core.model.stream import ResultColumn, Source
from millrace_core.plan.model import Bound, Comparison, Formula, SourceUse
from millrace_core.plan.types.typed import TBNAME, Typed, with_type

if TYPE_CHECKING:
    from millrace_core.plan.fill.windows import Filling
    from millrace_core.plan.joins.read import Pair

TimeBounds = tuple[list[tuple[Comparison, Formula]], list[tuple[Comparison, Formula]]]
"""Lower and upper comparisons of a time column."""


@dataclass
class SourceDraft:
    """A source while its use becomes known; see :class:`SourceUse`."""

    relation: str
    kind: Literal["table", "trows", "system"]
    table: Table | None
    order: tuple[str, ...]
    """All columns it could have, in order."""
    child: str | None = None
    own_table: bool = False
    group_tags: bool = False
    written: bool = False
    tag_equals: dict[str, int] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)
    low: list[tuple[Comparison, Formula]] = field(default_factory=list)
    high: list[tuple[Comparison, Formula]] = field(default_factory=list)

    def use(self) -> SourceUse:
        columns = self.columns or {self.order[0]}  # count(*) needs no column, a relation does
        return SourceUse(
            relation=self.relation,
            kind=self.kind,
            table=self.table,
            columns=tuple(name for name in self.order if name in columns),
            child=self.child,
            own_table=self.own_table,
            group_tags=self.group_tags,
            written=self.written,
            tag_equals=tuple(self.tag_equals.items()),
            low=Bound(tuple(self.low)) if self.low else None,
            high=Bound(tuple(self.high)) if self.high else None,
        )


@dataclass
class Relation:
    """Something in FROM. ``names``: how the query may call it; ``alias``: its name in the generated SQL;
    ``columns``: all it has, ``visible``: those that ``*`` means; ``key``: its time column."""

    names: tuple[str, ...]
    alias: str
    columns: dict[str, Typed]
    visible: tuple[str, ...]
    key: str | None = None
    draft: SourceDraft | None = None

    def column(self, name: str) -> exp.Column:
        if self.draft is not None:
            self.draft.columns.add(name)
        return with_type(column(name, self.alias), self.columns[name])

    @property
    def many_tables(self) -> bool:
        """Whether rows of several child tables, hence with equal times, can be in it."""
        draft = self.draft
        return bool(draft and draft.table and draft.table.tags and not draft.child and not draft.own_table)

    def order(self) -> exp.Expr:
        """What tells the order of its rows in time, ties between tables included."""
        assert self.key is not None
        if self.many_tables:
            return exp.Struct(expressions=[self.column(self.key), self.column("tbname")])
        return self.column(self.key)


@dataclass
class Scope:
    """One SELECT: its relations, and the results it turned out to have.

    Over the rows or groups that it gives: ``keys`` tell them apart in order, ``parts`` are those of its
    partitions, the last ``window_keys`` of PARTITION BY those of its windows; ``filling``: its FILL.
    ``partitioned``, ``ordered``, ``tags_only``: whether it was written with PARTITION BY, ORDER BY, TAGS.
    ``partitions``: its ``slimit`` and ``soffset``. ``state``: the expression of its STATE_WINDOW, and
    its value in a window. ``driving``: the relation on the right of its RIGHT JOIN;
    ``pair``: its SEMI, ANTI, ASOF or WINDOW JOIN. ``failed``: what went wrong in a row's partition, where the
    result tells of it: the last of the window's keys.
    """

    select: exp.Select
    relations: list[Relation] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    windowed: bool = False
    tags_only: bool = False
    partitions: dict[str, exp.Expr] = field(default_factory=dict)
    partitioned: bool = False
    ordered: bool = False
    window_keys: int = 0
    parts: list[exp.Expr] = field(default_factory=list)
    keys: list[exp.Column] = field(default_factory=list)
    filling: Filling | None = None
    state: tuple[exp.Expr, exp.Expr] | None = None
    driving: Relation | None = None
    pair: Pair | None = None
    failed: exp.Column | None = None

    @property
    def timed(self) -> Relation | None:
        """The relation whose time column ``_c0`` means: that which drives a join, else the first."""
        if self.driving is not None and self.driving.key is not None and self.driving in self.relations:
            return self.driving
        return next((relation for relation in self.relations if relation.key is not None), None)

    def timed_by(self, nodes: Iterable[exp.Expr]) -> Relation | None:
        """The relation whose time tells the order of these values: in a window of a WINDOW JOIN, all of whose
        rows have one driving row, that of the other relation if it is read."""
        pair = self.pair
        if pair is not None and pair.join.args.get("kind") == "WINDOW":
            columns = (found for node in nodes for found in node.find_all(exp.Column))
            if any(found.table == pair.other.alias for found in columns):
                return pair.other
        return self.timed


@dataclass(frozen=True)
class Result:
    """A result column: its name for the user, its name in the SQL, its type."""

    name: str
    alias: str
    typed: Typed

    @property
    def column(self) -> ResultColumn:
        return ResultColumn(self.name, self.typed.type)


@dataclass
class Context:
    """The surroundings of a query.

    ``placeholders``: those allowed, with their types; ``partition``: the stream's grouping columns;
    ``source``: its trigger table; ``trows``: bounds of ``%%trows``; ``trows_written``: the log tells them
    instead; ``pre_filter``: a condition on ``%%trows``; ``now``: nanoseconds since the epoch; ``user``: who
    asks, None in a stream; ``notify``: NOTIFY's WHERE; ``force_output``: the option.
    """

    catalog: Catalog
    database: str | None
    timezone: str
    precision: Precision
    now: exp.Expr
    user: str | None = None
    placeholders: dict[str, Typed] = field(default_factory=dict)
    partition: tuple[str, ...] = ()
    source: Source | None = None
    trows: TimeBounds = field(default_factory=lambda: ([], []))
    trows_written: bool = False
    pre_filter: str | None = None
    force_output: bool = False
    notify: exp.Expr | None = None
    drafts: list[SourceDraft] = field(default_factory=list)
    uses: set[str] = field(default_factory=set)
    counter: int = 0

    def number(self) -> int:
        self.counter += 1
        return self.counter - 1


def column(name: str, table: str | None = None) -> exp.Column:
    """A column of the generated SQL."""
    quoted = exp.to_identifier(name, quoted=True)
    return exp.Column(this=quoted, table=exp.to_identifier(table, quoted=True) if table else None)


def table_columns(table: Table) -> dict[str, Typed]:
    """Columns, tags and ``tbname`` of a table, with their types."""
    found = {
        c.name: Typed(c.type, table.precision if c.type.name == "TIMESTAMP" else None) for c in table.columns
    }
    found |= {
        t.name: Typed(t.type, table.precision if t.type.name == "TIMESTAMP" else None) for t in table.tags
    }
    return {**found, "tbname": Typed(TBNAME)}


def put(node: exp.Expr, new: exp.Expr) -> None:
    """Put another node in this one's place. ``replace`` does so too, but in a list it numbers all the others
    anew: replacing each of thousands of columns would take the square of their number."""
    parent, key, at = node.parent, node.arg_key, node.index
    if parent is None or key is None or at is None:
        node.replace(new)
        return
    parent.args[key][at] = new
    new.parent, new.arg_key, new.index = parent, key, at
    parent.set("", None)  # nothing, save that kept hashes are forgotten


def own(select: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of a SELECT without those of the queries inside it."""
    inner = (exp.Subquery, exp.Select, exp.SetOperation)
    for node in select.walk(prune=lambda n: n is not select and isinstance(n, inner)):
        if node is select or not isinstance(node, inner):
            yield node


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """The parts of a condition that are joined by AND."""
    match condition:
        case None:
            return
        case exp.Where() | exp.Paren():
            yield from conjuncts(condition.this)
        case exp.And():
            yield from conjuncts(condition.this)
            yield from conjuncts(condition.expression)
        case _:
            yield condition


def near(name: str, known: Iterable[str]) -> str:
    """`` (did you mean …?)`` with the nearest known names, or nothing."""
    found = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    return f" (did you mean {', '.join(found)}?)" if found else ""

"""What is known while a query is planned: the query's context, and the relations that a SELECT can name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from sqlglot import exp

from millrace_core.catalog import Catalog
from millrace_core.model.schema import Precision, Table
from millrace_core.model.stream import ResultColumn, Source
from millrace_core.plan.growth import Growth
from millrace_core.plan.model import Bound, Comparison, Formula, SourceUse
from millrace_core.plan.types.typed import TBNAME, Typed, with_type

R = TypeVar("R")
TimeBounds = tuple[list[tuple[Comparison, Formula]], list[tuple[Comparison, Formula]]]
"""Lower and upper bounds on a time column, as comparisons."""


@dataclass
class SourceDraft:
    """A source while it is found out how it is used; see :class:`SourceUse`."""

    relation: str
    kind: Literal["table", "trows", "system"]
    table: Table | None
    order: tuple[str, ...]
    """All columns that it could have, in order."""
    child: str | None = None
    own_table: bool = False
    group_tags: bool = False
    written: bool = False
    tag_equals: dict[str, int] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)
    low: list[tuple[Comparison, Formula]] = field(default_factory=list)
    high: list[tuple[Comparison, Formula]] = field(default_factory=list)

    def use(self) -> SourceUse:
        columns = self.columns or {self.order[0]}  # count(*) needs no column, but a relation does
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
    """Something in FROM. ``names``: what the query may call it; ``alias``: its name in the generated SQL;
    ``columns``: all that it has, ``visible``: those that ``*`` means; ``key``: its time column."""

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
        """Whether it can hold rows of several child tables, which may have equal times."""
        draft = self.draft
        return bool(draft and draft.table and draft.table.tags and not draft.child and not draft.own_table)

    def order(self) -> exp.Expr:
        """The expression that orders its rows in time, also where tables have equal times."""
        assert self.key is not None
        if self.many_tables:
            return exp.Struct(expressions=[self.column(self.key), self.column("tbname")])
        return self.column(self.key)


@dataclass
class Scope:
    """One SELECT: its relations, and the results that it gives.

    ``driving``: the relation on the right of its RIGHT JOIN. What one pass learns about a clause, and a later
    one needs, is a record with a type of its own, which is defined beside the clause's pass and kept here.
    """

    select: exp.Select
    relations: list[Relation] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    driving: Relation | None = None
    _records: dict[type, object] = field(default_factory=dict)

    def note(self, record: object) -> None:
        """Keep a record for later passes; it replaces an earlier one of the same type."""
        self._records[type(record)] = record

    def found(self, kind: type[R]) -> R | None:
        """The record of this type or a subtype, if a pass has noted one."""
        return next((record for record in self._records.values() if isinstance(record, kind)), None)

    def record(self, kind: type[R]) -> R:
        """The record of this type; made with its defaults if no pass has noted one."""
        record = self.found(kind)
        if record is None:
            record = kind()
            self.note(record)
        return record

    @property
    def timed(self) -> Relation | None:
        """The relation whose time column ``_c0`` means: the one that drives a join, else the first."""
        if self.driving is not None and self.driving.key is not None and self.driving in self.relations:
            return self.driving
        return next((relation for relation in self.relations if relation.key is not None), None)


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
    """The context of a query.

    ``placeholders``: those that are allowed, with their types; ``partition``: the stream's grouping columns;
    ``source``: its trigger table; ``trows``: bounds of ``%%trows``; ``trows_written``: the log tells which
    rows these are instead; ``pre_filter``: a condition on ``%%trows``; ``now``: nanoseconds since the epoch;
    ``user``: who asks, None in a stream; ``notify``: NOTIFY's WHERE; ``force_output``: whether the option is
    set; ``growth``: how large the query has become.
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
    growth: Growth = field(default_factory=Growth)

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
    """Put another node in the place of this one. ``replace`` does this too, but in a list it renumbers all
    others: replacing thousands of columns this way would take quadratic time."""
    parent, key, at = node.parent, node.arg_key, node.index
    if parent is None or key is None or at is None:
        node.replace(new)
        return
    parent.args[key][at] = new
    new.parent, new.arg_key, new.index = parent, key, at
    parent.set("", None)  # does nothing but drop cached hashes


_LEFT = (exp.Identifier, exp.Subquery, exp.Select, exp.SetOperation)


def own(select: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of a SELECT, level by level, without those of the queries inside it; names are left out."""
    level = [select]
    while level:
        below: list[exp.Expr] = []
        for node in level:
            yield node
            for value in node.args.values():
                children = value if type(value) is list else (value,)
                below += [one for one in children if isinstance(one, exp.Expr) and not isinstance(one, _LEFT)]
        level = below


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """The parts of a condition that AND joins."""
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

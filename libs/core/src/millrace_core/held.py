"""What a stream holds: databases, tables and columns that cannot be dropped as long as the stream exists.

Streams with global names hold what they read and write (SEMANTICS-FRONTENDS, "S2 · Life cycle"). Streams that
belong to a database hold nothing: what they use may be dropped, whether they can go on without it or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from millrace_core.catalog import Catalog, StreamEntry
from millrace_core.language.query import parse_expression, parse_query
from millrace_core.language.query.sources import sources
from millrace_core.language.virtual import sources_of
from millrace_core.model.expression import fields_of
from millrace_core.model.life import life_of
from millrace_core.model.schema import Table
from millrace_core.model.stream import StreamSpec
from millrace_core.trigger.stream import compiled, essence
from millrace_core.trigger.types import type_of


def databases_of(spec: StreamSpec, catalog: Catalog) -> set[str]:
    """The databases of the tables that a stream triggers on, reads and writes; for a virtual table also those
    that its columns come from."""
    names = [(spec.source.table.db, spec.source.table.name)] if spec.source is not None else []
    if spec.query is not None:
        names += [(db, name) for db, name, _ in sources(parse_query(spec.query), catalog, spec.database)]
    found = {db for db, _ in names}
    for name in names:
        table = catalog.tables.get(name)
        if table is not None and table.virtual:
            found |= {db for db, _ in sources_of(table, catalog)}
    return found | ({spec.output.db} if spec.output is not None else set())


def holders(table: Table, catalog: Catalog) -> Iterator[StreamEntry]:
    """The streams that keep a super table from being dropped."""
    for entry in list(catalog.streams.values()):
        if table.kind == "super" and life_of(entry.spec).holds and _sides(entry.spec, table):
            yield entry


def column_holders(table: Table, column: str, catalog: Catalog) -> Iterator[StreamEntry]:
    """The streams that use a column or tag of the table, which is the source or the result of each."""
    for entry in list(catalog.streams.values()):
        if not life_of(entry.spec).holds:
            continue
        sides = _sides(entry.spec, table)
        read = "source" in sides and column in _read(entry.spec)
        if read or ("result" in sides and column in _written(entry.spec)):
            yield entry


def _sides(spec: StreamSpec, table: Table) -> set[str]:
    """What the table is to the stream: its source, its result, both or neither."""
    found = set()
    if spec.source is not None and spec.source.table.uid == table.uid:
        found.add("source")
    if spec.output is not None and (spec.output.db, spec.output.table) == (table.db, table.name):
        found.add("result")
    return found


def _read(spec: StreamSpec) -> set[str]:
    """Columns and tags of the source."""
    conditions = [spec.options.pre_filter, *type_of(spec.trigger).conditions(spec.trigger)]
    names = {name for condition in conditions if condition is not None for name in condition.columns}
    names |= {s.name for s in compiled(essence(spec)).windower.signals if s.kind != "flag"}
    names |= set(spec.partition).union(*(fields_of(key.expression) for key in spec.keys))
    trees = [parse_query(spec.query)] if spec.query is not None else []
    if spec.output is not None:
        texts = [tag.expression for tag in spec.output.tags] + [spec.output.subtable]
        trees += [parse_expression(text) for text in texts if text]
    return names | {column.name for tree in trees for column in tree.find_all(exp.Column)}


def _written(spec: StreamSpec) -> set[str]:
    if spec.output is None:
        return set()
    tags = {tag.column.name for tag in spec.output.tags if tag.expression != "NULL"}
    return {column.name for column in spec.output.columns} | tags

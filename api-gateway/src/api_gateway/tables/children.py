"""Child tables: how they are made, no matter who asks for them, and how they are removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from api_gateway import metrics
from api_gateway.context import Context
from api_gateway.tables.find import TableName, database_of, table_of
from millrace_core.catalog import Catalog, Tombstone, key_of
from millrace_core.errors import CatalogError, ErrorCode
from millrace_core.model.schema import Child, Table
from millrace_core.timeline.precision import milliseconds
from millrace_core.wire import operations as wire
from millrace_core.wire.topics import wal_topic
from millrace_wal import Message


@dataclass(frozen=True, slots=True)
class Using:
    """What a child table is made of. ``tags``: takes the super table, and gives the values of all its tags in
    its order, checked against it; None for tags that have no value."""

    table: TableName
    tags: Callable[[Table], tuple[object, ...]]


class Birth(NamedTuple):
    """A child table to be made, and its super table."""

    child: Child
    table: Table

    @property
    def message(self) -> Message:
        """The ``create`` operation, which goes into the WAL before any row."""
        tags = {tag.name: value for tag, value in zip(self.table.tags, self.child.tags, strict=True)}
        operation = wire.Register(tags, self.child.incarnation)
        topic = wal_topic(self.table.db, self.table.name)
        return Message(topic, self.child.name.encode(), wire.encode_operation(operation))


def conceive(catalog: Catalog, name: TableName, using: Using, now: int, *, virtual: bool = False) -> Birth:
    """The child that is meant, with its tags checked; this does not check whether the name is free. ``now``:
    nanoseconds.

    :raises MillraceError: for an unknown super table or tag, a value that does not fit, or a super table that
        is virtual although it must not be, or the reverse.
    """
    db = database_of(catalog, name)
    table, child = table_of(catalog, using.table)
    if child is not None or table.kind != "super":
        raise CatalogError(
            ErrorCode.NOT_ALLOWED, f"USING {using.table}: this is not a super table", using.table.position
        )
    if table.virtual != virtual:
        right = (
            "virtual: use CREATE VTABLE for its child tables"
            if table.virtual
            else "not virtual: use CREATE TABLE for its child tables"
        )
        raise CatalogError(
            ErrorCode.NOT_ALLOWED, f"USING {using.table}: this super table is {right}", using.table.position
        )
    if table.db != db.name:
        raise CatalogError(
            ErrorCode.NOT_ALLOWED,
            f"{name} must be in the same database as its super table {table.db}.{table.name}",
            name.position,
        )
    grave = catalog.tombstones.get((name.db, name.name))
    incarnation = grave.incarnation + 1 if grave else 0
    made = milliseconds(now)
    child = Child(db.name, table.name, name.name, using.tags(table), incarnation, made, version=table.version)
    return Birth(child, table)


def bear(context: Context, births: Sequence[Birth]) -> None:
    """Make children: first in the WAL, then in the catalog. After a crash in between, calc-svc finds them in
    the WAL and registers them. Hold ``writer.ddl``."""
    if not births:
        return
    context.append_rows([birth.message for birth in births])
    enter(context, [birth.child for birth in births], "sql")


def enter(context: Context, children: Sequence[Child], by: Literal["sql", "producer"]) -> None:
    """Enter children that are already in the WAL into the catalog. Hold ``writer.ddl``."""
    context.writer.write(children)
    metrics.CHILDREN.labels(by).inc(len(children))


def drop_children(context: Context, dropped: Sequence[tuple[Table, Child]]) -> None:
    """Remove child tables: in their topic, in order with their rows, and in the catalog."""
    if not dropped:
        return
    end = wire.encode_operation(wire.Drop())
    with context.gate.alone():
        context.append_rows(
            [Message(wal_topic(table.db, table.name), child.name.encode(), end) for table, child in dropped]
        )
        context.writer.write(
            [Tombstone(child.db, child.table, child.name, child.incarnation) for _, child in dropped],
            remove=[key_of(child) for _, child in dropped],
        )

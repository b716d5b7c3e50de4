"""CREATE and DROP of super, normal and child tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from api_gateway import metrics
from api_gateway.answer import Answer, affected
from api_gateway.context import Context, fresh_uid, milliseconds
from api_gateway.session import Session, in_database
from api_gateway.tables.removal import remove_tables
from millrace_core.catalog import Catalog, Tombstone, key_of
from millrace_core.dialect.names import QualifiedName
from millrace_core.dialect.statements import ChildDef, ColumnDef, CreateChildren, CreateTable, DropTables
from millrace_core.dialect.values import literal_value
from millrace_core.dialect.virtual import origins_of_table
from millrace_core.errors import CatalogError, ErrorCode, SqlError
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.wire import operations as wire
from millrace_core.wire.topics import wal_topic
from millrace_wal import Message

# -- looking up ----------------------------------------------------------------------------------------------


def database_of(catalog: Catalog, session: Session, name: QualifiedName) -> Database:
    """The database that a name is in; :raises CatalogError: if none is chosen or it does not exist."""
    db = session.db_of(name)
    found = catalog.databases.get(db)
    if found is None:
        raise in_database(db, name)
    return found


def find_table(catalog: Catalog, session: Session, name: QualifiedName) -> tuple[Table, Child | None]:
    """The table of that name, and the child if it is one; :raises CatalogError: if there is none."""
    db = database_of(catalog, session, name)
    found = catalog.find(db.name, name.name)
    if found is None:
        raise missing_table(db.name, name)
    return found


def missing_table(db: str, name: QualifiedName) -> CatalogError:
    return CatalogError(ErrorCode.UNKNOWN_TABLE, f"the table {db}.{name.name} does not exist", name.position)


def taken(db: str, name: QualifiedName) -> CatalogError:
    return CatalogError(ErrorCode.TABLE_EXISTS, f"the table {db}.{name.name} already exists", name.position)


# -- super and normal tables ---------------------------------------------------------------------------------


def create_table(context: Context, session: Session, statement: CreateTable) -> Answer:
    name = statement.name
    with context.writer.ddl:
        db = database_of(context.catalog, session, name)
        if context.catalog.find(db.name, name.name):
            if statement.if_not_exists:
                return affected(0)
            raise taken(db.name, name)
        origins = origins_of_table(statement, context.catalog, session.database, db.precision)
        table = Table(
            db.name, name.name, "super" if statement.tags else "normal",
            fresh_uid(db.name, name.name), db.precision,
            _columns(statement.columns), _columns(statement.tags), milliseconds(session.now),
            virtual=statement.virtual, origins=origins,
        )  # fmt: skip
        add_table(context, table, name)
    return affected(0)


def add_table(context: Context, table: Table, name: QualifiedName | None) -> None:
    """Its topic, then its record: a crash between leaves an empty topic, no more. Hold ``writer.ddl``."""
    partitions = context.settings.wal_partitions if table.kind == "super" else 1
    seconds = context.catalog.databases[table.db].wal_retention
    kept_ms = seconds * 1000 if seconds >= 0 else -1
    context.topics.make(table.db, table.name, partitions, name.position if name else None, kept_ms)
    context.writer.write([table])


def _columns(definitions: Sequence[ColumnDef]) -> tuple[Column, ...]:
    return tuple(Column(d.name.text, d.type, d.composite_key, d.comment) for d in definitions)


# -- child tables --------------------------------------------------------------------------------------------


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


def create_children(context: Context, session: Session, statement: CreateChildren) -> Answer:
    with context.writer.ddl:
        births: dict[tuple[str, str], Birth] = {}
        for definition in statement.children:
            birth = conceive(context.catalog, session, definition)
            key = (birth.child.db, birth.child.name)
            if key in births or context.catalog.find(*key):
                if definition.if_not_exists:
                    continue
                raise taken(birth.child.db, definition.name)
            births[key] = birth
        with context.gate.shared():
            bear(context, list(births.values()))
    return affected(0)


def conceive(catalog: Catalog, session: Session, definition: ChildDef, *, virtual: bool = False) -> Birth:
    """The child that a definition means, tags checked; whether the name is free is not looked at.

    :raises SqlError: for an unknown super table or tag, a value that does not fit, or a super table that is
        virtual where none is meant, or the reverse.
    """
    db = database_of(catalog, session, definition.name)
    table, child = find_table(catalog, session, definition.using)
    if child is not None or table.kind != "super":
        raise CatalogError(
            ErrorCode.NOT_ALLOWED,
            f"USING {definition.using}: it is no super table",
            definition.using.position,
        )
    if table.virtual != virtual:
        right = "virtual, CREATE VTABLE makes its children" if table.virtual else "not virtual"
        raise CatalogError(
            ErrorCode.NOT_ALLOWED, f"USING {definition.using}: it is {right}", definition.using.position
        )
    if table.db != db.name:
        raise CatalogError(
            ErrorCode.NOT_ALLOWED,
            f"{definition.name} is in another database than its super table {table.db}.{table.name}",
            definition.name.position,
        )
    grave = catalog.tombstones.get((db.name, definition.name.name))
    incarnation = grave.incarnation + 1 if grave else 0
    tags = _tag_values(table, session, definition)
    return Birth(
        Child(
            db.name,
            table.name,
            definition.name.name,
            tags,
            incarnation,
            milliseconds(session.now),
            version=table.version,
        ),
        table,
    )


def _tag_values(table: Table, session: Session, definition: ChildDef) -> tuple[object, ...]:
    """Values of all tags in the table's order; None for those that are not named."""
    names = definition.tag_names
    if not names and len(definition.tags) != len(table.tags):
        raise SqlError(
            ErrorCode.SYNTAX,
            f"{definition.name}: {len(definition.tags)} tag values are given, {table.name} has "
            f"{len(table.tags)} tags",
            definition.tags[0].position,
        )
    values: dict[str, object] = {}
    for index, literal in enumerate(definition.tags):
        tag = table.tag(names[index].text) if names else table.tags[index]
        if tag is None:
            raise SqlError(
                ErrorCode.UNKNOWN_COLUMN,
                f"{table.name} has no tag {names[index].text}",
                names[index].position,
            )
        if tag.name in values:
            raise SqlError(
                ErrorCode.INVALID_VALUE, f"the tag {tag.name} is given twice", names[index].position
            )
        values[tag.name] = literal_value(literal, tag, session.values(table.precision))
    return tuple(values.get(tag.name) for tag in table.tags)


def bear(context: Context, births: Sequence[Birth]) -> None:
    """Make children: first in the WAL, then in the catalog. A crash between is mended by calc-svc, which
    sees the WAL and registers them. Hold ``writer.ddl``."""
    if not births:
        return
    context.append_rows([birth.message for birth in births])
    context.writer.write([birth.child for birth in births])
    metrics.CHILDREN.labels("sql").inc(len(births))


# -- dropping ------------------------------------------------------------------------------------------------


def drop_tables(context: Context, session: Session, statement: DropTables) -> Answer:
    catalog = context.catalog
    with context.writer.ddl:
        tables: dict[int, Table] = {}
        children: dict[int, tuple[Table, Child]] = {}
        for name, if_exists in zip(statement.names, statement.if_exists, strict=True):
            db = database_of(catalog, session, name)
            found = catalog.find(db.name, name.name)
            if found is None:
                if if_exists:
                    continue
                raise missing_table(db.name, name)
            table, child = found
            if statement.virtual_only and not table.virtual:
                raise CatalogError(ErrorCode.NOT_ALLOWED, f"{name} is no virtual table", name.position)
            if statement.super_only and (child is not None or table.kind != "super"):
                raise CatalogError(ErrorCode.NOT_ALLOWED, f"{name} is no super table", name.position)
            if child is None:
                tables[table.uid] = table
            else:
                children[child.uid] = (table, child)
        drop_children(context, [pair for pair in children.values() if pair[0].uid not in tables])
        removed = remove_tables(context, list(tables.values()), ()) if tables else None
    if removed is not None:
        removed.wait()
    return affected(0)


def drop_children(context: Context, dropped: Sequence[tuple[Table, Child]]) -> None:
    """End child tables: in their topic, in order with their rows, and in the catalog."""
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

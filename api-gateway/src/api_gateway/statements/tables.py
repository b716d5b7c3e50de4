"""CREATE and DROP of super, normal and child tables."""

from __future__ import annotations

from collections.abc import Sequence

from api_gateway.answer import Answer, affected
from api_gateway.context import Context, fresh_uid
from api_gateway.session import Session
from api_gateway.tables.children import Birth, Using, bear, conceive, drop_children
from api_gateway.tables.find import database_of, full_name, table_of, taken
from api_gateway.tables.removal import remove_tables
from millrace_core.catalog import Catalog
from millrace_core.errors import CatalogError, ErrorCode, SqlError
from millrace_core.held import holders
from millrace_core.language.names import QualifiedName
from millrace_core.language.statements import ChildDef, ColumnDef, CreateChildren, CreateTable, DropTables
from millrace_core.language.values import literal_value
from millrace_core.language.virtual import origins_of_table
from millrace_core.model.schema import Child, Column, Table
from millrace_core.privileges import stream_words
from millrace_core.timeline.precision import milliseconds

# -- super and normal tables ---------------------------------------------------------------------------------


def create_table(context: Context, session: Session, statement: CreateTable) -> Answer:
    name = statement.name
    with context.writer.ddl:
        full = full_name(session, name)
        db = database_of(context.catalog, full)
        if context.catalog.find(db.name, name.name):
            if statement.if_not_exists:
                return affected(0)
            raise taken(full)
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
    """Make a table: first its topic, then its record. A crash in between leaves only an empty topic. Hold
    ``writer.ddl``."""
    partitions = context.settings.wal_partitions if table.kind == "super" else 1
    seconds = context.catalog.databases[table.db].wal_retention
    kept_ms = seconds * 1000 if seconds >= 0 else -1
    context.topics.make(table.db, table.name, partitions, name.position if name else None, kept_ms)
    context.writer.write([table])


def _columns(definitions: Sequence[ColumnDef]) -> tuple[Column, ...]:
    return tuple(Column(d.name.text, d.type, d.composite_key, d.comment) for d in definitions)


# -- child tables --------------------------------------------------------------------------------------------


def create_children(context: Context, session: Session, statement: CreateChildren) -> Answer:
    with context.writer.ddl:
        births: dict[tuple[str, str], Birth] = {}
        for definition in statement.children:
            name = full_name(session, definition.name)
            birth = conceive(context.catalog, name, using_of(session, definition), session.now)
            key = (name.db, name.name)
            if key in births or context.catalog.find(*key):
                if definition.if_not_exists:
                    continue
                raise taken(name)
            births[key] = birth
        with context.gate.shared():
            bear(context, list(births.values()))
    return affected(0)


def using_of(session: Session, definition: ChildDef) -> Using:
    """What the child is made of; its tags are still to be read."""
    return Using(full_name(session, definition.using), lambda table: _tag_values(table, session, definition))


def _tag_values(table: Table, session: Session, definition: ChildDef) -> tuple[object, ...]:
    """The values of all tags in the table's order; None for tags that are not named."""
    names = definition.tag_names
    if not names and len(definition.tags) != len(table.tags):
        raise SqlError(
            ErrorCode.SYNTAX,
            f"{definition.name}: {len(definition.tags)} tag values are given, but {table.name} has "
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


# -- dropping ------------------------------------------------------------------------------------------------


def _check_held(catalog: Catalog, table: Table, session: Session, name: QualifiedName) -> None:
    for entry in holders(table, catalog):
        stream = stream_words(catalog, session.user, entry)
        raise CatalogError(
            ErrorCode.HELD_BY_STREAM,
            f"{name} cannot be dropped: {stream} needs it; drop the stream first",
            name.position,
        )


def drop_tables(context: Context, session: Session, statement: DropTables) -> Answer:
    catalog = context.catalog
    with context.writer.ddl:
        tables: dict[int, Table] = {}
        children: dict[int, tuple[Table, Child]] = {}
        for name, if_exists in zip(statement.names, statement.if_exists, strict=True):
            full = full_name(session, name)
            db = database_of(catalog, full)
            if if_exists and catalog.find(db.name, name.name) is None:
                continue
            table, child = table_of(catalog, full)
            if statement.virtual_only and not table.virtual:
                raise CatalogError(ErrorCode.NOT_ALLOWED, f"{name} is not a virtual table", name.position)
            if statement.super_only and (child is not None or table.kind != "super"):
                raise CatalogError(ErrorCode.NOT_ALLOWED, f"{name} is not a super table", name.position)
            if child is None:
                _check_held(catalog, table, session, name)
                tables[table.uid] = table
            else:
                children[child.uid] = (table, child)
        drop_children(context, [pair for pair in children.values() if pair[0].uid not in tables])
        removed = remove_tables(context, list(tables.values()), ()) if tables else None
    if removed is not None:
        removed.wait()
    return affected(0)

"""CREATE, DROP and USE DATABASE."""

from __future__ import annotations

from api_gateway.answer import Answer, affected
from api_gateway.context import Context
from api_gateway.session import Session, unknown_database
from api_gateway.tables.removal import remove_tables
from millrace_core.catalog import SYSTEM_DATABASES, Catalog, Grant, StreamEntry, record_key
from millrace_core.errors import CatalogError, ErrorCode
from millrace_core.held import databases_of
from millrace_core.language.query import parse_query
from millrace_core.language.query.sources import sources
from millrace_core.language.statements import CreateDatabase, DropDatabase, UseDatabase
from millrace_core.language.virtual import sources_of
from millrace_core.model.life import life_of
from millrace_core.model.schema import Database
from millrace_core.model.stream import StreamSpec
from millrace_core.timeline.precision import milliseconds


def create_database(context: Context, session: Session, statement: CreateDatabase) -> Answer:
    name = statement.name.text
    if name in SYSTEM_DATABASES:
        raise CatalogError(
            ErrorCode.NOT_ALLOWED, f"{name} is the name of a system database", statement.name.position
        )
    with context.writer.ddl:
        if name in context.catalog.databases:
            if statement.if_not_exists:
                return affected(0)
            raise CatalogError(
                ErrorCode.DATABASE_EXISTS, f"the database {name} already exists", statement.name.position
            )
        kept = (statement.keep, statement.wal_retention)
        context.writer.write([Database(name, statement.precision, milliseconds(session.now), *kept)])
    return affected(0)


def use_database(context: Context, _session: Session, statement: UseDatabase) -> Answer:
    """REST keeps no session: each request names its database. So this only checks that it exists."""
    name = statement.name
    if name.text not in context.catalog.databases and name.text not in SYSTEM_DATABASES:
        raise unknown_database(name.text, name)
    return affected(0)


def drop_database(context: Context, _session: Session, statement: DropDatabase) -> Answer:
    """Drop a database with its tables and streams; other databases' streams keep their results elsewhere."""
    name = statement.name.text
    catalog = context.catalog
    with context.writer.ddl:
        if name not in catalog.databases:
            if statement.if_exists:
                return affected(0)
            raise unknown_database(name, statement.name)
        _check_held(context, name, statement)
        users = [entry for entry in list(catalog.streams.values()) if _needs(entry, name, catalog)]
        if users and not statement.force:
            raise CatalogError(
                ErrorCode.DATABASE_IN_USE,
                f"the stream {users[0].spec.full_name} reads the database {name}: drop the stream first, "
                "or add FORCE",
                statement.name.position,
            )
        tables = [table for table in list(catalog.tables.values()) if table.db == name]
        streams = [entry for entry in list(catalog.streams.values()) if _goes_with(entry.spec, name, catalog)]
        graves = [record_key("tombstone", *key) for key in list(catalog.tombstones) if key[0] == name]
        removed = remove_tables(context, tables, streams, [*graves, record_key("database", name)])
        # grants must not pass to a new database of the same name
        context.writer.write([_without(one, name) for one in list(context.catalog.grants.values())
                              if _without(one, name) != one])  # fmt: skip
    removed.wait()
    return affected(0)


def _check_held(context: Context, db: str, statement: DropDatabase) -> None:
    """:raises CatalogError: HELD_BY_STREAM, even with FORCE, if a stream that holds its tables has some in
    this database and some in another."""
    for entry in list(context.catalog.streams.values()):
        if not life_of(entry.spec).holds:
            continue
        touched = databases_of(entry.spec, context.catalog)
        if db in touched and touched != {db}:
            others = ", ".join(sorted(touched - {db}))
            raise CatalogError(
                ErrorCode.HELD_BY_STREAM,
                f"the stream {entry.spec.full_name} needs the database {db}, and also {others}: drop the "
                "stream first",
                statement.name.position,
            )


def _goes_with(spec: StreamSpec, db: str, catalog: Catalog) -> bool:
    """Whether a stream is dropped with the database."""
    return databases_of(spec, catalog) == {db} if life_of(spec).holds else spec.db == db


def _without(granted: Grant, db: str) -> Grant:
    return Grant(
        granted.user, tuple(d for d in granted.read if d != db), tuple(d for d in granted.write if d != db),
        tuple(table for table in granted.read_tables if table.db != db),
        tuple(table for table in granted.write_tables if table.db != db),
    )  # fmt: skip


def _needs(entry: StreamEntry, db: str, catalog: Catalog) -> bool:
    """Whether a stream of another database triggers on this one or reads it (seed 000)."""
    spec = entry.spec
    if spec.db == db or life_of(spec).holds:
        return False
    read = [(spec.source.table.db, spec.source.table.name)] if spec.source is not None else []
    if spec.query is not None:
        tree = parse_query(spec.query)
        read += [(source, name) for source, name, _ in sources(tree, catalog, spec.database)]
    return any(db in _databases_of(name, catalog) for name in read)


def _databases_of(name: tuple[str, str], catalog: Catalog) -> set[str]:
    """The database of a table that is read, and those of a virtual table's sources."""
    found = catalog.find(*name)
    virtual = found is not None and found[0].virtual
    return {name[0]} | ({db for db, _ in sources_of(found[0], catalog)} if found and virtual else set())

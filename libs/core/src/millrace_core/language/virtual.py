"""Virtual tables: where each of their columns comes from, checked against the catalog."""

from __future__ import annotations

from collections.abc import Iterator

from millrace_core.catalog import Catalog
from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language.names import Name, QualifiedName
from millrace_core.language.statements import ColumnSource, CreateTable, CreateVirtualChild
from millrace_core.model.schema import Child, Column, Origin, Precision, Table

Origins = tuple[Origin | None, ...]
"""One for each column; None for the time and for columns that are always NULL."""


def origins_of_table(
    statement: CreateTable, catalog: Catalog, database: str | None, precision: Precision
) -> Origins:
    """The origins of a virtual normal table's columns. A virtual super table has none, nor does a table
    that is not virtual.

    :raises SqlError: for a FROM where none is allowed, a composite key, or a table that cannot be a source.
    """
    for column in (*statement.columns, *statement.tags):
        if column.composite_key and statement.virtual:
            raise _refused(
                f"{column.name.text}: a virtual table cannot have a composite key", column.name.position
            )
    mapped = [column for column in (*statement.columns, *statement.tags) if column.source is not None]
    if not statement.virtual or statement.tags:
        if mapped:
            whose = "the child tables of a virtual super table" if statement.virtual else "a virtual table"
            raise _refused(
                f"{mapped[0].name.text} FROM: only {whose} can have sources", mapped[0].name.position
            )
        return ()
    if statement.columns[0].source is not None:
        name = statement.columns[0].name
        raise _refused(f"{name.text}: the time column of a virtual table cannot have a source", name.position)
    return tuple(
        None
        if column.source is None
        else _origin(Column(column.name.text, column.type), column.source, catalog, database, precision)
        for column in statement.columns
    )


def origins_of_child(
    statement: CreateVirtualChild, table: Table, catalog: Catalog, database: str | None
) -> Origins:
    """The origins of the columns of a child of the virtual super ``table``. Sources without a column name go
    by position, not counting the time.

    :raises SqlError: for an unknown or repeated column, too many columns, or a table that cannot be a source.
    """
    found: dict[str, Origin] = {}
    for place, (name, source) in enumerate(statement.columns):
        column, where = _target(table, name, source, place)
        if column.name in found:
            raise SqlError(ErrorCode.INVALID_VALUE, f"the column {column.name} is given twice", where)
        found[column.name] = _origin(column, source, catalog, database, table.precision)
    return tuple(found.get(column.name) for column in table.columns)


def _target(table: Table, name: Name | None, source: ColumnSource, place: int) -> tuple[Column, Position]:
    own = table.columns[1:]
    if name is None:
        where = source.table.position
        if place >= len(own):
            raise SqlError(
                ErrorCode.SYNTAX,
                f"{table.name} has {len(own)} columns besides its time column, but more sources are given",
                where,
            )
        return own[place], where
    column = next((column for column in own if column.name == name.text), None)
    if column is None:
        why = (
            "is its time column, which cannot have a source"
            if name.text == table.key.name
            else "is not one of its columns"
        )
        raise SqlError(ErrorCode.UNKNOWN_COLUMN, f"{table.name}: {name.text} {why}", name.position)
    return column, name.position


def _origin(
    column: Column, source: ColumnSource, catalog: Catalog, database: str | None, precision: Precision
) -> Origin:
    table, child = _source_table(source.table, catalog, database)
    where = source.table.position
    if table.precision != precision:
        raise _refused(
            f"{source.table}: its precision is {table.precision}, but the virtual table's is {precision}",
            where,
        )
    if table.has_composite_key:
        raise _refused(f"{source.table}: a table with a composite key cannot be a source", where)
    given = table.column(source.column.text)
    if given is None:
        raise SqlError(
            ErrorCode.UNKNOWN_COLUMN,
            f"{source.table} has no column {source.column.text}",
            source.column.position,
        )
    if given.type != column.type:
        raise SqlError(
            ErrorCode.TYPE_MISMATCH,
            f"{column.name} is {column.type}, but its source {source.table}.{given.name} is {given.type}",
            source.column.position,
        )
    name = child.name if child is not None else table.name
    incarnation = child.incarnation if child is not None else 0
    return Origin(table.db, table.name, table.uid, name, given.identity, incarnation)


def _source_table(name: QualifiedName, catalog: Catalog, database: str | None) -> tuple[Table, Child | None]:
    db = name.db or database
    if db is None:
        raise SqlError(ErrorCode.NO_DATABASE, f"{name}: no database is selected", name.position)
    if db not in catalog.databases:
        raise SqlError(ErrorCode.UNKNOWN_DATABASE, f"{name}: the database {db} does not exist", name.position)
    found = catalog.find(db, name.name)
    if found is None:
        raise SqlError(ErrorCode.UNKNOWN_TABLE, f"the table {db}.{name.name} does not exist", name.position)
    table, child = found
    if table.virtual:
        raise _refused(
            f"{name} is a virtual table and cannot be a source; name its own sources instead", name.position
        )
    if child is None and table.kind == "super":
        raise _refused(
            f"{name} is a super table and cannot be a source; name one of its child tables instead",
            name.position,
        )
    return table, child


def _refused(message: str, where: Position) -> SqlError:
    return SqlError(ErrorCode.NOT_ALLOWED, message, where)


def members_of(table: Table, child: str | None, catalog: Catalog) -> Iterator[tuple[str, Origins]]:
    """The tables that hold the rows of a virtual table, or of its one ``child``: name and origins."""
    if table.kind == "normal":
        yield table.name, table.origins
        return
    for known in catalog.children_of(table):
        if child is None or known.name == child:
            yield known.name, known.origins


def source_of(origin: Origin, catalog: Catalog) -> Table | None:
    """The super or normal table of an origin; None if it, or the child that was meant, has been dropped."""
    table = catalog.tables.get((origin.db, origin.table))
    if table is None or table.uid != origin.uid:
        return None
    if table.kind == "normal":
        return table
    child = catalog.children.get((origin.db, origin.name))
    if child is None or child.table != table.name or child.incarnation != origin.incarnation:
        return None
    return table


def sources_of(table: Table, catalog: Catalog) -> set[tuple[str, str]]:
    """(database, super or normal table) of everything that a virtual table takes its columns from."""
    return {
        (origin.db, origin.table)
        for _, origins in members_of(table, None, catalog)
        for origin in origins
        if origin is not None
    }

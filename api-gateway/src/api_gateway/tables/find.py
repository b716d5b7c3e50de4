"""Tables by their names, and the errors for names that do not exist or are already taken."""

from __future__ import annotations

from typing import NamedTuple

from api_gateway.session import Session
from millrace_core.catalog import Catalog
from millrace_core.errors import CatalogError, ErrorCode, Position
from millrace_core.language.names import QualifiedName
from millrace_core.model.schema import Child, Database, Table


class TableName(NamedTuple):
    """The full name of a table. ``position``: its place in what the caller wrote, if that was a text."""

    db: str
    name: str
    position: Position | None = None

    def __str__(self) -> str:
        return f"{self.db}.{self.name}"


def full_name(session: Session, name: QualifiedName) -> TableName:
    """:raises CatalogError: NO_DATABASE."""
    return TableName(session.db_of(name), name.name, name.position)


def database_of(catalog: Catalog, name: TableName) -> Database:
    """The database that a table is in; :raises CatalogError: UNKNOWN_DATABASE."""
    found = catalog.databases.get(name.db)
    if found is None:
        raise CatalogError(
            ErrorCode.UNKNOWN_DATABASE, f"the database {name.db} does not exist", name.position
        )
    return found


def table_of(catalog: Catalog, name: TableName) -> tuple[Table, Child | None]:
    """The table of that name; for a child table, its super table and the child.

    :raises CatalogError: UNKNOWN_DATABASE, UNKNOWN_TABLE.
    """
    database_of(catalog, name)
    found = catalog.find(name.db, name.name)
    if found is None:
        raise missing(name)
    return found


def find_table(catalog: Catalog, session: Session, name: QualifiedName) -> tuple[Table, Child | None]:
    """The same for a name as it stands in a statement."""
    return table_of(catalog, full_name(session, name))


def missing(name: TableName) -> CatalogError:
    return CatalogError(ErrorCode.UNKNOWN_TABLE, f"the table {name} does not exist", name.position)


def taken(name: TableName) -> CatalogError:
    return CatalogError(ErrorCode.TABLE_EXISTS, f"the table {name} already exists", name.position)

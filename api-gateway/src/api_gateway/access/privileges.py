"""What a statement needs: reading or writing databases (seed 000, "权限控制") or tables, or a superuser.

A privilege is that of a database, or of one table in it; that of a super table holds for its child tables,
also for making them. A stream is its database's alone: to make, stop or drop it takes the privilege to write
there, besides those of the tables it reads and writes. ``information_schema`` may be read by everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from api_gateway.session import Session
from millrace_core.catalog import Catalog, Grant
from millrace_core.dialect import statements as s
from millrace_core.dialect.names import QualifiedName
from millrace_core.dialect.query import parse_query
from millrace_core.dialect.query.nodes import position_of
from millrace_core.dialect.query.sources import sources
from millrace_core.errors import ErrorCode, MillraceError, Position

EVERY = "*"
"""In a grant: all databases, also those that come later."""
OF_DATABASE = ""
"""In place of a table's name: no single table will do."""
Kind = Literal["read", "write", "any"]


class Need(NamedTuple):
    """``any``: reading or writing. ``table``: of this table, or of its database. None: of the database, or,
    for ``any``, of one of its tables; :data:`OF_DATABASE`: of the database."""

    kind: Kind
    db: str
    position: Position | None
    table: str | None = None


Needs = Callable[[Catalog, Session, Any], Iterator[Need]]


def check(catalog: Catalog, session: Session, statement: s.Statement) -> None:
    """:raises MillraceError: PERMISSION if the session's user may not run the statement: what is missing."""
    if is_superuser(catalog, session.user):
        return
    needs = NEEDS.get(type(statement))
    if needs is None:
        if isinstance(statement, s.AlterUser) and statement.name.text == session.user:
            return  # everybody may change his own password
        raise MillraceError(ErrorCode.PERMISSION, "Insufficient privilege: only a superuser may do this")
    granted = catalog.grants.get(session.user, Grant(session.user))
    for need in needs(catalog, session, statement):
        if need.db in catalog.databases and not _has(catalog, granted, need):
            what = "any privilege" if need.kind == "any" else f"the privilege to {need.kind}"
            known = need.table is not None and catalog.find(need.db, need.table) is not None
            on = f"table {need.db}.{need.table}" if known else f"database {need.db}"
            raise MillraceError(
                ErrorCode.PERMISSION,
                f"Insufficient privilege: {session.user} has not {what} on the {on}",
                need.position,
            )


def is_superuser(catalog: Catalog, user: str) -> bool:
    known = catalog.users.get(user)
    return known is not None and known.superuser


def sees(catalog: Catalog, user: str, db: str, table: str | None = None) -> bool:
    """Whether the user may know of a table (None: of everything in the database, its streams too)."""
    if is_superuser(catalog, user):
        return True
    granted = catalog.grants.get(user, Grant(user))
    return _of_database(granted, "any", db) or (
        table is not None and _has(catalog, granted, Need("any", db, None, table))
    )


def _has(catalog: Catalog, granted: Grant, need: Need) -> bool:
    if _of_database(granted, need.kind, need.db):
        return True
    tables = {
        "read": granted.read_tables, "write": granted.write_tables,
        "any": (*granted.read_tables, *granted.write_tables),
    }[need.kind]  # fmt: skip
    if need.table is None:
        return need.kind == "any" and any(
            table.db == need.db and table.uid in catalog.uids(table.db, table.name) for table in tables
        )
    uids = catalog.uids(need.db, need.table)
    return any(table.uid in uids for table in tables)


def _of_database(granted: Grant, kind: Kind, db: str) -> bool:
    of = {"read": granted.read, "write": granted.write, "any": (*granted.read, *granted.write)}[kind]
    return db in of or EVERY in of


def _in(kind: Kind, session: Session, name: QualifiedName) -> Iterator[Need]:
    """A table, or what will be one."""
    if db := name.db or session.database:
        yield Need(kind, db, name.position, name.name)


def _named(kind: Kind) -> Needs:
    """The table ``statement.name``."""
    return lambda catalog, session, statement: _in(kind, session, statement.name)


def _stream_s(kind: Kind) -> Needs:
    """The database of the stream ``statement.name``."""

    def needs(catalog: Catalog, session: Session, statement: Any) -> Iterator[Need]:
        for need in _in(kind, session, statement.name):
            yield need._replace(table=OF_DATABASE)

    return needs


def _child(catalog: Catalog, session: Session, name: QualifiedName, using: QualifiedName) -> Iterator[Need]:
    """Making a child table, or writing to it: its own privilege, or that of the super table."""
    for need in _in("write", session, name):
        there = catalog.find(need.db, name.name) is not None
        yield need if there else need._replace(table=using.name)


def _children(catalog: Catalog, session: Session, statement: s.CreateChildren) -> Iterator[Need]:
    for child in statement.children:
        yield from _child(catalog, session, child.name, child.using)


def _insert(catalog: Catalog, session: Session, statement: s.Insert) -> Iterator[Need]:
    for table in statement.tables:
        if table.using is None:
            yield from _in("write", session, table.name)
        else:
            yield from _child(catalog, session, table.name, table.using.using)


def _all_named(kind: Kind, pick: Callable[[Any], list[QualifiedName]]) -> Needs:
    def needs(catalog: Catalog, session: Session, statement: Any) -> Iterator[Need]:
        for name in pick(statement):
            yield from _in(kind, session, name)

    return needs


def _stream(catalog: Catalog, session: Session, statement: s.CreateStream) -> Iterator[Need]:
    yield from _stream_s("write")(catalog, session, statement)
    if statement.table is not None:
        yield from _in("read", session, statement.table)
    if statement.into is not None:
        yield from _in("write", session, statement.into)
    if statement.query is not None:
        for need in _read(catalog, session, statement.query.text):
            yield need._replace(position=statement.query.position)


def _verify(catalog: Catalog, session: Session, statement: s.VerifyStream) -> Iterator[Need]:
    """What it lists are rows of the output table, which may be another database's."""
    yield from _stream_s("read")(catalog, session, statement)
    entry = catalog.streams.get((statement.name.db or session.database or "", statement.name.name))
    if entry is not None and entry.spec.output is not None:
        output = entry.spec.output
        yield Need("read", output.db, statement.name.position, output.table)


def _query(catalog: Catalog, session: Session, statement: s.Query) -> Iterator[Need]:
    yield from _read(catalog, session, statement.text)


def _read(catalog: Catalog, session: Session, text: str) -> Iterator[Need]:
    seen = None
    for db, name, node in sources(parse_query(text), catalog, session.database):
        if node is not seen:  # else it is the super table of the one before
            yield Need("read", db, position_of(node), name)
        seen = node


def _virtual_child(catalog: Catalog, session: Session, statement: s.CreateVirtualChild) -> Iterator[Need]:
    yield from _child(catalog, session, statement.child.name, statement.child.using)
    for _, source in statement.columns:
        yield from _in("read", session, source.table)


def _table(catalog: Catalog, session: Session, statement: s.CreateTable) -> Iterator[Need]:
    """Any table; the columns of a virtual one come from others."""
    yield from _in("write", session, statement.name)
    for column in statement.columns:
        if column.source is not None:
            yield from _in("read", session, column.source.table)


def _show_create(catalog: Catalog, session: Session, statement: s.ShowCreate) -> Iterator[Need]:
    name = statement.name
    if statement.what == "database":
        yield Need("any", name.name, name.position)
    elif statement.what == "stream":
        yield from _stream_s("any")(catalog, session, statement)
    else:
        yield from _in("any", session, name)


def _use(catalog: Catalog, session: Session, statement: s.UseDatabase) -> Iterator[Need]:
    yield Need("any", statement.name.text, statement.name.position)


def _show(catalog: Catalog, session: Session, statement: s.Show) -> Iterator[Need]:
    if db := statement.db or session.database:
        yield Need("any", db, statement.position)


NEEDS: dict[type, Needs] = {
    s.UseDatabase: _use,
    s.CreateTable: _table,
    s.CreateChildren: _children,
    s.CreateVirtualChild: _virtual_child,
    s.DropTables: _all_named("write", lambda statement: list(statement.names)),
    s.AlterTable: _named("write"),
    s.Insert: _insert,
    s.Delete: _named("write"),
    s.Query: _query,
    s.CreateStream: _stream,
    s.DropStream: _stream_s("write"),
    s.StartStream: _stream_s("write"),
    s.StopStream: _stream_s("write"),
    s.RecalculateStream: _stream_s("write"),
    s.DiagnoseStream: _stream_s("read"),
    s.VerifyStream: _verify,
    s.Show: _show,
    s.ShowAnodes: lambda *_: iter(()),
    s.ShowCreate: _show_create,
    s.ShowTags: _named("any"),
    s.Describe: _named("any"),
}
"""By statement; one that is not here is a superuser's."""

"""What a statement needs: reading or writing databases (seed 000, "权限控制"), or being a superuser.

Privileges are those of databases. ``information_schema`` may be read by everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from api_gateway.session import Session
from millrace_core.catalog import Catalog, Grant
from millrace_core.dialect import statements as s
from millrace_core.dialect.names import QualifiedName
from millrace_core.dialect.query import parse_query
from millrace_core.dialect.query_nodes import position_of
from millrace_core.dialect.stream_query import sources
from millrace_core.errors import ErrorCode, MillraceError, Position

EVERY = "*"
"""In a grant: all databases, also those that come later."""
Kind = Literal["read", "write", "any"]


class Need(NamedTuple):
    """``any``: reading or writing."""

    kind: Kind
    db: str
    position: Position | None


Needs = Callable[[Catalog, Session, Any], Iterator[Need]]


def check(catalog: Catalog, session: Session, statement: s.Statement) -> None:
    """:raises MillraceError: PERMISSION if the session's user may not run the statement: what is missing."""
    user = catalog.users.get(session.user)
    if user is not None and user.superuser:
        return
    needs = NEEDS.get(type(statement))
    if needs is None:
        if isinstance(statement, s.AlterUser) and statement.name.text == session.user:
            return  # everybody may change his own password
        raise MillraceError(ErrorCode.PERMISSION, "Insufficient privilege: only a superuser may do this")
    granted = catalog.grants.get(session.user, Grant(session.user))
    for need in needs(catalog, session, statement):
        if need.db in catalog.databases and not _has(granted, need):
            what = "any privilege" if need.kind == "any" else f"the privilege to {need.kind}"
            raise MillraceError(
                ErrorCode.PERMISSION,
                f"Insufficient privilege: {session.user} has not {what} on the database {need.db}",
                need.position,
            )


def _has(granted: Grant, need: Need) -> bool:
    of = {"read": granted.read, "write": granted.write, "any": (*granted.read, *granted.write)}[need.kind]
    return need.db in of or EVERY in of


def _in(kind: Kind, session: Session, name: QualifiedName) -> Iterator[Need]:
    if db := name.db or session.database:
        yield Need(kind, db, name.position)


def _named(kind: Kind) -> Needs:
    """The database of ``statement.name``."""
    return lambda catalog, session, statement: _in(kind, session, statement.name)


def _all_named(kind: Kind, pick: Callable[[Any], list[QualifiedName]]) -> Needs:
    def needs(catalog: Catalog, session: Session, statement: Any) -> Iterator[Need]:
        for name in pick(statement):
            yield from _in(kind, session, name)

    return needs


def _stream(catalog: Catalog, session: Session, statement: s.CreateStream) -> Iterator[Need]:
    yield from _in("write", session, statement.name)
    if statement.table is not None:
        yield from _in("read", session, statement.table)
    if statement.into is not None:
        yield from _in("write", session, statement.into)
    if statement.query is not None:
        for need in _read(catalog, session, statement.query.text):
            yield need._replace(position=statement.query.position)


def _query(catalog: Catalog, session: Session, statement: s.Query) -> Iterator[Need]:
    yield from _read(catalog, session, statement.text)


def _read(catalog: Catalog, session: Session, text: str) -> Iterator[Need]:
    for db, _, node in sources(parse_query(text), catalog, session.database):
        yield Need("read", db, position_of(node))


def _virtual_child(catalog: Catalog, session: Session, statement: s.CreateVirtualChild) -> Iterator[Need]:
    yield from _in("write", session, statement.child.name)
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
    s.CreateChildren: _all_named("write", lambda statement: [child.name for child in statement.children]),
    s.CreateVirtualChild: _virtual_child,
    s.DropTables: _all_named("write", lambda statement: list(statement.names)),
    s.AlterTable: _named("write"),
    s.Insert: _all_named("write", lambda statement: [table.name for table in statement.tables]),
    s.Delete: _named("write"),
    s.Query: _query,
    s.CreateStream: _stream,
    s.DropStream: _named("write"),
    s.StartStream: _named("write"),
    s.StopStream: _named("write"),
    s.RecalculateStream: _named("write"),
    s.Show: _show,
    s.ShowCreate: _show_create,
    s.ShowTags: _named("any"),
    s.Describe: _named("any"),
}
"""By statement; one that is not here is a superuser's."""

"""What each statement needs: privileges (seed 000, "权限控制") on the tables and databases that it names, or
a superuser.

A stream belongs to its database: to make, stop or drop it takes the privilege to write there, besides those
on the tables that it reads and writes. Everybody may read ``information_schema``, which shows what the reader
may know of. A stream that reads it has no such reader, so only a superuser may make it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from api_gateway.session import Session
from millrace_core.catalog import SYSTEM_DATABASES, Catalog, StreamEntry
from millrace_core.language import statements as s
from millrace_core.language.names import QualifiedName
from millrace_core.language.query import parse_query
from millrace_core.language.query.nodes import position_of
from millrace_core.language.query.sources import read_by, sources
from millrace_core.privileges import (
    OF_DATABASE,
    SUPERUSER,
    Named,
    Need,
    Privilege,
    child_needs,
    known_stream,
)

Needs = Callable[[Catalog, Session, Any], Iterator[Need]]


def needs_of(catalog: Catalog, session: Session, statement: s.Statement) -> Iterator[Need]:
    """What the session's user needs to run the statement; each need is found only when it is asked for."""
    needs = NEEDS.get(type(statement))
    if needs is None:
        yield SUPERUSER
    else:
        yield from needs(catalog, session, statement)


def _in(kind: Privilege, session: Session, name: QualifiedName) -> Iterator[Need]:
    """The need on a table, or on one that is to be made."""
    if db := name.db or session.database:
        yield Need(kind, db, name.position, name.name)


def _named(kind: Privilege) -> Needs:
    """The need on the table ``statement.name``."""
    return lambda catalog, session, statement: _in(kind, session, statement.name)


def _stream_s(kind: Privilege, *, global_first: bool = True) -> Needs:
    """The need on the database of the stream ``statement.name``; of a global one, on that of its results."""

    def needs(catalog: Catalog, session: Session, statement: Any) -> Iterator[Need]:
        name = statement.name
        entry = _known(catalog, session, name, global_first=global_first)
        if entry is not None:
            yield Need(kind, entry.spec.home, name.position, OF_DATABASE)
        else:
            yield from _in_its(kind, session, name)

    return needs


def _known(
    catalog: Catalog, session: Session, name: QualifiedName, *, global_first: bool = True
) -> StreamEntry | None:
    return known_stream(
        catalog, session.user, name.db, session.database, name.name, global_first=global_first
    )


def _in_its(kind: Privilege, session: Session, name: QualifiedName) -> Iterator[Need]:
    """The need on the database of a name, whatever is in it."""
    for need in _in(kind, session, name):
        yield need._replace(table=OF_DATABASE)


def _child(catalog: Catalog, session: Session, name: QualifiedName, using: QualifiedName) -> Iterator[Need]:
    if db := name.db or session.database:
        of = Named(using.db or session.database or db, using.name, using.position)
        yield from child_needs(catalog, Named(db, name.name, name.position), of)


def _children(catalog: Catalog, session: Session, statement: s.CreateChildren) -> Iterator[Need]:
    for child in statement.children:
        yield from _child(catalog, session, child.name, child.using)


def _own_password(_catalog: Catalog, session: Session, statement: s.AlterUser) -> Iterator[Need]:
    """All users may change their own passwords."""
    if statement.name.text != session.user:
        yield SUPERUSER


def _nothing(_catalog: Catalog, _session: Session, _statement: Any) -> Iterator[Need]:
    return iter(())


def _all_named(kind: Privilege, pick: Callable[[Any], list[QualifiedName]]) -> Needs:
    def needs(catalog: Catalog, session: Session, statement: Any) -> Iterator[Need]:
        for name in pick(statement):
            yield from _in(kind, session, name)

    return needs


def _legacy_stream(catalog: Catalog, session: Session, statement: s.CreateLegacyStream) -> Iterator[Need]:
    source = statement.query.table
    if statement.into is not None:
        yield from _in("write", session, statement.into)
    elif db := session.database or source.db:
        yield Need("write", db, statement.name.position, OF_DATABASE)
    yield from _in("read", session, source)


def _stream(catalog: Catalog, session: Session, statement: s.CreateStream) -> Iterator[Need]:
    yield from _in_its("write", session, statement.name)
    if statement.table is not None:
        yield from _in("read", session, statement.table)
    if statement.into is not None:
        yield from _in("write", session, statement.into)
    if statement.query is not None:
        for need in _read(catalog, session, statement.query.text):
            wanted = SUPERUSER if need.db in SYSTEM_DATABASES else need
            yield wanted._replace(position=statement.query.position)


def _looked_into(catalog: Catalog, session: Session, statement: Any) -> Iterator[Need]:
    """For what tells about a stream: that is made of the rows that the stream reads, which may be others'."""
    yield from _stream_s("read")(catalog, session, statement)
    entry = _known(catalog, session, statement.name)
    if entry is not None:
        for db, name in read_by(entry.spec):
            yield Need("read", db, statement.name.position, name)


def _verify(catalog: Catalog, session: Session, statement: s.VerifyStream) -> Iterator[Need]:
    """VERIFY STREAM lists rows of the output table, and what these should be."""
    yield from _looked_into(catalog, session, statement)
    entry = _known(catalog, session, statement.name)
    if entry is not None and entry.spec.output is not None:
        output = entry.spec.output
        yield Need("read", output.db, statement.name.position, output.table)


def _query(catalog: Catalog, session: Session, statement: s.Query) -> Iterator[Need]:
    yield from _read(catalog, session, statement.text)


def _read(catalog: Catalog, session: Session, text: str) -> Iterator[Need]:
    seen = None
    for db, name, node in sources(parse_query(text), catalog, session.database):
        if node is not seen:  # otherwise it is the super table of the one before
            yield Need("read", db, position_of(node), name)
        seen = node


def _virtual_child(catalog: Catalog, session: Session, statement: s.CreateVirtualChild) -> Iterator[Need]:
    yield from _child(catalog, session, statement.child.name, statement.child.using)
    for _, source in statement.columns:
        yield from _in("read", session, source.table)


def _table(catalog: Catalog, session: Session, statement: s.CreateTable) -> Iterator[Need]:
    """For any table; a virtual one also takes its columns from others."""
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


def _explained(catalog: Catalog, session: Session, statement: s.ExplainStream) -> Iterator[Need]:
    """What the stream itself would need."""
    yield from NEEDS[type(statement.stream)](catalog, session, statement.stream)


NEEDS: dict[type, Needs] = {
    s.UseDatabase: _use,
    s.CreateTable: _table,
    s.CreateChildren: _children,
    s.CreateVirtualChild: _virtual_child,
    s.DropTables: _all_named("write", lambda statement: list(statement.names)),
    s.AlterTable: _named("write"),
    s.Insert: _nothing,  # ``tables.write`` asks
    s.Delete: _named("write"),
    s.Query: _query,
    s.KillQuery: _nothing,  # the statement itself checks whose query it is
    s.CreateStream: _stream,
    s.CreateLegacyStream: _legacy_stream,
    s.ExplainStream: _explained,
    s.DropStream: _stream_s("write"),
    s.StartStream: _stream_s("write", global_first=False),
    s.StopStream: _stream_s("write", global_first=False),
    s.PauseStream: _stream_s("write"),
    s.ResumeStream: _stream_s("write"),
    s.RecalculateStream: _stream_s("write", global_first=False),
    s.DiagnoseStream: _looked_into,
    s.VerifyStream: _verify,
    s.Show: _show,
    s.ShowAnodes: _nothing,
    s.AlterUser: _own_password,
    s.ShowCreate: _show_create,
    s.ShowTags: _named("any"),
    s.Describe: _named("any"),
}
"""By statement; one that is not listed here is for superusers."""

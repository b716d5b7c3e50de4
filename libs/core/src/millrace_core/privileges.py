"""Who may do what: needs are checked against what a user was granted (seed 000, "权限控制").

A privilege applies to a database, or to one table in it. One on a super table also applies to its child
tables, and to creating them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from millrace_core.catalog import SYSTEM_DATABASES, Catalog, Grant, StreamEntry
from millrace_core.errors import ErrorCode, MillraceError, Position

EVERY = "*"
"""In a grant: all databases, also those that come later."""
OF_DATABASE = ""
"""In place of a table's name: a privilege on a single table is not enough."""
Privilege = Literal["read", "write", "any", "superuser"]


class Need(NamedTuple):
    """What is needed, on what.

    ``any``: reading or writing. ``table``: a privilege on this table, or on its database. None: on the
    database, or, for ``any``, on one of its tables. :data:`OF_DATABASE`: on the database. ``position``: where
    it is named in what the caller wrote, if that is a text."""

    kind: Privilege
    db: str
    position: Position | None = None
    table: str | None = None


SUPERUSER = Need("superuser", EVERY)
"""For what no privilege is sufficient."""


class Named(NamedTuple):
    """A table by its full name, and where that name stands in the text."""

    db: str
    name: str
    position: Position | None = None


def child_needs(catalog: Catalog, child: Named, using: Named) -> Iterator[Need]:
    """What it takes to create a child table of the super table ``using``, or to write to it: a privilege on
    the child, or on its super table. A caller who names a super table that is not the child's must also be
    allowed to know of that one."""
    found = catalog.find(child.db, child.name)
    yield Need("write", child.db, child.position, using.name if found is None else child.name)
    if found is None or (found[0].db, found[0].name) != (using.db, using.name):
        yield Need("any", using.db, using.position, using.name)


def check(catalog: Catalog, user: str, needs: Iterable[Need]) -> None:
    """Check one need after another. Not everybody may know whether a database, or a table in it, exists: a
    missing one is refused in the same words as an existing one.

    :raises MillraceError: PERMISSION at the first that the user lacks.
    """
    if is_superuser(catalog, user):
        return
    granted = catalog.grants.get(user, Grant(user))
    for need in needs:
        if need.kind == "superuser":
            raise MillraceError(ErrorCode.PERMISSION, "Insufficient privilege: only a superuser may do this")
        if need.db not in SYSTEM_DATABASES and not _has(catalog, granted, need):
            what = "any privilege" if need.kind == "any" else f"the privilege to {need.kind}"
            known = (
                need.table is not None
                and catalog.find(need.db, need.table) is not None
                and sees(catalog, user, need.db, need.table)
            )
            on = f"table {need.db}.{need.table}" if known else f"database {need.db}"
            raise MillraceError(
                ErrorCode.PERMISSION,
                f"Insufficient privilege: {user} does not have {what} on the {on}",
                need.position,
            )


def may(catalog: Catalog, user: str, needs: Iterable[Need]) -> bool:
    """Whether the user has all that is needed."""
    if is_superuser(catalog, user):
        return True
    granted = catalog.grants.get(user, Grant(user))
    return all(need.kind != "superuser" and _has(catalog, granted, need) for need in needs)


def is_superuser(catalog: Catalog, user: str) -> bool:
    known = catalog.users.get(user)
    return known is not None and known.superuser


def sees(catalog: Catalog, user: str, db: str, table: str | None = None) -> bool:
    """Whether the user may know of a table (None: of everything in the database, its streams too)."""
    if is_superuser(catalog, user):
        return True
    granted = catalog.grants.get(user, Grant(user))
    return _of_database(granted, "any", db) or (
        table is not None and _has(catalog, granted, Need("any", db, table=table))
    )


def knows_database(catalog: Catalog, user: str, db: str) -> bool:
    """Whether the database exists and the user may know of it."""
    return db in catalog.databases and may(catalog, user, [Need("any", db)])


def known_stream(
    catalog: Catalog, user: str, named: str | None, chosen: str | None, name: str, *,
    global_first: bool = True,
) -> StreamEntry | None:  # fmt: skip
    """The stream that a user means by a name (:meth:`Catalog.streams_named`): the first that the user may
    know of."""
    found = catalog.streams_named(named, chosen, name, global_first=global_first)
    return next((entry for entry in found if sees(catalog, user, entry.spec.home)), None)


def stream_words(catalog: Catalog, user: str, entry: StreamEntry) -> str:
    """How a refusal names a stream: by its name only to a user who may know of it."""
    known = sees(catalog, user, entry.spec.home)
    return f"the stream {entry.spec.full_name}" if known else "a stream of another database"


def visible(catalog: Catalog, user: str) -> Catalog:
    """What the user may know of a catalog: databases, tables and streams by :func:`sees`; of users and
    privileges only the user's own. It includes the super table of each granted child."""
    if is_superuser(catalog, user):
        return catalog
    found = Catalog()
    found.snodes, found.anodes, found.algorithms = catalog.snodes, catalog.anodes, catalog.algorithms
    found.users = {name: one for name, one in catalog.users.items() if name == user}
    found.grants = {name: one for name, one in catalog.grants.items() if name == user}
    granted = catalog.grants.get(user, Grant(user))
    whole = {db for db in catalog.databases if _of_database(granted, "any", db)}
    part = {db for db in catalog.databases if _has(catalog, granted, Need("any", db))} - whole

    def seen(key: tuple[str, str]) -> bool:
        return key[0] in whole or (
            key[0] in part and _has(catalog, granted, Need("any", key[0], table=key[1]))
        )

    found.databases = {name: db for name, db in catalog.databases.items() if name in whole | part}
    found.children = {key: child for key, child in catalog.children.items() if seen(key)}
    for child in found.children.values():
        found.family.setdefault((child.db, child.table), {})[child.name] = child
    found.tables = {key: table for key, table in catalog.tables.items() if key in found.family or seen(key)}
    found.streams = {key: entry for key, entry in catalog.streams.items() if entry.spec.home in whole}
    found.devices = {key: device for key, device in catalog.devices.items() if key[0] in whole}
    found.cqs = {name: query for name, query in catalog.cqs.items() if query.user == user}
    return found


def _has(catalog: Catalog, granted: Grant, need: Need) -> bool:
    if _of_database(granted, need.kind, need.db):
        return True
    tables = {
        "read": granted.read_tables, "write": granted.write_tables,
        "any": (*granted.read_tables, *granted.write_tables), "superuser": (),
    }[need.kind]  # fmt: skip
    if need.table is None:
        return need.kind == "any" and any(
            table.db == need.db and table.uid in catalog.uids(table.db, table.name) for table in tables
        )
    uids = catalog.uids(need.db, need.table)
    return any(table.uid in uids for table in tables)


def _of_database(granted: Grant, kind: Privilege, db: str) -> bool:
    of = {"read": granted.read, "write": granted.write, "any": (*granted.read, *granted.write)}
    return db in of.get(kind, ()) or EVERY in of.get(kind, ())

"""Users and what they may do: CREATE, ALTER and DROP USER, GRANT, REVOKE; CREATE and DROP SNODE."""

from __future__ import annotations

from typing import Any

import msgspec

from api_gateway.access.login import new_user
from api_gateway.answer import Answer, affected
from api_gateway.context import Context
from api_gateway.session import Session
from millrace_core.catalog import Catalog, Grant, GrantedTable, Snode, key_of
from millrace_core.errors import CatalogError, ErrorCode, SqlError
from millrace_core.language import statements
from millrace_core.language.names import Name
from millrace_core.model.life import life_of
from millrace_core.privileges import EVERY
from millrace_core.timeline.precision import milliseconds

ROOT = "root"
MAX_USER = 23  # bytes of a name, as in TDengine: a login token has room for so many
MAX_PASSWORD = 255
DNODE = 1
"""The only dnode: the whole deployment is what TDengine calls a dnode."""


def create_user(context: Context, _session: Session, statement: statements.CreateUser) -> Answer:
    name = statement.name
    if not 0 < len(name.text.encode()) <= MAX_USER:
        raise SqlError(
            ErrorCode.INVALID_VALUE,
            f"the user name {name.text} must be 1 to {MAX_USER} bytes long",
            name.position,
        )
    _check_password(statement.password, name)
    with context.writer.ddl:
        if name.text in context.catalog.users:
            raise CatalogError(ErrorCode.USER_EXISTS, f"the user {name.text} already exists", name.position)
        context.writer.write([new_user(name.text, statement.password)])
    return affected(0)


def alter_user(context: Context, _session: Session, statement: statements.AlterUser) -> Answer:
    _check_password(statement.password, statement.name)
    with context.writer.ddl:
        user = _find(context, statement.name)
        context.writer.write([new_user(user, statement.password, superuser=user == ROOT)])
    return affected(0)


def drop_user(context: Context, _session: Session, statement: statements.DropUser) -> Answer:
    with context.writer.ddl:
        name = _find(context, statement.name)
        if name == ROOT:
            raise CatalogError(ErrorCode.NOT_ALLOWED, f"{ROOT} cannot be dropped", statement.name.position)
        # privileges first: after a crash, a new user of the same name must not inherit them
        granted = context.catalog.grants.get(name)
        removed = [key_of(granted)] if granted else []
        context.writer.write(remove=[*removed, key_of(context.catalog.users[name])])
    return affected(0)


def grant(context: Context, _session: Session, statement: statements.Grant) -> Answer:
    """GRANT and REVOKE of reading and writing databases or single tables.

    A REVOKE of what was not granted changes nothing. A REVOKE on a database also removes the privileges on
    its tables; one on a table does not touch those on the database.
    """
    where = statement.user.position
    with context.writer.ddl:
        user = _find(context, statement.user)
        if user == ROOT:
            raise CatalogError(
                ErrorCode.NOT_ALLOWED, f"{ROOT} already has all privileges: no grant is needed", where
            )
        if statement.db is not None and statement.db not in context.catalog.databases:
            raise CatalogError(
                ErrorCode.UNKNOWN_DATABASE, f"the database {statement.db} does not exist", statement.on
            )
        known = context.catalog.grants.get(user, Grant(user))
        kinds = ("read", "write") if "all" in statement.privileges else statement.privileges
        changed: dict[str, tuple[Any, ...]] = {}
        for kind in kinds:
            tables = f"{kind}_tables"
            changed[tables] = _changed_tables(context.catalog, getattr(known, tables), statement)
            if statement.table is None:
                changed[kind] = _changed(getattr(known, kind), statement)
        context.writer.write([msgspec.structs.replace(known, **changed)])
    return affected(0)


def _changed_tables(
    catalog: Catalog, tables: tuple[GrantedTable, ...], statement: statements.Grant
) -> tuple[GrantedTable, ...]:
    """The privileges of single tables after the statement; those of tables that are gone are left out.

    :raises CatalogError: UNKNOWN_TABLE if the table to be granted or revoked does not exist.
    """
    there = tuple(table for table in tables if table.uid == own_uid(catalog, table.db, table.name))
    if statement.table is None:
        gone = statement.revoke
        return tuple(table for table in there if not (gone and statement.db in (None, table.db)))
    assert statement.db is not None, "the parser asks for it"
    uid = own_uid(catalog, statement.db, statement.table)
    if uid is None:
        raise CatalogError(
            ErrorCode.UNKNOWN_TABLE,
            f"the table {statement.db}.{statement.table} does not exist",
            statement.on,
        )
    others = tuple(table for table in there if table.uid != uid)
    return others if statement.revoke else (*others, GrantedTable(statement.db, statement.table, uid))


def own_uid(catalog: Catalog, db: str, name: str) -> int | None:
    """The uid of the table of that name; None if there is none."""
    return next(iter(catalog.uids(db, name)), None)


def _changed(databases: tuple[str, ...], statement: statements.Grant) -> tuple[str, ...]:
    one = statement.db or EVERY
    if statement.revoke:
        return () if one == EVERY else tuple(db for db in databases if db != one)
    return databases if one in databases else (*databases, one)


def create_snode(context: Context, session: Session, statement: statements.CreateSnode) -> Answer:
    """The services calculate streams even without an snode. But streams that are made from now on need it: it
    cannot be dropped before them."""
    _check_dnode(statement.dnode)
    with context.writer.ddl:
        if str(statement.dnode) in context.catalog.snodes:
            raise CatalogError(ErrorCode.NOT_ALLOWED, f"dnode {statement.dnode} already has an snode")
        context.writer.write([Snode(statement.dnode, milliseconds(session.now))])
    return affected(0)


def drop_snode(context: Context, _session: Session, statement: statements.DropSnode) -> Answer:
    """:raises CatalogError: NOT_ALLOWED if a stream was made since the snode was."""
    _check_dnode(statement.dnode)
    with context.writer.ddl:
        snode = context.catalog.snodes.get(str(statement.dnode))
        if snode is None:
            raise CatalogError(ErrorCode.NOT_ALLOWED, f"dnode {statement.dnode} has no snode")
        for entry in list(context.catalog.streams.values()):
            if life_of(entry.spec).needs_snode and entry.spec.created >= snode.created:
                raise CatalogError(
                    ErrorCode.NOT_ALLOWED,
                    f"the snode on dnode {statement.dnode} is the last one and cannot be dropped: the stream "
                    f"{entry.spec.full_name} needs it",
                )
        context.writer.write(remove=[key_of(snode)])
    return affected(0)


def _check_dnode(dnode: int) -> None:
    if dnode != DNODE:
        raise CatalogError(ErrorCode.NOT_ALLOWED, f"there is no dnode {dnode}; the only one is dnode {DNODE}")


def _check_password(password: str, name: Name) -> None:
    if not 0 < len(password.encode()) <= MAX_PASSWORD:
        raise SqlError(
            ErrorCode.INVALID_VALUE,
            f"the password of {name.text} must be 1 to {MAX_PASSWORD} bytes long",
            name.position,
        )


def _find(context: Context, name: Name) -> str:
    """:raises CatalogError: UNKNOWN_USER."""
    if name.text not in context.catalog.users:
        raise CatalogError(ErrorCode.UNKNOWN_USER, f"the user {name.text} does not exist", name.position)
    return name.text

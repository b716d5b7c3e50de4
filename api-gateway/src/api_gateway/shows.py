"""SHOW and DESCRIBE, with the columns that TDengine's have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from api_gateway.answer import INT, Answer, AnswerColumn, text_column
from api_gateway.context import Context
from api_gateway.session import Session, in_database
from api_gateway.stream_life import find_stream
from api_gateway.tables import find_table
from millrace_core.catalog import Catalog
from millrace_core.dialect.lexer import quote_name
from millrace_core.dialect.statements import Describe, Show, ShowCreate, ShowTags
from millrace_core.dialect.stream import SYSTEM_DATABASES
from millrace_core.errors import CatalogError, ErrorCode, SqlError
from millrace_core.model.schema import Child, Column, Table

Rows = list[list[object]]


def show(context: Context, session: Session, statement: Show) -> Answer:
    found = SHOWS.get(statement.what)
    if found is None:
        raise SqlError(
            ErrorCode.UNSUPPORTED,
            f"SHOW {statement.what.upper()} is not supported; SHOW {', '.join(SHOWS).upper()} are",
            statement.position,
        )
    columns, of_database, rows = found
    db = _database(context.catalog, session, statement) if of_database else ""
    shown = sorted(rows(context, db), key=lambda row: str(row[0]))
    if statement.like is not None:
        pattern = _like(statement.like)
        shown = [row for row in shown if pattern.fullmatch(str(row[0]))]
    return Answer(columns, shown)


def _database(catalog: Catalog, session: Session, statement: Show) -> str:
    db = statement.db or session.database
    if db is None:
        raise CatalogError(
            ErrorCode.NO_DATABASE,
            f"no database is chosen: write SHOW db.{statement.what.upper()}",
            statement.position,
        )
    if db not in catalog.databases:
        error = in_database(db)
        raise CatalogError(error.code, error.message, statement.position)
    return db


def _like(pattern: str) -> re.Pattern[str]:
    """LIKE's pattern: ``%`` any text, ``_`` any character, whatever the case, unless behind a backslash."""
    parts = []
    for escaped, char in re.findall(r"(\\?)(.)", pattern, re.DOTALL):
        parts.append({"%": ".*", "_": "."}.get(char, re.escape(char)) if not escaped else re.escape(char))
    return re.compile("".join(parts), re.DOTALL | re.IGNORECASE)


def _databases(context: Context, _db: str) -> Rows:
    return [[name] for name in (*SYSTEM_DATABASES, *list(context.catalog.databases))]


def _stables(context: Context, db: str) -> Rows:
    tables = list(context.catalog.tables.values())
    return [[table.name] for table in tables if table.db == db and table.kind == "super"]


def _tables(context: Context, db: str) -> Rows:
    """Tables that hold rows: normal and child tables."""
    tables = list(context.catalog.tables.values())
    found: Rows = [[table.name] for table in tables if table.db == db and table.kind == "normal"]
    return found + [[name] for owner, name in list(context.catalog.children) if owner == db]


def _streams(context: Context, db: str) -> Rows:
    streams = list(context.catalog.streams.values())
    return [[entry.spec.name, *context.board.of(entry)] for entry in streams if entry.spec.db == db]


def _users(context: Context, _db: str) -> Rows:
    return [[user.name, int(user.superuser)] for user in list(context.catalog.users.values())]


SHOWS: dict[str, tuple[tuple[AnswerColumn, ...], bool, Callable[[Context, str], Rows]]] = {
    "databases": ((text_column("name", 64),), False, _databases),
    "stables": ((text_column("stable_name", 192),), True, _stables),
    "tables": ((text_column("table_name", 192),), True, _tables),
    "streams": (
        (text_column("stream_name", 192), text_column("status", 20), text_column("message", 1024)),
        True,
        _streams,
    ),
    "users": ((text_column("name", 24), AnswerColumn("super", INT)), False, _users),
}
"""What can be shown: its columns, whether it is a database's, its rows."""


# -- DESCRIBE ------------------------------------------------------------------------------------------------


def describe(context: Context, session: Session, statement: Describe) -> Answer:
    table, _ = find_table(context.catalog, session, statement.name)
    rows: Rows = []
    for column in table.columns:
        note = "COMPOSITE KEY" if column.composite_key else ""
        rows.append([column.name, column.type.name, column.type.size, note])
    rows += [[tag.name, tag.type.name, tag.type.size, "TAG"] for tag in table.tags]
    columns = (
        text_column("field", 64), text_column("type", 20), AnswerColumn("length", INT),
        text_column("note", 16),
    )  # fmt: skip
    return Answer(columns, rows)


# -- SHOW CREATE, SHOW TAGS ----------------------------------------------------------------------------------


def show_create(context: Context, session: Session, statement: ShowCreate) -> Answer:
    name = statement.name
    match statement.what:
        case "database":
            database = context.catalog.databases.get(name.name)
            if database is None:
                raise in_database(name.name, name)
            text = f"CREATE DATABASE {quote_name(name.name)} PRECISION '{database.precision}'"
        case "stream":
            entry = find_stream(context, session, name)
            assert entry is not None, "a missing one is an error"
            text = entry.spec.sql
        case _:
            table, child = find_table(context.catalog, session, name)
            if statement.what == "stable" and (child is not None or table.kind != "super"):
                raise CatalogError(ErrorCode.NOT_ALLOWED, f"{name} is no super table", name.position)
            text = create_text(table, child)
    title = "Table" if statement.what == "stable" else statement.what.capitalize()
    return Answer((text_column(title, 192), text_column(f"Create {title}", 65_517)), [[name.name, text]])


def create_text(table: Table, child: Child | None) -> str:
    """The statement that makes the table again."""
    if child is not None:
        names = ", ".join(quote_name(tag.name) for tag in table.tags)
        values = ", ".join(_literal(value) for value in child.tags)
        using = f"USING {quote_name(table.name)} ({names}) TAGS ({values})"
        return f"CREATE TABLE {quote_name(child.name)} {using}"
    text = f"{quote_name(table.name)} ({_definitions(table.columns)})"
    if table.kind == "normal":
        return f"CREATE TABLE {text}"
    return f"CREATE STABLE {text} TAGS ({_definitions(table.tags)})"


def _definitions(columns: Iterable[Column]) -> str:
    parts = []
    for column in columns:
        part = f"{quote_name(column.name)} {column.type}"
        part += " COMPOSITE KEY" if column.composite_key else ""
        part += f" COMMENT {_literal(column.comment)}" if column.comment else ""
        parts.append(part)
    return ", ".join(parts)


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value).lower() if isinstance(value, bool) else str(value)


def show_tags(context: Context, session: Session, statement: ShowTags) -> Answer:
    table, child = find_table(context.catalog, session, statement.name)
    if child is None:
        raise CatalogError(
            ErrorCode.NOT_ALLOWED, f"{statement.name} is no child table", statement.name.position
        )
    columns = (
        text_column("table_name", 192), text_column("db_name", 64), text_column("stable_name", 192),
        text_column("tag_name", 64), text_column("tag_type", 32), text_column("tag_value", 16_384),
    )  # fmt: skip
    rows: Rows = [
        [child.name, child.db, table.name, tag.name, str(tag.type), None if value is None else str(value)]
        for tag, value in zip(table.tags, child.tags, strict=True)
    ]
    return Answer(columns, rows)

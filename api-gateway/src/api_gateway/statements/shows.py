"""SHOW and DESCRIBE, with TDengine's columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from api_gateway.answer import INT, Answer, AnswerColumn, text_column
from api_gateway.context import Context
from api_gateway.session import Session, unknown_database
from api_gateway.statements import queries
from api_gateway.statements.stream_life import find_stream
from api_gateway.tables.find import find_table
from millrace_core.catalog import SYSTEM_DATABASES, Catalog, StreamEntry
from millrace_core.errors import CatalogError, ErrorCode, SqlError
from millrace_core.language.lexer import quote_name
from millrace_core.language.statements import Describe, Show, ShowCreate, ShowTags
from millrace_core.language.virtual import source_of
from millrace_core.model.life import shown_state
from millrace_core.model.schema import Child, Column, Origin, Table
from millrace_core.model.types import TIMESTAMP
from millrace_core.plan.system.inside import looks_into
from millrace_core.plan.system.streams import definition_of
from millrace_core.privileges import is_superuser, knows_database, sees

ShownRows = list[list[object]]


def show(context: Context, session: Session, statement: Show) -> Answer:
    found = SHOWS.get(statement.what)
    if found is None:
        raise SqlError(
            ErrorCode.UNSUPPORTED,
            f"SHOW {statement.what.upper()} is not supported; supported are SHOW {', '.join(SHOWS).upper()}",
            statement.position,
        )
    if statement.what == "streams" and statement.db is None:
        return _all_streams(context, session, statement)
    columns, of_database, rows = found
    db = _database(context.catalog, session, statement) if of_database else ""
    shown = sorted(rows(context, session, db), key=lambda row: str(row[0]))
    shown = [row for row in shown if _seen(context.catalog, session.user, statement.what, db, row)]
    if statement.like is not None:
        pattern = _like(statement.like)
        shown = [row for row in shown if pattern.fullmatch(str(row[0]))]
    return Answer(columns, shown)


def _database(catalog: Catalog, session: Session, statement: Show) -> str:
    db = statement.db or session.database
    if db is None:
        raise CatalogError(
            ErrorCode.NO_DATABASE,
            f"no database is selected: write SHOW db.{statement.what.upper()}",
            statement.position,
        )
    if db not in catalog.databases:
        error = unknown_database(db)
        raise CatalogError(error.code, error.message, statement.position)
    return db


def _seen(catalog: Catalog, user: str, what: str, db: str, row: list[object]) -> bool:
    """Whether the user may see this row."""
    if what in ("users", "privileges"):
        return row[0] == user or is_superuser(catalog, user)
    if what == "databases":
        return row[0] in SYSTEM_DATABASES or knows_database(catalog, user, str(row[0]))
    if what == "queries":
        return row[queries.USER] == user or is_superuser(catalog, user)
    if what == "streams":
        return sees(catalog, user, db)
    return what not in OF_TABLES or sees(catalog, user, db, str(row[0]))


def _like(pattern: str) -> re.Pattern[str]:
    """LIKE's pattern, regardless of case: ``%`` means any text and ``_`` any character, unless a backslash
    comes before."""
    parts = []
    for escaped, char in re.findall(r"(\\?)(.)", pattern, re.DOTALL):
        parts.append({"%": ".*", "_": "."}.get(char, re.escape(char)) if not escaped else re.escape(char))
    return re.compile("".join(parts), re.DOTALL | re.IGNORECASE)


def _databases(context: Context, _session: Session, _db: str) -> ShownRows:
    return [[name] for name in (*SYSTEM_DATABASES, *list(context.catalog.databases))]


def _stables(context: Context, _session: Session, db: str) -> ShownRows:
    tables = list(context.catalog.tables.values())
    return [[table.name] for table in tables if table.db == db and table.kind == "super"]


def _tables(context: Context, _session: Session, db: str) -> ShownRows:
    """Tables that hold rows: normal and child tables."""
    return _with_rows(context, db, virtual=False)


def _vtables(context: Context, _session: Session, db: str) -> ShownRows:
    """Virtual normal tables, and child tables of virtual super tables."""
    return _with_rows(context, db, virtual=True)


def _with_rows(context: Context, db: str, *, virtual: bool) -> ShownRows:
    tables = [t for t in list(context.catalog.tables.values()) if t.db == db and t.virtual == virtual]
    found: ShownRows = [[table.name] for table in tables if table.kind == "normal"]
    owners = {table.name for table in tables}
    children = list(context.catalog.children.values())
    return found + [[child.name] for child in children if child.db == db and child.table in owners]


def _streams(context: Context, session: Session, db: str) -> ShownRows:
    streams = list(context.catalog.streams.values())
    return [
        [entry.spec.name, *state_for(context, session, entry)] for entry in streams if entry.spec.db == db
    ]


def state_for(context: Context, session: Session, entry: StreamEntry) -> tuple[str, str]:
    """(status, message) as the user is told them. The reason for a failure may reveal rows, so only a user
    who may read what the stream reads gets the message."""
    status, message = context.board.of(entry, context.catalog)
    told = message if looks_into(context.catalog, session.user, entry.spec) else ""
    return shown_state(entry.spec, status), told


STREAM_COLUMNS = (
    text_column("stream_name", 192), AnswerColumn("create_time", TIMESTAMP), text_column("sql", 2048),
    text_column("status", 20), text_column("source_db", 64), text_column("target_db", 64),
    text_column("target_table", 192), text_column("watermark", 32), text_column("trigger", 32),
    text_column("message", 1024),
)  # fmt: skip
"""The columns of a SHOW STREAMS that names no database."""


def _all_streams(context: Context, session: Session, statement: Show) -> Answer:
    """The streams with global names, and those of the session's database."""
    if session.database is not None:
        _database(context.catalog, session, statement)
    shown: ShownRows = []
    for entry in list(context.catalog.streams.values()):
        spec = entry.spec
        listed = spec.db in ("", session.database) and sees(context.catalog, session.user, spec.home)
        if listed and (statement.like is None or _like(statement.like).fullmatch(spec.name)):
            status, message = state_for(context, session, entry)
            known = definition_of(spec) | {
                "stream_name": spec.name, "create_time": spec.created, "sql": spec.shown_sql,
                "status": status, "message": message,
            }  # fmt: skip
            shown.append([known[column.name] for column in STREAM_COLUMNS])
    return Answer(STREAM_COLUMNS, sorted(shown, key=lambda row: str(row[0])))


def _users(context: Context, _session: Session, _db: str) -> ShownRows:
    return [[user.name, int(user.superuser)] for user in list(context.catalog.users.values())]


def _privileges(context: Context, _session: Session, _db: str) -> ShownRows:
    return [list(row) for row in context.catalog.privileges()]


def _snodes(context: Context, _session: Session, _db: str) -> ShownRows:
    return [[snode.id, "local", snode.created] for snode in list(context.catalog.snodes.values())]


def _dnodes(context: Context, _session: Session, _db: str) -> ShownRows:
    """The whole deployment is what TDengine calls a dnode."""
    return [[1, "local", "ready"]]


SHOWS: dict[str, tuple[tuple[AnswerColumn, ...], bool, Callable[[Context, Session, str], ShownRows]]] = {
    "databases": ((text_column("name", 64),), False, _databases),
    "stables": ((text_column("stable_name", 192),), True, _stables),
    "tables": ((text_column("table_name", 192),), True, _tables),
    "vtables": ((text_column("table_name", 192),), True, _vtables),
    "streams": (
        (text_column("stream_name", 192), text_column("status", 20), text_column("message", 1024)),
        True,
        _streams,
    ),
    "snodes": (
        (AnswerColumn("id", INT), text_column("endpoint", 134), AnswerColumn("create_time", TIMESTAMP)),
        False,
        _snodes,
    ),
    "dnodes": (
        (AnswerColumn("id", INT), text_column("endpoint", 134), text_column("status", 10)),
        False,
        _dnodes,
    ),
    "users": ((text_column("name", 24), AnswerColumn("super", INT)), False, _users),
    "privileges": (
        (
            text_column("user_name", 24), text_column("privilege", 10), text_column("db_name", 64),
            text_column("table_name", 192),
        ),
        False,
        _privileges,
    ),
    "queries": (queries.COLUMNS, False, queries.rows),
}  # fmt: skip
"""What can be shown: its columns, whether it belongs to a database, its rows."""
OF_TABLES = frozenset({"stables", "tables", "vtables"})
"""What lists tables. A user who may read or write only single tables sees only these, and no streams."""


# -- DESCRIBE ------------------------------------------------------------------------------------------------


def describe(context: Context, session: Session, statement: Describe) -> Answer:
    table, child = find_table(context.catalog, session, statement.name)
    rows: ShownRows = []
    for column in table.columns:
        note = "COMPOSITE KEY" if column.composite_key else ""
        rows.append([column.name, column.type.name, column.type.size, note])
    rows += [[tag.name, tag.type.name, tag.type.size, "TAG"] for tag in table.tags]
    columns = (
        text_column("field", 64), text_column("type", 20), AnswerColumn("length", INT),
        text_column("note", 16),
    )  # fmt: skip
    if not table.virtual or (child is None and table.kind == "super"):
        return Answer(columns, rows)
    origins = table.origins if child is None else child.origins
    sources = [_source_text(origin, context.catalog, session.user) for origin in origins]
    sources += [None] * (len(rows) - len(sources))
    described = [[*row, source] for row, source in zip(rows, sources, strict=True)]
    return Answer((*columns, text_column("ref", 448)), described)


def _source_text(origin: Origin | None, catalog: Catalog, user: str) -> str | None:
    """``db.table.column``, even of a table that was dropped; None if there is no source, or if the user may
    not know of it."""
    if origin is None or not sees(catalog, user, origin.db, origin.name):
        return None
    table = source_of(origin, catalog)
    columns = table.columns if table is not None else ()
    names = [column.name for column in columns if column.identity == origin.column]
    return f"{origin.db}.{origin.name}.{names[0] if names else origin.column}"


# -- SHOW CREATE, SHOW TAGS ----------------------------------------------------------------------------------


def show_create(context: Context, session: Session, statement: ShowCreate) -> Answer:
    name = statement.name
    match statement.what:
        case "database":
            database = context.catalog.databases.get(name.name)
            if database is None:
                raise unknown_database(name.name, name)
            text = f"CREATE DATABASE {quote_name(name.name)} PRECISION '{database.precision}'"
        case "stream":
            entry = find_stream(context, session, name)
            assert entry is not None, "a missing one is an error"
            text = entry.spec.shown_sql
        case _:
            table, child = find_table(context.catalog, session, name)
            if statement.what == "stable" and (child is not None or table.kind != "super"):
                raise CatalogError(ErrorCode.NOT_ALLOWED, f"{name} is not a super table", name.position)
            if statement.what == "vtable" and not table.virtual:
                raise CatalogError(ErrorCode.NOT_ALLOWED, f"{name} is not a virtual table", name.position)
            text = create_text(table, child, context.catalog, session.user)
    title = "Table" if statement.what in ("stable", "vtable") else statement.what.capitalize()
    return Answer((text_column(title, 192), text_column(f"Create {title}", 65_517)), [[name.name, text]])


def create_text(table: Table, child: Child | None, catalog: Catalog, user: str) -> str:
    """The statement that would make the table again; without sources that the user may not know of."""
    kind = "VTABLE" if table.virtual else "TABLE"
    if child is not None:
        names = ", ".join(quote_name(tag.name) for tag in table.tags)
        values = ", ".join(_literal(value) for value in child.tags)
        using = f"USING {quote_name(table.name)} ({names}) TAGS ({values})"
        mapped = [
            f"{quote_name(column.name)} FROM {source}"
            for column, origin in zip(table.columns, child.origins, strict=False)
            if (source := _quoted_source(origin, catalog, user))
        ]
        columns = f"({', '.join(mapped)}) " if mapped else ""
        return f"CREATE {kind} {quote_name(child.name)} {columns}{using}"
    known = [_quoted_source(origin, catalog, user) for origin in table.origins]
    sources = [f" FROM {source}" if source else "" for source in known]
    text = f"{quote_name(table.name)} ({_definitions(table.columns, sources)})"
    if table.kind == "normal":
        return f"CREATE {kind} {text}"
    return f"CREATE STABLE {text} TAGS ({_definitions(table.tags)}){' VIRTUAL 1' if table.virtual else ''}"


def _quoted_source(origin: Origin | None, catalog: Catalog, user: str) -> str:
    text = _source_text(origin, catalog, user)
    if origin is None or text is None:
        return ""
    column = text.removeprefix(f"{origin.db}.{origin.name}.")
    return ".".join(quote_name(name) for name in (origin.db, origin.name, column))


def _definitions(columns: Sequence[Column], sources: Sequence[str] = ()) -> str:
    parts = []
    for place, column in enumerate(columns):
        part = f"{quote_name(column.name)} {column.type}"
        part += " COMPOSITE KEY" if column.composite_key else ""
        part += f" COMMENT {_literal(column.comment)}" if column.comment else ""
        part += sources[place] if sources else ""
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
            ErrorCode.NOT_ALLOWED, f"{statement.name} is not a child table", statement.name.position
        )
    columns = (
        text_column("table_name", 192), text_column("db_name", 64), text_column("stable_name", 192),
        text_column("tag_name", 64), text_column("tag_type", 32), text_column("tag_value", 16_384),
    )  # fmt: skip
    rows: ShownRows = [
        [child.name, child.db, table.name, tag.name, str(tag.type), None if value is None else str(value)]
        for tag, value in zip(table.tags, child.tags, strict=True)
    ]
    return Answer(columns, rows)

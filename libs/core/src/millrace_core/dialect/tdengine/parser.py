"""SQL text in, one statement out. A table says which word begins what."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import get_args

from millrace_core.dialect.tdengine import parse_data, parse_stream, parse_tables
from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.cursor import Cursor
from millrace_core.language.lexer import check_size
from millrace_core.language.statements import (
    AlterUser,
    CreateAnode,
    CreateSnode,
    CreateUser,
    Describe,
    DropAnode,
    DropSnode,
    DropUser,
    Grant,
    KillQuery,
    Query,
    Show,
    ShowAnodes,
    ShowCreate,
    Shown,
    ShowTags,
    Statement,
    UpdateAnode,
)  # fmt: skip

SHOWN = get_args(Shown)
MAX_SQL = 1 << 24  # characters
QUERY_WORDS = ("select", "(")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}")


def parse(sql: str) -> Statement:
    """The one statement that ``sql`` holds; semicolons may follow it.

    :raises SqlError: if it is not a statement of the dialect: what was expected, and where.
    """
    if len(sql) > MAX_SQL:
        message = f"the statement is {len(sql)} characters long; at most {MAX_SQL} characters are allowed"
        raise SqlError(ErrorCode.TOO_LARGE, message)
    cursor = Cursor(sql)
    if not cursor.at("insert"):
        check_size(sql)
    if any(cursor.at(word) for word in QUERY_WORDS):
        return _query(cursor)
    for words, read in STATEMENTS.items():
        if cursor.take(*words):
            statement = read(cursor)
            cursor.finish()
            return statement
    first = {words[0] for words in STATEMENTS}
    taken = next((word for word in sorted(first) if cursor.take(word)), None)
    if taken is None:
        raise cursor.unexpected("a statement: SELECT, " + ", ".join(sorted(word.upper() for word in first)))
    following = sorted({" ".join(words[1:]).upper() for words in STATEMENTS if words[0] == taken})
    raise cursor.unexpected(" or ".join(following))


def _query(c: Cursor, *, explain: bool = False) -> Query:
    text = c.to_end()
    c.finish()
    return Query(text.text, text.position, explain)


def _explain(c: Cursor) -> Query:
    c.take("analyze")
    if c.take("verbose"):
        c.one_of("true", "false")
    if not any(c.at(word) for word in QUERY_WORDS):
        raise c.unexpected("SELECT")
    return _query(c, explain=True)


def _show(c: Cursor) -> Show | ShowCreate | ShowTags | ShowAnodes:
    where = c.here()
    if c.take("anodes"):
        return ShowAnodes(c.take("full"))
    if c.take("create"):
        what = c.one_of("stream", "table", "stable", "vtable", "database")
        return ShowCreate(what, c.qualified("a name"))  # type: ignore[arg-type]
    if c.take("tags", "from"):
        return ShowTags(c.qualified("a table name"))
    if c.take("user", "privileges"):
        return Show("privileges", position=where)
    name = c.qualified("what to show, such as STREAMS")
    if name.name not in SHOWN:
        raise SqlError(
            ErrorCode.SYNTAX,
            f"expected one of {', '.join(s.upper() for s in SHOWN)}, found {name.name!r}",
            where,
        )
    like = c.string("a pattern").text if c.take("like") else None
    return Show(name.name, name.db, like, where)  # type: ignore[arg-type]


def _describe(c: Cursor) -> Describe:
    return Describe(c.qualified("a table name"))


def _dnode(c: Cursor) -> int:
    c.expect("on", "dnode")
    return c.integer("the number of a dnode")


def _create_anode(c: Cursor) -> CreateAnode:
    where = c.here()
    address = c.string("the address of an anode, 'host:port'").text.removeprefix("http://").rstrip("/")
    if not _ADDRESS.fullmatch(address):
        raise SqlError(
            ErrorCode.INVALID_VALUE, f"an anode's address must be 'host:port', not {address!r}", where
        )
    return CreateAnode(address, where)


def _kill(c: Cursor) -> KillQuery:
    where = c.here()
    return KillQuery(c.string("the id of a query in quotes, as shown by SHOW QUERIES").text, where)


def _create_user(c: Cursor) -> CreateUser:
    name = c.name("a user name")
    c.expect("pass")
    password = c.string("a password").text
    for word in ("sysinfo", "createdb"):
        if c.take(word):
            c.integer("0 or 1")
    return CreateUser(name, password)


def _alter_user(c: Cursor) -> AlterUser:
    name = c.name("a user name")
    c.expect("pass")
    return AlterUser(name, c.string("a password").text)


def _grant(c: Cursor, *, revoke: bool = False) -> Grant:
    privileges = [c.one_of("read", "write", "all")]
    while c.take(","):
        privileges.append(c.one_of("read", "write", "all"))
    c.expect("on")
    on = c.here()
    db = None if c.take("*") else c.name("a database").text
    c.expect(".")
    table = None if c.take("*") else c.name("a table").text
    if db is None and table is not None:
        raise SqlError(ErrorCode.SYNTAX, f"*.{table}: name the database of the table, or write *.*", on)
    condition = c.here()
    if c.take("with"):
        raise SqlError(
            ErrorCode.UNSUPPORTED,
            "WITH (a condition on tags) is not supported: a privilege applies to a whole table; name the "
            "child tables one by one",
            condition,
        )
    c.expect("from" if revoke else "to")
    return Grant(tuple(privileges), c.name("a user name"), db, table, revoke, on)  # type: ignore[arg-type]


STATEMENTS: dict[tuple[str, ...], Callable[[Cursor], Statement]] = {
    ("insert",): parse_data.insert,
    ("delete",): parse_data.delete,
    ("create", "database"): parse_tables.create_database,
    ("create", "stable"): parse_tables.create_stable,
    ("create", "table"): parse_tables.create_table,
    ("create", "vtable"): parse_tables.create_vtable,
    ("create", "stream"): parse_stream.create_stream,
    ("create", "snode"): lambda c: CreateSnode(_dnode(c)),
    ("create", "anode"): _create_anode,
    ("create", "user"): _create_user,
    ("drop", "database"): parse_tables.drop_database,
    ("drop", "stable"): parse_tables.drop_stable,
    ("drop", "table"): parse_tables.drop_tables,
    ("drop", "vtable"): lambda c: parse_tables.drop_tables(c, virtual_only=True),
    ("drop", "stream"): parse_stream.drop_stream,
    ("drop", "snode"): lambda c: DropSnode(_dnode(c)),
    ("drop", "anode"): lambda c: DropAnode(c.integer("the number of an anode")),
    ("drop", "user"): lambda c: DropUser(c.name("a user name")),
    ("alter", "table"): parse_tables.alter_table,
    ("alter", "vtable"): parse_tables.alter_table,
    ("alter", "stable"): lambda c: parse_tables.alter_table(c, super_only=True),
    ("alter", "user"): _alter_user,
    ("update", "anode"): lambda c: UpdateAnode(c.integer("the number of an anode")),
    ("update", "all", "anodes"): lambda c: UpdateAnode(None),
    ("kill", "query"): _kill,
    ("use",): parse_tables.use_database,
    ("start", "stream"): parse_stream.start_stream,
    ("stop", "stream"): parse_stream.stop_stream,
    ("pause", "stream"): parse_stream.pause_stream,
    ("resume", "stream"): parse_stream.resume_stream,
    ("recalculate", "stream"): parse_stream.recalculate_stream,
    ("diagnose", "stream"): parse_stream.diagnose_stream,
    ("verify", "stream"): parse_stream.verify_stream,
    ("show",): _show,
    ("describe",): _describe,
    ("desc",): _describe,
    ("explain",): _explain,
    ("grant",): _grant,
    ("revoke",): lambda c: _grant(c, revoke=True),
}

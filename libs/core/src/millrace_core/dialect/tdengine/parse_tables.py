"""CREATE, DROP and ALTER of databases and tables."""

from __future__ import annotations

import re
from typing import cast

from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.cursor import Cursor, check_length
from millrace_core.language.data_types import KEY_TYPES, data_type
from millrace_core.language.statements import (
    Add,
    AlterTable,
    Change,
    ChildDef,
    ColumnDef,
    ColumnSource,
    CreateChildren,
    CreateDatabase,
    CreateTable,
    CreateVirtualChild,
    DropDatabase,
    DropTables,
    Literal,
    Modify,
    Name,
    QualifiedName,
    Remove,
    Rename,
    SetComment,
    SetTags,
    Target,
    UseDatabase,
)  # fmt: skip
from millrace_core.language.words import TokenKind
from millrace_core.model.schema import KEEP, WAL_RETENTION, Precision

# what TDengine allows to set for a database besides PRECISION; storage is Millrace's own affair
DATABASE_OPTIONS = frozenset({
    "buffer", "cachemodel", "cachesize", "comp", "duration", "encrypt_algorithm", "maxrows", "minrows",
    "pages", "pagesize", "replica", "wal_level", "vgroups", "single_stable", "stt_trigger",
    "table_prefix", "table_suffix", "tsdb_pagesize", "dnodes", "keep_time_offset",
    "wal_fsync_period", "wal_retention_size", "wal_roll_period", "wal_segment_size", "retentions",
    "schemaless", "ss_chunkpages", "ss_keeplocal", "ss_compact", "s3_chunkpages", "s3_keeplocal",
    "s3_compact", "compact_interval", "compact_time_range", "compact_time_offset", "strict",
})  # fmt: skip
KEEP_UNITS = {"": 1440, "d": 1440, "h": 60, "m": 1}
"""Minutes in each unit."""
TABLE_OPTIONS = frozenset({
    "ttl", "sma", "max_delay", "watermark", "rollup", "delete_mark", "keep",
})  # fmt: skip
COLUMN_OPTIONS = ("encode", "compress", "level")


def create_database(c: Cursor) -> CreateDatabase:
    if_not_exists = c.exists(negated=True)
    name = c.name("a database name")
    check_length(name, "database")
    if "." in name.text:
        raise SqlError(
            ErrorCode.INVALID_VALUE, f"a database name cannot contain a dot: {name.text}", name.position
        )
    precision: Precision = "ms"
    keep, wal_retention = KEEP, WAL_RETENTION
    while c.peek().kind is TokenKind.WORD:
        option = c.name("a database option")
        if option.text == "precision":
            value = c.string("'ms', 'us' or 'ns'")
            if value.text.lower() not in ("ms", "us", "ns"):
                raise SqlError(
                    ErrorCode.INVALID_VALUE, f"PRECISION must be 'ms', 'us' or 'ns', not {value.text!r}",
                    value.position,
                )  # fmt: skip
            precision = cast(Precision, value.text.lower())
        elif option.text == "keep":
            keep = _keep(c)
        elif option.text == "wal_retention_period":
            wal_retention = _retention(c)
        elif option.text in DATABASE_OPTIONS:
            _skip_values(c, f"a value of {option.text.upper()}")
        else:
            raise SqlError(
                ErrorCode.SYNTAX, f"unknown database option {option.text.upper()}", option.position
            )
    return CreateDatabase(name, if_not_exists, precision, keep, wal_retention)


def _keep(c: Cursor) -> int:
    """``10``, ``10d``, ``240h`` or ``14400m``, in minutes; of three such values the last one decides.

    :raises SqlError: for another unit, or for less than a day.
    """
    while True:
        token, where = c.peek(), c.here()
        if token.kind not in (TokenKind.INTEGER, TokenKind.DURATION):
            raise c.unexpected("a number of days, or a duration such as 240h")
        c.next()
        found = re.fullmatch(r"(\d+)([mhd]?)", token.text.lower())
        minutes = 0 if found is None else int(found[1]) * KEEP_UNITS[found[2]]
        if minutes < KEEP_UNITS["d"]:
            raise SqlError(
                ErrorCode.INVALID_VALUE,
                f"KEEP must be at least one day (1, 24h or 1440m), not {token.text}", where,
            )  # fmt: skip
        if not c.take(","):
            return minutes


def _retention(c: Cursor) -> int:
    """Seconds; -1: for ever. :raises SqlError: for anything below -1."""
    where = c.here()
    sign = -1 if c.take("-") else 1
    seconds = sign * c.integer("a number of seconds, or -1")
    if seconds < -1:
        raise SqlError(
            ErrorCode.INVALID_VALUE, f"WAL_RETENTION_PERIOD must be -1 or greater, not {seconds}", where
        )
    return seconds


def _skip_values(c: Cursor, what: str) -> None:
    """Skip the ``value [, …]`` of an option that is accepted, but not used."""
    while True:
        if c.peek().kind in (TokenKind.END, TokenKind.WORD, TokenKind.OPERATOR):
            raise c.unexpected(what)
        c.next()
        while c.take(":") or c.take("-"):
            c.next()
        if not c.take(","):
            return


def drop_database(c: Cursor) -> DropDatabase:
    if_exists = c.exists(negated=False)
    return DropDatabase(c.name("a database name"), if_exists, c.take("force"))


def use_database(c: Cursor) -> UseDatabase:
    return UseDatabase(c.name("a database name"))


def _column(c: Cursor) -> ColumnDef:
    name = c.name("a column name")
    check_length(name, "column")
    type_ = data_type(c)
    composite, comment = False, ""
    source: ColumnSource | None = None
    while True:
        if c.take("composite", "key") or c.take("primary", "key"):
            composite = True
        elif c.take("comment"):
            comment = c.string("a comment").text
        elif c.take("from"):
            source = _source(c)
        elif any(c.take(option) for option in COLUMN_OPTIONS):
            c.string("the name of a method")
        else:
            return ColumnDef(name, type_, composite, comment, source)


def _source(c: Cursor) -> ColumnSource:
    """``[db.]table.column``."""
    names = [c.name("a source column: table.column")]
    while c.take("."):
        names.append(c.name("a source column: table.column"))
    if len(names) == 2:
        return ColumnSource(QualifiedName(None, names[0].text, names[0].position), names[1])
    if len(names) == 3:
        return ColumnSource(QualifiedName(names[0].text, names[1].text, names[0].position), names[2])
    raise c.unexpected("a source column: [db.]table.column")


def create_table(c: Cursor) -> CreateTable | CreateChildren:
    """What follows CREATE TABLE: a normal table, a super table, or child tables."""
    if_not_exists = c.exists(negated=True)
    name = c.qualified("a table name")
    check_length(name, "table")
    if c.at("using"):
        return _create_children(c, name, if_not_exists)
    return _create_table(c, name, if_not_exists)


def create_stable(c: Cursor) -> CreateTable:
    if_not_exists = c.exists(negated=True)
    name = c.qualified("a table name")
    check_length(name, "table")
    table = _create_table(c, name, if_not_exists)
    if not table.tags:
        raise c.unexpected("TAGS (…), which every super table needs")
    return table


def create_vtable(c: Cursor) -> CreateTable | CreateVirtualChild:
    if_not_exists = c.exists(negated=True)
    name = c.qualified("a table name")
    check_length(name, "table")
    if c.at("using"):
        return CreateVirtualChild(_child(c, name, if_not_exists), ())
    place = c.place
    c.expect("(")
    c.name("a column name")
    if c.at("from") or c.at(".") or c.at(",") or c.at(")"):
        c.place = place
        columns = c.listed(lambda: _mapping(c))
        return CreateVirtualChild(_child(c, name, if_not_exists), columns)
    c.place = place
    return _create_table(c, name, if_not_exists, virtual=True)


def _mapping(c: Cursor) -> tuple[Name | None, ColumnSource]:
    place = c.place
    name = c.name("a column name")
    if c.take("from"):
        return name, _source(c)
    c.place = place
    return None, _source(c)


def _create_table(
    c: Cursor, name: QualifiedName, if_not_exists: bool, *, virtual: bool = False
) -> CreateTable:
    columns = c.listed(lambda: _column(c))
    tags = c.listed(lambda: _column(c)) if c.take("tags") else ()
    comment = ""
    while c.peek().kind is TokenKind.WORD:
        option = c.name("a table option")
        if option.text == "comment":
            comment = c.string("a comment").text
        elif option.text == "virtual":
            virtual = c.integer("0 or 1") != 0
        elif option.text in TABLE_OPTIONS:
            _skip_option(c)
        else:
            raise SqlError(ErrorCode.SYNTAX, f"unknown table option {option.text.upper()}", option.position)
    check_table(columns, tags)
    return CreateTable(name, columns, tags, if_not_exists, comment, virtual)


def _skip_option(c: Cursor) -> None:
    if c.at("("):
        c.listed(lambda: c.argument("a value"))
    else:
        _skip_values(c, "a value")


def check_table(columns: tuple[ColumnDef, ...], tags: tuple[ColumnDef, ...]) -> None:
    """:raises SqlError: for a table that is impossible, whatever the catalog holds."""
    key = columns[0]
    if key.type.name != "TIMESTAMP":
        raise _bad(key, f"the first column {key.name.text} must be TIMESTAMP, not {key.type}")
    if len(columns) < 2:
        raise _bad(key, "a table needs a column besides its time column")
    seen: set[str] = set()
    for index, column in enumerate((*columns, *tags)):
        if column.name.text in seen:
            raise _bad(column, f"the name {column.name.text} is given twice")
        seen.add(column.name.text)
        if column.name.text == "tbname":
            raise _bad(column, "tbname is reserved for the table's name: no column or tag can have that name")
        if column.type.name == "JSON" and (index < len(columns) or len(tags) > 1):
            raise _bad(column, f"{column.name.text}: JSON is allowed only as the single tag of a super table")
        if column.composite_key:
            _check_key(column, index)


def _check_key(column: ColumnDef, index: int) -> None:
    if index != 1:
        raise _bad(
            column,
            f"{column.name.text}: only the second column can be part of the key besides the time column",
        )
    if column.type.name not in KEY_TYPES:
        raise _bad(column, f"{column.name.text}: {column.type} cannot be a key; use INT, BIGINT or VARCHAR")


def _bad(column: ColumnDef, message: str) -> SqlError:
    return SqlError(ErrorCode.INVALID_VALUE, message, column.name.position)


def _create_children(c: Cursor, name: QualifiedName, if_not_exists: bool) -> CreateChildren:
    children = [_child(c, name, if_not_exists)]
    while c.peek().kind in (TokenKind.WORD, TokenKind.QUOTED):
        c.take("create", "table")
        if_not_exists = c.exists(negated=True)
        name = c.qualified("a table name")
        check_length(name, "table")
        children.append(_child(c, name, if_not_exists))
    return CreateChildren(tuple(children))


def _child(c: Cursor, name: QualifiedName, if_not_exists: bool) -> ChildDef:
    """``USING st [(names)] TAGS (values)``."""
    c.expect("using")
    using = c.qualified("the name of a super table")
    names = c.listed(lambda: c.name("a tag name")) if c.at("(") else ()
    where = c.expect("tags")
    values = c.listed(lambda: c.literal("a tag value"))
    if names and len(names) != len(values):
        raise SqlError(
            ErrorCode.SYNTAX, f"{len(names)} tags are named, but {len(values)} values are given", where
        )
    return ChildDef(name, using, values, names, if_not_exists)


def using_child(c: Cursor, name: QualifiedName) -> ChildDef:
    """The same in an INSERT."""
    return _child(c, name, True)


def drop_tables(c: Cursor, *, virtual_only: bool = False) -> DropTables:
    names, exists = [], []
    while True:
        exists.append(c.exists(negated=False))
        names.append(c.qualified("a table name"))
        if not c.take(","):
            return DropTables(tuple(names), tuple(exists), virtual_only=virtual_only)


def drop_stable(c: Cursor) -> DropTables:
    if_exists = c.exists(negated=False)
    return DropTables((c.qualified("a table name"),), (if_exists,), True)


def alter_table(c: Cursor, *, super_only: bool = False) -> AlterTable:
    name = c.qualified("a table name")
    return AlterTable(name, _change(c), super_only)


def _change(c: Cursor) -> Change:
    if c.take("comment"):
        return SetComment(c.string("a comment").text)
    action = c.one_of("add", "drop", "modify", "rename", "set")
    if action == "set":
        c.expect("tag")
        return SetTags(_assignments(c))
    target = cast(Target, c.one_of("column", "tag"))
    if action == "add":
        return Add(target, _column(c))
    name = c.name(f"a {target} name")
    if action == "drop":
        return Remove(target, name)
    if action == "rename":
        new = c.name(f"the new {target} name")
        check_length(new, target)
        return Rename(target, name, new)
    return Modify(target, name, data_type(c))


def _assignments(c: Cursor) -> tuple[tuple[Name, Literal], ...]:
    found = []
    while True:
        name = c.name("a tag name")
        c.expect("=")
        found.append((name, c.literal("a tag value")))
        if not c.take(","):
            return tuple(found)

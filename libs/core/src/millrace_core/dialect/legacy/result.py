"""The result table of an older stream: always a super table, its columns and tags, its sub-tables' names."""

from __future__ import annotations

from collections.abc import Sequence

from millrace_core.catalog import Catalog
from millrace_core.dialect.arguments import bad
from millrace_core.dialect.legacy.query import Key, check_aliases, replaced
from millrace_core.dialect.lexer import quote_name
from millrace_core.dialect.statements import CreateLegacyStream
from millrace_core.errors import ErrorCode
from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import Output, OutputTag
from millrace_core.model.sub_tables import GROUP_ID, GROUP_TAG


def result_table(
    statement: CreateLegacyStream, names: Sequence[str], keys: Sequence[Key], source: Table, catalog: Catalog,
    database: str,
) -> Output:  # fmt: skip
    """INTO with its columns, TAGS and SUBTABLE; ``names``: of the query's results; the columns stay empty.

    :raises SqlError: for a target that is no super table, or the source; columns that do not go together;
        tags that PARTITION BY does not name, or with types where the table has its own.
    """
    into = statement.into
    db = into.db or database
    if db not in catalog.databases:
        raise bad(f"INTO {into}: the database {db} does not exist", into.position, ErrorCode.UNKNOWN_DATABASE)
    if (db, into.name) == (source.db, source.name):
        raise bad(f"INTO {into}: the result cannot be the source table", into.position)
    found = catalog.find(db, into.name)
    target = None
    if found is not None:
        target, child = found
        if child is not None or target.kind != "super" or target.virtual:
            kind = "child" if child is not None else "virtual" if target.virtual else target.kind
            raise bad(f"INTO {into}: it is a {kind} table; results go into super tables only", into.position)
        _check_columns(statement, names, target)
    if statement.subtable is not None:
        check_aliases(statement.subtable, keys, "SUBTABLE")
    words = {key.name: key.text if key.column else f"({key.text})" for key in keys}
    subtable = replaced(statement.subtable.text, words) if statement.subtable else None
    return Output(
        db, into.name, (), _tags(statement, keys, target), subtable, naming="distinct", converts=True
    )


def _check_columns(statement: CreateLegacyStream, names: Sequence[str], target: Table) -> None:
    """How the results fit the columns of a table that exists: those that are not named stay NULL."""
    if not statement.columns:
        if len(names) != len(target.columns):
            raise bad(
                f"INTO {statement.into}: the table has {len(target.columns)} columns, the query gives "
                f"{len(names)}; name the columns that it fills",
                statement.into.position,
            )
        return
    for column in statement.columns:
        if target.column(column.name.text) is None:
            raise bad(
                f"INTO {statement.into}: the table has no column {column.name.text}", column.name.position,
                ErrorCode.UNKNOWN_COLUMN,
            )  # fmt: skip
    keys = [target.key.name, *(column.name for column in target.columns[1:2] if column.composite_key)]
    for key in keys:
        if key not in names:
            raise bad(
                f"INTO {statement.into}: the column {key}, which cannot be NULL, is not among those named",
                statement.columns[0].name.position,
            )


def _tags(statement: CreateLegacyStream, keys: Sequence[Key], target: Table | None) -> tuple[OutputTag, ...]:
    if not statement.tags:
        return tuple(OutputTag(tag, "NULL") for tag in target.tags) if target else (
            OutputTag(GROUP_TAG, GROUP_ID),
        )  # fmt: skip
    by_name = {key.name: key for key in keys}
    given: dict[str, OutputTag] = {}
    for tag in statement.tags:
        name, where = tag.name.text, tag.name.position
        if name in given:
            raise bad(f"the tag {name} is given twice", where)
        if name not in by_name:
            known = ", ".join(by_name) or "there is none"
            raise bad(f"the tag {name} is no alias of PARTITION BY: {known}", where)
        value = by_name[name]
        expression = quote_name(value.column) if value.column not in (None, "tbname") else value.text
        if target is None:
            if tag.type is None:
                raise bad(f"the tag {name} needs a type, as the table is a new one", where)
            given[name] = OutputTag(Column(name, tag.type, comment=tag.comment), expression)
            continue
        if tag.type is not None:
            raise bad(
                f"the tag {name} has its type from the table, which exists: write its name alone", where
            )
        column = target.tag(name)
        if column is None:
            raise bad(f"INTO {statement.into}: the table has no tag {name}", where, ErrorCode.UNKNOWN_COLUMN)
        given[name] = OutputTag(column, expression)
    if target is None:
        return tuple(given.values())
    return tuple(given.get(tag.name, OutputTag(tag, "NULL")) for tag in target.tags)

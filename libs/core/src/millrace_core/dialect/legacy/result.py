"""The result table of an older stream: always a super table, with its columns, tags and names of
sub-tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from millrace_core.catalog import Catalog
from millrace_core.dialect.legacy.query import PartitionKey, check_aliases
from millrace_core.dialect.legacy.write import replaced
from millrace_core.errors import ErrorCode, Position
from millrace_core.language.arguments import bad
from millrace_core.language.data_types import KEY_TYPES
from millrace_core.language.names import QualifiedName
from millrace_core.language.statements import CreateLegacyStream
from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import Output, OutputTag, ResultColumn, StreamSpec
from millrace_core.model.sub_tables import GROUP_ID, GROUP_TAG

MOST_CONVERTED = 4096
"""The most bytes of a text that is converted to another type."""


def result_table(
    statement: CreateLegacyStream, into: QualifiedName, names: Sequence[str], keys: Sequence[PartitionKey],
    values: Mapping[str, str],
    source: Table, catalog: Catalog, database: str,
) -> Output:  # fmt: skip
    """INTO with its columns, TAGS and SUBTABLE. ``names``: those of the query's results; ``values``: the
    aliases of PARTITION BY as expressions over a group's key. The columns stay empty.

    :raises SqlError: for a target that is the source, or not a super table; columns that do not match; tags
        that PARTITION BY does not name, or that are given types though the table has its own.
    """
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
            raise bad(f"INTO {into}: it is a {kind} table, but the results need a super table", into.position)
        _check_columns(statement, into, names, target)
    if statement.subtable is not None:
        check_aliases(statement.subtable, keys, "SUBTABLE")
    words = {
        name: text if text.isidentifier() or text.startswith("%%") else f"({text})"
        for name, text in values.items()
    }
    subtable = replaced(statement.subtable.text, words) if statement.subtable else None
    return Output(
        db, into.name, (), _tags(statement, values, target), subtable, naming="distinct", converts=True
    )


def _check_columns(
    statement: CreateLegacyStream, into: QualifiedName, names: Sequence[str], target: Table
) -> None:
    """Check that the results fit the columns of an existing table; columns that are not named stay NULL."""
    if not statement.columns:
        if len(names) != len(target.columns):
            raise bad(
                f"INTO {into}: the table has {len(target.columns)} columns, but the query returns "
                f"{len(names)}; list the columns to fill",
                into.position,
            )
        return
    for column in statement.columns:
        if target.column(column.name.text) is None:
            raise bad(
                f"INTO {into}: the table has no column {column.name.text}", column.name.position,
                ErrorCode.UNKNOWN_COLUMN,
            )  # fmt: skip
    keys = [target.key.name, *(column.name for column in target.columns[1:2] if column.composite_key)]
    for key in keys:
        if key not in names:
            what = "primary timestamp" if key == target.key.name else "composite key"
            raise bad(
                f"INTO {into}: the {what} {key} can not be null, but is not in the list of columns",
                statement.columns[0].name.position,
            )
    if names[0] != target.key.name:
        raise bad(
            f"INTO {into}: the first result column, the time of the window or row, must be stored in "
            f"{target.key.name}, but {names[0]} is listed first",
            statement.columns[0].name.position,
        )


def _tags(
    statement: CreateLegacyStream, values: Mapping[str, str], target: Table | None
) -> tuple[OutputTag, ...]:
    if not statement.tags:
        return tuple(map(_unmapped, target.tags)) if target else (OutputTag(GROUP_TAG, GROUP_ID),)
    given: dict[str, OutputTag] = {}
    for tag in statement.tags:
        name, where = tag.name.text, tag.name.position
        if name in given:
            raise bad(f"the tag {name} is given twice", where)
        if values and name not in values:
            raise bad(
                f"the tag {name} is not an alias in PARTITION BY; the aliases are {', '.join(values)}", where
            )
        # without PARTITION BY there is one group, whose tags are NULL (SEMANTICS-FRONTENDS, S2)
        expression = values.get(name, "NULL")
        if target is None:
            if tag.type is None:
                raise bad(f"the tag {name} needs a type, because the table is new", where)
            given[name] = OutputTag(Column(name, tag.type, comment=tag.comment), expression)
            continue
        if tag.type is not None:
            raise bad(f"the tag {name} already has a type in the existing table; write only its name", where)
        column = target.tag(name)
        if column is None:
            raise bad(f"INTO {statement.into}: the table has no tag {name}", where, ErrorCode.UNKNOWN_COLUMN)
        given[name] = OutputTag(column, expression)
    if target is None:
        return tuple(given.values())
    return tuple(given.get(tag.name) or _unmapped(tag) for tag in target.tags)


def _unmapped(tag: Column) -> OutputTag:
    """NULL; but the groups' ids, if it is the tag of a table that was made for a stream."""
    same = (tag.name, tag.type) == (GROUP_TAG.name, GROUP_TAG.type)
    return OutputTag(tag, GROUP_ID if same else "NULL")


# -- once the query's columns are known ----------------------------------------------------------------------


def complete(
    spec: StreamSpec, statement: CreateLegacyStream, result: tuple[ResultColumn, ...], catalog: Catalog
) -> StreamSpec:
    """The spec with the query's result columns, and the columns of the result table that follow from them:
    those of a new table, or those columns of an existing table that are filled.

    :raises SqlError: for results that no table can hold, or that cannot be converted.
    """
    if spec.output is None:
        return msgspec.structs.replace(spec, result=result)
    target = catalog.tables.get((spec.output.db, spec.output.table))
    _check_result(statement, result)
    columns = _new(spec, statement, result) if target is None else _of_target(statement, result, target)
    return msgspec.structs.replace(
        spec, result=result, output=msgspec.structs.replace(spec.output, columns=columns)
    )


def _place(statement: CreateLegacyStream, place: int, columns: int) -> Position:
    """Where a result column stands in the statement; a star stands for several columns, an added
    ``_wstart`` nowhere."""
    items = statement.query.items
    return items[max(0, place - max(0, columns - len(items))) if columns - len(items) < 2 else 0].position


def _check_result(statement: CreateLegacyStream, result: Sequence[ResultColumn]) -> None:
    where = statement.query.items[0].position
    if not result or result[0].type.name != "TIMESTAMP":
        name = result[0].name if result else "nothing"
        raise bad(f"the first result column must be a time (the key of the result), but it is {name}", where)
    if len(result) < 2:
        raise bad("the result needs at least one column besides its time to be stored", where)
    for place, column in enumerate(result):
        if column.type.name == "JSON":
            where = _place(statement, place, len(result))
            raise bad(f"the result column {column.name} is JSON, but only a tag can be JSON", where)


def _new(
    spec: StreamSpec, statement: CreateLegacyStream, result: Sequence[ResultColumn]
) -> tuple[Column, ...]:
    """The columns of a new table. Without a window, the results have the key of the source's rows."""
    assert spec.output is not None, "asked before"
    source = spec.source.table.columns if spec.source else ()
    inherited = statement.query.window is None and len(source) > 1 and source[1].composite_key
    taken = {tag.column.name for tag in spec.output.tags}
    columns: list[Column] = []
    for place, column in enumerate(result):
        given = statement.columns[place] if statement.columns else None
        where = given.name.position if given else _place(statement, place, len(result))
        if column.name in taken:
            raise bad(f"the result table would have two columns or tags named {column.name}", where)
        taken.add(column.name)
        key = (inherited and place == 1) or (given is not None and given.composite_key)
        if key and (place != 1 or column.type.name not in KEY_TYPES):
            raise bad(
                f"PRIMARY KEY {column.name}: it must be the second column, of type INT, BIGINT or VARCHAR, "
                f"but it is column {place + 1} of type {column.type}",
                where,
            )
        columns.append(Column(column.name, column.type, key))
    return tuple(columns)


def _of_target(
    statement: CreateLegacyStream, result: Sequence[ResultColumn], target: Table
) -> tuple[Column, ...]:
    """The columns of an existing table that the results fill: those that are named, or all of them."""
    assert statement.into is not None, "only with INTO there is a table"
    names = [given.name.text for given in statement.columns] or [column.name for column in target.columns]
    if len(names) != len(result):
        raise bad(
            f"INTO {statement.into}: {len(names)} columns are filled, but the query returns {len(result)}",
            statement.into.position,
        )
    found: list[Column] = []
    for column, name in zip(result, names, strict=True):
        goal = target.column(name)
        assert goal is not None, "looked for before"
        longest = max(column.type.length or 0, goal.type.length or 0)
        if column.type.name != goal.type.name and longest > MOST_CONVERTED:
            raise bad(
                f"INTO {statement.into}: the column {name} is {goal.type}, but the result is {column.type}; "
                f"texts longer than {MOST_CONVERTED} bytes are not converted",
                statement.into.position,
            )
        found.append(goal)
    return tuple(found)

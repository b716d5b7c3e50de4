"""Where a stream's results go: INTO, sub-tables and their tags; and the columns of the result, once known."""

from __future__ import annotations

import msgspec
from sqlglot import exp

from millrace_core.catalog import Catalog
from millrace_core.dialect.tdengine.query import Offer, check_group_expression
from millrace_core.errors import ErrorCode, Position
from millrace_core.language.arguments import bad
from millrace_core.language.data_types import KEY_TYPES
from millrace_core.language.lexer import quote_name
from millrace_core.language.query.nodes import position_of
from millrace_core.language.query.sources import sources
from millrace_core.language.statements import CreateStream, QualifiedName
from millrace_core.model.schema import Column
from millrace_core.model.stream import Output, OutputTag, ResultColumn, Source, StreamSpec
from millrace_core.model.types import DataType

TAG_TBNAME = Column("tag_tbname", DataType("VARCHAR", 270))
"""The tag for grouping by child table, if TAGS does not say otherwise (seed 000)."""


def output(
    statement: CreateStream, catalog: Catalog, database: str | None, source: Source | None, offer: Offer
) -> Output | None:
    """INTO and what belongs to it; the columns are filled in by :func:`complete`.

    :raises SqlError: for clauses without INTO or without groups, an unknown database, a table that cannot be
        the output.
    """
    into = statement.into
    if into is None:
        _check_without_into(statement)
        return None
    db = _database(into, database, catalog)
    _check_kind(into, db, catalog, grouped=bool(offer.partition))
    _check_not_trigger(into, db, source)
    if statement.subtable is not None:
        if not offer.partition:
            raise bad("OUTPUT_SUBTABLE needs PARTITION BY", statement.subtable.position)
        check_group_expression(statement.subtable, "OUTPUT_SUBTABLE", offer)
    subtable = statement.subtable.text if statement.subtable else None
    return Output(db, into.name, (), _tags(statement, source, offer), subtable)


def _check_without_into(statement: CreateStream) -> None:
    if statement.subtable is not None:
        raise bad("OUTPUT_SUBTABLE needs INTO", statement.subtable.position)
    if statement.columns:
        raise bad("a list of output columns needs INTO", statement.columns[0].name.position)
    if statement.tags:
        raise bad("TAGS needs INTO", statement.tags[0].name.position)


def _database(into: QualifiedName, database: str | None, catalog: Catalog) -> str:
    db = into.db or database
    if db is None:
        raise bad(f"INTO {into}: no database is selected", into.position, ErrorCode.NO_DATABASE)
    if db not in catalog.databases:
        raise bad(f"INTO {into}: the database {db} does not exist", into.position, ErrorCode.UNKNOWN_DATABASE)
    return db


def _check_kind(into: QualifiedName, db: str, catalog: Catalog, *, grouped: bool) -> None:
    found = catalog.find(db, into.name)
    if found is None:
        return
    table, child = found
    if table.virtual:
        raise bad(f"INTO {into}: it is a virtual table, which cannot be written to", into.position)
    if child is not None:
        raise bad(f"INTO {into}: it is a child table; a normal or super table is needed", into.position)
    if grouped != (table.kind == "super"):
        why = "has groups and needs a super" if grouped else "has no groups and needs a normal"
        raise bad(f"INTO {into}: it is a {table.kind} table, but the stream {why} table", into.position)


def _check_not_trigger(into: QualifiedName, db: str, source: Source | None) -> None:
    if source is not None and (source.table.db, source.table.name) == (db, into.name):
        raise bad(f"INTO {into}: the output cannot be the trigger table", into.position)


def check_not_source(
    statement: CreateStream, tree: exp.Expression, found: Output, catalog: Catalog, database: str | None
) -> None:
    """:raises SqlError: if the query reads the table to which it writes."""
    for db, name, node in sources(tree, catalog, database):
        if (db, name) == (found.db, found.table):
            raise bad(f"INTO {statement.into}: the query cannot read the output table", position_of(node))


def _tags(statement: CreateStream, source: Source | None, offer: Offer) -> tuple[OutputTag, ...]:
    if statement.tags:
        if not offer.partition:
            raise bad("TAGS needs PARTITION BY", statement.tags[0].name.position)
        names: set[str] = set()
        for tag in statement.tags:
            if tag.name.text in names:
                raise bad(f"the tag {tag.name.text} is given twice", tag.name.position)
            names.add(tag.name.text)
            check_group_expression(tag.value, f"the tag {tag.name.text}", offer)
        return tuple(
            OutputTag(Column(tag.name.text, tag.type, comment=tag.comment), tag.value.text)
            for tag in statement.tags
        )
    return tuple(_default_tag(name, source) for name in offer.partition)


def _default_tag(name: str, source: Source | None) -> OutputTag:
    if name == "tbname":
        return OutputTag(TAG_TBNAME, "tbname")
    tag = source.table.tag(name) if source else None
    assert tag is not None, "grouping columns are checked before"
    return OutputTag(Column(tag.name, tag.type), quote_name(tag.name))


# -- once the result's columns are known ---------------------------------------------------------------------


def complete(
    spec: StreamSpec, statement: CreateStream, result: tuple[ResultColumn, ...], catalog: Catalog
) -> StreamSpec:
    """The spec with the query's result columns, and the output columns that follow from them.

    :raises SqlError: if the result cannot be stored as asked, or does not match an existing output table.
    """
    if spec.output is None:
        return msgspec.structs.replace(spec, result=result)
    columns = _columns(statement, spec.output, result)
    found = msgspec.structs.replace(spec.output, columns=columns)
    _check_existing(statement, found, catalog)
    return msgspec.structs.replace(spec, result=result, output=found)


def _columns(statement: CreateStream, found: Output, result: tuple[ResultColumn, ...]) -> tuple[Column, ...]:
    where = statement.query.position if statement.query else Position(1, 1)
    if not result or result[0].type.name != "TIMESTAMP":
        name = result[0].name if result else "nothing"
        raise bad(f"the first result column must be a TIMESTAMP (the output's key), but it is {name}", where)
    if len(result) < 2:
        raise bad("the result needs at least one column besides its time to be stored", where)
    named = statement.columns
    if named and len(named) != len(result):
        raise bad(
            f"{len(named)} output columns are named, but the result has {len(result)}", named[0].name.position
        )
    columns = []
    taken = {tag.column.name for tag in found.tags}
    for index, column in enumerate(result):
        name, at = (named[index].name.text, named[index].name.position) if named else (column.name, where)
        composite = bool(named) and named[index].composite_key
        if name in taken:
            raise bad(f"the output table would have two columns or tags named {name}", at)
        taken.add(name)
        if composite and (index != 1 or column.type.name not in KEY_TYPES):
            raise bad(
                f"COMPOSITE KEY {name}: it must be the second column, of type INT, BIGINT or VARCHAR, but "
                f"it is column {index + 1} of type {column.type}",
                at,
            )
        columns.append(Column(name, column.type, composite))
    return tuple(columns)


def _check_existing(statement: CreateStream, found: Output, catalog: Catalog) -> None:
    table = catalog.tables.get((found.db, found.table))
    if table is None or statement.into is None:
        return
    difference = _difference("column", table.columns, found.columns) or _difference(
        "tag", table.tags, tuple(tag.column for tag in found.tags)
    )
    if difference:
        raise bad(
            f"INTO {statement.into}: the existing table does not match the stream: {difference}",
            statement.into.position,
        )


def _difference(kind: str, old: tuple[Column, ...], new: tuple[Column, ...]) -> str | None:
    """What prevents an existing table's columns from holding those to be written; its texts may be longer."""
    if len(old) != len(new):
        return f"it has {len(old)} {kind}s, but the stream has {len(new)}"
    for before, after in zip(old, new, strict=True):
        if before.name != after.name:
            return f"it has the {kind} {before.name} where the stream has {after.name}"
        if before.type.name != after.type.name:
            return f"its {kind} {before.name} is {before.type}, but the stream's is {after.type}"
        if not before.type.holds(after.type):
            return f"its {kind} {before.name} is {before.type}, too short for the stream's {after.type}"
        if before.composite_key != after.composite_key:
            return f"its {kind} {before.name} differs in COMPOSITE KEY"
    return None

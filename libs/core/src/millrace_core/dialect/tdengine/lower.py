"""CREATE STREAM to a StreamSpec: names are resolved against the catalog, and every rule of seed 000 that
needs nothing else is checked."""

from __future__ import annotations

from typing import Any

from millrace_core.catalog import SYSTEM_DATABASES, Catalog
from millrace_core.dialect.tdengine.options import OptionContext, notify, options
from millrace_core.dialect.tdengine.output import check_not_source, output
from millrace_core.dialect.tdengine.query import Offer, check_key, check_query
from millrace_core.dialect.tdengine.trigger import trigger
from millrace_core.errors import ErrorCode, Position
from millrace_core.language.arguments import bad
from millrace_core.language.statements import CreateStream, QualifiedName, SqlText
from millrace_core.model.stream import Places, Source, StreamSpec
from millrace_core.trigger.types import TriggerType, type_named


def lower(statement: CreateStream, catalog: Catalog, database: str | None, timezone: str) -> StreamSpec:
    """The stream that a statement defines; ``database``: that of the session, ``timezone``: its time zone.

    Names without a database mean the session's database, or, if it has none, the stream's.

    ``uid``, ``created`` and ``result`` are left empty, and the output has no columns yet:
    :func:`output.complete` adds them once the query's result columns are known.

    :raises SqlError: at the first thing that is wrong, with its place.
    """
    rule = type_named(statement.trigger.keyword)
    database = database or statement.name.db
    db = _database(statement.name, database, catalog)
    source = _source(statement, rule, catalog, database)
    table = source.table if source else None
    partition = _partition(statement, rule, source)
    lowered = trigger(statement.trigger, table, timezone)
    notifies = statement.notify is not None
    stores = statement.into is not None
    found, emission = options(
        statement.options, OptionContext(rule, table, partition, timezone, notifies, stores)
    )
    _check_actions(statement, calc_notify_only=found.calc_notify_only)
    told = (
        notify(statement.notify, rule, calculates=statement.query is not None) if statement.notify else None
    )
    offer = Offer(rule, table is not None, partition, found.event_types)
    out = output(statement, catalog, database, source, offer)
    if statement.query is not None:
        tree = check_query(statement.query, offer)
        if emission.obsolete == "retracted":
            check_key(tree, statement.query)
        if out is not None:
            check_not_source(statement, tree, out, catalog, database)
    return StreamSpec(
        uid=0, db=db, name=statement.name.name, sql=statement.text, trigger=lowered, source=source,
        partition=partition, options=found, notify=told, output=out,
        query=statement.query.text if statement.query else None, timezone=timezone,
        database=database or db, places=_places(statement),
        emission=emission,
    )  # fmt: skip


def _places(statement: CreateStream) -> Places:
    """Where the parts of the statement stand, counted from CREATE on."""

    def within(part: SqlText | None) -> Position | None:
        return part.position.within(statement.begins) if part else None

    return Places(
        within(statement.query),
        within(statement.notify.where if statement.notify else None),
        within(statement.subtable),
        tuple(tag.value.position.within(statement.begins) for tag in statement.tags),
    )


def _database(name: QualifiedName, database: str | None, catalog: Catalog) -> str:
    db = name.db or database
    if db is None:
        raise bad(f"the stream {name}: no database is selected", name.position, ErrorCode.NO_DATABASE)
    if db not in catalog.databases:
        raise bad(f"the database {db} does not exist", name.position, ErrorCode.UNKNOWN_DATABASE)
    return db


def _source(
    statement: CreateStream, rule: TriggerType[Any], catalog: Catalog, database: str | None
) -> Source | None:
    name = statement.table
    if name is None:
        if not rule.by_clock:
            raise bad(f"{rule.keyword} needs a trigger table (FROM)", statement.trigger.position)
        return None
    db = name.db or database
    if db is None:
        raise bad(f"FROM {name}: no database is selected", name.position, ErrorCode.NO_DATABASE)
    if db in SYSTEM_DATABASES:
        raise bad(f"FROM {name}: a system table cannot trigger a stream", name.position)
    found = catalog.find(db, name.name)
    if found is None:
        missing = f"database {db}" if db not in catalog.databases else f"table {db}.{name.name}"
        code = ErrorCode.UNKNOWN_DATABASE if db not in catalog.databases else ErrorCode.UNKNOWN_TABLE
        raise bad(f"the trigger table {name}: the {missing} does not exist", name.position, code)
    table, child = found
    return Source(table, child.name if child else None)


def _partition(statement: CreateStream, rule: TriggerType[Any], source: Source | None) -> tuple[str, ...]:
    """The grouping columns; :raises SqlError: if one is not a tag, or the trigger forbids it."""
    names: list[str] = []
    for name in statement.partition:
        if source is None:
            raise bad("PARTITION BY needs a trigger table (FROM)", name.position)
        table = source.table
        if name.text != "tbname" and table.tag(name.text) is None:
            if table.column(name.text) is None:
                raise bad(
                    f"PARTITION BY {name.text}: {table.name} has no such tag", name.position,
                    ErrorCode.UNKNOWN_COLUMN,
                )  # fmt: skip
            raise bad(
                f"PARTITION BY {name.text}: it is a column; only tbname and tags are allowed", name.position
            )
        if name.text in names and not statement.tags:
            raise bad(
                f"PARTITION BY {name.text}: it is given twice, so TAGS must name the tags", name.position
            )
        names.append(name.text)
    on_super = source is not None and source.table.kind == "super" and source.child is None
    if rule.by_child and on_super and "tbname" not in names:
        where = statement.partition[0].position if statement.partition else statement.trigger.position
        raise bad(f"{rule.keyword} on a super table needs PARTITION BY tbname", where)
    return tuple(names)


def _check_actions(statement: CreateStream, *, calc_notify_only: bool) -> None:
    """A stream calculates into a table, or notifies, or both; :raises SqlError: if it does neither."""
    name, query, into = statement.name, statement.query, statement.into
    if query is None and into is not None:
        raise bad(f"INTO {into} needs AS: without a query there is no result to store", into.position)
    if query is None and statement.notify is None:
        raise bad(f"the stream {name} has nothing to do: NOTIFY or AS is needed", name.position)
    if query is not None and into is None and not calc_notify_only:
        raise bad("AS needs INTO, or the option CALC_NOTIFY_ONLY with NOTIFY", query.position)

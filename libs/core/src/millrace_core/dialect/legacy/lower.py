"""CREATE STREAM of the older dialect to a StreamSpec. Every rule of seed 002 that needs no more than the
catalog is checked."""

from __future__ import annotations

import msgspec
from sqlglot import exp

from millrace_core.catalog import SYSTEM_DATABASES, Catalog
from millrace_core.conditions import condition, group_key
from millrace_core.dialect.legacy.options import judged
from millrace_core.dialect.legacy.query import Item, PartitionKey, follows_rows, is_start, over_columns, read
from millrace_core.dialect.legacy.result import result_table
from millrace_core.dialect.legacy.write import Calculation
from millrace_core.dialect.tdengine.options import notify
from millrace_core.dialect.tdengine.trigger import trigger
from millrace_core.errors import ErrorCode
from millrace_core.language.arguments import bad
from millrace_core.language.query import parse_expression
from millrace_core.language.statements import (
    Argument,
    CreateLegacyStream,
    LegacyNotify,
    LegacyQuery,
    NotifyClause,
    QualifiedName,
    TriggerClause,
)
from millrace_core.model.schema import Table
from millrace_core.model.stream import GroupKey, Notify, Options, Places, Source, StreamSpec
from millrace_core.model.triggers import Trait, Trigger
from millrace_core.timeline.precision import shortest_ns
from millrace_core.trigger.types import type_named, type_of

BY_CHILD = frozenset({"STATE_WINDOW", "EVENT_WINDOW", "COUNT_WINDOW"})
"""Windows that a super table can only have for each child separately."""
MOST_SLIDES = 100
"""The most windows that one row may be in."""
EVERY_ROW: Trigger = type_named("every row").spec()
"""The trigger of a stream without a window."""


def lower(statement: CreateLegacyStream, catalog: Catalog, database: str | None, timezone: str) -> StreamSpec:
    """The stream that a statement defines, with its calculation written over ``%%trows``. ``database``: that
    of the session; ``timezone``: its time zone.

    ``uid``, ``created``, ``result`` and the output's columns are left empty.

    :raises SqlError: at the first thing that is wrong, with its place.
    """
    source = _source(statement.query.table, catalog, database)
    table, query = source.table, statement.query
    on_super = table.kind == "super" and source.child is None
    items, keys = read(query, table, on_super=on_super)
    query = over_columns(query)
    _check_window(query, table, keys, on_super=on_super)
    _check_key(query, table, items)
    by_child = any(key.column == "tbname" for key in keys)
    emission, options = judged(statement.options, query, table, grouped_by_child=by_child, on_super=on_super)
    when = _trigger(query.window, table, timezone)
    options = _options(options, query, when, table, timezone)
    if emission.when == "force_window_close":
        options = msgspec.structs.replace(options, delete_recalc=False)  # what the clock has closed is closed
    partition, row_keys, values = _groups(keys, table, timezone)
    names = _result_names(statement, items)
    if statement.into is None or not follows_rows(query, items, table):
        # results are only sent, or cannot be found by their rows: so none can be taken back
        emission = msgspec.structs.replace(emission, obsolete="kept")
    if statement.into is None:
        output = None
        options = msgspec.structs.replace(options, calc_notify_only=True)
    else:
        output = result_table(
            statement, statement.into, names, keys, values, table, catalog, database or table.db
        )
    length = type_of(when).measures(when).gap
    gap = None if length is None else str(length)
    calculation = Calculation(query, items, keys, names, values, gap, statement.begins, partition)
    over_rows = calculation.over_rows
    filled = calculation.over_stretch if emission.fill is not None else None
    places = Places(
        query.text.position.within(statement.begins),
        subtable=statement.subtable.position.within(statement.begins) if statement.subtable else None,
        pieces=over_rows.pieces,
        filled=filled.pieces if filled else (),
    )
    return StreamSpec(
        uid=0, db="", name=statement.name.text, sql=statement.text, trigger=when, source=source,
        partition=partition, options=options, notify=_notify(statement.notify, query.window),
        output=output, query=over_rows.text, timezone=timezone,
        database=database or table.db, places=places, emission=emission, notices="window",
        keys=row_keys, filled=filled.text if filled else None,
    )  # fmt: skip


def _options(options: Options, query: LegacyQuery, when: Trigger, table: Table, timezone: str) -> Options:
    """The options, completed by what follows from the query."""
    if query.where is not None:
        where = Argument(query.where.text, query.where.position)
        options = msgspec.structs.replace(options, pre_filter=condition(where, "WHERE", table, timezone))
    return msgspec.structs.replace(
        options,
        ignore_nodata_trigger=Trait.ROWS not in type_of(when).traits,
        delete_recalc=True,
        # without a window a row has nothing to wait for
        watermark=options.watermark if query.window is not None else None,
    )


def _source(name: QualifiedName, catalog: Catalog, database: str | None) -> Source:
    db = name.db or database
    if db is None:
        raise bad(f"FROM {name}: no database is selected", name.position, ErrorCode.NO_DATABASE)
    if db in SYSTEM_DATABASES:
        raise bad(f"FROM {name}: a system table cannot be the source of a stream", name.position)
    if db not in catalog.databases:
        raise bad(f"FROM {name}: the database {db} does not exist", name.position, ErrorCode.UNKNOWN_DATABASE)
    found = catalog.find(db, name.name)
    if found is None:
        raise bad(f"FROM {name}: the table does not exist", name.position, ErrorCode.UNKNOWN_TABLE)
    table, child = found
    return Source(table, child.name if child else None)


def _check_window(
    query: LegacyQuery, table: Table, keys: tuple[PartitionKey, ...], *, on_super: bool
) -> None:
    """Check what the window requires of the table and the groups."""
    window = query.window
    by_child = any(key.column == "tbname" for key in keys)
    if window is None:
        if on_super and not by_child:
            raise bad("a query on a super table needs a window or PARTITION BY tbname", query.table.position)
        return
    if window.keyword not in BY_CHILD:
        return
    if on_super and not by_child:
        raise bad(f"{window.keyword} on a super table needs PARTITION BY tbname", window.position)
    if len(table.columns) > 1 and table.columns[1].composite_key:
        raise bad(f"{window.keyword}: {table.name} has a composite key, which {', '.join(sorted(BY_CHILD))} "
                  "do not support", window.position)  # fmt: skip
    most = {"STATE_WINDOW": 1, "COUNT_WINDOW": 2}.get(window.keyword, 2)
    if len(window.arguments) > most:
        extra = window.arguments[most]
        raise bad(f"{window.keyword}: unexpected argument {extra.text}", extra.position)


def _check_key(query: LegacyQuery, table: Table, items: tuple[Item, ...]) -> None:
    """Check that results of single rows have the same key as the rows."""
    if query.window is not None or len(table.columns) < 2 or not table.columns[1].composite_key:
        return
    key = table.columns[1].name
    second = items[1].node if len(items) > 1 else None
    if not (isinstance(second, exp.Column) and second.name == key):
        where = items[min(1, len(items) - 1)].position
        raise bad(f"{table.name} has the composite key {key}, which must be the second result column", where)


def _trigger(window: TriggerClause | None, table: Table, timezone: str) -> Trigger:
    if window is None:
        return EVERY_ROW
    given = trigger(window, table, timezone)
    # windows are defined by the query, whose days and months follow the session's clock (seed 002)
    found: Trigger = type_of(given).on_clock(given, timezone)
    where = window.sliding[0].position if window.sliding else window.position
    size = type_of(found).measures(found)
    if size.length is not None and size.step is not None:
        length, step = shortest_ns(size.length), shortest_ns(size.step)
        if step > length:
            raise bad(f"SLIDING({size.step}) is longer than INTERVAL({size.length})", where)
        if length > MOST_SLIDES * step:
            raise bad(
                f"INTERVAL({size.length}) is longer than {MOST_SLIDES} times SLIDING({size.step})", where
            )
    if size.rows is not None and size.rows < 2:
        raise bad(
            f"COUNT_WINDOW: count_val must be at least 2, not {size.rows}", window.arguments[0].position
        )
    if type_of(found).counted(found):
        last = window.arguments[-1]
        raise bad(f"{window.keyword}: {last.text} is not a number of rows", last.position)
    return found


def _groups(
    keys: tuple[PartitionKey, ...], table: Table, timezone: str
) -> tuple[tuple[str, ...], tuple[GroupKey, ...], dict[str, str]]:
    """The columns that group tables, the keys that divide their rows further, and each alias as an
    expression over both.

    An expression over tbname and tags that are grouping columns anyway makes no further groups."""
    plain = dict.fromkeys(
        key.column for key in keys if key.column == "tbname" or (key.column and table.tag(key.column))
    )
    partition = tuple(name for name in plain if name)
    found: dict[str, GroupKey] = {}
    values: dict[str, str] = {}
    for key in keys:
        names = {column.name for column in parse_expression(key.text, key.position).find_all(exp.Column)}
        if names and names <= set(partition):
            values[key.name] = key.text
            continue
        if key.text not in found:
            argument = Argument(key.text, key.position)
            made = group_key(argument, "PARTITION BY", table, timezone)
            found[key.text] = msgspec.structs.replace(made, sql=made.sql.strip())
        values[key.name] = f"%%{len(partition) + 1 + list(found).index(key.text)}"
    return partition, tuple(found.values()), values


def _result_names(statement: CreateLegacyStream, items: tuple[Item, ...]) -> list[str]:
    """The columns of the result, by position. ``_wstart`` counts as well if it is put in front."""
    names = [item.name for item in items]
    if statement.query.window is not None and not is_start(items[0]):
        names.insert(0, "_wstart")
    given = statement.columns
    if not given:
        return names
    if len(given) != len(names):
        raise bad(
            f"{len(given)} columns are named, but the query returns {len(names)}: {', '.join(names)}",
            given[0].name.position,
        )
    seen: set[str] = set()
    for column in given:
        if column.name.text in seen:
            raise bad(f"the column {column.name.text} is given twice", column.name.position)
        seen.add(column.name.text)
    return [column.name.text for column in given]


def _notify(clause: LegacyNotify | None, window: TriggerClause | None) -> Notify | None:
    if clause is None:
        return None
    if window is None:
        raise bad("NOTIFY needs a window in the query, because it reports windows", clause.position)
    told = NotifyClause(clause.urls, clause.position, clause.events)
    found = notify(told, type_named(window.keyword), calculates=True)
    return msgspec.structs.replace(found, history=clause.history, pause_on_failure=clause.pause_on_failure)

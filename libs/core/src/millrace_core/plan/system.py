"""The tables of information_schema: their columns, and their rows as the catalog has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from millrace_core.catalog import Catalog
from millrace_core.model.schema import TICKS_PER_SECOND, Column, Table, stable_hash
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.wire.rows import polars_type
from millrace_core.wire.status import Recalculation

_NAME = DataType("VARCHAR", 192)
_INT = DataType("INT")
_TEXT = DataType("VARCHAR", 2048)

SYSTEM_TABLES: dict[str, dict[str, DataType]] = {
    "ins_databases": {
        "name": _NAME, "create_time": TIMESTAMP, "vgroups": _INT, "ntables": BIGINT, "replica": _INT,
        "precision": _NAME, "status": _NAME,
    },
    "ins_stables": {
        "stable_name": _NAME, "db_name": _NAME, "create_time": TIMESTAMP, "columns": _INT, "tags": _INT,
        "last_update": TIMESTAMP, "table_comment": _TEXT, "isvirtual": DataType("BOOL"),
    },
    "ins_tables": {
        "table_name": _NAME, "db_name": _NAME, "create_time": TIMESTAMP, "columns": _INT,
        "stable_name": _NAME, "uid": BIGINT, "vgroup_id": _INT, "ttl": _INT, "table_comment": _TEXT,
        "type": _NAME,
    },
    "ins_columns": {
        "table_name": _NAME, "db_name": _NAME, "table_type": _NAME, "col_name": _NAME, "col_type": _NAME,
        "col_length": _INT, "col_nullable": _INT,
    },
    "ins_tags": {
        "table_name": _NAME, "db_name": _NAME, "stable_name": _NAME, "tag_name": _NAME, "tag_type": _NAME,
        "tag_value": _TEXT,
    },
    "ins_streams": {
        "stream_name": _NAME, "db_name": _NAME, "create_time": TIMESTAMP, "stream_id": _NAME, "sql": _TEXT,
        "status": _NAME, "snodeleader": _INT, "message": _TEXT,
    },
    "ins_stream_tasks": {
        "stream_name": _NAME, "stream_id": _NAME, "task_id": _NAME, "type": _NAME, "status": _NAME,
        "message": _TEXT,
    },
    "ins_stream_recalculates": {
        "stream_name": _NAME, "stream_id": _NAME, "recalc_id": _NAME, "start": TIMESTAMP, "end": TIMESTAMP,
        "progress": _NAME, "status": _NAME, "reason": _NAME, "fraction": DataType("DOUBLE"),
        "rows_read": BIGINT, "events_sent": BIGINT, "message": _TEXT,
    },
    "ins_users": {"name": _NAME, "super": _INT, "enable": _INT, "create_time": TIMESTAMP},
    "ins_dnodes": {"id": _INT, "endpoint": _NAME, "status": _NAME, "create_time": TIMESTAMP},
    "ins_snodes": {"id": _INT, "endpoint": _NAME, "create_time": TIMESTAMP},
    "ins_user_privileges": {"user_name": _NAME, "privilege": _NAME, "db_name": _NAME, "table_name": _NAME},
    "ins_functions": {"name": _NAME, "comment": _TEXT, "aggregate": _INT, "create_time": TIMESTAMP},
    "ins_views": {"view_name": _NAME, "db_name": _NAME, "create_time": TIMESTAMP},
}  # fmt: skip
"""Columns of each table. TIMESTAMPs are milliseconds."""

Row = dict[str, object]
Statuses = Mapping[tuple[str, str], tuple[str, str]]
"""(database, stream) -> (status, message)."""


def system_rows(
    name: str, catalog: Catalog, statuses: Statuses, recalculations: Sequence[Recalculation] = ()
) -> pl.DataFrame:
    """All rows of a table of information_schema, with its columns in order.

    ``statuses`` of streams are what the services tell; a stream without one is ``Init``.
    """
    columns = SYSTEM_TABLES[name]
    rows = _ROWS[name](catalog, statuses) if name in _ROWS else []
    if name == "ins_stream_recalculates":
        rows = _recalculates(catalog, recalculations)
    return pl.DataFrame(
        rows, schema={column: polars_type(type_) for column, type_ in columns.items()}, orient="row"
    )


def _databases(catalog: Catalog, statuses: Statuses) -> list[Row]:
    return [
        {
            "name": db.name, "create_time": db.created, "vgroups": 1, "replica": 1, "precision": db.precision,
            "ntables": sum(key[0] == db.name for key in (*catalog.tables, *catalog.children)),
            "status": "ready",
        }
        for db in catalog.databases.values()
    ]  # fmt: skip


def _stables(catalog: Catalog, statuses: Statuses) -> list[Row]:
    return [
        {
            "stable_name": t.name, "db_name": t.db, "create_time": t.created, "last_update": t.created,
            "columns": len(t.columns), "tags": len(t.tags), "isvirtual": t.virtual,
        }
        for t in catalog.tables.values()
        if t.kind == "super"
    ]  # fmt: skip


def _tables(catalog: Catalog, statuses: Statuses) -> list[Row]:
    normal: list[Row] = [
        {
            "table_name": t.name, "db_name": t.db, "create_time": t.created, "columns": len(t.columns),
            "uid": t.uid, "vgroup_id": 1, "ttl": 0, "type": _kind(t, "NORMAL_TABLE"),
        }
        for t in catalog.tables.values()
        if t.kind == "normal"
    ]  # fmt: skip
    children: list[Row] = []
    for child in catalog.children.values():
        table = catalog.tables.get((child.db, child.table))
        children.append({
            "table_name": child.name, "db_name": child.db, "create_time": child.created,
            "columns": len(table.columns) if table else 0, "stable_name": child.table, "uid": child.uid,
            "vgroup_id": 1, "ttl": 0, "type": _kind(table, "CHILD_TABLE"),
        })  # fmt: skip
    return normal + children


def _columns(catalog: Catalog, statuses: Statuses) -> list[Row]:
    kinds = {"super": "SUPER_TABLE", "normal": "NORMAL_TABLE"}
    rows = [
        row for t in catalog.tables.values() for row in _table_columns(t, t.name, _kind(t, kinds[t.kind]))
    ]
    for child in catalog.children.values():
        if table := catalog.tables.get((child.db, child.table)):
            rows.extend(_table_columns(table, child.name, _kind(table, "CHILD_TABLE")))
    return rows


def _kind(table: Table | None, kind: str) -> str:
    """The type as TDengine names it: a virtual super table is a SUPER_TABLE, the others have a prefix."""
    virtual = table is not None and table.virtual and kind != "SUPER_TABLE"
    return f"VIRTUAL_{kind}" if virtual else kind


def _table_columns(table: Table, name: str, kind: str) -> list[Row]:
    return [
        {
            "table_name": name, "db_name": table.db, "table_type": kind, "col_name": column.name,
            "col_type": str(column.type), "col_length": column.type.size,
            "col_nullable": int(column != table.key),
        }
        for column in table.columns
    ]  # fmt: skip


def _tags(catalog: Catalog, statuses: Statuses) -> list[Row]:
    rows: list[Row] = []
    for child in catalog.children.values():
        table = catalog.tables.get((child.db, child.table))
        if table is None:
            continue
        for tag, value in zip(table.tags, child.tags, strict=True):
            rows.append(_tag(child.name, table, tag, value))
    return rows


def _tag(child: str, table: Table, tag: Column, value: object) -> Row:
    return {
        "table_name": child, "db_name": table.db, "stable_name": table.name, "tag_name": tag.name,
        "tag_type": str(tag.type), "tag_value": None if value is None else str(value),
    }  # fmt: skip


def _streams(catalog: Catalog, statuses: Statuses) -> list[Row]:
    rows: list[Row] = []
    for (db, name), entry in catalog.streams.items():
        status, message = statuses.get((db, name), ("Init", ""))
        rows.append({
            "stream_name": name, "db_name": db, "create_time": entry.spec.created,
            "stream_id": f"{entry.spec.uid:x}", "sql": entry.spec.sql, "status": status, "snodeleader": 1,
            "message": message,
        })  # fmt: skip
    return rows


def _stream_tasks(catalog: Catalog, statuses: Statuses) -> list[Row]:
    rows: list[Row] = []
    for row in _streams(catalog, statuses):
        for kind in ("Trigger", "Runner"):
            task = f"{stable_hash('task', row['stream_id'], kind):x}"
            shared = {key: row[key] for key in ("stream_name", "stream_id", "status", "message")}
            rows.append({**shared, "task_id": task, "type": kind})
    return rows


def _recalculates(catalog: Catalog, recalculations: Sequence[Recalculation]) -> list[Row]:
    """``progress`` is TDengine's column; those behind it say more."""
    entries = {entry.spec.uid: entry for entry in catalog.streams.values()}
    rows: list[Row] = []
    for one in recalculations:
        if (entry := entries.get(one.stream)) is None:
            continue
        source = entry.spec.source
        ticks = TICKS_PER_SECOND[source.table.precision if source else "ms"]
        first, last = (max(min(at * 1000 // ticks, FAR), -FAR) for at in (one.first, one.last))
        rows.append({
            "stream_name": entry.spec.name, "stream_id": f"{one.stream:x}",
            "recalc_id": f"{stable_hash('recalculation', one.stream, one.partition, one.offset):x}",
            "start": None if first == -FAR else first, "end": None if last == FAR else last,
            "progress": f"{one.fraction * 100:.1f}%", "status": one.state, "reason": one.why,
            "fraction": one.fraction, "rows_read": one.rows, "events_sent": one.events,
            "message": one.message,
        })  # fmt: skip
    return rows


FAR = 253_402_300_799_000
"""The end of the year 9999 in ms: a range that reaches further has no end there."""


def _users(catalog: Catalog, statuses: Statuses) -> list[Row]:
    return [{"name": user.name, "super": int(user.superuser), "enable": 1} for user in catalog.users.values()]


def _snodes(catalog: Catalog, statuses: Statuses) -> list[Row]:
    return [
        {"id": snode.id, "endpoint": "local", "create_time": snode.created}
        for snode in catalog.snodes.values()
    ]  # fmt: skip


def _dnodes(catalog: Catalog, statuses: Statuses) -> list[Row]:
    # what TDengine calls a dnode is the whole deployment
    return [{"id": 1, "endpoint": "local", "status": "ready"}]


def _privileges(catalog: Catalog, statuses: Statuses) -> list[Row]:
    rows: list[Row] = [
        {"user_name": user.name, "privilege": "all", "db_name": "*", "table_name": ""}
        for user in catalog.users.values()
        if user.superuser
    ]
    for granted in catalog.grants.values():
        for privilege, databases in (("read", granted.read), ("write", granted.write)):
            rows += [
                {"user_name": granted.user, "privilege": privilege, "db_name": db, "table_name": ""}
                for db in databases
            ]  # fmt: skip
    return rows


_ROWS: dict[str, Callable[[Catalog, Statuses], list[Row]]] = {
    "ins_databases": _databases,
    "ins_stables": _stables,
    "ins_tables": _tables,
    "ins_columns": _columns,
    "ins_tags": _tags,
    "ins_streams": _streams,
    "ins_stream_tasks": _stream_tasks,
    "ins_users": _users,
    "ins_dnodes": _dnodes,
    "ins_snodes": _snodes,
    "ins_user_privileges": _privileges,
}

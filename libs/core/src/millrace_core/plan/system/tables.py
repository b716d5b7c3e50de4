"""The tables of information_schema: their columns, and the rows that the catalog has for them."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from millrace_core.catalog import Catalog
from millrace_core.model.schema import Column, Table
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.plan.system.inside import for_reader
from millrace_core.plan.system.streams import STREAM_TABLES, News, SystemRow, stream_rows
from millrace_core.privileges import visible
from millrace_core.wire.rows.decoded import polars_type

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
    **STREAM_TABLES,
    "ins_users": {"name": _NAME, "super": _INT, "enable": _INT, "create_time": TIMESTAMP},
    "ins_dnodes": {"id": _INT, "endpoint": _NAME, "status": _NAME, "create_time": TIMESTAMP},
    "ins_snodes": {"id": _INT, "endpoint": _NAME, "create_time": TIMESTAMP},
    "ins_anodes": {
        "id": _INT, "url": _NAME, "status": _NAME, "create_time": TIMESTAMP, "update_time": TIMESTAMP,
    },
    "ins_anodes_full": {"id": _INT, "type": _NAME, "algo": _NAME},
    "ins_user_privileges": {
        "user_name": _NAME, "privilege": _NAME, "db_name": _NAME, "table_name": _NAME, "condition": _TEXT,
        "notes": _TEXT,
    },
    "ins_functions": {"name": _NAME, "comment": _TEXT, "aggregate": _INT, "create_time": TIMESTAMP},
    "ins_views": {"view_name": _NAME, "db_name": _NAME, "create_time": TIMESTAMP},
}  # fmt: skip
"""Columns of each table. TIMESTAMPs are milliseconds.

``ins_functions`` and ``ins_views`` list what CREATE FUNCTION and CREATE VIEW made, as in TDengine (whose
built-in functions are not listed either). These statements do not exist here, so both tables can be
queried, but are empty.
"""


def system_rows(name: str, catalog: Catalog, news: News, user: str | None = None) -> pl.DataFrame:
    """The rows of a table of information_schema, with its columns in order.

    ``news``: what the services report. ``user``: who asks, and sees only what that user may know of;
    None: all rows.
    """
    if user is not None:
        if name in STREAM_TABLES:
            news = for_reader(news, catalog, user)
        catalog = visible(catalog, user)
    columns = SYSTEM_TABLES[name]
    if name in STREAM_TABLES:
        rows = stream_rows(name, catalog, news)
    else:
        rows = _ROWS[name](catalog) if name in _ROWS else []
    return pl.DataFrame(
        rows, schema={column: polars_type(type_) for column, type_ in columns.items()}, orient="row"
    )


def _databases(catalog: Catalog) -> list[SystemRow]:
    return [
        {
            "name": db.name, "create_time": db.created, "vgroups": 1, "replica": 1, "precision": db.precision,
            "ntables": sum(key[0] == db.name for key in (*catalog.tables, *catalog.children)),
            "status": "ready",
        }
        for db in catalog.databases.values()
    ]  # fmt: skip


def _stables(catalog: Catalog) -> list[SystemRow]:
    return [
        {
            "stable_name": t.name, "db_name": t.db, "create_time": t.created, "last_update": t.created,
            "columns": len(t.columns), "tags": len(t.tags), "isvirtual": t.virtual,
        }
        for t in catalog.tables.values()
        if t.kind == "super"
    ]  # fmt: skip


def _tables(catalog: Catalog) -> list[SystemRow]:
    normal: list[SystemRow] = [
        {
            "table_name": t.name, "db_name": t.db, "create_time": t.created, "columns": len(t.columns),
            "uid": t.uid, "vgroup_id": 1, "ttl": 0, "type": _kind(t, "NORMAL_TABLE"),
        }
        for t in catalog.tables.values()
        if t.kind == "normal"
    ]  # fmt: skip
    children: list[SystemRow] = []
    for child in catalog.children.values():
        table = catalog.tables.get((child.db, child.table))
        children.append({
            "table_name": child.name, "db_name": child.db, "create_time": child.created,
            "columns": len(table.columns) if table else 0, "stable_name": child.table, "uid": child.uid,
            "vgroup_id": 1, "ttl": 0, "type": _kind(table, "CHILD_TABLE"),
        })  # fmt: skip
    return normal + children


def _columns(catalog: Catalog) -> list[SystemRow]:
    kinds = {"super": "SUPER_TABLE", "normal": "NORMAL_TABLE"}
    rows = [
        row for t in catalog.tables.values() for row in _table_columns(t, t.name, _kind(t, kinds[t.kind]))
    ]
    for child in catalog.children.values():
        if table := catalog.tables.get((child.db, child.table)):
            rows.extend(_table_columns(table, child.name, _kind(table, "CHILD_TABLE")))
    return rows


def _kind(table: Table | None, kind: str) -> str:
    """The type in TDengine's words: a virtual super table is a SUPER_TABLE; other virtual tables
    have a prefix."""
    virtual = table is not None and table.virtual and kind != "SUPER_TABLE"
    return f"VIRTUAL_{kind}" if virtual else kind


def _table_columns(table: Table, name: str, kind: str) -> list[SystemRow]:
    return [
        {
            "table_name": name, "db_name": table.db, "table_type": kind, "col_name": column.name,
            "col_type": str(column.type), "col_length": column.type.size,
            "col_nullable": int(column != table.key),
        }
        for column in table.columns
    ]  # fmt: skip


def _tags(catalog: Catalog) -> list[SystemRow]:
    rows: list[SystemRow] = []
    for child in catalog.children.values():
        table = catalog.tables.get((child.db, child.table))
        if table is None:
            continue
        for tag, value in zip(table.tags, child.tags, strict=True):
            rows.append(_tag(child.name, table, tag, value))
    return rows


def _tag(child: str, table: Table, tag: Column, value: object) -> SystemRow:
    return {
        "table_name": child, "db_name": table.db, "stable_name": table.name, "tag_name": tag.name,
        "tag_type": str(tag.type), "tag_value": None if value is None else str(value),
    }  # fmt: skip


def _users(catalog: Catalog) -> list[SystemRow]:
    return [{"name": user.name, "super": int(user.superuser), "enable": 1} for user in catalog.users.values()]


def _snodes(catalog: Catalog) -> list[SystemRow]:
    return [
        {"id": snode.id, "endpoint": "local", "create_time": snode.created}
        for snode in catalog.snodes.values()
    ]  # fmt: skip


def _anodes(catalog: Catalog) -> list[SystemRow]:
    """This deployment's own algorithms have number 0 and no address."""
    own: list[SystemRow] = [{"id": 0, "url": "local", "status": "ready"}]
    return own + [
        {
            "id": anode.id, "url": anode.url, "status": "ready", "create_time": anode.created,
            "update_time": anode.updated,
        }
        for anode in catalog.anodes.values()
    ]  # fmt: skip


def _analyses(catalog: Catalog) -> list[SystemRow]:
    """All algorithms that can be used, without those that lack a package here."""
    return [
        {"id": one.anode, "type": one.kind, "algo": one.name}
        for one in catalog.directory().algorithms
        if not one.missing
    ]


def _dnodes(catalog: Catalog) -> list[SystemRow]:
    # what TDengine calls a dnode is the whole deployment here
    return [{"id": 1, "endpoint": "local", "status": "ready"}]


def _privileges(catalog: Catalog) -> list[SystemRow]:
    return [
        {
            "user_name": user, "privilege": privilege, "db_name": db, "table_name": table, "condition": "",
            "notes": "",
        }
        for user, privilege, db, table in catalog.privileges()
    ]  # fmt: skip


_ROWS: dict[str, Callable[[Catalog], list[SystemRow]]] = {
    "ins_databases": _databases,
    "ins_stables": _stables,
    "ins_tables": _tables,
    "ins_columns": _columns,
    "ins_tags": _tags,
    "ins_users": _users,
    "ins_dnodes": _dnodes,
    "ins_snodes": _snodes,
    "ins_anodes": _anodes,
    "ins_anodes_full": _analyses,
    "ins_user_privileges": _privileges,
}

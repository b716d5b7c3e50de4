"""Databases, devices and series: made, listed, taken away. Schema comes by writing, too (``write``)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from api_gateway.context import Context, fresh_uid, milliseconds
from api_gateway.iotdb.reply import Done, Listing
from api_gateway.session import Session
from api_gateway.statements.alter import install
from api_gateway.statements.databases import drop_database
from api_gateway.statements.tables import add_table
from api_gateway.tables.children import Birth, bear, drop_children
from millrace_core.catalog import key_of
from millrace_core.dialect.iotdb import statements as s
from millrace_core.dialect.iotdb.codes import IotdbError, Status
from millrace_core.dialect.iotdb.paths import Pattern, write_path
from millrace_core.dialect.iotdb.schema import TABLE, Schema, by_name, extended, new_child, new_table, path_of
from millrace_core.dialect.names import Name
from millrace_core.dialect.statements import DropDatabase
from millrace_core.errors import Position
from millrace_core.model.device import Device
from millrace_core.model.schema import Column, Database, Table
from millrace_core.privileges import OF_DATABASE, SUPERUSER, Need, check, sees

MOST_COLUMNS = 4096
"""Of a database's table of devices, as of every table."""
_NOWHERE = Position(1, 1)


# -- databases -----------------------------------------------------------------------------------------------


def create_database(context: Context, session: Session, statement: s.CreateDatabase) -> Done:
    check(context.catalog, session.user, [SUPERUSER])
    with context.writer.ddl:
        now = milliseconds(session.now)
        name = Schema(context.catalog).check_new(statement.path)
        context.writer.write([Database(name, "ms", now)])
        # its topic takes longer to make than all else: no INSERT should wait for it
        table_of_devices(context, name, (), now)
    return Done()


def delete_database(context: Context, session: Session, statement: s.DeleteDatabase) -> Done:
    check(context.catalog, session.user, [SUPERUSER])
    with context.writer.ddl:
        schema = Schema(context.catalog)
        names: dict[str, Position] = {}
        for pattern in statement.patterns:
            found = schema.databases(pattern)
            if not found:
                raise IotdbError(
                    Status.DATABASE_NOT_EXIST, f"the database {pattern} does not exist", pattern.position
                )
            names |= dict.fromkeys(found, pattern.position or _NOWHERE)
        for name, position in names.items():
            devices = [device for device in context.catalog.devices.values() if device.db == name]
            drop_database(context, session, DropDatabase(Name(name, position)))
            # a crash before this leaves records of devices, which mean nothing without their tables
            context.writer.write(remove=[key_of(device) for device in devices])
    return Done()


# -- series --------------------------------------------------------------------------------------------------


def create_timeseries(context: Context, session: Session, statement: s.CreateTimeseries) -> Done:
    nodes = statement.device.names
    with context.writer.ddl:
        device = Schema(context.catalog).device(nodes)
        for series in statement.series:
            if device is not None and device.find(series.measurement) is not None:
                path = write_path((*nodes, series.measurement))
                raise IotdbError(
                    Status.TIMESERIES_ALREADY_EXIST, f"the series {path} already exists", series.position
                )
        wanted = [(series.measurement, series.type) for series in statement.series]
        ensure(context, session, nodes, wanted, aligned=statement.aligned)
    return Done()


def ensure(
    context: Context, session: Session, nodes: Sequence[str], wanted: Sequence[tuple[str, str]], *,
    aligned: bool,
) -> Device:  # fmt: skip
    """Make series that a device lacks, and all that they need: database, table, columns, child table. Hold
    ``writer.ddl``. A crash in between leaves columns or tables without series, which are used later."""
    schema, now = Schema(context.catalog), milliseconds(session.now)
    db = schema.database_of(nodes)
    if db is None:
        check(context.catalog, session.user, [SUPERUSER])
        db = schema.check_new(Pattern.of(nodes[:2]))
        context.writer.write([Database(db, "ms", now)])
    check(context.catalog, session.user, [Need("write", db, table=OF_DATABASE)])
    name = write_path(nodes)
    grave = context.catalog.tombstones.get((db, name))
    made = new_child(db, name, grave.incarnation + 1 if grave else 0, now)
    known = schema.device(nodes) or Device(db, name, aligned=aligned, created=now)
    device, columns = extended(known, wanted, schema.table(db))
    table = table_of_devices(context, db, columns, now)
    child = context.catalog.children.get((db, name))
    if child is None:
        child = msgspec.structs.replace(made, version=table.version)
        with context.gate.shared():
            bear(context, [Birth(child, table)])
    device = msgspec.structs.replace(device, table=table.uid, incarnation=child.incarnation)
    context.writer.write([device])
    return device


def table_of_devices(context: Context, db: str, columns: Sequence[Column], now: int) -> Table:
    """The database's table of devices with these further columns."""
    table = Schema(context.catalog).table(db)
    if table is None:
        add_table(context, new_table(db, fresh_uid(db, TABLE), columns, now), None)
    elif len(table.columns) + len(table.tags) + len(columns) > MOST_COLUMNS:
        raise IotdbError(
            Status.METADATA_ERROR,
            f"the devices of {db} have {len(table.columns)} different measurements, {MOST_COLUMNS} columns "
            "are the most: make another database",
        )
    elif columns:
        install(context, table, (*table.columns, *columns), table.tags)
    return context.catalog.tables[db, TABLE]


def remove_series(context: Context, device: Device, gone: Sequence[str]) -> None:
    """Take series out of a device; with its last one the device goes, rows and all. Hold ``writer.ddl``."""
    left = tuple(one for one in device.series if one.measurement not in gone)
    if left:
        context.writer.write([msgspec.structs.replace(device, series=left)])
        return
    found = context.catalog.find(device.db, device.name)
    if found is not None and found[1] is not None:
        drop_children(context, [(found[0], found[1])])
    context.writer.write(remove=[key_of(device)])


# -- lists ---------------------------------------------------------------------------------------------------


def show(context: Context, session: Session, statement: s.Show) -> Listing:
    names, types, rows = _LISTS[statement.what](context, session, statement.pattern)
    end = None if statement.limit is None else statement.offset + statement.limit
    return Listing(names, types, rows[statement.offset : end])


def count(context: Context, session: Session, statement: s.Count) -> Listing:
    _, _, rows = _LISTS[statement.what](context, session, statement.pattern)
    return Listing((f"count({statement.what})",), ("INT64",), [(len(rows),)])


_Listed = tuple[tuple[str, ...], tuple[str, ...], list[tuple[object, ...]]]


def _databases(context: Context, session: Session, pattern: Pattern | None) -> _Listed:
    found = Schema(context.catalog).databases(pattern)
    rows: list[tuple[object, ...]] = [(name,) for name in found if sees(context.catalog, session.user, name)]
    return ("Database",), ("TEXT",), rows


def _seen(context: Context, session: Session, devices: Sequence[Device]) -> list[Device]:
    return [one for one in devices if sees(context.catalog, session.user, one.db, one.name)]


def _devices(context: Context, session: Session, pattern: Pattern | None) -> _Listed:
    found = _seen(context, session, Schema(context.catalog).devices(pattern))
    rows: list[tuple[object, ...]] = [(one.name, str(one.aligned).lower()) for one in found]
    return ("Device", "IsAligned"), ("TEXT", "TEXT"), rows


_SERIES = (
    "Timeseries", "Alias", "Database", "DataType", "Encoding", "Compression", "Tags", "Attributes",
    "Deadband", "DeadbandParameters",
)  # fmt: skip


def _timeseries(context: Context, session: Session, pattern: Pattern | None) -> _Listed:
    schema = Schema(context.catalog)
    pairs = (
        schema.series(pattern) if pattern is not None
        else [(device, series) for device in schema.devices() for series in by_name(device)]
    )  # fmt: skip
    rows: list[tuple[object, ...]] = [
        (path_of(device, series), None, device.db, series.type, *(None,) * 6)
        for device, series in pairs
        if sees(context.catalog, session.user, device.db, device.name)
    ]
    return _SERIES, ("TEXT",) * len(_SERIES), rows


_LISTS = {"databases": _databases, "devices": _devices, "timeseries": _timeseries}

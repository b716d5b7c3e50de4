"""Databases, devices and series: made, listed and removed. Writing rows makes some, too (``write``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from api_gateway.context import Context, fresh_uid
from api_gateway.iotdb.known import known
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
from millrace_core.errors import MillraceError, Position
from millrace_core.language.names import Name
from millrace_core.language.statements import DropDatabase
from millrace_core.model.device import Device
from millrace_core.model.schema import Column, Database, Table
from millrace_core.privileges import OF_DATABASE, SUPERUSER, Need, check, sees
from millrace_core.timeline.precision import milliseconds

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
        # made now, since its topic takes longer than all else: no INSERT should have to wait for it
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
            # a crash before this leaves records of devices, which are meaningless without their tables
            context.writer.write(remove=[key_of(device) for device in devices])
    return Done()


# -- series --------------------------------------------------------------------------------------------------


def create_timeseries(context: Context, session: Session, statement: s.CreateTimeseries) -> Done:
    nodes = statement.device.names
    with context.writer.ddl:
        device = known(context, session).device(nodes)
        for series in statement.series:
            if device is not None and device.find(series.measurement) is not None:
                raise _exists((*nodes, series.measurement), series.position)
        wanted = [(series.measurement, series.type) for series in statement.series]
        ensure(context, session, nodes, wanted, aligned=statement.aligned)
    return Done()


def _exists(nodes: Sequence[str], position: Position | None = None) -> IotdbError:
    message = f"the series {write_path(nodes)} already exists"
    return IotdbError(Status.TIMESERIES_ALREADY_EXIST, message, position)


def create_many(context: Context, session: Session, wanted: Sequence[Wanted]) -> list[MillraceError | None]:
    """Make the series that do not exist, all in one go; returns for each why it was not made."""
    with context.writer.ddl:
        schema, seen = known(context, session), set()
        found: list[MillraceError | None] = []
        missing = []
        for one in wanted:
            device = schema.device(one.nodes)
            ((measurement, _),) = one.series
            path = (*one.nodes, measurement)
            if path in seen or (device is not None and device.find(measurement) is not None):
                found.append(_exists(path))
            else:
                found.append(None)
                missing.append(one)
            seen.add(path)
        ensure_all(context, session, missing)
    return found


def ensure(
    context: Context, session: Session, nodes: Sequence[str], wanted: Sequence[tuple[str, str]], *,
    aligned: bool,
) -> Device:  # fmt: skip
    """Make series that a device lacks, see :func:`ensure_all`."""
    (made,) = ensure_all(context, session, [Wanted(tuple(nodes), wanted, aligned)])
    return made


@dataclass(frozen=True, slots=True)
class Wanted:
    """Series (measurement, type) that a device of these nodes must have."""

    nodes: tuple[str, ...]
    series: Sequence[tuple[str, str]]
    aligned: bool


def ensure_all(context: Context, session: Session, wanted: Sequence[Wanted]) -> list[Device]:
    """Make the series that devices lack, and all that these need: database, table, columns, child table. This
    takes as few messages for thousands of devices as for one. Hold ``writer.ddl``. A crash in between leaves
    columns or tables without series, which are used later."""
    now = milliseconds(session.now)
    of_database: dict[str, list[Wanted]] = {}
    for one in wanted:
        of_database.setdefault(_database_for(context, session, one.nodes, now), []).append(one)
    found: dict[tuple[str, ...], Device] = {}
    for db, some in of_database.items():
        check(context.catalog, session.user, [Need("write", db, table=OF_DATABASE)])
        made = _extended(context, db, some, now)
        found.update(zip([one.nodes for one in some], made, strict=True))
    return [found[one.nodes] for one in wanted]


def _database_for(context: Context, session: Session, nodes: tuple[str, ...], now: int) -> str:
    db = known(context, session).database_of(nodes)
    if db is None:
        check(context.catalog, session.user, [SUPERUSER])
        db = Schema(context.catalog).check_new(Pattern.of(nodes[:2]))
        context.writer.write([Database(db, "ms", now)])
    return db


def _extended(context: Context, db: str, wanted: Sequence[Wanted], now: int) -> list[Device]:
    """The devices of one database, extended by what they lack; a device may be wanted twice."""
    schema = Schema(context.catalog)
    devices: dict[str, Device] = {}
    table = table_of_devices(context, db, (), now) if len(wanted) > 1 else schema.table(db)
    added: tuple[Column, ...] = ()
    for one in wanted:
        name = write_path(one.nodes)
        known = devices.get(name) or schema.device(one.nodes)
        known = known or Device(db, name, aligned=one.aligned, created=now)
        missing = [
            (measurement, type_) for measurement, type_ in one.series if known.find(measurement) is None
        ]
        devices[name], columns = extended(known, missing, table)
        added += columns
        if columns and table is not None:
            table = msgspec.structs.replace(table, columns=(*table.columns, *columns))
    for name in devices:  # a path that is too long is refused before anything is made
        new_child(db, name, 0, now)
    table = table_of_devices(context, db, added, now)
    children = {name: context.catalog.children.get((db, name)) for name in devices}
    births = []
    for name, child in children.items():
        if child is None:
            grave = context.catalog.tombstones.get((db, name))
            made = new_child(db, name, grave.incarnation + 1 if grave else 0, now)
            children[name] = born = msgspec.structs.replace(made, version=table.version)
            births.append(Birth(born, table))
    with context.gate.shared():
        bear(context, births)
    for name, child in children.items():
        assert child is not None
        devices[name] = msgspec.structs.replace(devices[name], table=table.uid, incarnation=child.incarnation)
    context.writer.write(list(devices.values()))
    return [devices[write_path(one.nodes)] for one in wanted]


def table_of_devices(context: Context, db: str, columns: Sequence[Column], now: int) -> Table:
    """The database's table of devices, extended by these columns."""
    table = Schema(context.catalog).table(db)
    if table is None:
        add_table(context, new_table(db, fresh_uid(db, TABLE), columns, now), None)
    elif len(table.columns) + len(table.tags) + len(columns) > MOST_COLUMNS:
        raise IotdbError(
            Status.METADATA_ERROR,
            f"the devices of {db} have {len(table.columns)} different measurements, but a database can "
            f"have at most {MOST_COLUMNS} columns: use another database",
        )
    elif columns:
        install(context, table, (*table.columns, *columns), table.tags)
    return context.catalog.tables[db, TABLE]


def remove_series(context: Context, device: Device, gone: Sequence[str]) -> None:
    """Take series out of a device; with the last series the device goes, too, and its rows with it. Hold
    ``writer.ddl``."""
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
    # as IoTDB names the column
    what = "database" if statement.what == "databases" else statement.what
    return Listing((f"count({what})",), ("INT64",), [(len(rows),)])


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

"""Rows of devices. Missing series are made, and values are converted to the types of their series. If values
do not fit, only their column fails (status 507), and the others are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from api_gateway.context import Context
from api_gateway.firing import Firing
from api_gateway.iotdb.known import known
from api_gateway.iotdb.reply import Done
from api_gateway.iotdb.schema import Wanted, ensure_all
from api_gateway.session import Session
from api_gateway.tables.find import TableName
from api_gateway.tables.write import GivenRows, given, write
from millrace_core.dialect.iotdb import statements as s
from millrace_core.dialect.iotdb import times
from millrace_core.dialect.iotdb.codes import IotdbError, Status
from millrace_core.dialect.iotdb.paths import write_path
from millrace_core.dialect.iotdb.values import Unfit, fit, rows_by_columns, type_of
from millrace_core.model.device import Device
from millrace_core.privileges import Need, check
from millrace_core.timeline.precision import milliseconds


@dataclass(frozen=True, slots=True)
class Tablet:
    """Rows of one device. ``columns``: measurement -> values, as many as ``times`` (milliseconds); ``types``:
    the types of series that are made for them (if a measurement is not in there: by its values)."""

    nodes: tuple[str, ...]
    times: list[int]
    columns: dict[str, list[object]]
    types: dict[str, str]
    aligned: bool = False


def insert(context: Context, session: Session, statement: s.Insert) -> Done:
    meant = times.TimeContext(session.now, session.timezone)
    rows = [
        (milliseconds(session.now) if r.time is None else times.resolve(r.time, meant))
        for r in statement.rows
    ]
    columns: dict[str, list[object]] = {
        name: [row.values[place].value for row in statement.rows]
        for place, name in enumerate(statement.measurements)
    }
    tablet = Tablet(statement.device.names, rows, columns, {}, statement.aligned)
    firing = Firing()
    return Done(write_tablets(context, session, [tablet], firing), "; ".join(firing.notes))


def write_tablets(
    context: Context, session: Session, tablets: Sequence[Tablet], firing: Firing | None = None
) -> int:
    """Write rows of devices, all of them or none; returns how many there were. ``firing``: see
    :func:`api_gateway.tables.write.write`.

    :raises IotdbError: METADATA_ERROR if values of some columns do not fit: the others are stored
        nevertheless.
    """
    devices = _devices(context, session, tablets)
    problems: list[str] = []
    rows: list[GivenRows] = []
    for tablet, device in zip(tablets, devices, strict=True):
        if device is not None:
            rows += _rows(tablet, device, session, problems)
    if rows:
        write(context, rows, session.caller, firing)
    if problems:
        raise IotdbError(
            Status.METADATA_ERROR, f"failed to write {'; '.join(problems)}. The other values were stored."
        )
    return sum(len(tablet.times) for tablet in tablets)


def _devices(context: Context, session: Session, tablets: Sequence[Tablet]) -> list[Device | None]:
    """The devices with all series that the rows need, which are made in one go. None for a tablet of nothing
    but NULL whose device does not exist."""
    schema = known(context, session)
    found = [schema.device(tablet.nodes) for tablet in tablets]
    if any(_wanted(tablet, device) for tablet, device in zip(tablets, found, strict=True)):
        with context.writer.ddl:
            schema, wanted = known(context, session), {}
            for number, tablet in enumerate(tablets):
                if series := _wanted(tablet, schema.device(tablet.nodes)):
                    wanted[number] = Wanted(tablet.nodes, series, tablet.aligned)
            ensure_all(context, session, list(wanted.values()))
            found = [known(context, session).device(tablet.nodes) for tablet in tablets]
    # checked before any errors about values, for these tell the types of series
    mine = [Need("write", one.db, table=one.name) for one in found if one is not None]
    check(context.catalog, session.user, mine)
    return found


def _wanted(tablet: Tablet, device: Device | None) -> list[tuple[str, str]]:
    found = []
    for name, values in tablet.columns.items():
        if device is not None and device.find(name) is not None:
            continue
        type_ = tablet.types.get(name) or next(filter(None, map(type_of, values)), None)
        if type_ is not None:
            found.append((name, type_))
    return found


def _rows(tablet: Tablet, device: Device, session: Session, problems: list[str]) -> list[GivenRows]:
    meant = times.TimeContext(session.now, session.timezone)
    columns: dict[str, list[object]] = {}
    for name, values in tablet.columns.items():
        series = device.find(name)
        if series is None:
            continue  # nothing but NULL
        try:
            columns[series.column] = [fit(value, series.type, meant) for value in values]
        except Unfit as error:
            problems.append(f"{write_path((*tablet.nodes, name))}: {error}")
    if not columns:
        return []
    table = TableName(device.db, device.name)
    return [GivenRows(table, given(kind)) for kind in rows_by_columns(tablet.times, columns)]

"""DELETE of values, and of whole series.

If all series of a device are meant, its rows are deleted. If only some are, their values become NULL: the row
of a time also holds the values of the other series.
"""

from __future__ import annotations

from collections.abc import Sequence

from api_gateway.context import Context
from api_gateway.firing import Firing
from api_gateway.iotdb.known import above, known, refuse_hidden
from api_gateway.iotdb.reply import Done
from api_gateway.iotdb.schema import remove_series
from api_gateway.session import Session
from api_gateway.tables.find import TableName
from api_gateway.tables.write import GivenRows, given, write
from millrace_core.dialect.iotdb import statements as s
from millrace_core.dialect.iotdb import times
from millrace_core.dialect.iotdb.codes import IotdbError, Status
from millrace_core.dialect.iotdb.paths import Pattern
from millrace_core.dialect.iotdb.schema import TABLE, TIME
from millrace_core.dialect.iotdb.select.ranges import time_range
from millrace_core.language.lexer import quote_name
from millrace_core.model.device import Device
from millrace_core.privileges import Need, check
from millrace_core.timeline.precision import HIGHEST, LOWEST
from millrace_core.wire import operations
from millrace_core.wire.topics import wal_topic
from millrace_wal import Message

CHUNK = 5_000
"""How many rows go into one message that makes values NULL."""


def delete(context: Context, session: Session, statement: s.Delete) -> Done:
    meant = times.TimeContext(session.now, session.timezone)
    first, last = (LOWEST, HIGHEST) if statement.where is None else time_range(statement.where, meant)
    if first <= last:
        for device, names in _meant(context, session, statement.patterns):
            _clear(context, session, device, names, first, last)
    return Done()


def delete_timeseries(context: Context, session: Session, statement: s.DeleteTimeseries) -> Done:
    with context.writer.ddl:
        found = _meant(context, session, statement.patterns)
        if not found:
            raise IotdbError(
                Status.PATH_NOT_EXIST, f"there is no series {', '.join(map(str, statement.patterns))}",
                statement.patterns[0].position,
            )  # fmt: skip
        for device, names in found:
            if len(names) < len(device.series):
                # a series that is made anew under this name must not have its values
                _clear(context, session, device, names, LOWEST, HIGHEST)
            remove_series(context, device, names)
    return Done()


def _meant(context: Context, session: Session, patterns: Sequence[Pattern]) -> list[tuple[Device, list[str]]]:
    refuse_hidden(context, session, "write", map(above, patterns))
    schema = known(context, session)
    found: dict[str, tuple[Device, dict[str, None]]] = {}
    for pattern in patterns:
        for device, series in schema.series(pattern):
            found.setdefault(device.name, (device, {}))[1][series.measurement] = None
    check(
        context.catalog, session.user,
        [Need("write", device.db, table=device.name) for device, _ in found.values()],
    )  # fmt: skip
    return [(device, list(names)) for device, names in found.values()]


def _clear(
    context: Context, session: Session, device: Device, names: Sequence[str], first: int, last: int
) -> None:
    if len(names) == len(device.series):
        value = operations.encode_operation(operations.Delete(first, last))
        with context.gate.shared():
            context.append_rows([Message(wal_topic(device.db, TABLE), device.name.encode(), value)])
        return
    table = TableName(device.db, device.name)
    for name in names:
        series = device.find(name)
        if series is None:
            continue
        column, time = quote_name(series.column), quote_name(TIME)
        sql = (
            # names are quoted, and the bounds are numbers
            f"SELECT {time} FROM {quote_name(device.db)}.{quote_name(device.name)} WHERE {time} >= {first} "  # noqa: S608
            f"AND {time} <= {last} AND {column} IS NOT NULL"
        )
        answer = context.calc.query(sql, session, context.writer.position, context.written.ends())
        at = [row[0] for row in answer.rows]
        for begin in range(0, len(at), CHUNK):
            some = at[begin : begin + CHUNK]
            cells = given({TIME: some, series.column: [None] * len(some)})
            # this writes nothing that triggers see, and the caller may hold a lock that they need
            write(context, [GivenRows(table, cells)], session.caller, Firing(waits=False))

"""INSERT and DELETE."""

from __future__ import annotations

from millrace_core.dialect.iotdb.codes import IotdbError, Status, semantic, syntax
from millrace_core.dialect.iotdb.cursor import Cursor
from millrace_core.dialect.iotdb.expressions import constant, expression
from millrace_core.dialect.iotdb.paths import TIMES
from millrace_core.dialect.iotdb.statements import Delete, Insert, InsertRow
from millrace_core.dialect.iotdb.times import Time, time
from millrace_core.errors import Position


def insert(c: Cursor) -> Insert:
    """``INSERT INTO device(time, m, …) [ALIGNED] VALUES (…), …``; a single row may leave out the time."""
    device = c.full_path("a device")
    if len(device.nodes) < 2:
        raise IotdbError(Status.ILLEGAL_PATH, "root is not a device", device.position)
    listed = c.here()
    names = c.listed(lambda: (c.here(), c.name("a measurement")))
    timed = names[0][1].lower() in TIMES
    measurements = names[1:] if timed else names
    if not measurements:
        raise syntax("INSERT needs at least one measurement besides the time", listed)
    seen: set[str] = set()
    for where, name in measurements:
        if name.lower() in TIMES:
            raise semantic(f"{name} must be the first column", where)
        if name in seen:
            raise semantic(f"the measurement {name} is given twice", where)
        seen.add(name)
    aligned = c.take("aligned")
    c.expect("values")
    rows = c.separated(lambda: _row(c, timed, len(measurements)))
    if not timed and len(rows) > 1:
        raise semantic("only a single row can omit its time: make time the first column", rows[1].position)
    return Insert(device, tuple(name for _, name in measurements), rows, aligned)


def _row(c: Cursor, timed: bool, width: int) -> InsertRow:
    where = c.expect("(")
    at: Time | None = None
    if timed:
        at = time(c, "a time")
        if width:
            c.expect(",")
    values = c.separated(lambda: constant(c))
    c.expect(")")
    if len(values) != width:
        raise syntax(f"the row has {len(values)} values, but {width} measurements are named", where)
    return InsertRow(at, values, where)


def delete(c: Cursor, where: Position) -> Delete:
    """``DELETE FROM pattern, … [WHERE time …]``."""
    patterns = c.separated(lambda: c.path("a series"))
    for pattern in patterns:
        if len(pattern.nodes) < 2:
            raise IotdbError(Status.ILLEGAL_PATH, "DELETE FROM needs series, not root", pattern.position)
    condition = expression(c) if c.take("where") else None
    return Delete(patterns, condition)

"""SELECT … INTO: the answer is written to the series that INTO names, either all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from api_gateway.context import Context
from api_gateway.firing import Firing
from api_gateway.iotdb.known import known
from api_gateway.iotdb.reply import Listing
from api_gateway.iotdb.select import ask, readable
from api_gateway.iotdb.write import Tablet, write_tablets
from api_gateway.session import Session
from millrace_core.dialect.iotdb import statements as s
from millrace_core.dialect.iotdb import times
from millrace_core.dialect.iotdb.select.assemble import Result
from millrace_core.dialect.iotdb.select.into import DeviceRows, Goal, check_types, goals, written
from millrace_core.dialect.iotdb.select.lower import lower

ROWS = 5_000
"""How many rows of a device go into one message."""
Span = tuple[int, int]
Guard = Callable[[], AbstractContextManager[None]]


def select_into(context: Context, session: Session, statement: s.Select) -> Listing:
    """Run the statement; returns what went where, as IoTDB lists it."""
    firing = Firing(waits=False)
    found, result = run_into(context, session, statement, firing)
    # wait for triggers only now: they may need what a run of a continuous query holds while it writes
    fired = Firing(notes=firing.notes)
    context.listener.after(firing.spots, fired)
    hint = "; ".join(fired.notes)
    names = ("source column", "target timeseries", "written")
    types = ("TEXT", "TEXT", "INT64")
    rows: list[tuple[object, ...]] = [
        (result.names[goal.column], goal.path, _count(result, goal)) for goal in found
    ]
    if not statement.by_device:
        return Listing(names, types, rows, hint)
    listed = [(goal.source, *row) for goal, row in zip(found, rows, strict=True)]
    return Listing(("source device", *names), ("TEXT", *types), listed, hint)


def run_into(
    context: Context,
    session: Session,
    statement: s.Select,
    firing: Firing,
    span: Span | None = None,
    guard: Guard = nullcontext,
) -> tuple[list[Goal], Result]:
    """Read, then write with one call. ``firing``: of the write, which waits for no trigger; ``span``: the
    range of a continuous query's run; ``guard``: held during the write; if entering it raises, nothing is
    written."""
    schema = readable(context, session, statement)
    query = lower(statement, schema, times.TimeContext(session.now, session.timezone), span=span)
    found = goals(query, schema)
    check_types(found, known(context, session))
    result = ask(context, session, query)
    with guard():
        # checked again: series may have been made meanwhile
        check_types(found, known(context, session))
        parts = [part for rows in written(result, found) for part in _parts(rows)]
        write_tablets(context, session, parts, firing)
    return found, result


def _count(result: Result, goal: Goal) -> int:
    values = result.values[goal.column]
    if result.devices is None:
        return sum(value is not None for value in values)
    return sum(
        value is not None and device == goal.source
        for value, device in zip(values, result.devices, strict=True)
    )


def _parts(rows: DeviceRows) -> Sequence[Tablet]:
    """The rows, cut as they go into messages."""
    return [
        Tablet(
            rows.device, rows.times[at : at + ROWS],
            {name: values[at : at + ROWS] for name, values in rows.columns.items()}, rows.types, rows.aligned,
        )
        for at in range(0, len(rows.times), ROWS)
    ]  # fmt: skip

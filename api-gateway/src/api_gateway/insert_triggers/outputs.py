"""What triggers write: rows that count as their owner's, and fire triggers again."""

from __future__ import annotations

import time
from collections.abc import Iterable

from api_gateway.context import Context
from api_gateway.firing import Firing
from api_gateway.iotdb.write import Tablet, write_tablets
from api_gateway.session import Session
from millrace_core.dialect.iotdb.codes import IotdbError, Status
from millrace_core.dialect.iotdb.cursor import Cursor
from millrace_core.dialect.iotdb.triggers.life import MOST_DEPTH, too_deep
from millrace_core.model.insert_trigger import InsertTrigger
from millrace_triggers.frames import Written


def store(context: Context, trigger: InsertTrigger, writes: Iterable[Written], firing: Firing) -> None:
    """Store what a trigger writes.
    :raises MillraceError: if it is refused, or if too many writes by triggers led to it."""
    if firing.depth > MOST_DEPTH:
        raise IotdbError(Status.TRIGGER_FIRE_ERROR, too_deep(trigger.name))
    session = Session(trigger.owner, None, context.settings.timezone, time.time_ns())
    write_tablets(context, session, tablets_of(writes), firing)


def tablets_of(writes: Iterable[Written]) -> list[Tablet]:
    """The writes as tablets, one for each series, in the order in which the series first came.

    :raises IotdbError: for what is not a path of a series.
    """
    found: dict[str, tuple[list[int], list[object]]] = {}
    for one in writes:
        times, values = found.setdefault(one.path, ([], []))
        times += one.times
        values += one.values
    tablets = []
    for path, (times, values) in found.items():
        cursor = Cursor(path)
        nodes = cursor.full_path("a series").names
        cursor.finish()
        if len(nodes) < 3:
            raise IotdbError(
                Status.ILLEGAL_PATH,
                f"{path} is not the path of a series, which is root.database.….measurement",
            )
        tablets.append(Tablet(nodes[:-1], times, {nodes[-1]: values}, {}))
    return tablets

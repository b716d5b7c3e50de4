"""What the log of a table says: rows and deletes, in the order of each child table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from bench.workload import rows_of

from millrace_core.wire.operations import Delete, Drop, operation_in
from millrace_wal import Record

Row = dict[str, Any]
ROWS_A_MESSAGE = 1 << 20
FIRST, LAST = -(1 << 62), 1 << 62
_EPOCH = datetime(1970, 1, 1)


class Change(NamedTuple):
    """A version of a row (``row``: the columns that it names, without ``ts``; ``first`` is its time), or a
    delete of ``first`` to ``last``. ``place`` orders the changes of one child, all of one partition."""

    child: str
    place: int
    first: int
    last: int
    row: Row | None
    partition: int = 0


def changes(records: Iterable[Record], table: str) -> list[Change]:
    """The changes of a table's WAL topic, those of each child in order. ``table``: its name, which stands for
    the key of a normal table's messages."""
    found: list[Change] = []
    for record in sorted(records, key=lambda one: (one.partition, one.offset)):
        child = record.key.decode() if record.key else table
        place = record.offset * ROWS_A_MESSAGE
        operation = operation_in(record.value)
        if isinstance(operation, Delete):
            found.append(Change(child, place, operation.first, operation.last, None, record.partition))
        elif isinstance(operation, Drop):
            found.append(Change(child, place, FIRST, LAST, None, record.partition))
        elif operation is None:
            found += _rows(child, place, rows_of(record.value), record.partition)
    return found


def _rows(child: str, place: int, rows: list[Row], partition: int) -> Iterator[Change]:
    for index, row in enumerate(rows):
        ts = _ticks(row["ts"])
        yield Change(
            child, place + index, ts, ts, {name: row[name] for name in row if name != "ts"}, partition
        )


def _ticks(ts: Any) -> int:
    """Milliseconds, as JSON has them; Arrow's timestamps come as ``datetime``."""
    if isinstance(ts, datetime):
        return round((ts.astimezone(UTC).replace(tzinfo=None) - _EPOCH).total_seconds() * 1000)
    return int(ts)

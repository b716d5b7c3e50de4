"""Removing tables and streams, in an order that can be repaired after a crash at any point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from api_gateway.context import Context
from millrace_core.catalog import StreamEntry, key_of, record_key
from millrace_core.model.schema import Table
from millrace_core.wire import control
from millrace_core.wire.topics import wal_topic


@dataclass(frozen=True, slots=True)
class Removed:
    """``control``: the last control record about the removal, -1 if none was needed."""

    context: Context
    control: int

    def wait(self) -> None:
        """Give trigger-svc some time to let go of the topics, then empty those that it has let go of; the
        others are emptied later."""
        if self.control < 0:
            return
        if not self.context.board.wait_applied(self.control, self.context.settings.accept_seconds):
            self.context.logger.warning(
                "trigger-svc has not released dropped tables yet", control=self.control
            )
        self.context.topics.sweep()


def remove_tables(
    context: Context, tables: Sequence[Table], streams: Sequence[StreamEntry], others: Sequence[bytes] = ()
) -> Removed:
    """Drop whole tables (with children) and streams, and remove other catalog keys. Hold ``writer.ddl``.

    First come the control records, which are the intent (``recovery`` reads them after a crash), then the
    catalog, and at last, when trigger-svc has applied the records, the topics.
    """
    topics = [wal_topic(table.db, table.name) for table in tables]
    records: list[tuple[str, control.AnyControl]] = [
        (entry.spec.full_name, control.DropStream(entry.spec.uid)) for entry in streams
    ]
    records += [
        (f"{table.db}.{table.name}", control.DropTable(table.uid, topic))
        for table, topic in zip(tables, topics, strict=True)
    ]
    with context.gate.alone():
        last = context.append_control(records) if records else -1
        context.writer.write(remove=[*table_keys(context, tables), *map(key_of, streams), *others])
        context.written.forget(topics)
    context.topics.retire(topics, last)
    return Removed(context, last)


def table_keys(context: Context, tables: Sequence[Table]) -> list[bytes]:
    """The catalog keys of tables, of their children, and of the tombstones of earlier children."""
    catalog = context.catalog
    names = {(table.db, table.name) for table in tables}
    keys = [key_of(child) for name in names for child in list(catalog.family.get(name, {}).values())]
    keys += [
        record_key("tombstone", *key)
        for key, tombstone in list(catalog.tombstones.items())
        if (tombstone.db, tombstone.table) in names
    ]
    return keys + [key_of(table) for table in tables]

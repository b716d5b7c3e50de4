"""Completes what a crash or an outage cut in two. The control topic is the intent: the catalog follows it."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from api_gateway.context import Context
from api_gateway.statements.alter import write_altered
from api_gateway.statements.streams import children_records, send_definition
from api_gateway.tables.removal import table_keys
from millrace_core.catalog import StreamEntry, key_of
from millrace_core.errors import WireError
from millrace_core.model.schema import Table
from millrace_core.wire import control
from millrace_core.wire.topics import CONTROL
from millrace_service import passed_over
from millrace_wal import replay


@dataclass
class Intent:
    """What the control topic says last about each stream (uid -> wanted, epoch, number; None: dropped), and
    which tables (uid -> topic, number) were dropped."""

    streams: dict[int, tuple[str, int, int] | None] = field(default_factory=dict)
    dropped: dict[int, tuple[str, int]] = field(default_factory=dict)
    altered: dict[int, Table] = field(default_factory=dict)
    """Tables (by uid) as the last ALTER leaves them."""

    def take(self, number: int, record: control.AnyControl) -> None:
        match record:
            case control.DefineStream(spec=spec, epoch=epoch):
                self.streams[spec.uid] = ("Running", epoch, number)
            case control.StartStream(uid=uid, epoch=epoch):
                self.streams[uid] = ("Running", epoch, number)
            case control.StopStream(uid=uid):
                known = self.streams.get(uid)
                self.streams[uid] = ("Stopped", known[1] if known else 0, number)
            case control.DropStream(uid=uid):
                self.streams[uid] = None
            case control.ChangeTable(table=table):
                self.altered[table.uid] = table
            case control.DropTable(uid=uid, topic=topic):
                self.dropped[uid] = (topic, number)
            case _:
                pass  # the catalog does not follow what is said about children


def settle(context: Context) -> None:
    """Bring the catalog in line with the control topic, and send what that topic lacks. Called at start, and
    after an error that left an outcome open."""
    with context.writer.ddl:
        intent = Intent()
        for record in replay(context.log, CONTROL.name):
            if control.RECORDS.deletes(record.value):
                continue
            try:
                intent.take(record.offset, control.RECORDS.read(record.key, record.value))
            except WireError as error:  # the slots skip it, too, and make a dead letter of it
                passed_over(context.logger)(record, error)
        _settle_tables(context, intent)
        _settle_altered(context, intent)
        for entry in list(context.catalog.streams.values()):
            _settle_stream(context, entry, intent)
        for uid in sorted(context.abandoned):
            if intent.streams.get(uid) is not None:
                context.append_control([("", control.DropStream(uid))])
        context.abandoned.clear()


def _settle_tables(context: Context, intent: Intent) -> None:
    left = [table for table in list(context.catalog.tables.values()) if table.uid in intent.dropped]
    if not left:
        return
    context.logger.warning("finishing drops", tables=[f"{table.db}.{table.name}" for table in left])
    context.writer.write(remove=table_keys(context, left))
    for table in left:
        topic, number = intent.dropped[table.uid]
        context.topics.retire([topic], number)


def _settle_altered(context: Context, intent: Intent) -> None:
    for table in list(context.catalog.tables.values()):
        said = intent.altered.get(table.uid)
        if said is not None and said.version > table.version:
            context.logger.warning("finishing an ALTER", table=f"{table.db}.{table.name}")
            write_altered(context, said)


def _settle_stream(context: Context, entry: StreamEntry, intent: Intent) -> None:
    uid = entry.spec.uid
    if uid in context.abandoned or (uid in intent.streams and intent.streams[uid] is None):
        context.logger.warning("finishing the drop of a stream", stream=entry.spec.full_name)
        context.writer.write(remove=[key_of(entry)])
        return
    said = intent.streams.get(uid)
    if said is None:
        context.logger.warning("sending a stream's definition again", stream=entry.spec.full_name)
        number = send_definition(context, entry)
        context.writer.write([msgspec.structs.replace(entry, wanted="Running", control=number)])
    elif said[2] > entry.control:
        wanted, epoch, number = said
        context.logger.warning("catching up with a control record", stream=entry.spec.full_name)
        if entry.control < 0 and (children := children_records(context, entry.spec)):
            number = context.append_control(children)  # the crash may have come before they were sent
        context.writer.write(
            [msgspec.structs.replace(entry, wanted=wanted, epoch=max(epoch, entry.epoch), control=number)]
        )

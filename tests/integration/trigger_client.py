"""What the gateway does, as far as trigger-svc sees it, and what comes of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import Duration, Options, Output, Source, StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.trigger.types import Interval
from millrace_core.wire import control, events, status
from millrace_core.wire.events import Cause, TriggerBatch, TriggerEvent
from millrace_core.wire.rows.decoder import encode_rows
from millrace_core.wire.topics import CONTROL, STATUS, TOPICS, TRIGGERS, wal_topic
from millrace_wal import BEGIN, KafkaLog, Message

uids = itertools.count(int(time.time() * 1000))


class Client:
    """What the gateway does, as far as trigger-svc sees it."""

    def __init__(self, broker: str) -> None:
        self.log = KafkaLog(broker, "test")
        self.log.ensure_topics(TOPICS)
        partitions = dict.fromkeys(range(4), BEGIN)
        self.status = self.log.reader({STATUS.name: {0: BEGIN}})
        self.triggers = self.log.reader({TRIGGERS.name: partitions})
        self.batches: list[TriggerBatch] = []
        self.applied = -1
        self.read: dict[str, dict[int, int]] = {}
        self.waits = True
        self.made: list[control.AnyControl] = []
        """What takes back what was made."""

    def table(self, name: str, kind: Any = "super") -> Table:
        tags = (Column("site", DataType("INT")),) if kind == "super" else ()
        columns = (Column("ts", TIMESTAMP), Column("v", DataType("INT")))
        table = Table("d", name, kind, next(uids), "ms", columns, tags)
        self.log.ensure_topics([(wal_topic("d", name), 2)])
        self.made.append(control.DropTable(table.uid, wal_topic("d", name)))
        return table

    def define(
        self, table: Table, partition: tuple[str, ...] = ("tbname",), watermark: int = 0,
        output: Table | None = None,
    ) -> StreamSpec:  # fmt: skip
        ten = Duration(10, "s")
        options = Options(watermark=Duration(watermark, "s") if watermark else None)
        uid = next(uids)
        spec = StreamSpec(
            uid, "d", f"s{uid}", "", Interval(ten, ten), Source(table), partition, options,
            output=Output("d", output.name) if output else None,
        )  # fmt: skip
        self.control(control.DefineStream(spec, self.log.end_offsets(wal_topic("d", table.name))))
        self.made.append(control.DropStream(uid))
        return spec

    def forget(self) -> None:
        """Take back all streams and tables, for a service that begins anew on the same broker."""
        self.waits = False
        for record in self.made:
            self.control(record)
        self.waits, self.made = True, []

    def control(self, record: control.AnyControl) -> None:
        """Write a control record and wait until it is in force."""
        ((_, offset),) = self.log.append([Message(CONTROL.name, b"", control.encode(record))])
        if self.waits:
            self.await_applied(offset)

    def await_applied(self, offset: int) -> None:
        self._await(lambda: self.applied >= offset, "the control record was not applied")

    def await_read(self, table: Table) -> None:
        """Waits until all rows of a table that there are now are evaluated for good."""
        topic = wal_topic("d", table.name)
        ends = self.log.end_offsets(topic)
        self._await(
            lambda: all(self.read.get(topic, {}).get(p, 0) >= end for p, end in ends.items()),
            "the rows were not evaluated",
        )

    def _await(self, until: Callable[[], bool], otherwise: str) -> None:
        end = time.monotonic() + 60
        while not until():
            assert time.monotonic() < end, otherwise
            for found in self.status.poll(0.2):
                news = status.decode(found.value) if found.value else None
                if isinstance(news, status.Applied):
                    self.applied = max(self.applied, news.control)
                elif isinstance(news, status.ReadUpTo):
                    self.read[news.topic] = news.offsets

    def write(self, table: Table, child: str | None, *seconds: float) -> None:
        rows: list[dict[str, object]] = [{"ts": int(1000 * second), "v": 1} for second in seconds]
        key = None if child is None else child.encode()
        self.log.append([Message(wal_topic("d", table.name), key, encode_rows(rows))])

    def events(
        self, spec: StreamSpec, count: int, within: float = 60, cause: Cause | None = None
    ) -> list[TriggerEvent]:
        """The first ``count`` different events of a stream (of this ``cause``), in order; fewer when time is
        up."""
        until = time.monotonic() + within
        while True:
            found: dict[tuple[str, str, str], TriggerEvent] = {}
            for batch in self.batches:
                if batch.stream == spec.uid:
                    for event in batch.events:
                        if cause is not None and event.cause != cause:
                            continue
                        found.setdefault((event.id, event.kind, event.cause), event)
            if len(found) >= count or time.monotonic() > until:
                return list(found.values())
            self.batches += [
                events.decode(record.value) for record in self.triggers.poll(0.3) if record.value is not None
            ]


def windows(found: list[TriggerEvent]) -> set[tuple[tuple[object, ...], int, int]]:
    """(group key, start in seconds, rows) of each."""
    return {(event.group.key, event.start // 1000, event.rownum) for event in found}

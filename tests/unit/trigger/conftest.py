"""A trigger service without Kafka and Spark: slots, a log, micro-batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import Duration, EventType, Interval, Notify, Options, Source, StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.trigger.intake import Messages
from millrace_core.trigger.slot import Slot
from millrace_core.wire import control, events, status
from millrace_core.wire.rows import Operation, encode_operation, encode_rows
from millrace_core.wire.topics import CONTROL, REGROUP, STATUS, TRIGGERS, WAL_PREFIX, slot_of, wal_topic

INT = DataType("INT")
COLUMNS = (Column("ts", TIMESTAMP), Column("v", INT))
METERS = Table("d", "meters", "super", 7, "ms", COLUMNS, (Column("site", INT), Column("room", INT)))
PLAIN = Table("d", "plain", "normal", 8, "ms", COLUMNS)


class Cluster:
    """The slots of a deployment. Messages wait until :meth:`run` takes them as one micro-batch.

    ``forgetful``: every state goes through its bytes after each batch, as in the real service.
    """

    def __init__(self, slots: int = 3) -> None:
        self.slots = slots
        self.blobs: dict[int, bytes] = {}
        self.ends: dict[str, int] = {}
        self.now = 0
        self.waiting: list[tuple[str, int, int, int, bytes | None, bytes | None]] = []
        self.triggers: list[events.TriggerBatch] = []
        self.status: list[status.AnyStatus] = []
        self.regrouped = 0

    def send(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        offset = self.ends.get(topic, 0)
        self.ends[topic] = offset + 1
        self.now += 1
        self.waiting.append((topic, 0, offset, self.now, key, value))

    def control(self, *records: control.AnyControl) -> None:
        for record in records:
            self.send(CONTROL.name, None, control.encode(record))

    def define(self, spec: StreamSpec, epoch: int = 0) -> None:
        assert spec.source is not None
        topic = wal_topic(spec.source.table.db, spec.source.table.name)
        self.control(control.DefineStream(spec, {0: self.ends.get(topic, 0)}, epoch))

    def write(self, child: str | None, times: Iterable[int], table: Table = METERS) -> None:
        """One message with rows of these times."""
        value = encode_rows([{"ts": ts, "v": 1} for ts in times])
        self.send(wal_topic(table.db, table.name), None if child is None else child.encode(), value)

    def operate(self, child: str, operation: Operation, table: Table = METERS) -> None:
        self.send(wal_topic(table.db, table.name), child.encode(), encode_operation(operation))

    def run(self) -> None:
        """One micro-batch, and those that its regrouped rows make."""
        while self.waiting:
            batch, self.waiting = self.waiting, []
            for number in range(self.slots):
                mine = [record for record in batch if self._slot(record) in (None, number)]
                if mine:
                    self._judge(number, mine)

    def _slot(self, record: tuple[Any, ...]) -> int | None:
        topic, key = record[0], record[4]
        if not topic.startswith(WAL_PREFIX) and topic != REGROUP.name:
            return None
        return slot_of(topic, key if key is not None else topic.split(".")[2].encode(), self.slots)

    def _judge(self, number: int, records: list[tuple[Any, ...]]) -> None:
        blob = self.blobs.get(number)
        slot = Slot.restore(blob) if blob is not None else Slot(number, self.slots)
        # what comes from several partitions comes in no order
        for topic, key, value in slot.on_batch(Messages.of(records[::-1])):
            if topic == TRIGGERS.name:
                self.triggers.append(events.decode(value))
            elif topic == STATUS.name:
                self.status.append(status.decode(value))
            else:
                assert topic == REGROUP.name
                self.regrouped += 1
                self.send(topic, key, value)
        self.blobs[number] = slot.snapshot()

    # ------------------------------------------------------------------ what came out

    def live(self, stream: int | None = None) -> dict[str, list[str]]:
        """Group -> its live events in order, as text ``CLOSE 0-10 x3`` (``x*``: rows from the store)."""
        found: dict[str, list[str]] = {}
        for batch in self.triggers:
            for event in batch.events:
                if event.cause == "LIVE" and stream in (None, batch.stream):
                    found.setdefault(_name(event.group), []).append(_text(event))
        return found

    def recalculated(self) -> set[str]:
        return {
            f"{_name(event.group)} {_text(event)}"
            for batch in self.triggers
            for event in batch.events
            if event.cause == "RECALC"
        }

    def totals(self) -> dict[str, int]:
        last = {status.key(news): news for news in self.status if isinstance(news, status.Counters)}
        total: dict[str, int] = {}
        for news in last.values():
            for cause, count in news.totals.items():
                total[cause] = total.get(cause, 0) + count
        return total


def _name(group: events.Group) -> str:
    return group.table or "/".join(map(str, group.key)) or "-"


def _text(event: events.TriggerEvent) -> str:
    rows = "*" if event.rownum == events.ROWNUM_FROM_STORE else event.rownum
    return f"{event.kind} {event.start}-{event.end} x{rows}"


def make_stream(
    uid: int = 1, interval: int = 10, sliding: int | None = None, offset: int = 0, *, table: Table = METERS,
    child: str | None = None, partition: tuple[str, ...] = ("tbname",), watermark: int = 0,
    expired: int | None = None, ignore_disorder: bool = False, ignore_nodata: bool = False,
    kinds: tuple[EventType, ...] = ("WINDOW_CLOSE",), notify: tuple[EventType, ...] = (),
) -> StreamSpec:  # fmt: skip
    """An INTERVAL stream; all lengths in ms, which are the table's ticks."""

    def ms(value: int) -> Duration:
        return Duration(value, "a")

    options = Options(
        watermark=ms(watermark) if watermark else None,
        expired_time=ms(expired) if expired is not None else None,
        ignore_disorder=ignore_disorder,
        ignore_nodata_trigger=ignore_nodata,
        event_types=kinds,
    )
    trigger = Interval(ms(interval), ms(sliding or interval), ms(offset) if offset else None)
    told = Notify(("ws://127.0.0.1:1",), notify) if notify else None
    return StreamSpec(uid, "d", f"s{uid}", "", trigger, Source(table, child), partition, options, told)


class Kit:
    """What the tests of this folder share."""

    Cluster = Cluster
    stream = staticmethod(make_stream)
    METERS = METERS
    PLAIN = PLAIN


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    return Kit

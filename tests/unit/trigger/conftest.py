"""A trigger service without Kafka and Spark: slots, a log, micro-batches."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st

from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import Duration, EventType, Notify, Options, Source, StreamSpec
from millrace_core.model.triggers import Trigger, spec_of
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.trigger.groups.columns import Columns
from millrace_core.trigger.groups.watermark import Arrivals, Clock, ClockMemory
from millrace_core.trigger.rows.intake import Messages
from millrace_core.trigger.slot.slot import Slot
from millrace_core.trigger.stream import STEADY
from millrace_core.trigger.types import Interval
from millrace_core.trigger.types.occurrences import Occurrences, SoFar
from millrace_core.trigger.types.windower import Windower
from millrace_core.wire import control, dead, events, recalc, status
from millrace_core.wire.operations import Operation, encode_operation
from millrace_core.wire.rows.decoder import encode_rows
from millrace_core.wire.topics import (
    CLOCK,
    CONTROL,
    DEAD_LETTERS,
    RECALC,
    REGROUP,
    STATUS,
    TRIGGERS,
    WAL_PREFIX,
    slot_of,
    wal_topic,
)

MS = 1_000_000
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
        self.asked: list[recalc.Request] = []
        self.regrouped = 0
        self.letters: list[dead.DeadLetter] = []
        self.unheeded = 0

    def send(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        offset = self.ends.get(topic, 0)
        self.ends[topic] = offset + 1
        self.now += 1
        self.waiting.append((topic, 0, offset, self.now, key, value))

    def control(self, *records: control.AnyControl) -> None:
        for record in records:
            self.send(CONTROL.name, b"", control.encode(record))

    def define(self, spec: StreamSpec, epoch: int = 0) -> None:
        live_from = {}
        if spec.source is not None:
            topic = wal_topic(spec.source.table.db, spec.source.table.name)
            live_from = {0: self.ends.setdefault(topic, 0)}
        self.control(control.DefineStream(spec, live_from, epoch))

    def tick(self, now: int, since: int = 0, early: int = 0) -> None:
        """Processing time is ``now`` (ms); the clock has watched since ``since``; MAX_DELAY triggers so much
        ``early`` (ms)."""
        self.now = max(self.now, now)
        ends = {topic: {0: end} for topic, end in self.ends.items() if topic.startswith(WAL_PREFIX)}
        self.send(CLOCK.name, None, control.encode(control.Tick(now * MS, since * MS, ends, early * MS)))

    def write(self, child: str | None, rows: Iterable[Any], table: Table = METERS) -> None:
        """One message with these rows (see :func:`as_row`)."""
        value = encode_rows([as_row(row) for row in rows])
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

    def on_batch(self, number: int, records: list[tuple[Any, ...]]) -> list[tuple[str, bytes, bytes]]:
        """What a slot sends; its state goes through its bytes."""
        blob = self.blobs.get(number)
        if not Slot.heeds(blob, Messages.of(records)):
            self.unheeded += 1
            return []
        slot = Slot.restore(blob) if blob is not None else Slot(number, self.slots)
        sent = slot.on_batch(Messages.of(records))
        self.blobs[number] = slot.snapshot()
        return sent

    def _judge(self, number: int, records: list[tuple[Any, ...]]) -> None:
        # what comes from several partitions comes in no order
        for topic, key, value in self.on_batch(number, records[::-1]):
            if topic == TRIGGERS.name:
                self.triggers.append(events.decode(value))
            elif topic == STATUS.name:
                self.status.append(status.decode(value))
            elif topic == RECALC.name:
                self.asked.append(recalc.decode_request(value))
            elif topic == DEAD_LETTERS.name:
                self.letters.append(dead.decode(value))
            else:
                assert topic == REGROUP.name or topic.startswith(WAL_PREFIX)
                self.regrouped += topic == REGROUP.name
                self.send(topic, key, value)

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

    def delayed(self) -> list[str]:
        """The events of MAX_DELAY, in order."""
        return [
            f"{_name(event.group)} {_text(event)}"
            for batch in self.triggers
            for event in batch.events
            if event.cause == "DELAY"
        ]

    def totals(self) -> dict[str, int]:
        """What was told of rows that were dropped, by cause."""
        last = {status.key(news): news for news in self.status if isinstance(news, status.Counters)}
        total: dict[str, int] = {}
        for news in last.values():
            for cause, count in news.totals.items():
                if cause not in STEADY | {"started"}:
                    total[cause] = total.get(cause, 0) + count
        return total


def _name(group: events.Group) -> str:
    return group.table or "/".join(map(str, group.key)) or "-"


def _text(event: events.TriggerEvent) -> str:
    """As in tests/transcripts/FORMAT.md."""
    rows = "*" if event.rownum == events.ROWNUM_FROM_STORE else event.rownum
    words = [event.kind, f"{event.start}-{event.end}", f"x{rows}"]
    if event.next:
        words.append(f"next={event.next}")
    for name, value in (event.detail or {}).items():
        words.append(f"{name}={json.dumps(value, separators=(',', ':'))}")
    return " ".join(words)


def as_row(row: Any) -> dict[str, Any]:
    """A row from its time alone, from ``[ts, v]`` or from ``{ts: …, column: …}``."""
    match row:
        case int():
            return {"ts": row, "v": 1}
        case (int(ts), v):
            return {"ts": ts, "v": v}
        case {"ts": _, **_cells}:
            return dict(row)
    raise TypeError(f"{row!r} is no row: ts, [ts, v] or {{ts: …, column: …}}")


def as_trigger(given: dict[str, Any]) -> Trigger:
    """A trigger from ``{Session: {gap: 5}}``: the name of a trigger type and its spec's fields, lengths in
    ms."""
    ((name, fields),) = given.items()
    spec = spec_of(name)
    assert spec is not None, name
    hints = typing.get_type_hints(spec)
    lengths = {field for field, hint in hints.items() if Duration in (hint, *typing.get_args(hint))}
    cells = {
        field: {"value": value, "unit": "a"} if field in lengths and isinstance(value, int) else value
        for field, value in fields.items()
    }
    return msgspec.convert({"type": name, **cells}, spec)


def make_stream(
    uid: int = 1, interval: int = 10, sliding: int | None = None, offset: int = 0, *, table: Table = METERS,
    child: str | None = None, partition: tuple[str, ...] = ("tbname",), watermark: int = 0,
    expired: int | None = None, ignore_disorder: bool = False, ignore_nodata: bool = False,
    kinds: tuple[EventType, ...] = ("WINDOW_CLOSE",), notify: tuple[EventType, ...] = (),
    max_delay: int | None = None, trigger: dict[str, Any] | None = None,
    columns: dict[str, str] | None = None,
) -> StreamSpec:  # fmt: skip
    """A stream of INTERVAL, or of another ``trigger`` (see :func:`as_trigger`); all lengths in ms, which are
    the table's ticks. ``columns``: of the table, besides ``ts``, with their types."""

    def ms(value: int) -> Duration:
        return Duration(value, "a")

    options = Options(
        watermark=ms(watermark) if watermark else None,
        expired_time=ms(expired) if expired is not None else None,
        ignore_disorder=ignore_disorder,
        ignore_nodata_trigger=ignore_nodata,
        max_delay=ms(max_delay) if max_delay else None,
        event_types=kinds,
    )
    when: Trigger = Interval(ms(interval), ms(sliding or interval), ms(offset) if offset else None)
    if trigger is not None:
        when = as_trigger(trigger)
    if columns is not None:
        own = (Column(name, DataType.of(type_)) for name, type_ in columns.items())
        table = msgspec.structs.replace(table, columns=(Column("ts", TIMESTAMP), *own))
    told = Notify(("ws://127.0.0.1:1",), notify) if notify else None
    return StreamSpec(uid, "d", f"s{uid}", "", when, Source(table, child), partition, options, told)


GROUPS = 3
arrivals = st.lists(st.tuples(st.integers(0, GROUPS - 1), st.integers(-20, 60)), max_size=25)
"""Rows of one batch: (group, ts)."""
clocks = st.builds(
    Clock,
    watermark=st.sampled_from([0, 0, 3, 10, 25]),
    expired=st.none() | st.integers(25, 40),
    ignore_disorder=st.booleans(),
    shared=st.booleans(),
)
Told = tuple[int, int, int, int]
"""What is told of a window: kind, start, end, rownum."""


def as_arrivals(batch: list[tuple[int, int]], unit: int = 1, origin: int = 0) -> Arrivals:
    """Rows by group; a row's time is ``unit`` times its number behind ``origin``."""
    in_order = sorted(batch, key=lambda row: row[0])
    return Arrivals(
        np.array([group for group, _ in in_order], dtype=np.int64),
        np.array([origin + ts * unit for _, ts in in_order], dtype=np.int64),
    )


def ordered(found: Occurrences) -> list[tuple[int, ...]]:
    """Everything about occurrences but their details, in one order."""
    arrays = (
        found.group, found.step, found.start, found.end, found.kind, found.rownum, found.cause, found.next,
    )  # fmt: skip
    return sorted(zip(*(array.tolist() for array in arrays), strict=True))


def through_bytes(memory: Columns) -> Columns:
    loaded = Columns(memory.memory)
    loaded.load(msgspec.msgpack.decode(msgspec.msgpack.encode(memory.dump())))
    return loaded


class OneGroup:
    """One group, row by row; its memory goes through bytes after each call."""

    def __init__(self, windower: Windower, clock: Clock | None = None) -> None:
        self.windower = windower
        self.clock = clock or Clock()
        self.clocked, self.memory = Columns(ClockMemory, windower.columns), Columns(windower.memory)
        self.clocked.grow(1)
        self.memory.grow(1)

    def feed(self, times: Sequence[int], columns: dict[str, Any] | None = None) -> Occurrences:
        """What becomes of rows with these columns, in the order in which it is found."""
        group = np.zeros(len(times), dtype=np.int64)
        arrived = Arrivals(group, np.array(times, dtype=np.int64), columns or {})
        found = self.windower.on_rows(self.memory, self.clock.judge(self.clocked, arrived))
        self.memory = through_bytes(self.memory)
        return found

    @property
    def open(self) -> list[SoFar]:
        return list(self.windower.so_far(self.memory.get(0)))


def by_step_and_kind(found: Occurrences) -> Occurrences:
    return found.take(np.lexsort((found.kind, found.step)))


def told(found: Occurrences) -> list[Told]:
    arrays = (found.kind, found.start, found.end, found.rownum)
    return list(zip(*(array.tolist() for array in arrays), strict=True))


class Kit:
    """What the tests of this folder share."""

    Cluster = Cluster
    stream = staticmethod(make_stream)
    as_row = staticmethod(as_row)
    METERS = METERS
    PLAIN = PLAIN


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    return Kit

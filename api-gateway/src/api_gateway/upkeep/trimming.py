"""What topics may forget: what all of their readers are done with, once it is old enough (decision 0038).

A WAL topic has two kinds of readers: every table store (``status.Stored`` says what it has in files), and the
trigger query (``status.ReadUpTo``), if streams want the topic. An inner topic names its readers
(``wire.topics``). Nothing younger than ``FLOOR_MS`` is removed, whatever its readers say.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from api_gateway.context import Context
from api_gateway.upkeep.departed import Departed
from api_gateway.upkeep.spent import Spent
from millrace_core.catalog import Catalog, StreamEntry
from millrace_core.errors import MillraceError, WireError
from millrace_core.model.schema import Table
from millrace_core.timeline.precision import milliseconds
from millrace_core.trigger.topic_use import TopicUse
from millrace_core.trigger.types import type_of
from millrace_core.wire import control, status
from millrace_core.wire.diagnosis import Diagnosis
from millrace_core.wire.topics import CONTROL, STATUS, TOPICS, TRIGGER_QUERY, TRIGGERS, Topic, wal_topic
from millrace_wal import BEGIN, Log, Message, Reader, Record

FLOOR_MS = 60_000
"""A power failure cannot take back commits that are older than this."""
POLL_SECONDS = 1.0
Offsets = Mapping[int, int]


class Followed:
    """What the topics ``status`` and ``control`` say about who needs what."""

    def __init__(self) -> None:
        self.use = TopicUse()
        self.departed = Departed()
        self._status: dict[bytes, status.AnyStatus] = {}
        self._spent = Spent()
        self.spent: list[tuple[int, int, bytes]] = []
        """Keys whose records mean nothing any more; before each key, the offset and the time (ms) of the
        record that made it so."""
        self._deleted: set[bytes] = set()

    def take_status(self, record: Record) -> None:
        """:raises WireError: for a message that is not understood; it sets no bound that is known here."""
        key, found = record.key, status.read(record.key, record.value)
        self.departed.take(key or b"", found, record.timestamp)
        if key is None or not key.startswith((b"stored/", b"read/", b"held/")):
            return
        self._status.pop(key, None)
        if found is not None and not isinstance(found, Diagnosis):
            self._status[key] = found

    def take_control(self, record: Record) -> None:
        """:raises WireError: for a message that is not understood; the slots skip it, too."""
        if control.RECORDS.deletes(record.value):
            self._deleted.add(record.key or b"")
            return
        said = control.RECORDS.read(record.key, record.value)
        self.use.apply(said)
        news = self._spent.take(record.key or b"", said)
        self.spent += [(record.offset, record.timestamp, spent) for spent in news]

    def to_delete(self, applied: int, older_than: int) -> list[bytes]:
        """Keys of control records that mean nothing any more because of records that are in force by
        ``applied`` and were written before ``older_than`` (ms). Each key is given once."""
        ready = [key for at, when, key in self.spent if at <= applied and when < older_than]
        self.spent = [one for one in self.spent if one[0] > applied or one[1] >= older_than]
        # nothing can be deleted that was written before each record had a key of its own
        return [key for key in ready if b"#" in key and key not in self._deleted]

    def stored(self, topic: str, table: Table) -> Offsets | None:
        """How far all table stores have the topic's rows in files; None if none has said so."""
        found = [
            one.offsets
            for one in self._status.values()
            if isinstance(one, status.Stored) and (one.topic, one.table) == (topic, table.uid)
        ]
        return lowest(found) if found else None

    def judged(self, topic: str) -> Offsets | None:
        """How far the trigger query is done with a WAL topic; None if no stream wants it."""
        wanted = self.use.wanted.get(topic)
        if wanted is None:
            return None
        read = self.read(topic)
        return {p: max(read.get(p, 0), wanted.get(p, 0)) for p in read.keys() | wanted.keys()}

    def read(self, topic: str) -> Offsets:
        """How far the trigger query has read a topic."""
        found = self._status.get(status.key(status.ReadUpTo(topic, {})))
        return found.offsets if isinstance(found, status.ReadUpTo) else {}

    def held(self) -> Offsets:
        """The offsets from which on triggers of waiting streams are still to be calculated."""
        marks: dict[int, int] = {}
        for one in self._status.values():
            if isinstance(one, status.TriggersHeld):
                # the loop for answers numbers its partitions below zero
                partition = one.partition if one.partition >= 0 else -1 - one.partition
                marks[partition] = min(one.offset, marks.get(partition, one.offset))
        return marks


def lowest(bounds: Iterable[Offsets]) -> dict[int, int]:
    """By partition, the lowest of these bounds; without a partition that one of them does not mention, which
    stays as it is."""
    several = list(bounds)
    common = set[int].intersection(*(set(one) for one in several)) if several else set[int]()
    return {partition: min(one[partition] for one in several) for partition in common}


class Trimmer:
    """A work of :class:`millrace_service.Life`. Between two looks lie ``settings.trim_seconds``."""

    def __init__(self, log: Log, context: Context) -> None:
        self.name, self.stopping = "trimming", threading.Event()
        self._log, self._context = log, context
        self._reader: Reader | None = None
        self._followed = Followed()
        self._next = 0.0
        self._trimmed: dict[str, Offsets] = {}
        self._kept: dict[str, int] = {}

    def begin(self) -> None:
        self._followed = Followed()
        self._reader = self._log.reader({STATUS.name: {0: BEGIN}, CONTROL.name: {0: BEGIN}})

    def step(self) -> None:
        self._follow()
        if time.monotonic() >= self._next and self._up_to_date():
            # set even if this fails: there is no hurry
            self._next = time.monotonic() + self._context.settings.trim_seconds
            self.trim(milliseconds(time.time_ns()))

    def end(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _follow(self) -> None:
        assert self._reader is not None, "begin comes first"
        for record in self._reader.poll(POLL_SECONDS):
            with suppress(WireError):  # other readers make dead letters of it
                if record.topic == STATUS.name:
                    self._followed.take_status(record)
                else:
                    self._followed.take_control(record)

    def _up_to_date(self) -> bool:
        """Whether all records have been read: one that is unread may define a stream that wants old rows."""
        assert self._reader is not None
        at = self._reader.positions()
        return all(
            at.get(topic, {}).get(0, 0) >= ends.get(0, 0)
            for topic, ends in self._log.ends_of([STATUS.name, CONTROL.name]).items()
        )

    def trim(self, now: int) -> None:
        """Make topics forget what nobody needs; ``now``: ms since the epoch.

        :raises MillraceError: if the broker cannot be asked; what was trimmed until then stays trimmed.
        """
        there = set(self._log.topics())
        catalog = self._context.catalog
        for table in list(catalog.tables.values()):
            name = wal_topic(table.db, table.name)
            seconds = retention_of(table, catalog)
            if seconds is not None and name in there:
                self._trim(name, self._done(table, name), now - seconds * 1000, now)
        self._delete_spent(now)
        # last: a broker that has just come back may not say for a while what groups have committed
        most = self._context.settings.keep_consumed_seconds * 1000
        inner = [topic for topic in TOPICS if topic.readers and topic.name in there]
        kept = {topic.name: min(topic.kept_ms, most) for topic in inner}
        if kept != self._kept:
            self._log.cut_for(kept)
            self._kept = kept
        for topic in inner:
            self._trim(topic.name, self._consumed(topic), now - kept[topic.name], now)
        self._trimmed = {name: ends for name, ends in self._trimmed.items() if name in there}

    def _delete_spent(self, now: int) -> None:
        keys = self._followed.to_delete(self._context.board.applied, now - FLOOR_MS)
        if keys:
            # in the order of their records: a stream's definition is deleted no later than its end
            self._log.append([Message(CONTROL.name, key, None) for key in keys])
        streams = {entry.spec.uid for entry in list(self._context.catalog.streams.values())}
        gone = self._followed.departed.to_delete(streams, now - FLOOR_MS)
        if gone:
            self._log.append([Message(STATUS.name, key, None) for key in gone])

    def _consumed(self, topic: Topic) -> dict[int, int]:
        bounds: list[Offsets] = [
            self._followed.read(topic.name)
            if reader == TRIGGER_QUERY
            else self._log.committed(reader, topic.name)
            for reader in topic.readers
        ]
        found = lowest(bounds)
        if topic.name == TRIGGERS.name:
            # triggers that wait are written down before a commit passes them, so those are known once
            # everything has been read
            while not self._up_to_date() and not self.stopping.is_set():
                self._follow()
            held = self._followed.held()
            found = {partition: min(end, held.get(partition, end)) for partition, end in found.items()}
        return found

    def _done(self, table: Table, topic: str) -> dict[int, int]:
        bounds = [self._followed.judged(topic)]
        if not table.virtual:
            bounds.append(self._followed.stored(topic, table) or {})
        bounds += self._context.listener.bounds(topic, table)
        known = [bound for bound in bounds if bound is not None]
        return lowest(known) if known else self._log.end_offsets(topic)

    def _trim(self, topic: str, done: Mapping[int, int], older_than: int, now: int) -> None:
        before = self._trimmed.get(topic, {})
        news = {partition: end for partition, end in done.items() if end > before.get(partition, 0)}
        if not news:
            return
        try:
            begins = self._log.begin_offsets(topic)
            old = self._log.offsets_at(topic, min(older_than, now - FLOOR_MS))
        except MillraceError:
            if topic in self._log.topics(topic):
                raise
            return  # dropped meanwhile
        ends = {partition: min(end, old.get(partition, 0)) for partition, end in news.items()}
        ends = {partition: end for partition, end in ends.items() if end > begins.get(partition, 0)}
        if ends:
            self._log.trim({topic: ends})
            self._trimmed[topic] = {**before, **ends}


def retention_of(table: Table, catalog: Catalog) -> int | None:
    """For how many seconds a table's WAL topic keeps what every reader is done with; None: for ever.

    %%trows of PERIOD are looked up in a virtual table's topic, so that topic stays whole while there is such
    a stream.
    """
    database = catalog.databases.get(table.db)
    if database is None or database.wal_retention < 0:
        return None
    if table.virtual and any(_is_period_on(entry, table) for entry in list(catalog.streams.values())):
        return None
    return database.wal_retention


def _is_period_on(entry: StreamEntry, table: Table) -> bool:
    source = entry.spec.source
    return type_of(entry.spec.trigger).by_clock and source is not None and source.table.uid == table.uid

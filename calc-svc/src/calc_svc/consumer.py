"""The one thread that reads the catalog and all WAL topics into the table store."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
import structlog

from calc_svc import metrics
from calc_svc.catalog import CatalogView
from calc_svc.store import TableStore
from calc_svc.table import StoredTable
from calc_svc.unusable import Unusable
from millrace_core.catalog import record_key
from millrace_core.dialect.virtual import sources_of
from millrace_core.errors import ErrorCode, MillraceError, WireError
from millrace_core.model.schema import Child, Table
from millrace_core.store.place import place_of
from millrace_core.wire import dead, registrations, topics
from millrace_core.wire.decoded import Bad
from millrace_core.wire.operations import version_needed
from millrace_wal import BEGIN, Gap, GapWatch, Log, Message, Positions, Reader, Record, replay

LIST_EVERY = 2.0  # seconds between looks at which topics exist
ORPHAN_AFTER = 10.0  # seconds that a topic's table may lag behind it
POLL = 0.25
AGAIN = 30.0  # seconds that reading a stretch of a topic again may take
BATCH = 20_000
GATHER, ENOUGH = 0.02, 1_000
"""After a step that read fewer records than ENOUGH more are gathered for so many seconds: a step costs a
millisecond, however few rows it takes, and triggers come later than that behind their rows."""


class WalConsumer:
    """``start`` replays the catalog and opens the tables; the thread then goes on from there."""

    def __init__(self, log: Log, catalog: CatalogView, store: TableStore) -> None:
        self._log, self._catalog, self._store = log, catalog, store
        self._logger = structlog.get_logger("calc-svc")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wal-consumer", daemon=True)
        self._reader: Reader | None = None
        self._pending: dict[tuple[str, str], Table] = {}
        self._unusable = Unusable(catalog, store, self._append)
        self._seen_at: dict[str, float] = {}
        self._orphans: set[str] = set()
        self._held: dict[str, list[Record]] = {}
        self._gaps = GapWatch(log, "calc-svc", found=metrics.count_lost)
        self._marks: Positions = {}
        """Up to where topics were read, where their tables do not know of it yet."""
        self._listed = 0.0

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        gone: set[bytes] = set()
        for record in replay(self._log, topics.CATALOG.name):
            self._catalog.apply(record.offset, record.key or b"", record.value)
            (gone.add if record.value is None else gone.discard)(record.key or b"")
        for record in replay(self._log, topics.REGISTRATIONS.name):
            # a registration that the gateway had no time to turn into a catalog record
            child = registrations.decode(record.value)
            if isinstance(child, Child) and record_key("child", child.db, child.name) not in gone:
                self._catalog.learn(child)
        status_at = 0
        for record in replay(self._log, topics.STATUS.name):
            self._catalog.apply_status(record.key or b"", record.value)
            status_at = record.offset + 1
        self._store.clean()
        first = {topics.CATALOG.name: {0: self._catalog.position}, topics.STATUS.name: {0: status_at}}
        self._reader = self._log.reader(first, grows=True)
        self._pending = dict(self._catalog.tables())
        self._seen_at = dict.fromkeys(self._log.topics(topics.WAL_PREFIX), float("inf"))
        self._open_pending()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(30)
        if self._reader is not None:
            self._reader.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if 0 < self._step() < ENOUGH:
                    self._stop.wait(GATHER)
            except MillraceError as error:
                # the broker is away: nothing was advanced, but the reader has moved on; go back
                self._logger.warning("reading the WAL", error=str(error))
                self._rewind()
                self._stop.wait(1.0)

    def _step(self) -> int:
        """Takes in what is there, or comes first; how many records."""
        assert self._reader is not None
        records = self._reader.poll(POLL, BATCH)
        by_topic: dict[str, list[Record]] = {}
        for record in records:
            by_topic.setdefault(record.topic, []).append(record)
        # what this poll brought of a table that ends here, or of its namesake before, is not to be read
        for topic in self._take_catalog(by_topic.pop(topics.CATALOG.name, [])):
            by_topic.pop(topic, None)
        for record in by_topic.pop(topics.STATUS.name, []):
            self._catalog.apply_status(record.key or b"", record.value)
        for topic, later in self._held.items():
            by_topic[topic] = later + by_topic.get(topic, [])
        self._held = {}
        for topic, found in by_topic.items():
            stored = self._store.by_topic(topic)
            if stored is not None:
                self._take(stored, self._readable(stored, found))
            elif (virtual := self._store.virtual(topic)) is not None:
                self._bury(found, virtual.take(found))
            elif topic in self._orphans:
                self._bury(found, [Bad(i, _unknown(topic)) for i in range(len(found))])
        if self._pass_marks() or records:
            self._store.moved()
        now = time.monotonic()
        self._pending |= self._unusable.due(now)
        if now - self._listed > (POLL if self._pending else LIST_EVERY):
            self._listed = now
            self._open_pending()
            self._look_for_orphans(now)
        return len(records)

    def _pass_marks(self) -> bool:
        """Offsets without a record (where producers' transactions end) are read too; whether any were."""
        self._marks |= self._require().moved()
        passed = False
        for topic in [topic for topic in self._marks if topic not in self._held]:
            positions, stored = self._marks.pop(topic), self._store.by_topic(topic)
            if stored is not None and positions != stored.positions:
                self._tell(self._gaps.passed(topic, positions))
                stored.advance(positions)
                passed = True
        return passed

    def _rewind(self) -> None:
        assert self._reader is not None
        self._held, self._marks = {}, {}
        self._reader.add(topics.CATALOG.name, {0: self._catalog.position})
        for stored in self._store.tables():
            self._reader.add(stored.topic, stored.positions)
            self._gaps.at(stored.topic, stored.positions)
        for virtual in self._store.virtuals():
            self._reader.add(virtual.topic, virtual.read_to)

    def _take_catalog(self, records: list[Record]) -> set[str]:
        """Apply catalog records: the topics whose table has ended."""
        ended: set[str] = set()
        for record in records:
            key = record.key or b""
            kind, *names = key.decode().split("\x1f")
            before = self._catalog.catalog.tables.get((names[0], names[-1])) if kind == "table" else None
            self._catalog.apply(record.offset, key, record.value)
            if kind == "table":
                ended |= self._table_changed((names[0], names[1]), before)
            elif kind == "child":
                self._child_changed((names[0], names[1]))
        return ended

    def _table_changed(self, name: tuple[str, str], before: Table | None) -> set[str]:
        table = self._catalog.tables().get(name)
        ended: set[str] = set()
        if before is not None and (table is None or table.uid != before.uid):
            self._pending.pop(name, None)
            topic = topics.wal_topic(*name)
            ended.add(topic)
            self._leave(topic)
            stored = self._store.close(topic)
            self._held.pop(topic, None)
            if stored is not None:
                stored.drop()
            self._unusable.dropped(before)
        elif before is not None and table is not None and table.version > before.version:
            self._altered(name, table)
        if table is not None and (before is None or table.uid != before.uid):
            self._pending[name] = table
            self._open_pending()
        return ended

    def _leave(self, topic: str) -> None:
        """What is left in the topic belongs to the table that is gone; what comes later, to none."""
        self._seen_at[topic] = float("inf")
        self._marks.pop(topic, None)
        self._gaps.forget(topic)
        self._require().remove(topic)
        if topic in self._log.topics(topic):
            self._orphans.add(topic)
            self._require().add(topic, self._log.end_offsets(topic))

    def _altered(self, name: tuple[str, str], table: Table) -> None:
        if name in self._pending:
            self._pending[name] = table
        self._unusable.altered(table)
        stored = self._store.by_topic(topics.wal_topic(*name))
        if stored is not None:
            stored.evolve(table)

    def _child_changed(self, name: tuple[str, str]) -> None:
        # the end of a child comes with its WAL topic, in order with its rows
        child = self._catalog.catalog.children.get(name)
        if child is None:
            return
        stored = self._store.by_topic(topics.wal_topic(child.db, child.table))
        if stored is not None:
            stored.register(child)

    def _require(self) -> Reader:
        assert self._reader is not None
        return self._reader

    def _open_pending(self) -> None:
        """Begin to read the tables whose topic is there."""
        if not self._pending:
            return
        there = set(self._log.topics(topics.WAL_PREFIX))
        for name, table in list(self._pending.items()):
            topic = topics.wal_topic(*name)
            if topic not in there:
                continue
            if table.virtual:
                self._open_virtual(table, topic)
                del self._pending[name]
                continue
            self._open(table, topic)
            del self._pending[name]
        self._store.moved()

    def _open(self, table: Table, topic: str) -> None:
        """Read a table on from where its files end. One that cannot be opened must not keep the others from
        being read: it is tried again later, and its streams and queries are told why they wait."""
        try:
            stored = self._store.open(table)
            ends = self._log.end_offsets(topic)
            at = stored.resume(self._log.begin_offsets(topic), ends)
            self._tell(self._gaps.begin(topic, at))
            self._require().add(topic, at)
        except Exception as error:
            if isinstance(error, MillraceError) and error.code.value.retry:
                raise  # the broker is away
            self._unusable.add(table, error)
            return
        self._orphans.discard(topic)
        self._unusable.opened(table)

    def _tell(self, gaps: Sequence[Gap]) -> None:
        """Rows are gone that are not stored: who needs the table is told."""
        for gap in gaps:
            self._gaps.tell(gap, topics=(gap.topic,))

    def _open_virtual(self, table: Table, topic: str) -> None:
        """Read its topic from here on: how far its sources must have been read is known without the rest."""
        self._orphans.discard(topic)
        virtual = self._store.open_virtual(table, self._again)
        ends = self._log.end_offsets(topic)
        with self._catalog.lock:
            found = {topics.wal_topic(*name) for name in sources_of(table, self._catalog.catalog)}
        there = found & set(self._log.topics(topics.WAL_PREFIX))
        virtual.begin(ends, {source: self._log.end_offsets(source) for source in sorted(there)})
        self._require().add(topic, ends)

    def _again(self, topic: str, stretches: Mapping[int, tuple[int, int]]) -> list[Record]:
        """The records of these stretches of a topic: partition -> [from, to) offsets.

        :raises MillraceError: TIMEOUT if they do not come.
        """
        deadline = time.monotonic() + AGAIN
        begins = {partition: first for partition, (first, end) in stretches.items() if first < end}
        found: list[Record] = []
        reader = self._log.reader({topic: begins}, grows=True)
        try:
            while any(reader.positions()[topic][p] < stretches[p][1] for p in begins):
                found += [r for r in reader.poll(POLL, BATCH) if r.offset < stretches[r.partition][1]]
                if time.monotonic() > deadline:
                    raise MillraceError(ErrorCode.TIMEOUT, f"{topic}: not read within {AGAIN:g} s")
        finally:
            reader.close()
        return found

    def _look_for_orphans(self, now: float) -> None:
        """Topics that stay without a table: their messages are dead letters."""
        known = {stored.topic for stored in self._store.tables()}
        known |= {virtual.topic for virtual in self._store.virtuals()}
        known |= {topics.wal_topic(*name) for name in self._unusable.tables}
        there = self._log.topics(topics.WAL_PREFIX)
        self._seen_at = {topic: self._seen_at.get(topic, now) for topic in there}
        for topic in there:
            if topic in known or topic in self._orphans or now - self._seen_at[topic] < ORPHAN_AFTER:
                continue
            self._orphans.add(topic)
            self._require().add(topic, dict.fromkeys(self._log.end_offsets(topic), BEGIN))
        self._orphans &= set(there)

    def _readable(self, stored: StoredTable, records: list[Record]) -> list[Record]:
        """The records up to one that needs a definition that the catalog has not told of yet: these wait."""
        for place, record in enumerate(records):
            if version_needed(record.value) > stored.table.version:
                self._held[stored.topic] = records[place:]
                return records[:place]
        return records

    def _take(self, stored: StoredTable, records: list[Record]) -> None:
        if not records:
            return
        self._tell(self._gaps.take(records))
        places = np.array([place_of(r.partition, r.offset) for r in records], dtype=np.int64)
        taken = stored.take([r.key for r in records], [r.value for r in records], places)
        metrics.ROWS_STORED.inc(taken.rows)
        self._announce(taken.children)
        self._bury(records, taken.bad)
        stored.advance({
            partition: max(record.offset for record in part) + 1
            for partition, part in groupby(
                sorted(records, key=lambda r: r.partition), key=lambda r: r.partition
            )
        })  # fmt: skip

    def _announce(self, children: Sequence[Child]) -> None:
        if not children:
            return
        for child in children:
            self._catalog.learn(child)
        self._append([Message(*registrations.encode(child)) for child in children])

    def _bury(self, records: Sequence[Record], bad: Sequence[Bad]) -> None:
        """Write dead letters. The same message has the same letter after a restart."""
        if not bad:
            return
        letters = []
        for index, error in ((b.index, b.error) for b in bad):
            record = records[index]
            metrics.DEAD_LETTERS.labels(error.code.name).inc()
            letters.append(
                dead.DeadLetter(
                    record.topic, record.partition, record.offset, error.code.name, error.message,
                    record.key, record.value,
                )
            )  # fmt: skip
        topic = topics.DEAD_LETTERS.name
        self._append([Message(topic, one.topic.encode(), dead.encode(one)) for one in letters])

    def _append(self, messages: list[Message]) -> None:
        """Append, however long the broker is away: positions do not move before."""
        while not self._stop.is_set():
            try:
                self._log.append(messages)
                return
            except MillraceError as error:
                if not error.code.value.retry:
                    self._logger.error("a dead letter or registration is lost", error=str(error))
                    return
                self._stop.wait(1.0)


def _unknown(topic: str) -> WireError:
    return WireError(ErrorCode.UNKNOWN_TABLE, "no table {}.{}".format(*topics.table_of(topic)))

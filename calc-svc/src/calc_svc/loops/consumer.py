"""The one loop that reads the catalog and all WAL topics into the table store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import structlog

from calc_svc import metrics
from calc_svc.loops.patience import append_apart, patiently
from calc_svc.store.catalog import CatalogView
from calc_svc.store.delta import DamagedTable
from calc_svc.store.gathering import Gathering
from calc_svc.store.messages import NONE, Messages, by_topic
from calc_svc.store.orphans import Orphans, buried, ends_of, unknown
from calc_svc.store.replayed import replayed
from calc_svc.store.table import StoredTable
from calc_svc.store.tables import TableStore
from calc_svc.store.unusable import Unusable
from millrace_core.errors import ErrorCode, MillraceError, WireError
from millrace_core.language.virtual import sources_of
from millrace_core.model.schema import SEPARATOR, Child, Table
from millrace_core.wire import registrations, topics
from millrace_core.wire.operations import versions_needed
from millrace_core.wire.rows.decoded import Bad
from millrace_service import behind, passed_over
from millrace_wal import DeadLetters, Gap, GapWatch, Log, Message, Positions, Reader, Record

LIST_EVERY = 2.0  # seconds between looks at which topics exist
POLL, REST = 0.25, 1.0
"""Seconds that a step waits for records: while tables wait for their topics, and otherwise."""
AGAIN = 30.0  # seconds that it may take to read a stretch of a topic again
BATCH = 20_000


class WalConsumer:
    """A work of :class:`millrace_service.Life`. The first :meth:`begin` replays the catalog and opens the
    tables (then ``loaded`` is set); after a failure reading goes on where the tables stand."""

    def __init__(self, log: Log, catalog: CatalogView, store: TableStore) -> None:
        self._log, self._catalog, self._store = log, catalog, store
        self._logger = structlog.get_logger("calc-svc")
        self.name, self.stopping = "wal-consumer", threading.Event()
        self.loaded = threading.Event()
        self._stood: dict[str, dict[int, int]] = {}
        self._reader: Reader | None = None
        self._pending: dict[tuple[str, str], Table] = {}
        self._unusable = Unusable(catalog, store, self._append)
        self._dead = DeadLetters(log, "calc-svc", passed_over(self._logger))
        self._orphans = Orphans(log, catalog.buried)
        self._held: dict[str, Messages] = {}
        self._gaps = GapWatch(log, "calc-svc", found=metrics.count_lost)
        self._gathering = Gathering()
        self._told_by: dict[str, int] = {}
        """Topics of tables that wait for a definition -> the catalog offset by which it must have come."""
        self._marks: Positions = {}
        """How far topics were read, as far as their tables do not know of it yet."""
        self._listed = 0.0
        self._changed: dict[tuple[str, str], Table | None] = {}
        """Tables whose record has changed, as they were before, until the store has followed."""

    def begin(self) -> None:
        if self._reader is None:
            self._load()
        else:
            # the reader has moved on without the tables' positions
            self._rewind()
        self.loaded.set()

    def _load(self) -> None:
        self._log.ensure_topics(topics.TOPICS)
        before = replayed(self._log, self._catalog, self._dead)
        self._write_letters(before.looked_at)
        self._store.clean()
        self._catalog.status_position = before.status_end
        first = {topics.CATALOG.name: {0: self._catalog.position}, topics.STATUS.name: {0: before.status_end}}
        self._reader = self._log.reader(first, grows=True)
        self._pending = dict(self._catalog.tables())
        self._orphans.left_behind(before.left_behind)
        self._open_pending()

    def step(self) -> None:
        """Take in what is there; if there is nothing, wait a moment for what comes. Then gather more, unless
        somebody waits for what is to be read."""
        began = time.monotonic()
        read = self._step()
        if seconds := self._gathering.after(read, time.monotonic() - began):
            self._store.gather(seconds)

    def end(self) -> None:
        if self.stopping.is_set() and self._reader is not None:
            self._reader.close()

    def look(self) -> tuple[object, str]:
        """A topic of which nothing was read since the last look, and what is left to be read of it."""
        at = {stored.topic: dict(stored.positions) for stored in self._store.tables()}
        at[topics.CATALOG.name] = {0: self._catalog.position}
        ends = self._log.ends_of(at)
        late = {topic: found for topic, found in at.items() if behind(topic, ends.get(topic, {}), found)}
        stands = {topic: found for topic, found in late.items() if self._stood.get(topic) == found}
        self._stood = late
        topic = min(stands, default="")
        return (topic, stands[topic]) if topic else None, behind(
            topic, ends.get(topic, {}), late.get(topic, {})
        )

    def _step(self) -> int:
        """As :meth:`step`; returns how many records were read."""
        assert self._reader is not None
        read = self._reader.stretches(POLL if self._pending else REST, BATCH)
        came = by_topic(read)
        # what this poll brought for a table that ends here, or for a dropped one of the same name, is ignored
        for topic in self._take_catalog(came.pop(topics.CATALOG.name, NONE).records()):
            came.pop(topic, None)
        self._take_status(came.pop(topics.STATUS.name, NONE).records())
        for topic, later in self._held.items():
            came[topic] = later + came.get(topic, NONE)
        self._held = {}
        for topic, found in came.items():
            stored = self._store.by_topic(topic)
            if stored is not None:
                self._take(stored, *self._readable(stored, found))
            elif (virtual := self._store.virtual(topic)) is not None:
                self._bury(found, virtual.take(found.records()))
            elif topic in self._orphans.topics:
                self._bury(found, [Bad(i, unknown(topic)) for i in range(len(found))])
        if self._pass_marks() or read:
            self._store.moved()
        now = time.monotonic()
        self._pending |= self._unusable.due(now)
        if now - self._listed > (POLL if self._pending else LIST_EVERY):
            self._listed = now
            self._open_pending()
            self._look_for_orphans(now)
        return sum(map(len, read))

    def _pass_marks(self) -> bool:
        """Count offsets without a record (where producers' transactions end) as read, too; returns whether
        there were any."""
        self._marks |= self._require().moved()
        # deletions of its records count, too, for how far the topic has been read
        self._catalog.status_position = self._marks.pop(topics.STATUS.name, {}).get(
            0, self._catalog.status_position
        )
        passed = False
        for topic in [topic for topic in self._marks if topic not in self._held]:
            positions, stored = self._marks.pop(topic), self._store.by_topic(topic)
            if stored is not None and positions != stored.positions:
                self._tell(self._gaps.passed(topic, positions))
                stored.advance(positions)
                passed = True
        return passed

    def _rewind(self) -> None:
        """Go back to the first records that were read but not taken in."""
        assert self._reader is not None
        self._held, self._marks, self._told_by = {}, {}, {}
        self._reader.add(topics.CATALOG.name, {0: self._catalog.position})
        self._reader.add(topics.STATUS.name, {0: self._catalog.status_position})
        for topic, positions in self._reader.positions().items():
            if topic in self._orphans.topics:
                self._reader.add(topic, self._orphans.reached(topic, positions))
        for stored in self._store.tables():
            self._reader.add(stored.topic, stored.positions)
            self._gaps.at(stored.topic, stored.positions)
        for virtual in self._store.virtuals():
            self._reader.add(virtual.topic, virtual.read_to)

    def _take_catalog(self, records: list[Record]) -> set[str]:
        """Apply catalog records; returns the topics whose table has ended. If the store cannot follow now
        because the broker is away, it does so with the next records: the catalog has these already."""
        for record in records:
            kind, *names = (record.key or b"").decode(errors="replace").split(SEPARATOR, 2)
            name = (names[0], names[-1]) if names else ("", "")
            before = self._catalog.catalog.tables.get(name) if kind == "table" else None
            try:
                self._catalog.apply(record.offset, record.key, record.value)
            except WireError as error:
                self._dead.bury(record, error)
                self._write_letters({topics.CATALOG.name: record.offset + 1})
                continue
            if kind == "table":
                self._changed.setdefault(name, before)
            elif kind == "child":
                self._child_changed(name)
            elif kind == "stream":
                self._store.count_rewritten()
        ended: set[str] = set()
        changed = list(self._changed.items())
        for name, before in changed:
            ended |= self._table_changed(name, before)
            del self._changed[name]
        if changed:
            self._open_pending()
        return ended

    def _take_status(self, records: Iterable[Record]) -> None:
        for record in records:
            try:
                self._catalog.apply_status(record.key, record.value)
            except WireError as error:
                self._dead.bury(record, error)
                self._write_letters({topics.STATUS.name: record.offset + 1})

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
        return ended

    def _leave(self, topic: str) -> None:
        """The table is gone: what is left in its topic was the table's; what comes later belongs to none."""
        self._marks.pop(topic, None)
        self._gaps.forget(topic)
        self._require().remove(topic)
        ends = self._orphans.leave(topic)
        if ends is not None:
            self._require().add(topic, ends)
            self._append([self._orphans.looked_at(topic, ends)])

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
        """Begin to read pending tables whose topic exists by now."""
        if not self._pending:
            return
        there = set(self._log.topics(topics.WAL_PREFIX))
        for name, table in list(self._pending.items()):
            topic = topics.wal_topic(*name)
            if topic not in there:
                continue
            (self._open_virtual if table.virtual else self._open)(table, topic)
            del self._pending[name]
        self._store.moved()

    def _open(self, table: Table, topic: str) -> None:
        """Read a table from where its files end. One that cannot be opened must not keep the others from
        being read: it is tried again later, and its streams and queries are told why they wait."""
        try:
            begins, ends = self._log.begin_offsets(topic), self._log.end_offsets(topic)
            self._unusable.require_files(table, begins)
            stored = self._store.open(table)
            at = stored.resume(begins, ends)
            self._tell(self._gaps.begin(topic, at))
            self._require().add(topic, at)
        except Exception as error:
            damaged = isinstance(error, DamagedTable)
            if not damaged and isinstance(error, MillraceError) and error.code.value.retry:
                raise  # the broker is away
            self._unusable.add(table, error)
            return
        self._orphans.adopt(topic, ends)
        self._unusable.opened(table)

    def _tell(self, gaps: Sequence[Gap]) -> None:
        """Rows are gone from the log before they were stored: tell those who need the table."""
        for gap in gaps:
            self._gaps.tell(gap, topics=(gap.topic,))

    def _open_virtual(self, table: Table, topic: str) -> None:
        """Read its topic from its present end on. What came before is not needed to know how far the sources
        must have been read."""
        virtual = self._store.open_virtual(table, self._again)
        ends = self._log.end_offsets(topic)
        self._orphans.adopt(topic, ends)
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
                    raise MillraceError(ErrorCode.TIMEOUT, f"{topic} was not read within {AGAIN:g} s")
        finally:
            reader.close()
        return found

    def _look_for_orphans(self, now: float) -> None:
        """Find topics that stay without a table: their messages become dead letters."""
        known = {stored.topic for stored in self._store.tables()}
        known |= {virtual.topic for virtual in self._store.virtuals()}
        known |= {topics.wal_topic(*name) for name in self._unusable.tables}
        for topic, positions in self._orphans.look(known, now).items():
            self._require().add(topic, positions)
        self._append(self._orphans.forgotten())

    def _readable(self, stored: StoredTable, found: Messages) -> tuple[Messages, list[Bad]]:
        """The messages before the first that needs a definition which the catalog has not told of yet; that
        one and the rest are held. The gateway writes the definition first, so one that is not within the
        catalog's present end does not exist."""
        topic, bad = stored.topic, list[Bad]()
        for place, version in versions_needed(found.values):
            if version <= stored.table.version:
                continue
            if topic not in self._told_by:
                self._told_by[topic] = self._log.end_offsets(topics.CATALOG.name)[0]
            if self._catalog.position < self._told_by[topic]:
                found, self._held[topic] = found.split(place)
                return found, bad
            del self._told_by[topic]
            detail = f"the table {stored.table.db}.{stored.table.name} has no version {version}"
            bad.append(Bad(place, WireError(ErrorCode.UNDECODABLE, detail)))
        self._told_by.pop(topic, None)
        return found, bad

    def _take(self, stored: StoredTable, found: Messages, bad: list[Bad]) -> None:
        if not found.stretches:
            return
        self._tell(self._gaps.pass_over(found.stretches))
        taken = stored.take(found.keys, found.values, found.places)
        metrics.ROWS_STORED.inc(taken.rows)
        self._announce(taken.children)
        self._bury(found, [*bad, *taken.bad])
        stored.advance(found.ends)

    def _announce(self, children: Sequence[Child]) -> None:
        if not children:
            return
        for child in children:
            self._catalog.learn(child)
        self._append([Message(*registrations.encode(child)) for child in children])

    def _bury(self, found: Messages, bad: Sequence[Bad]) -> None:
        """Write dead letters for a topic's bad messages, except those that were written before a restart."""
        fresh = self._orphans.not_looked_at([(found.record(one.index), one.error) for one in bad])
        for record, error in fresh:
            self._dead.bury(record, error)
        if fresh:
            self._write_letters()
            ends = ends_of(record for record, _ in fresh)
            self._append([self._orphans.looked_at(fresh[0][0].topic, ends)])

    def _write_letters(self, upto: Mapping[str, int] = MappingProxyType({})) -> None:
        """``upto``: for topics that are read from their beginning at each start, topic -> the offset before
        which every bad message has its letter now."""
        self._patiently(self._dead.write)
        self._append([buried(topic, {0: offset}) for topic, offset in upto.items()])

    def _append(self, messages: list[Message]) -> None:
        if messages:
            self._patiently(lambda: append_apart(self._log, messages, self._refused))

    def _refused(self, message: Message, error: MillraceError) -> None:
        self._logger.error("a message was lost", topic=message.topic, key=message.key, error=str(error))

    def _patiently(self, action: Callable[[], object]) -> None:
        """Write, however long the broker is away. Positions move only after that, and not at all if calc-svc
        stops first."""
        what = "writing dead letters and registrations"
        if not patiently(action, self.stopping, self._logger, what):
            raise MillraceError(ErrorCode.UNAVAILABLE, f"{what}: calc-svc is stopping; the broker is down")

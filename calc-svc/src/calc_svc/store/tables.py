"""All stored tables, by WAL topic, and how to wait until they have read what a caller has seen."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from calc_svc.store.catalog import CatalogView
from calc_svc.store.delta import KEEP_SECONDS
from calc_svc.store.table import StoredTable
from calc_svc.store.virtual import Read, VirtualTable
from millrace_core.calc.waiting import Behind, Wanted
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Table
from millrace_core.wire.message import Message
from millrace_core.wire.topics import WAL_PREFIX, table_of, wal_topic


class TableStore:
    """Thread-safe. Tables come and go with the catalog's records; only the consumer thread adds and drops.

    ``keep_seconds``: how long files that a table no longer has are kept.
    """

    def __init__(
        self, catalog: CatalogView, folder: Path, memory_rows: int, keep_seconds: float = KEEP_SECONDS
    ) -> None:
        self.catalog = catalog
        self.memory_rows = memory_rows
        self._keep_seconds = keep_seconds
        self._folder = folder
        self._tables: dict[str, StoredTable] = {}
        self._virtual: dict[str, VirtualTable] = {}
        self._unusable: dict[str, MillraceError] = {}
        self._sent: dict[str, dict[int, int]] = {}
        """Topic -> partition -> the offset after what this process has written."""
        self._moved = threading.Condition()
        self._waiting = 0
        """How many threads wait for something to be read."""

    def clean(self) -> None:
        """Remove the folders of tables that were dropped while the service was down."""
        wanted = {str(table.uid) for table in self.catalog.tables().values()}
        for path in self._folder.glob("*"):
            if path.name not in wanted:
                shutil.rmtree(path, ignore_errors=True)

    def tables(self) -> list[StoredTable]:
        with self._moved:
            return list(self._tables.values())

    def table(self, table: Table) -> StoredTable:
        """:raises MillraceError: UNKNOWN_TABLE if it is not stored (yet, or any more)."""
        topic = wal_topic(table.db, table.name)
        found = self.by_topic(topic)
        if topic in self._unusable:
            raise self._unusable[topic]
        if found is None or found.table.uid != table.uid:
            raise MillraceError(ErrorCode.UNKNOWN_TABLE, f"the table {table.db}.{table.name} does not exist")
        return found

    def readable(self, table: Table) -> StoredTable | VirtualTable:
        """What gives a table's rows.

        :raises MillraceError: UNKNOWN_TABLE if it is not there (yet, or any more).
        """
        if not table.virtual:
            return self.table(table)
        found = self.virtual(wal_topic(table.db, table.name))
        if found is None or found.table.uid != table.uid:
            raise MillraceError(ErrorCode.UNKNOWN_TABLE, f"the table {table.db}.{table.name} does not exist")
        return found

    def virtual(self, topic: str) -> VirtualTable | None:
        """The virtual table with this WAL topic."""
        with self._moved:
            return self._virtual.get(topic)

    def virtuals(self) -> list[VirtualTable]:
        with self._moved:
            return list(self._virtual.values())

    def open_virtual(self, table: Table, read: Read) -> VirtualTable:
        virtual = VirtualTable(table, self.catalog, self._tables, read)
        with self._moved:
            self._virtual[virtual.topic] = virtual
            self._moved.notify_all()
        return virtual

    def by_topic(self, topic: str) -> StoredTable | None:
        with self._moved:
            return self._tables.get(topic)

    def open(self, table: Table) -> StoredTable:
        stored = StoredTable(
            table, self._folder, self.catalog.children(table), self.memory_rows // 4, self._keep_seconds
        )
        with self._moved:
            self._tables[stored.topic] = stored
            self._unusable.pop(stored.topic, None)
            self._moved.notify_all()
        self.count_rewritten()
        return stored

    def count_rewritten(self) -> None:
        """Streams have come or gone: have each table keep overwritten rows from now on if one of its streams
        counts a rewritten row again."""
        for entry in self.catalog.streams():
            source = entry.spec.source
            if source is None or not entry.spec.emission.needs_versions:
                continue
            stored = self.by_topic(wal_topic(source.table.db, source.table.name))
            if stored is not None and stored.table.uid == source.table.uid:
                stored.count_rewritten()

    def path(self, table: Table) -> Path:
        """The folder of a table's files."""
        return self._folder / str(table.uid)

    def refuse(self, topic: str, cause: MillraceError) -> None:
        """The table of this topic cannot be opened; whoever wants it is told why."""
        with self._moved:
            self._unusable[topic] = cause
            self._moved.notify_all()

    def unusable(self) -> dict[str, str]:
        """Topic -> why its table cannot be used."""
        with self._moved:
            return {topic: error.message for topic, error in self._unusable.items()}

    def remove(self, table: Table) -> None:
        """Remove the files of a table that is not open."""
        shutil.rmtree(self.path(table), ignore_errors=True)

    def close(self, topic: str) -> StoredTable | None:
        with self._moved:
            self._moved.notify_all()
            self._virtual.pop(topic, None)
            self._unusable.pop(topic, None)
            self._sent.pop(topic, None)
            return self._tables.pop(topic, None)

    def moved(self) -> None:
        """Something was read: wake whoever waits."""
        with self._moved:
            self._moved.notify_all()

    def rows(self) -> int:
        return sum(stored.rows.count for stored in self.tables())

    def wait(
        self, catalog: int, wal: Mapping[str, Mapping[int, int]], timeout: float, opened: str = ""
    ) -> None:
        """As :meth:`reach` for these; but if a table cannot be used, that is raised at once.

        :raises MillraceError: TIMEOUT, which names what has not come; or why a table cannot be used.
        """
        wanted = Wanted(catalog, wal, opened)
        for topic in (*wal, opened):
            if topic in self._unusable:
                raise self._unusable[topic]
        self.reach(wanted, timeout)

    def reach(self, wanted: Wanted, timeout: float) -> None:
        """Wait until all of it has been read.

        :raises Behind: TIMEOUT, which names what has not come.
        """
        deadline = time.monotonic() + timeout
        with self._moved:
            while (missing := self._missing(wanted)) is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Behind(wanted, missing, timeout)
                self._waiting += 1
                self._moved.notify_all()
                self._moved.wait(min(left, 1.0))
                self._waiting -= 1

    def gather(self, seconds: float) -> None:
        """Wait this long, but no longer once somebody waits for something to be read."""
        with self._moved:
            self._moved.wait_for(lambda: self._waiting > 0, seconds)

    def sent(self, messages: Sequence[Message], places: Sequence[tuple[int, int]]) -> None:
        """This process has written these to WAL topics, each at (partition, offset)."""
        with self._moved:
            for message, (partition, offset) in zip(messages, places, strict=True):
                if message.topic.startswith(WAL_PREFIX):
                    self._sent.setdefault(message.topic, {})[partition] = offset + 1

    def reach_own(self, topic: str, timeout: float) -> None:
        """Wait until the topic has been read as far as this process has written it.

        :raises Behind: TIMEOUT, which names what has not come.
        """
        with self._moved:
            sent = dict(self._sent.get(topic, {}))
        self.reach(Wanted(wal={topic: sent}), timeout)

    def missing(self, wanted: Wanted) -> str | None:
        """What of it has not been read yet, in words; None if all has been read."""
        with self._moved:
            return self._missing(wanted)

    def _missing(self, wanted: Wanted) -> str | None:
        if self.catalog.position < wanted.catalog:
            return f"catalog offset {wanted.catalog} (at {self.catalog.position})"
        if wanted.opened and wanted.opened not in self._tables and self._known(wanted.opened):
            return wanted.opened
        for topic, offsets in wanted.wal.items():
            if self._is_another(topic, wanted.uids.get(topic)):
                continue
            stored = self._tables.get(topic) or self._virtual.get(topic)
            if topic in self._unusable:
                return f"{topic}: {self._unusable[topic].message}"
            if stored is None:
                if self._known(topic):
                    return topic
                continue
            positions, there = stored.positions, stored.there
            for partition in offsets.keys() | there.keys():
                offset = max(offsets.get(partition, 0), there.get(partition, 0))
                if positions.get(partition, 0) < offset:
                    return f"{topic}/{partition} offset {offset} (at {positions.get(partition, 0)})"
        return None

    def _is_another(self, topic: str, uid: int | None) -> bool:
        """Whether the topic has no table with that uid (any more)."""
        if uid is None:
            return False
        table = self.catalog.catalog.tables.get(table_of(topic))
        return table is None or table.uid != uid

    def _known(self, topic: str) -> bool:
        return any(wal_topic(*name) == topic for name in self.catalog.tables())

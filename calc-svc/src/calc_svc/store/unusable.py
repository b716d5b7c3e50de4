"""Tables that cannot be opened: their streams and queries are told why; all others go on (decision 0037)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import structlog

from calc_svc.store.catalog import CatalogView
from calc_svc.store.delta import DamagedTable
from calc_svc.store.tables import TableStore
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Table
from millrace_core.wire import status
from millrace_core.wire.status import Problem, Stored
from millrace_core.wire.topics import STATUS, wal_topic
from millrace_wal import Message

AGAIN = 10.0
"""Seconds until a table that cannot be opened is tried again: somebody may have repaired its files."""
Name = tuple[str, str]


class Unusable:
    """Used by the consumer's thread. ``append``: writes messages, however long the broker is away."""

    def __init__(
        self, catalog: CatalogView, store: TableStore, append: Callable[[list[Message]], None]
    ) -> None:
        self._catalog, self._store, self._append = catalog, store, append
        self._logger = structlog.get_logger("calc-svc")
        self._tried = 0.0
        self.tables: dict[Name, Table] = {}

    def add(self, table: Table, error: Exception) -> None:
        """The table cannot be opened."""
        topic, name = wal_topic(table.db, table.name), f"{table.db}.{table.name}"
        cause = error
        if not isinstance(cause, MillraceError):
            text = f"the table {name} cannot be opened: {type(error).__name__}: {error}"
            cause = MillraceError(ErrorCode.INTERNAL, text)
        if (table.db, table.name) not in self.tables:
            self._logger.error("table not opened", table=name, exc_info=error)
        self.tables[table.db, table.name], self._tried = table, time.monotonic()
        self._store.close(topic)
        self._store.refuse(topic, cause)
        self._tell(topic, cause.message)

    def require_files(self, table: Table, begins: Mapping[int, int]) -> None:
        """:raises DamagedTable: if the table had files but has none now, and its WAL topic (which begins at
        ``begins``) has forgotten rows that were in them."""
        path, topic = self._store.path(table), wal_topic(table.db, table.name)
        if path.exists():
            return
        with self._catalog.lock:
            told = [one for one in self._catalog.statuses.values() if isinstance(one, Stored)]
        mine = [one for one in told if (one.topic, one.table) == (topic, table.uid)]
        if any(begins.get(p, 0) > 0 and at > 0 for one in mine for p, at in one.offsets.items()):
            raise DamagedTable(table, path, "they are missing")

    def opened(self, table: Table) -> None:
        self.tables.pop((table.db, table.name), None)
        self._tell(wal_topic(table.db, table.name), "")

    def dropped(self, table: Table) -> None:
        if self.tables.pop((table.db, table.name), None) is not None:
            self._store.remove(table)
        self._tell(wal_topic(table.db, table.name), "")

    def altered(self, table: Table) -> None:
        if (table.db, table.name) in self.tables:
            self.tables[table.db, table.name] = table

    def due(self, now: float) -> dict[Name, Table]:
        """The tables that are to be tried again now (``time.monotonic()``)."""
        if not self.tables or now - self._tried <= AGAIN:
            return {}
        self._tried = now
        return dict(self.tables)

    def _tell(self, topic: str, message: str) -> None:
        """Report the problem to whoever asks for the streams; in this process it counts at once."""
        problem = Problem("calc-svc", f"table/{topic}", message, (topic,))
        key, value = status.key(problem), status.encode(problem) if message else None
        known = self._catalog.statuses.get(key)
        if known == problem or (known is None and value is None):
            return
        self._catalog.apply_status(key, value)
        self._append([Message(STATUS.name, key, value)])

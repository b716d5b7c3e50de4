"""Reports how far tables are stored in files: WAL topics may forget what lies before that (decision 0038)."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

from calc_svc.store.catalog import CatalogView
from calc_svc.store.table import StoredTable
from calc_svc.store.tables import TableStore
from millrace_core.wire import status
from millrace_core.wire.status import Stored
from millrace_core.wire.topics import STATUS
from millrace_wal import Log, Message

EVERY = 10.0
"""Seconds between two reports."""


def store_id(path: Path) -> str:
    """The name of a store, from a file beside the store's own; the file is made if it does not exist."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(uuid.uuid4().hex)
    return path.read_text().strip()


class StoredReport:
    """Used by one thread. ``name``: of this store."""

    def __init__(self, log: Log, catalog: CatalogView, store: TableStore, name: str) -> None:
        self._log, self._catalog, self._store, self._name = log, catalog, store, name
        self._told: dict[str, Stored] | None = None
        self._next = 0.0

    def step(self, now: float | None = None) -> None:
        """Report what is new; ``now``: as time.monotonic.

        :raises MillraceError: if the log cannot be written; the next step says the same again.
        """
        moment = time.monotonic() if now is None else now
        if moment < self._next:
            return
        self._next = moment + EVERY
        before = self._known() if self._told is None else self._told
        after = {stored.topic: self._of(stored) for stored in self._store.tables()}
        wanted = self._catalog.wal_topics()
        # a table that cannot be opened now still has its files
        gone = [one for topic, one in before.items() if topic not in after and topic not in wanted]
        news = [one for topic, one in after.items() if one.offsets and before.get(topic) != one]
        messages = [Message(STATUS.name, status.key(one), status.encode(one)) for one in news]
        messages += [Message(STATUS.name, status.key(one), None) for one in gone]
        if messages:
            self._log.append(messages)
        self._told = {t: one for t, one in before.items() if one not in gone} | {n.topic: n for n in news}

    def _of(self, stored: StoredTable) -> Stored:
        return Stored(self._name, stored.topic, stored.table.uid, stored.flushed)

    def _known(self) -> dict[str, Stored]:
        with self._catalog.lock:
            found = [one for one in self._catalog.statuses.values() if isinstance(one, Stored)]
        return {one.topic: one for one in found if one.store == self._name}

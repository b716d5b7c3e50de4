"""The loop that brings Delta up to date, and keeps the files few and the memory within its budget."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from calc_svc import metrics
from calc_svc.store.table import EXPIRE_EVERY, StoredTable
from calc_svc.store.tables import TableStore
from millrace_core.errors import MillraceError

AGE = 1.0  # seconds that a write waits for its flush while flushing keeps up
FEW, AGE_OF_FEW = 1_000, 300.0
"""Fewer rows than FEW wait longer: a flush costs 20 ms of a core; reading them again at the next start costs
much less."""
STOP_SECONDS = 10.0  # how long the last flushes may take
IDLE_SHARE = 4.0  # seconds of rest per second of flushing: many small tables must not eat the processor
URGENT_ROWS = 500_000
TICK = 0.5


class Flusher:
    """The WAL keeps what is not flushed, so a late flush costs time at the next start, and nothing else. A
    work of :class:`millrace_service.Life`."""

    def __init__(
        self,
        store: TableStore,
        report: Callable[[], None] = lambda: None,
        now: Callable[[], int] = time.time_ns,
        expire_every: float = EXPIRE_EVERY,
    ) -> None:
        """``report``: called now and then between flushes; ``now``: gives the time, in ns; ``expire_every``:
        seconds between two looks for rows older than KEEP."""
        self._expire_every = expire_every
        self._store, self._report, self._now = store, report, now
        self._logger = structlog.get_logger("calc-svc")
        self.name, self.stopping = "flusher", threading.Event()
        self._failing: dict[str, str] = {}

    def begin(self) -> None:
        """There is nothing to open."""

    def step(self) -> None:
        """One round over all tables."""
        if self.stopping.wait(TICK):
            return
        now = time.monotonic()
        for stored in self._store.tables():
            stored.let_go(now)
        due = [stored for stored in self._store.tables() if is_due(stored, now)]
        for stored in sorted(due, key=lambda s: s.dirty_for(now), reverse=True):
            took = self._flush(stored)
            rest = 0.0 if stored.rows.count > URGENT_ROWS else took * IDLE_SHARE
            if self.stopping.wait(rest):
                return
        self._evict()
        self._expire()
        self._tell()

    def end(self) -> None:
        """If the service stops: flush everything while there is time, the tables with most to flush first."""
        if not self.stopping.is_set():
            return
        until = time.monotonic() + STOP_SECONDS
        for stored in sorted(self._store.tables(), key=lambda stored: stored.unflushed, reverse=True):
            if time.monotonic() > until:
                break
            self._flush(stored)

    def look(self) -> tuple[object, str]:
        """The tables that cannot be flushed, and why."""
        failing = dict(self._failing)
        return sorted(failing), next(iter(failing.values()), "")

    def _tell(self) -> None:
        try:
            self._report()
        except MillraceError as error:
            self._logger.warning("what is stored could not be reported", error=str(error))

    def _expire(self) -> bool:
        """Remove rows older than their database's KEEP, one table at a time; returns whether one was due."""
        now = self._now()
        for stored in self._store.tables():
            try:
                if stored.expire(self._store.catalog.keep_of(stored.table), now, self._expire_every):
                    return True
            except Exception as error:
                metrics.FLUSH_FAILURES.inc()
                self._logger.error(
                    "rows older than KEEP could not be removed", table=stored.topic, error=str(error)
                )
                return True
        return False

    def _flush(self, stored: StoredTable) -> float:
        began = time.monotonic()
        try:
            stored.flush()
            stored.maintain()
            self._failing.pop(stored.topic, None)
        except Exception as error:  # a full disk, say: the rows stay in memory and in the WAL
            metrics.FLUSH_FAILURES.inc()
            self._failing[stored.topic] = f"the flush of {stored.topic} is failing: {error}"
            self._logger.error("flush failed", table=stored.topic, error=str(error))
        took = time.monotonic() - began
        metrics.FLUSH_SECONDS.observe(took)
        return took

    def _evict(self) -> None:
        rows = self._store.rows()
        metrics.MEMORY_ROWS.set(rows)
        while rows > self._store.memory_rows and not self.stopping.is_set():
            largest = max(self._store.tables(), key=lambda stored: stored.rows.count)
            try:
                largest.evict_half()
            except Exception as error:
                self._logger.error("eviction failed", table=largest.topic, error=str(error))
                return
            left = self._store.rows()
            if left == rows:
                return
            rows = left
            metrics.MEMORY_ROWS.set(rows)


def is_due(stored: StoredTable, now: float) -> bool:
    """Whether the rows that Delta lacks of a table have waited for long enough."""
    dirty = stored.dirty_for(now)
    return dirty > (AGE if stored.unflushed >= FEW else AGE_OF_FEW)

"""The continuous queries: which one is due, and what the ``status`` topic says about each."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import msgspec

from millrace_core.catalog import Catalog
from millrace_core.errors import WireError
from millrace_core.model.continuous import ContinuousQuery
from millrace_core.timeline.continuous import Run, Standing, Turns, following
from millrace_core.timeline.precision import NS_PER_MS, milliseconds
from millrace_core.wire import status
from millrace_core.wire.topics import STATUS
from millrace_wal import Log, Message, replay


class Continuous:
    """All continuous queries of a gateway; may be called by many threads. Times are in nanoseconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns = Turns()
        self._told: dict[int, status.QueryRuns] = {}
        self.ended = 0
        """How many runs have ended, successfully or not."""

    def load(self, log: Log, catalog: Catalog) -> None:
        """Have each query go on where the topic says that it stands; delete the records of dropped ones."""
        for record in replay(log, STATUS.name):
            if (record.key or b"").startswith(status.RUNS.encode()):
                try:
                    found = status.read(record.key, record.value)
                except WireError:
                    continue  # calc-svc makes the dead letter
                if isinstance(found, status.QueryRuns):
                    self._told[found.query] = found
        known = {query.uid: query for query in catalog.cqs.values()}
        gone = [uid for uid in self._told if uid not in known]
        log.append(_deleted(gone))
        for uid in gone:
            del self._told[uid]
        for query in known.values():
            told = self._told.get(query.uid)
            self._turns.enter(query, None if told is None else told.done)

    def enter(self, query: ContinuousQuery) -> None:
        with self._lock:
            self._turns.enter(query)

    def leave(self, log: Log, uid: int) -> None:
        """A query is dropped: delete its records."""
        with self._lock:
            self._turns.leave(uid)
            self._told.pop(uid, None)
            log.append(_deleted([uid]))

    def take(self, now: int) -> Run | None:
        """The run that begins now, if one is due."""
        with self._lock:
            return self._turns.take(milliseconds(now))

    def next_at(self) -> int | None:
        """When the next of the waiting runs is due; None if none waits."""
        with self._lock:
            found = self._turns.next_at()
        return None if found is None else found * NS_PER_MS

    def told(self, uid: int) -> tuple[status.QueryRuns, Standing | None]:
        """What is known about a query, and where it stands."""
        with self._lock:
            return self._told.get(uid, status.QueryRuns(uid)), self._turns.standing(uid)

    def succeeded(self, log: Log, run: Run, rows: int, now: int, took: int = 0) -> None:
        """The run's rows are written: record that, durably. ``took``: how many nanoseconds it took.

        :raises MillraceError: if that cannot be recorded; then the run has not succeeded.
        """
        with self._lock:
            told = self._of(run)
            after = following(run.query, run.instant, milliseconds(now))
            self._tell(
                log, run,
                msgspec.structs.replace(
                    told, done=run.instant, at=now, succeeded=told.succeeded + 1, rows=told.rows + rows,
                    message="", next=after, took=milliseconds(took),
                    skipped=told.skipped + (after - run.instant) // run.query.every - 1,
                ),
            )  # fmt: skip
            self._turns.succeeded(run, milliseconds(now))
            self.ended += 1

    def failed(self, log: Log, run: Run, why: str, now: int, took: int = 0) -> bool:
        """The run has failed, and is tried again later. Returns whether that is news: it did not fail before,
        or failed for another reason.

        :raises MillraceError: if that cannot be recorded; it is tried again nevertheless.
        """
        with self._lock:
            self._turns.failed(run, milliseconds(now))
            self.ended += 1
            told, why = self._of(run), why[:MESSAGE]
            self._tell(
                log, run,
                msgspec.structs.replace(
                    told, at=now, failed=told.failed + 1, message=why, next=run.instant,
                    took=milliseconds(took),
                ),
            )  # fmt: skip
            return told.message != why

    def _of(self, run: Run) -> status.QueryRuns:
        return self._told.get(run.query.uid) or status.QueryRuns(run.query.uid)

    def _tell(self, log: Log, run: Run, told: status.QueryRuns) -> None:
        if not self._turns.knows(run):
            return  # dropped meanwhile
        log.append([Message(STATUS.name, status.key(told), status.encode(told))])
        self._told[told.query] = told


MESSAGE = 1000
"""How many characters of a run's failure are recorded."""


def _deleted(uids: Iterable[int]) -> list[Message]:
    return [Message(STATUS.name, status.key(status.QueryRuns(uid)), None) for uid in uids]

"""The catalog as calc-svc has read it: shared by the consumer thread, which writes, and the planners."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from millrace_analytics import directory
from millrace_core.catalog import Catalog, StreamEntry, encode, key_of
from millrace_core.model.schema import KEEP, Child, Table
from millrace_core.problems import state_with, touching
from millrace_core.wire import status
from millrace_core.wire.diagnosis import Diagnosis
from millrace_core.wire.status import AnyStatus
from millrace_core.wire.topics import wal_topic


class CatalogView:
    """``lock`` guards ``catalog``. ``position``: the first offset of the catalog topic that has not been read
    yet; ``status_position``: the same of the ``status`` topic."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.catalog.algorithms = directory().algorithms
        self.lock = threading.RLock()
        self.position = self.status_position = 0
        self.statuses: dict[bytes, AnyStatus] = {}
        """The last record of each key of the ``status`` topic."""
        self.definitions = 0
        """Grows with every change of a database, table or anode: older plans may then be out of date."""
        self._streams: dict[int, StreamEntry] = {}
        self._pauses: set[tuple[int, int]] = set()
        self._problems: dict[bytes, status.Problem] = {}
        self._held: dict[bytes, status.TriggersHeld] = {}

    def apply(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take in a message of the topic ``catalog``.

        :raises WireError: if it is no valid message of the topic; it has been passed over.
        """
        with self.lock:
            self.position = offset + 1
            self.catalog.apply(key, value)
            key = key or b""
            if key.startswith((b"table", b"database", b"anode")):
                self.definitions += 1
            if key.startswith(b"stream"):
                self._streams = {entry.spec.uid: entry for entry in self.catalog.streams.values()}

    def apply_status(self, key: bytes | None, value: bytes | None) -> None:
        """Take in a message of the topic ``status``.

        :raises WireError: if it is no valid message of the topic; nothing has changed.
        """
        found = status.read(key, value)
        if key is None or isinstance(found, Diagnosis):
            return  # an answer that the gateway waits for
        with self.lock:
            if found is None:
                self.statuses.pop(key, None)
            else:
                self.statuses[key] = found
            if isinstance(found, status.Problem):
                self._problems[key] = found
            else:
                self._problems.pop(key, None)
            if isinstance(found, status.TriggersHeld):
                self._held[key] = found
            else:
                self._held.pop(key, None)
            if key.startswith(status.PAUSED.encode()):
                uid, partition = status.part_of(key)
                (self._pauses.discard if value is None else self._pauses.add)((uid, partition))

    def part(self, wanted: Iterable[tuple[str, str]], *, families: bool) -> Catalog:
        """As :meth:`Catalog.part`: a copy, so that whoever plans need not hold the lock meanwhile."""
        with self.lock:
            return self.catalog.part(wanted, families=families)

    def buried(self) -> dict[str, dict[int, int]]:
        """How far the dead letters of topics have been written: topic -> partition -> the first offset that
        was not looked at."""
        with self.lock:
            found = [one for one in self.statuses.values() if isinstance(one, status.Buried)]
            return {one.topic: one.offsets for one in found}

    def failure(self, uid: int) -> str:
        """Why a calculation of a stream failed; empty if none has."""
        with self.lock:
            found = self.statuses.get(status.key(status.StreamFailure(uid, "")))
            return found.message if isinstance(found, status.StreamFailure) else ""

    def failures(self) -> dict[tuple[int, int | None], str]:
        """(stream, slot of trigger-svc or None for its calculation) -> why it failed."""
        with self.lock:
            found = [one for one in self.statuses.values() if isinstance(one, status.StreamFailure)]
            return {(one.stream, one.slot): one.message for one in found if one.message}

    def paused(self, uid: int) -> str:
        """Why a stream's calculations wait (an address cannot be reached); empty while they do not."""
        with self.lock:
            for stream, partition in self._pauses:
                found = self.statuses.get(f"{status.PAUSED}{stream}/{partition}".encode())
                if stream == uid and isinstance(found, status.StreamPaused):
                    return found.message
            return ""

    def waits(self, uid: int) -> str:
        """Why nothing of a stream can be calculated now: it is paused, or a table that it needs cannot be
        used; empty if it can be calculated."""
        message = self.paused(uid)
        with self.lock:
            entry = self._streams.get(uid)
            problems = [one for one in self._problems.values() if one.service == "calc-svc" and one.topics]
            if message or entry is None or not problems:
                return message
            mine = touching(entry, self.catalog, problems)
            return next((one.message for one in mine if one.control is None), "")

    def held(self) -> dict[tuple[int, int], int]:
        """Stream and partition of ``triggers`` -> the offset from which its triggers have been left."""
        with self.lock:
            return {(one.stream, one.partition): one.offset for one in self._held.values()}

    def holds_live(self, uid: int) -> bool:
        """Whether some process has left live triggers of a stream in the log, to calculate them later."""
        with self.lock:
            return any(one.stream == uid and one.partition >= 0 for one in self._held.values())

    def waiting(self) -> dict[int, str]:
        """Stream -> what its oldest triggers are still waiting for."""
        with self.lock:
            return {one.stream: one.waits for one in self._held.values() if one.waits}

    def stream_statuses(self) -> dict[tuple[str, str], tuple[str, str]]:
        """(database, stream) -> (status, message): Init until the control record is applied. A running
        stream has a message where its triggers wait."""
        with self.lock:
            applied = self.statuses.get(b"applied")
            reached = applied.control if isinstance(applied, status.Applied) else -1
            problems = list(self._problems.values())
            found = {}
            failures = {uid: message for (uid, _), message in self.failures().items()}
            waiting = self.waiting()
            for name, entry in self.catalog.streams.items():
                message = failures.get(entry.spec.uid, "")
                state = "Failed" if message else entry.wanted
                if state == "Running" and (message := self.paused(entry.spec.uid)):
                    state = "Paused"
                message = message or waiting.get(entry.spec.uid, "")
                alone = "Init" if entry.control > reached else state, message
                found[name] = state_with(entry, self.catalog, problems, alone)
            return found

    def recalculations(self) -> list[status.Recalculation]:
        """What the services say about recalculations and histories of streams that exist."""
        with self.lock:
            found = [one for one in self.statuses.values() if isinstance(one, status.Recalculation)]
            return [one for one in found if one.stream in self._streams]

    def counters_of(self, service: str, stream: int, slot: int) -> status.Counters | None:
        """What one task of a stream has counted."""
        with self.lock:
            found = self.statuses.get(status.key(status.Counters(service, stream, slot, {})))
            return found if isinstance(found, status.Counters) else None

    def stream(self, uid: int) -> StreamEntry | None:
        with self.lock:
            return self._streams.get(uid)

    def streams(self) -> list[StreamEntry]:
        with self.lock:
            return list(self._streams.values())

    def keep_of(self, table: Table) -> int:
        """How many minutes rows of a table are kept; 0: for ever."""
        with self.lock:
            database = self.catalog.databases.get(table.db)
            return KEEP if database is None else database.keep

    def tables(self) -> dict[tuple[str, str], Table]:
        with self.lock:
            return dict(self.catalog.tables)

    def wal_topics(self) -> frozenset[str]:
        """The topics of all existing tables."""
        return frozenset(wal_topic(db, name) for db, name in self.tables())

    def children(self, table: Table) -> list[Child]:
        with self.lock:
            return list(self.catalog.children_of(table))

    def learn(self, child: Child) -> None:
        """A child that registered itself: it counts at once, before the gateway's record comes."""
        with self.lock:
            if (child.db, child.name) not in self.catalog.children:
                self.catalog.apply(key_of(child), encode(child))

"""The life of WAL topics: empty when their table is made, emptied once nobody reads them for a dropped table,
deleted only after a rest.

A topic that is deleted and made anew within minutes is not safe to read: consumers that Spark keeps take the
old and the new one for the same (decision 0019). So a table that is made again gets the topic of its
predecessor, emptied, and the offsets go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from api_gateway.watching.status_board import StatusBoard
from millrace_core.errors import CatalogError, ErrorCode, MillraceError, Position
from millrace_core.wire.topics import CONTROL, WAL_PREFIX, Topic, wal_topic
from millrace_wal import Log

MAX_TOPIC = 249  # characters of a topic's name (Kafka)
BETWEEN_SECONDS = 60.0
"""Deletions are at least this far apart, and each one takes all topics that have rested by then. Whoever asks
for the ends of all topics while one is being deleted, as trigger-svc's query does, may have to wait for
seconds."""


class WalTopics:
    """A dropped table's topic is *pending* until trigger-svc has let go of the table (before that, rows of a
    new table would be read as the old one's). Then it is *resting*: empty, and deleted ``rest`` seconds
    later, unless a table of the same name is made before."""

    def __init__(
        self, log: Log, board: StatusBoard, seconds: float, rest: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._log = log
        self._board = board
        self._seconds = seconds
        self._rest = rest
        self._now = now
        self._lock = threading.Lock()
        self._pending: dict[str, int] = {}
        self._resting: dict[str, float] = {}
        self._deleted_at = float("-inf")

    def make(self, db: str, table: str, partitions: int, where: Position | None, kept_ms: int = -1) -> None:
        """Make an empty topic for a new table, without anything that a dropped table left under the name.
        ``kept_ms``: how long it keeps what every reader is done with; -1: for ever.

        :raises MillraceError: INVALID_VALUE for a name that is too long once escaped; TIMEOUT if trigger-svc
            has not let go of the dropped table.
        """
        topic = wal_topic(db, table)
        if len(topic) > MAX_TOPIC:
            raise CatalogError(
                ErrorCode.INVALID_VALUE,
                f"the name {db}.{table} is too long: the name of its topic would have {len(topic)} "
                f"characters, but at most {MAX_TOPIC} are allowed (every byte outside a-z, 0-9 and _ takes "
                "three)",
                where,
            )
        there = topic in self._log.topics(topic)
        if there:
            self._await_release(topic)
        # under the lock: otherwise a sweep that is under way could take the new topic for the old one
        with self._lock:
            if there and topic in self._log.topics(topic):
                self._reuse(topic, partitions)
            self._pending.pop(topic, None)
            self._resting.pop(topic, None)
            self._log.ensure_topics([Topic(topic, "child table", "rows", partitions, kept_ms=kept_ms)])

    def _reuse(self, topic: str, partitions: int) -> None:
        if len(self._log.end_offsets(topic)) == partitions:
            self._log.empty_topics([topic])
        else:  # a super table after a normal one, or the other way round
            self._log.delete_topics([topic])

    def _await_release(self, topic: str) -> None:
        """Wait until nobody reads the rows that a drop, a crash or an outage left in the topic."""
        control = self._pending.get(topic)
        if control is None:
            # resting, or left by a drop or a creation that a crash cut short: every control record about it
            # is in the log by now
            control = self._log.end_offsets(CONTROL.name)[0] - 1
        if self._log.begin_offsets(topic) != self._log.end_offsets(topic) and not self._board.wait_applied(
            control, self._seconds
        ):
            raise MillraceError(
                ErrorCode.TIMEOUT,
                f"topic {topic} still belongs to a dropped table: trigger-svc has not released it yet; try "
                "again",
            )

    def adopt(self, tables: Sequence[tuple[str, str]]) -> None:
        """At start: topics that belong to no table were left by earlier drops, or by a producer that was too
        early. They rest without being emptied, so that what is in them can still become dead letters."""
        owned = {wal_topic(*table) for table in tables}
        left = [topic for topic in self._log.topics(WAL_PREFIX) if topic not in owned]
        with self._lock:
            until = self._now() + self._rest
            self._resting.update({topic: until for topic in left if topic not in self._pending})

    def retire(self, topics: Sequence[str], control: int) -> None:
        """These topics belong to nobody once the control record is in force."""
        with self._lock:
            self._pending.update(dict.fromkeys(topics, control))

    def sweep(self) -> None:
        """Empty the topics that trigger-svc has let go of, and delete those that have rested."""
        if not self._pending and not self._resting:
            return
        with self._lock:
            now = self._now()
            released = [topic for topic, control in self._pending.items() if control <= self._board.applied]
            there = set(self._log.topics(WAL_PREFIX)) if released else set()
            for topic in released:
                if topic in there:
                    self._log.empty_topics([topic])
                    self._resting[topic] = now + self._rest
                del self._pending[topic]
            rested = [topic for topic, until in self._resting.items() if until <= now]
            if rested and now - self._deleted_at >= BETWEEN_SECONDS:
                self._deleted_at = now
                self._log.delete_topics(rested)
                for topic in rested:
                    del self._resting[topic]

"""The life of WAL topics: made empty with their table, deleted once nobody reads them for the old one."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from api_gateway.status_board import StatusBoard
from millrace_core.errors import CatalogError, ErrorCode, MillraceError, Position
from millrace_core.wire.topics import CONTROL, wal_topic
from millrace_wal import Log

MAX_TOPIC = 249  # characters of a topic's name (Kafka)


class WalTopics:
    """A dropped table's topic may go only when trigger-svc has let go of the table: a topic made anew too
    early would be read as the old table's. Until then it is pending."""

    def __init__(self, log: Log, board: StatusBoard, seconds: float) -> None:
        self._log = log
        self._board = board
        self._seconds = seconds
        self._lock = threading.Lock()
        self._pending: dict[str, int] = {}

    def make(self, db: str, table: str, partitions: int, where: Position | None) -> None:
        """An empty topic for a new table; whatever a dropped table left under the name goes first.

        :raises MillraceError: INVALID_VALUE for a name that is too long once escaped; TIMEOUT if trigger-svc
            has not let go of the dropped table.
        """
        topic = wal_topic(db, table)
        if len(topic) > MAX_TOPIC:
            raise CatalogError(
                ErrorCode.INVALID_VALUE,
                f"the name {db}.{table} is too long: its topic would have {len(topic)} characters, at most "
                f"{MAX_TOPIC} go (every byte outside a-z, 0-9 and _ takes three)",
                where,
            )
        if topic in self._log.topics(topic):
            self._await_release(topic)
        # under the lock, or a sweep that is under way could take the new topic for the old one
        with self._lock:
            self._log.delete_topics([topic])
            self._pending.pop(topic, None)
            self._log.ensure_topics([(topic, partitions)])

    def _await_release(self, topic: str) -> None:
        """Wait until nobody reads the rows that a drop, a crash or an outage left in the topic."""
        control = self._pending.get(topic)
        if control is None:
            # left by a drop or a creation that a crash cut short: all that was said of it is in the log
            control = self._log.end_offsets(CONTROL.name)[0] - 1
        if any(self._log.end_offsets(topic).values()) and not self._board.wait_applied(
            control, self._seconds
        ):
            raise MillraceError(
                ErrorCode.TIMEOUT,
                f"topic {topic} is still a dropped table's: trigger-svc has not let go of it yet; try again",
            )

    def retire(self, topics: Sequence[str], control: int) -> None:
        """These topics may go once the control record is in force."""
        with self._lock:
            self._pending.update(dict.fromkeys(topics, control))

    def sweep(self) -> None:
        """Delete the topics that may go now."""
        if not self._pending:
            return
        with self._lock:
            ready = [topic for topic, control in self._pending.items() if control <= self._board.applied]
            if ready:
                self._log.delete_topics(ready)
                for topic in ready:
                    del self._pending[topic]

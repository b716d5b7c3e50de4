"""Topics that are named like those of tables but belong to none: what is written there becomes dead letters.

How far each was looked at is recorded in the topic ``status``, so that after a restart no letter is written
again and none is missed. The same is recorded for tables' topics, for after a restart these are read again
from before what was taken last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from millrace_core.errors import ErrorCode, MillraceError, WireError
from millrace_core.wire import status
from millrace_core.wire.status import Buried
from millrace_core.wire.topics import STATUS, WAL_PREFIX, table_of
from millrace_wal import BEGIN, Log, Message, Record

ORPHAN_AFTER = 10.0  # seconds that a topic's table may lag behind it


class Orphans:
    """``topics``: those that are being read. ``said``: how far topics were looked at, according to
    ``status``. Used by one thread."""

    def __init__(self, log: Log, said: Callable[[], Mapping[str, Mapping[int, int]]]) -> None:
        self._log, self._said = log, said
        self.topics: set[str] = set()
        self._seen_at: dict[str, float] = {}
        self._left: dict[str, dict[int, int]] = {}
        """Topics of dropped tables -> where messages that belong to no table begin."""
        self._looked: dict[str, dict[int, int]] = {}
        """How far topics were looked at, if that has changed since the start."""

    def left_behind(self, topics: Collection[str]) -> None:
        """Topics of tables that were dropped before this start: what is in them belonged to these tables."""
        there = set(self._log.topics(WAL_PREFIX))
        self._left |= {topic: self._log.end_offsets(topic) for topic in topics if topic in there}

    def leave(self, topic: str) -> dict[int, int] | None:
        """The topic's table is gone: what is in the topic belonged to the table, what comes later belongs to
        none. Returns where that begins; None if the topic is gone, too."""
        self._seen_at[topic] = float("inf")
        if topic not in self._log.topics(topic):
            return None
        self.topics.add(topic)
        return self._log.end_offsets(topic)

    def adopt(self, topic: str, ends: Mapping[int, int]) -> None:
        """The topic has a table now; ``ends``: the present ends of its partitions."""
        self.topics.discard(topic)
        self._left.pop(topic, None)
        # a topic that was deleted and made again is shorter
        looked = self._upto(topic).items()
        self._looked[topic] = {p: offset for p, offset in looked if offset <= ends.get(p, 0)}

    def _upto(self, topic: str) -> Mapping[int, int]:
        return self._looked[topic] if topic in self._looked else self._said().get(topic, {})

    def not_looked_at(
        self, bad: Sequence[tuple[Record, MillraceError]]
    ) -> list[tuple[Record, MillraceError]]:
        """The bad messages of a topic that have not been looked at before, each with what is wrong."""
        upto = self._upto(bad[0][0].topic) if bad else {}
        return [one for one in bad if one[0].offset >= upto.get(one[0].partition, 0)]

    def look(self, known: Collection[str], now: float) -> dict[str, dict[int, int]]:
        """Topics that have been without a table for a while, and from where to read each; ``known``: the
        topics that have one."""
        there = self._log.topics(WAL_PREFIX)
        self._seen_at = {topic: self._seen_at.get(topic, now) for topic in there}
        self.topics &= set(there)
        found: dict[str, dict[int, int]] = {}
        for topic in there:
            if topic in known or topic in self.topics or now - self._seen_at[topic] < ORPHAN_AFTER:
                continue
            self.topics.add(topic)
            found[topic] = self._start(topic)
        return found

    def _start(self, topic: str) -> dict[int, int]:
        ends = self._log.end_offsets(topic)
        self._looked[topic] = said = {**self._left.get(topic, {}), **self._said().get(topic, {})}
        # a topic that was deleted and made again is shorter
        return {p: said[p] if said.get(p, end + 1) <= end else BEGIN for p, end in ends.items()}

    def reached(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """The first offsets that were not looked at, in these partitions of a topic."""
        looked = self._looked.get(topic, {})
        return {partition: looked.get(partition, BEGIN) for partition in partitions}

    def looked_at(self, topic: str, ends: Mapping[int, int]) -> Message:
        """The record for ``status`` that a topic's dead letters have been written up to these offsets."""
        self._looked[topic] = {**self._upto(topic), **ends}
        return buried(topic, self._looked[topic])

    def forgotten(self) -> list[Message]:
        """The records that make ``status`` forget topics that were gone when :meth:`look` looked."""
        there = self._seen_at.keys()
        gone = [topic for topic in self._said() if topic.startswith(WAL_PREFIX) and topic not in there]
        for topic in gone:
            self._looked.pop(topic, None)
        return [Message(STATUS.name, status.key(Buried(topic, {})), None) for topic in gone]


def buried(topic: str, offsets: Mapping[int, int]) -> Message:
    """The record for ``status`` that a topic's dead letters have been written up to these offsets."""
    news = Buried(topic, dict(offsets))
    return Message(STATUS.name, status.key(news), status.encode(news))


def unknown(topic: str) -> WireError:
    """Why messages of the topic cannot be used."""
    try:
        db, name = table_of(topic)
    except WireError as error:
        return error
    return WireError(ErrorCode.UNKNOWN_TABLE, f"the table {db}.{name} does not exist")


def ends_of(records: Iterable[Record]) -> dict[int, int]:
    """For records of one topic: partition -> the offset after the last one."""
    ends: dict[int, int] = {}
    for record in records:
        ends[record.partition] = max(record.offset + 1, ends.get(record.partition, 0))
    return ends

"""Triggers that have to wait stay where they are, in the log. They wait because their stream is paused (an
address of its notifications cannot be reached), a table cannot be used, or something such as rows has not
come yet.

The consumer group commits past them, so that no other stream waits or is calculated twice. A record of the
``status`` topic, written before that commit, says from which offset on a stream's triggers are still to be
calculated. Once the stream can go on, they are read again from there, up to the end, beside what comes for
the other streams (decisions 0016 and 0035).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from calc_svc import metrics
from calc_svc.store.catalog import CatalogView
from millrace_core.calc.waiting import Left, StreamPartition, Wanted
from millrace_core.wire import events, status
from millrace_core.wire.status import TriggersHeld
from millrace_core.wire.topics import STATUS, TRIGGERS, stream_in
from millrace_wal import Gap, Log, Message, Reader, Record

POLL = 0.1
TAKE = 2_000  # messages read again at a time


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of the topic ``triggers`` a loop calculates: what slots send (``live``), or the answers to
    requests for history and recalculation (decision 0024). ``group``: its consumer group; ``pool``: where its
    jobs run; ``side_by_side``: how many streams are calculated at a time, most of which wait for their turn
    at Spark."""

    group: str
    live: bool
    pool: str
    side_by_side: int

    def has(self, record: Record) -> bool:
        if events.answers_request(record.key):
            return not self.live and not events.is_calculated(record.key)
        return self.live

    def task(self, partition: int) -> int:
        """A partition's number in the topic ``status``, distinct for the two loops that read each partition.
        The function is its own inverse."""
        return partition if self.live else -1 - partition


LIVE = Share("calc-svc", True, "triggers", 16)
AGAIN = Share("calc-again", False, "again", 1)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some of the triggers that these parts left. ``parts``: where each part goes on after the chunk (None:
    nothing is left of it); ``known``: those whose triggers in the chunk need nothing more from other tables
    (``Left.upto``)."""

    records: list[Record]
    parts: Mapping[StreamPartition, int | None]
    known: frozenset[StreamPartition] = frozenset()


def mark(part: StreamPartition, offset: int | None, waits: str = "") -> Message:
    """The record that a stream's triggers are held from this offset on; None: that they are not held."""
    held = TriggersHeld(*part, offset or 0, waits)
    return Message(STATUS.name, status.key(held), None if offset is None else status.encode(held))


@dataclass(slots=True)
class Holding:
    """Which triggers are held. Used by one thread. ``missing``: what the store has not read yet, in words
    (None: nothing); ``lost``: told of triggers that the topic has forgotten, and of which streams; ``first``:
    what is held by the loop that goes first. This loop calculates nothing for a stream that is held there."""

    log: Log
    catalog: CatalogView
    missing: Callable[[Wanted], str | None]
    lost: Callable[[Gap, tuple[int, ...]], object]
    share: Share = LIVE
    first: Holding | None = None
    streams: frozenset[int] = frozenset()
    """The streams whose triggers are held. May be read by any thread."""
    _marks: dict[StreamPartition, int] = field(default_factory=dict)
    _left: dict[StreamPartition, Left] = field(default_factory=dict)
    _own: set[int] = field(default_factory=set)
    _reader: Reader | None = None
    _reading: int = -1

    def _tasks(self, assigned: set[tuple[str, int]]) -> set[int]:
        return {self.share.task(partition) for topic, partition in assigned if topic == TRIGGERS.name}

    def owns(self, assigned: set[tuple[str, int]]) -> bool:
        """Whether exactly these partitions belong to this instance already."""
        return self._tasks(assigned) == self._own

    def own(self, assigned: set[tuple[str, int]]) -> None:
        """These partitions belong to this instance now, and with them what was held there before, as far as
        the catalog knows."""
        now = self._tasks(assigned)
        if now == self._own:
            return
        new = now - self._own
        self._marks = {part: at for part, at in self._marks.items() if part[1] in now}
        self._left = {part: left for part, left in self._left.items() if part[1] in now}
        self._marks |= {part: at for part, at in self.catalog.held().items() if part[1] in new}
        self._own = now
        self._tell()

    def sift(self, records: Sequence[Record]) -> tuple[list[Record], list[Message]]:
        """The records that are to be calculated now, and what to write before a commit passes the others."""
        kept: list[Record] = []
        marks: list[Message] = []
        for record in records:
            uid = stream_in(record.key)
            part = uid, self.share.task(record.partition)
            if part in self._marks:
                continue
            # later, a stream that the catalog does not know yet could not be told from one that is gone
            if self._waits(uid) and self.catalog.stream(uid) is not None:
                self._marks[part] = record.offset
                marks.append(mark(part, record.offset))
            else:
                kept.append(record)
        self._tell()
        return kept, marks

    def leave(self, left: Mapping[StreamPartition, Left]) -> list[Message]:
        """These wait from now on. Returns what to write before a commit passes them."""
        self._left |= left
        self._marks |= {part: one.offset for part, one in left.items()}
        self._tell()
        return [mark(part, one.offset, one.why) for part, one in left.items()]

    def go_on(self, uid: int, upto: Mapping[StreamPartition, int]) -> list[Message]:
        """What was left of a stream need not wait any longer, and is done up to these offsets. Returns what
        to write then."""
        told = []
        for part in [part for part in self._marks if part[0] == uid]:
            self._left.pop(part, None)
            if (at := upto.get(part)) is not None:
                self._marks[part] = at
                told.append(mark(part, at))
        return told

    @property
    def due(self) -> list[StreamPartition]:
        """The parts that can go on (or were dropped) and have not calculated what they left."""
        return [part for part in self._marks if not self._waits(part[0]) and self._is_there(part)]

    def _waits(self, uid: int) -> bool:
        """Whether nothing of a stream can be calculated now, as far as is known."""
        return bool(self.catalog.waits(uid)) or (
            self.first is not None and (uid in self.first.streams or self.catalog.holds_live(uid))
        )

    def _is_there(self, part: StreamPartition) -> bool:
        """Whether what its triggers wait for has come, as far as is known."""
        left = self._left.get(part)
        if left is None or left.wanted is None:
            return left is None or time.monotonic() >= left.again
        return self.missing(left.wanted) is None

    def chunk(self) -> Chunk | None:
        """The next triggers that were left, of all parts of one partition that can go on; None while there
        are none to calculate.

        :raises MillraceError: if the log cannot be read.
        """
        due = self.due
        if not due:
            self.close()
            return None
        gone = [part for part in due if self.catalog.stream(part[0]) is None]
        if gone:
            return Chunk([], dict.fromkeys(gone))
        marks = {part: self._marks[part] for part in due if part[1] == due[0][1]}
        task = due[0][1]
        partition = self.share.task(task)
        reader = self._open(partition, marks)
        records = reader.poll(POLL, TAKE)
        end = reader.positions()[TRIGGERS.name][partition]
        done = end >= self.log.end_offsets(TRIGGERS.name)[partition]
        known = {part: left.upto for part in marks if (left := self._left.get(part)) and left.upto}
        mine = [
            record
            for record in records
            if self.share.has(record)
            and marks.get(part := (stream_in(record.key), task), end) <= record.offset < known.get(part, end)
        ]
        behind = {
            part: self._behind(at, end, known.get(part, end), done)
            for part, at in marks.items()
            if at < end or done
        }
        return Chunk(mine, behind, frozenset(known))

    @staticmethod
    def _behind(mark: int, end: int, known: int, done: bool) -> int | None:
        """Where a part goes on after a chunk that ends at ``end``; None if nothing is left of it."""
        if known < end:
            return known
        return None if done else max(mark, end)

    def calculated(self, chunk: Chunk, left: Mapping[StreamPartition, Left]) -> list[Message]:
        """The chunk is done, except for what is ``left`` of it. Returns what to write then."""
        told = {(stream_in(record.key), task) for record in chunk.records for _, task in chunk.parts}
        messages = []
        for part, behind in chunk.parts.items():
            waited, waits = self._left.pop(part, None), left.get(part)
            at = behind if waits is None else waits.offset
            if at is None:
                del self._marks[part]
            else:
                self._marks[part] = at
            if waits is not None:
                self._left[part] = waits
            # if none of its triggers were in the chunk, the older mark is still good enough
            if at is None or waits or waited or part in told:
                messages.append(mark(part, at, waits.why if waits else ""))
        if all(behind is None for behind in chunk.parts.values()):
            self.close()
        self._tell()
        return messages

    def _tell(self) -> None:
        self.streams = frozenset(uid for uid, _ in self._marks)
        metrics.STREAMS_HELD.labels(self.share.group).set(len(self._marks))

    def close(self) -> None:
        """Stop reading; the next :meth:`chunk` begins anew after what was calculated."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def _open(self, partition: int, marks: Mapping[StreamPartition, int]) -> Reader:
        """A reader at the first of these marks, or before it."""
        first = min(marks.values())
        if self._reader is not None and self._reading == partition:
            at = self._reader.positions().get(TRIGGERS.name, {}).get(partition)
            if at is not None and at <= first:
                return self._reader
        self.close()
        begin = self.log.begin_offsets(TRIGGERS.name)[partition]
        if begin > first:
            streams = sorted({part[0] for part, at in marks.items() if at < begin})
            self.lost(Gap(TRIGGERS.name, partition, first, begin), tuple(streams))
        self._reader = self.log.reader({TRIGGERS.name: {partition: max(begin, first)}})
        self._reading = partition
        return self._reader

"""Triggers that wait stay where they are, in the log. Their stream is paused, for an address of its
notifications is away; or a table cannot be used; or something is not there yet: rows of it, say.

The group commits past them, so that no other stream waits or is calculated twice; a record of the ``status``
topic, written before that commit, says from which offset on a stream's triggers are still to be calculated.
Once the stream goes on they are read again from there, up to the end, beside what comes for the other
streams (decisions 0016 and 0035).
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
    """What of the topic ``triggers`` a loop calculates: what slots send (``live``), or the answers to
    requests for history and recalculation (decision 0024). ``group``: its consumer group; ``pool``: where its
    jobs run. So many streams are calculated ``side_by_side``, most of which wait for their turn at Spark."""

    group: str
    live: bool
    pool: str
    side_by_side: int

    def has(self, record: Record) -> bool:
        if events.answers_request(record.key):
            return not self.live and not events.is_calculated(record.key)
        return self.live

    def task(self, partition: int) -> int:
        """A partition's number in the topic ``status``, as two loops read each; it is its own inverse."""
        return partition if self.live else -1 - partition


LIVE = Share("calc-svc", True, "triggers", 16)
AGAIN = Share("calc-again", False, "again", 1)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some of what these parts left. ``parts``: where each goes on behind it, None: there is no more of it.
    ``known``: those whose triggers in here need nothing more of other tables (``Left.upto``)."""

    records: list[Record]
    parts: Mapping[StreamPartition, int | None]
    known: frozenset[StreamPartition] = frozenset()


def mark(part: StreamPartition, offset: int | None, waits: str = "") -> Message:
    """That a stream's triggers are held from this offset on; None: that they are not."""
    held = TriggersHeld(*part, offset or 0, waits)
    return Message(STATUS.name, status.key(held), None if offset is None else status.encode(held))


@dataclass(slots=True)
class Holding:
    """Which triggers are held. Used by one thread. ``missing``: what the store has not read yet, in words;
    None: nothing. ``lost``: is told of triggers that the topic has forgotten, and whose they were. ``first``:
    what the loop holds that goes first: of a stream in there this one calculates nothing."""

    log: Log
    catalog: CatalogView
    missing: Callable[[Wanted], str | None]
    lost: Callable[[Gap, tuple[int, ...]], object]
    share: Share = LIVE
    first: Holding | None = None
    streams: frozenset[int] = frozenset()
    """Whose triggers are held. May be read by any thread."""
    _marks: dict[StreamPartition, int] = field(default_factory=dict)
    _left: dict[StreamPartition, Left] = field(default_factory=dict)
    _own: set[int] = field(default_factory=set)
    _reader: Reader | None = None
    _reading: int = -1

    def _tasks(self, assigned: set[tuple[str, int]]) -> set[int]:
        return {self.share.task(partition) for topic, partition in assigned if topic == TRIGGERS.name}

    def owns(self, assigned: set[tuple[str, int]]) -> bool:
        """Whether these partitions, and no others, are this instance's already."""
        return self._tasks(assigned) == self._own

    def own(self, assigned: set[tuple[str, int]]) -> None:
        """These partitions are this instance's now: what was held there before, as far as the catalog knows,
        is its matter too."""
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
        """Those of the records that are to be calculated now, and what to write before a commit passes the
        others."""
        kept: list[Record] = []
        marks: list[Message] = []
        for record in records:
            uid = stream_in(record.key)
            part = uid, self.share.task(record.partition)
            if part in self._marks:
                continue
            # a stream that the catalog does not know yet cannot be told from one that is gone later
            if self._waits(uid) and self.catalog.stream(uid) is not None:
                self._marks[part] = record.offset
                marks.append(mark(part, record.offset))
            else:
                kept.append(record)
        self._tell()
        return kept, marks

    def leave(self, left: Mapping[StreamPartition, Left]) -> list[Message]:
        """These wait from now on: what to write before a commit passes them."""
        self._left |= left
        self._marks |= {part: one.offset for part, one in left.items()}
        self._tell()
        return [mark(part, one.offset, one.why) for part, one in left.items()]

    def go_on(self, uid: int, upto: Mapping[StreamPartition, int]) -> list[Message]:
        """What was left of a stream need wait no longer, and is done with up to these offsets: what to
        write then."""
        told = []
        for part in [part for part in self._marks if part[0] == uid]:
            self._left.pop(part, None)
            if (at := upto.get(part)) is not None:
                self._marks[part] = at
                told.append(mark(part, at))
        return told

    @property
    def due(self) -> list[StreamPartition]:
        """What can go on (or was dropped) and has not calculated what it left."""
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
        """The next triggers that were left, of all that can go on in one partition; None while there are none
        to calculate.

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
        """Where a part goes on behind a chunk that ends at ``end``."""
        if known < end:
            return known
        return None if done else max(mark, end)

    def calculated(self, chunk: Chunk, left: Mapping[StreamPartition, Left]) -> list[Message]:
        """The chunk is done with, but for what is ``left`` of it: what to write then."""
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
            # nothing of it was in the chunk: where it begins need not be told anew
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
        """Read no more; the next :meth:`chunk` begins anew behind what was calculated."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def _open(self, partition: int, marks: Mapping[StreamPartition, int]) -> Reader:
        """A reader that stands where the first of these goes on, or before."""
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

"""Streams that wait, for an address of their notifications or for a table: their triggers stay in the log.

The group commits past them, so that no other stream waits or is calculated twice; a record of the ``status``
topic, written before that commit, says from which offset on a stream's triggers are still to be calculated.
Once the stream goes on they are read again from there, up to the end, beside what comes for the other
streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from calc_svc import metrics
from calc_svc.catalog import CatalogView
from millrace_core.wire import events, status
from millrace_core.wire.status import TriggersHeld
from millrace_core.wire.topics import STATUS, TRIGGERS
from millrace_wal import Log, Message, Reader, Record

Part = tuple[int, int]
"""A stream (its uid) and a partition of ``triggers``, numbered as :meth:`Share.task` does; all triggers of a
group lie in one."""

POLL = 0.1
TAKE = 2_000  # messages read again at a time


@dataclass(frozen=True, slots=True)
class Share:
    """What of the topic ``triggers`` a loop calculates: what slots send (``live``), or the answers to
    requests for history and recalculation (decision 0024). ``group``: its consumer group; ``pool``: where its
    jobs run. So many streams are calculated ``side_by_side``, most of which wait for a job that they share
    (decision 0027)."""

    group: str
    live: bool
    pool: str
    side_by_side: int

    def has(self, record: Record) -> bool:
        return events.answers_request(record.key) is not self.live

    def task(self, partition: int) -> int:
        """A partition's number in the topic ``status``, as two loops read each; it is its own inverse."""
        return partition if self.live else -1 - partition


LIVE = Share("calc-svc", True, "triggers", 16)
AGAIN = Share("calc-again", False, "again", 1)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some of what a stream left: ``records`` before the offset ``end``. ``done``: there is no more of it."""

    part: Part
    records: list[Record]
    end: int
    done: bool

    @property
    def message(self) -> Message:
        """What the ``status`` topic says once these are calculated."""
        return mark(self.part, None if self.done else self.end)


def mark(part: Part, offset: int | None) -> Message:
    """That a stream's triggers are held from this offset on; None: that they are not."""
    held = TriggersHeld(*part, offset or 0)
    return Message(STATUS.name, status.key(held), None if offset is None else status.encode(held))


class Holding:
    """Which triggers are held. Used by one thread."""

    def __init__(self, log: Log, catalog: CatalogView, share: Share = LIVE) -> None:
        self._log, self._catalog, self._share = log, catalog, share
        self._marks: dict[Part, int] = {}
        self._own: set[int] = set()
        self._reader: Reader | None = None
        self._reading: Part | None = None

    def own(self, assigned: set[tuple[str, int]]) -> None:
        """These partitions are this instance's now: what was held there before is its matter too."""
        now = {self._share.task(partition) for topic, partition in assigned if topic == TRIGGERS.name}
        if now == self._own:
            return
        new = now - self._own
        self._marks = {part: at for part, at in self._marks.items() if part[1] in now}
        self._marks |= {part: at for part, at in self._catalog.held().items() if part[1] in new}
        self._own = now

    def sift(self, records: Sequence[Record]) -> tuple[list[Record], list[Message]]:
        """Those of the records that are to be calculated now, and what to write before a commit passes the
        others."""
        kept: list[Record] = []
        marks: list[Message] = []
        for record in records:
            uid = _stream(record)
            part = uid, self._share.task(record.partition)
            if part in self._marks:
                continue
            # a stream that the catalog does not know yet cannot be told from one that is gone later
            if self._catalog.waits(uid) and self._catalog.stream(uid) is not None:
                self._marks[part] = record.offset
                marks.append(mark(part, record.offset))
            else:
                kept.append(record)
        metrics.STREAMS_HELD.labels(self._share.group).set(len(self._marks))
        return kept, marks

    @property
    def due(self) -> Part | None:
        """A stream that goes on (or was dropped) and has not calculated what it left."""
        return next((part for part in self._marks if not self._catalog.waits(part[0])), None)

    def chunk(self) -> Chunk | None:
        """The next triggers that were left; None while there are none to calculate.

        :raises MillraceError: if the log cannot be read.
        """
        part = self.due
        if part is None or self._reading != part:
            self.close()
        if part is None:
            return None
        uid, partition = part[0], self._share.task(part[1])
        if self._catalog.stream(uid) is None:
            return Chunk(part, [], self._marks[part], True)
        reader = self._reader or self._open(part)
        records = reader.poll(POLL, TAKE)
        end = reader.positions()[TRIGGERS.name][partition]
        done = end >= self._log.end_offsets(TRIGGERS.name)[partition]
        mine = [record for record in records if _stream(record) == uid and self._share.has(record)]
        return Chunk(part, mine, end, done)

    def calculated(self, chunk: Chunk) -> None:
        """The chunk is done with, and that has been written."""
        if chunk.done:
            del self._marks[chunk.part]
            self.close()
        else:
            self._marks[chunk.part] = chunk.end
        metrics.STREAMS_HELD.labels(self._share.group).set(len(self._marks))

    def close(self) -> None:
        """Read no more; the next :meth:`chunk` begins anew behind what was calculated."""
        if self._reader is not None:
            self._reader.close()
        self._reader, self._reading = None, None

    def _open(self, part: Part) -> Reader:
        uid, partition = part[0], self._share.task(part[1])
        begin = self._log.begin_offsets(TRIGGERS.name)[partition]
        if begin > self._marks[part]:
            structlog.get_logger("calc-svc").error(
                "triggers of a paused stream are not kept any more",
                stream=uid,
                messages=begin - self._marks[part],
            )
        offset = max(begin, self._marks[part])
        self._reader, self._reading = self._log.reader({TRIGGERS.name: {partition: offset}}), part
        return self._reader


def _stream(record: Record) -> int:
    """The stream of a trigger message, by its key ``uid/slot``; -1 for another key."""
    uid = (record.key or b"").partition(b"/")[0]
    return int(uid) if uid.isdigit() else -1

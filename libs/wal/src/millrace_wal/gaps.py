"""Offsets that a topic forgot before they were read: they are noticed, never passed over in silence."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from millrace_core.errors import MillraceError
from millrace_core.wire import status
from millrace_core.wire.status import Problem
from millrace_core.wire.topics import CONTROL, STATUS
from millrace_wal.record import Log, Message, Record, Stretch


class Gap(NamedTuple):
    """Offsets ``[first, end)`` of a partition are gone, and were not read."""

    topic: str
    partition: int
    first: int
    end: int

    @property
    def offsets(self) -> int:
        return self.end - self.first

    def __str__(self) -> str:
        return (
            f"{self.offsets} offsets of topic {self.topic}, partition {self.partition}, were deleted "
            f"before they were read: {self.first} to {self.end - 1}"
        )


class Gaps:
    """Watches what a reader returns, in order; used by the reader's thread. ``group``: a consumer group; a
    partition of which nothing is known yet is taken to begin at the group's commit."""

    def __init__(self, log: Log, group: str = "") -> None:
        self._log, self._group = log, group
        self._next: dict[tuple[str, int], int] = {}

    def begin(self, topic: str, positions: Mapping[int, int]) -> list[Gap]:
        """The topic is read from these positions on. Returns the gaps that are there already.

        :raises MillraceError: if the broker cannot be asked; nothing has changed.
        """
        begins = self._log.begin_offsets(topic)
        self.at(topic, positions)
        return self.passed(topic, {p: begins[p] for p, at in positions.items() if begins.get(p, 0) > at})

    def at(self, topic: str, positions: Mapping[int, int]) -> None:
        """The topic is read from these positions on; gaps before them are noticed when something comes."""
        self._next |= {(topic, partition): offset for partition, offset in positions.items()}

    def passed(self, topic: str, positions: Mapping[int, int]) -> list[Gap]:
        """The reader stands at these positions; since the last records it returned none. Returns the gaps.

        :raises MillraceError: if the broker cannot be asked; nothing has changed.
        """
        far = {p: at for p, at in positions.items() if self._next.get((topic, p), at) < at}
        begins = self._log.begin_offsets(topic) if far else {}
        gaps = [
            Gap(topic, partition, first, min(begins[partition], at))
            for partition, at in far.items()
            if begins.get(partition, 0) > (first := self._next[topic, partition])
        ]
        self.at(topic, far)
        return gaps

    def forget(self, topic: str) -> None:
        """The topic is not read any more."""
        self._next = {place: offset for place, offset in self._next.items() if place[0] != topic}

    def keep(self, places: set[tuple[str, int]]) -> None:
        """Partitions other than these are not read any more."""
        self._next = {place: offset for place, offset in self._next.items() if place in places}

    def take(self, records: Sequence[Record]) -> list[Gap]:
        """Records have come. Returns the gaps before and between them.

        :raises MillraceError: if the broker cannot be asked; nothing has changed.
        """
        runs: dict[tuple[str, int], list[int]] = {}
        for record in records:
            runs.setdefault((record.topic, record.partition), []).append(record.offset)
        return self._take(runs)

    def pass_over(self, stretches: Sequence[Stretch]) -> list[Gap]:
        """As :meth:`take`, for messages that were read in columns."""
        runs: dict[tuple[str, int], list[int]] = {}
        for some in stretches:
            runs.setdefault((some.topic, some.partition), []).extend(some.offsets)
        return self._take(runs)

    def _take(self, runs: Mapping[tuple[str, int], Sequence[int]]) -> list[Gap]:
        found: list[Gap] = []
        after: dict[tuple[str, int], int] = {}
        for place, offsets in runs.items():
            expected = self._expected(place, offsets[0])
            after[place] = offsets[-1] + 1
            # offsets without a record (ends of transactions, compacted records) leave holes too
            if expected is not None and offsets[-1] - expected >= len(offsets):
                found += self._holes(place, expected, offsets)
        self._next |= after
        return found

    def _expected(self, place: tuple[str, int], first: int) -> int | None:
        """``first``: the first offset that came from the partition."""
        if place in self._next or not self._group:
            return self._next.get(place)
        # after a gap, reading begins where the topic begins; otherwise there is no need to ask for the
        # commit, which a broker that has just come back may not tell for a while
        begin = self._log.begin_offsets(place[0]).get(place[1], 0)
        if not begin or first > begin:
            return None
        return self._log.committed(self._group, place[0]).get(place[1])

    def _holes(self, place: tuple[str, int], expected: int, offsets: Sequence[int]) -> list[Gap]:
        begin = self._log.begin_offsets(place[0]).get(place[1], 0)
        found = []
        for offset in offsets:
            if begin > expected and offset > expected:
                found.append(Gap(*place, expected, min(begin, offset)))
            expected = offset + 1
        return found


class GapWatch(Gaps):
    """Reports gaps to the topic ``status``, so that SHOW STREAMS shows them. ``found``: called with each."""

    def __init__(
        self, log: Log, service: str, group: str = "", found: Callable[[Gap], None] = lambda gap: None
    ) -> None:
        super().__init__(log, group)
        self._service, self._found = service, found

    def watch(self, records: Sequence[Record]) -> None:
        """Records have come; what is missing before and between them touches all streams.

        :raises MillraceError: if the broker cannot be asked or told; nothing has changed.
        """
        before = dict(self._next)
        try:
            for gap in self.take(records):
                self.tell(gap)
        except MillraceError:
            self._next = before
            raise

    def tell(self, gap: Gap, topics: tuple[str, ...] = (), streams: tuple[int, ...] = ()) -> None:
        """Report a gap. It touches the streams that need one of these WAL topics, and these streams; if
        neither is given, all streams. They stay touched until they are started anew."""
        control = self._log.end_offsets(CONTROL.name)[0] - 1
        problem = Problem(
            self._service, f"gap/{gap.topic}/{gap.partition}", f"{self._service}: {gap}", topics, streams,
            everything=not topics and not streams, control=control,
        )  # fmt: skip
        self._log.append([Message(STATUS.name, status.key(problem), status.encode(problem))])
        logging.getLogger("millrace_wal").error("%s: %s", self._service, gap)
        self._found(gap)

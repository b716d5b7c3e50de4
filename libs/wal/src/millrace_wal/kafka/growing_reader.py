"""A reader of many topics, most of which bring something only seldom.

A Kafka client names all its partitions in each fetch, and the broker looks at each of them. With hundreds
of tables this took more of the broker's time than all else. So topics that seldom bring something have a
client of their own, whose fetches are seldom answered; what they bring still comes as soon as before.

A topic that is added waits for the fetch that is under way, so the broker must answer soon even if there is
nothing. When no topic has been added for a while, all move to a client whose fetches wait longer; when one is
added, all move back. Either way the other client has no fetch under way.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from millrace_core.errors import MillraceError
from millrace_wal.record import Closing, Positions, Reader, Record, Stretch

MANY = 64
"""From this many partitions on, seldom topics are read apart; naming fewer in a fetch costs little."""
SORTED_EVERY = 10.0
"""Seconds after which topics are sorted again."""
SELDOM, OFTEN = 3, 20
"""Polls in that time that brought something from a topic: with at most SELDOM it joins the seldom topics,
with at least OFTEN it leaves them."""
TURN = 0.01
"""Seconds to wait for one client before asking the other."""
GROWN = 10.0
"""Seconds without another topic after which fetches may wait longer."""


class GrowingReader(Closing):
    """See :class:`millrace_wal.record.Reader`. ``make``: makes a reader of one client, given where it begins
    and whether topics are likely to join it."""

    def __init__(
        self,
        make: Callable[[Mapping[str, Mapping[int, int]], bool], Reader],
        positions: Mapping[str, Mapping[int, int]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make, self._now = make, now
        self._often = self._growing = make(positions, True)
        self._grown: Reader | None = None
        """A client whose fetches wait longer, from when it is first needed."""
        self._added = now()
        self._seldom: Reader | None = None
        self._apart: set[str] = set()
        """The topics that the seldom client reads."""
        self._came: Counter[str] = Counter()
        self._sorted = now()

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        return [record for some in self.stretches(timeout, limit) for record in some.records()]

    def stretches(self, timeout: float, limit: int = 5000) -> list[Stretch]:
        if self._now() - self._sorted > SORTED_EVERY:
            self._sort()
        if self._often is self._growing and self._seldom is None and self._now() - self._added > GROWN:
            self._grown = self._grown or self._make({}, False)
            self._read_by(self._grown)
        seldom = self._seldom
        found = (
            self._often.stretches(timeout, limit) if seldom is None else self._in_turn(seldom, timeout, limit)
        )
        self._came.update({some.topic for some in found})
        return found

    def _in_turn(self, seldom: Reader, timeout: float, limit: int) -> list[Stretch]:
        until = time.monotonic() + timeout
        while True:
            found = seldom.stretches(0, limit)
            left = until - time.monotonic()
            # what both have ready is returned at once
            try:
                found += self._often.stretches(0 if found else max(0, min(left, TURN)), limit)
            except MillraceError:
                if not found:
                    raise  # otherwise it is raised again by the next poll
            if found or left <= 0:
                return found

    def _sort(self) -> None:
        """Each topic goes to the client that suits how often it has brought something since the last time."""
        came, self._came, self._sorted = self._came, Counter(), self._now()
        often = self._often.positions()
        if self._seldom is None:
            if sum(map(len, often.values())) <= MANY:
                return
            self._seldom = self._make({}, True)
        self._move(self._often, self._seldom, [topic for topic in often if came[topic] <= SELDOM])
        self._move(self._seldom, self._often, [topic for topic in self._apart if came[topic] >= OFTEN])
        self._apart = set(self._seldom.positions())

    @staticmethod
    def _move(source: Reader, target: Reader, topics: Sequence[str]) -> None:
        """Reading of these topics goes on where it stands."""
        at = source.positions()
        for topic in topics:
            source.remove(topic)
            target.add(topic, at[topic])

    def _read_by(self, reader: Reader) -> None:
        """What the often client reads is read by this one from now on."""
        source, self._often = self._often, reader
        self._move(source, reader, list(source.positions()))

    def add(self, topic: str, positions: Mapping[int, int]) -> None:
        self._added = self._now()
        if self._often is not self._growing:
            self._read_by(self._growing)
        self._reader_of(topic).add(topic, positions)

    def remove(self, topic: str) -> None:
        self._reader_of(topic).remove(topic)
        self._apart.discard(topic)

    def _reader_of(self, topic: str) -> Reader:
        return self._seldom if self._seldom is not None and topic in self._apart else self._often

    def positions(self) -> Positions:
        return self._often.positions() | (self._seldom.positions() if self._seldom is not None else {})

    def moved(self) -> Positions:
        return self._often.moved() | (self._seldom.moved() if self._seldom is not None else {})

    def close(self) -> None:
        for reader in (self._growing, self._grown, self._seldom):
            if reader is not None:
                reader.close()

"""Messages that cannot be understood: passed over, reported, and turned into dead letters by one service."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate, takewhile
from typing import TypeVar

from cachetools import LRUCache

from millrace_core.errors import MillraceError, WireError
from millrace_core.wire import dead
from millrace_core.wire.topics import DEAD_LETTERS, Service, buried_by
from millrace_wal.record import Log, Message, Record

T = TypeVar("T")
TOGETHER = 32 * 1024 * 1024
"""Bytes of dead letters that are appended in one call."""
KNOWN = 10_000
"""Messages whose places are remembered, so that each gets one letter."""
Told = Callable[[Record, MillraceError], object]


class DeadLetters:
    """What one thread of a service does with messages that it cannot understand.

    ``told``: called for each such message, to count and log it. If this service makes the dead letters of the
    topic (``wire.topics``), a letter waits for :meth:`write`, which must come before anything that marks the
    message as read. A message that is read again after a crash gets the same letter again. ``service`` None:
    another thread of the service makes the letters, and reports the messages.
    """

    def __init__(self, log: Log, service: Service | None, told: Told = lambda record, error: None) -> None:
        self._log, self._service, self._told = log, service, told
        self._waiting: list[tuple[Record, Message]] = []
        self._known: LRUCache[tuple[str, int, int, int], None] = LRUCache(KNOWN)
        """Places and times of the last buried messages: one that is read again gets only one letter."""

    def understood(
        self, records: Iterable[Record], read: Callable[[bytes | None, bytes | None], T]
    ) -> list[tuple[Record, T]]:
        """The records whose key and value can be read, each with what it says."""
        found: list[tuple[Record, T]] = []
        for record in records:
            try:
                found.append((record, read(record.key, record.value)))
            except WireError as error:
                self.bury(record, error)
        return found

    def bury(self, record: Record, error: MillraceError) -> None:
        """Report a message that is of no use, and why; its letter waits for :meth:`write`."""
        if record[:4] in self._known:
            return
        self._known[record[:4]] = None
        self._told(record, error)
        if self._service is not None and buried_by(record.topic) == self._service:
            letter = dead.letter(*record[:3], record.key, record.value, error, self._service)
            message = Message(DEAD_LETTERS.name, record.topic.encode(), dead.encode(letter))
            self._waiting.append((record, message))

    def write(self) -> None:
        """Append the letters that wait. A letter that the log refuses for good does not hold up the others.

        :raises MillraceError: if the log is away; what has not been appended still waits.
        """
        together = TOGETHER
        while self._waiting:
            some = self._within(together)
            try:
                self._log.append([message for _, message in some])
            except MillraceError as error:
                if error.code.value.retry:
                    raise
                if len(some) > 1:
                    together = 0  # one by one, to find out which
                    continue
                ((record, _),) = some
                self._told(record, error)
            del self._waiting[: len(some)]

    def _within(self, size: int) -> list[tuple[Record, Message]]:
        """The first of the letters, up to this many bytes; at least one."""
        sizes = accumulate(len(message.value or b"") for _, message in self._waiting)
        count = sum(1 for _ in takewhile(lambda together: together <= size, sizes))
        return self._waiting[: max(count, 1)]

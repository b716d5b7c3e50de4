"""Reports how far the trigger query is, for readers of the status topic; and writes ticks for the counters.

Slots count rows, but tell their counts only when a tick comes (``trigger.stream.STEADY``): to tell them with
each batch would make more messages than a quiet stream triggers. So once a second, if the query has read
anything but ticks since the last one, a tick is written on which nothing fires. The last such tick comes
after the last row, so totals are complete a second or two after that row. An idle query gets none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from millrace_core.errors import WireError
from millrace_core.wire import status
from millrace_core.wire.status import ReadUpTo
from millrace_core.wire.topics import CLOCK, STATUS, TOPICS, TRIGGER_QUERY, WAL_PREFIX
from millrace_wal import Log, Message, replay
from trigger_svc.clock import idle_tick
from trigger_svc.positions import Ends, copied

EVERY = 1.0
TRIMMED = frozenset(topic.name for topic in TOPICS if TRIGGER_QUERY in topic.readers)
"""Internal topics that are trimmed of what this query has read."""


def moved(before: Ends, now: Mapping[str, dict[int, int]]) -> dict[str, dict[int, int]]:
    """The topics that have been read further, not counting ticks."""
    return {topic: ends for topic, ends in now.items() if topic != CLOCK.name and before.get(topic) != ends}


class Reporter:
    """Reports once a second; a work of :class:`millrace_service.Life`. ``progress``: says how far messages
    are evaluated for good; ``instance``: this process's name, for people."""

    def __init__(self, log: Log, progress: Callable[[], Ends], instance: str) -> None:
        self.name, self.stopping = "reporter", threading.Event()
        self._log, self._progress, self._instance = log, progress, instance
        self._told: dict[str, dict[int, int]] = {}
        self._moved = False
        """Whether anything had been read further at the last report."""
        self._known: frozenset[str] = frozenset()
        """Topics that an earlier process has reported."""

    def begin(self) -> None:
        """Find out which topics were reported before: some may be gone since."""
        known = set[str]()
        for record in replay(self._log, STATUS.name):
            with suppress(WireError):  # calc-svc makes a dead letter of it
                found = status.read(record.key, record.value)
                if isinstance(found, ReadUpTo):
                    known.add(found.topic)
        self._known = frozenset(known)

    def step(self) -> None:
        if not self.stopping.wait(EVERY):
            self.report()

    def end(self) -> None:
        """There is nothing to close."""

    def report(self) -> None:
        """Write what has changed since the last time.

        :raises MillraceError: if the log cannot be written; the next call reports the same again.
        """
        now = copied(self._progress())
        if not now:
            return  # nothing is known of the query yet
        news = moved(self._told, now)
        told = self._told.keys() | self._known
        gone = sorted(topic for topic in told if topic.startswith(WAL_PREFIX) and topic not in now)
        reports = [
            ReadUpTo(topic, ends, self._instance)
            for topic, ends in news.items()
            if topic.startswith(WAL_PREFIX) or topic in TRIMMED
        ]
        messages = [Message(STATUS.name, status.key(one), status.encode(one)) for one in reports]
        messages += [Message(STATUS.name, status.key(ReadUpTo(topic, {})), None) for topic in gone]
        if messages:
            self._log.append(messages)
        # the slots tell what they have counted with a tick, and a while after the last rows what waited until
        # then (``slot.backlog``)
        if news or self._moved:
            idle_tick(self._log)
        self._moved = bool(news)
        self._told, self._known = now, frozenset()

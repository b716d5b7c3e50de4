"""An idle query rests: its last micro-batch stays open until there is news.

Spark asks for the ends of all topics again and again while nothing comes: that costs a sixth of a core, and
a row that comes waits for the next question. A consumer that waits at the broker costs next to nothing and
hears at once. Nothing is lost by a batch that ends late: what it had to do is done before it rests.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping

from millrace_wal import Log, Reader

LOOK_UP = 0.2
"""Seconds after which a rest notices that it is to end."""
LONG = 3.0
"""Seconds after which a rest is a long one."""


class Rest:
    """Waits for messages; used by one thread, :meth:`end` by any.

    A reader that has just read other topics hears of new ones only when the broker answers its last question.
    So a rest begins with a reader that asks often; in a long one another takes over, whose last question was
    answered meanwhile, and which seldom asks.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._readers: dict[bool, Reader] = {}
        """By whether it asks often."""
        self._ended = threading.Event()

    def until_news(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        """Return when there is a message behind these ends (topic -> partition -> offset), or at the end.

        :raises MillraceError: UNAVAILABLE if the broker refuses.
        """
        if not self._comes(ends, True, LONG) and not self._ended.is_set():
            self._comes(ends, False, math.inf)

    def _comes(self, ends: Mapping[str, Mapping[int, int]], often: bool, seconds: float) -> bool:
        """Whether a message comes within so many seconds and before the end."""
        if often not in self._readers:
            self._readers[often] = self._log.reader({}, grows=often)
        reader = self._readers[often]
        until = time.monotonic() + seconds
        for topic, offsets in ends.items():
            reader.add(topic, offsets)
        try:
            while not self._ended.is_set() and time.monotonic() < until:
                if reader.poll(LOOK_UP, limit=1):
                    return True
            return False
        finally:
            for topic in ends:  # else it would read on
                reader.remove(topic)

    def end(self) -> None:
        """No rest lasts any longer."""
        self._ended.set()

    def close(self) -> None:
        """After the last rest."""
        for reader in self._readers.values():
            reader.close()

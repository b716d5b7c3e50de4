"""An idle query rests: its last micro-batch stays open until there is news.

Spark asks for the ends of all topics again and again while nothing comes: that costs a sixth of a core, and
a row that comes waits for the next question. A consumer that waits at the broker costs next to nothing and
hears at once. Nothing is lost by a batch that ends late: what it had to do is done before it rests.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from millrace_wal import Log, Reader

LOOK_UP = 0.2
"""Seconds after which a rest notices that it is to end."""


class Rest:
    """Waits for messages; used by one thread, :meth:`end` by any."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._reader: Reader | None = None
        self._ended = threading.Event()

    def until_news(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        """Return when there is a message behind these ends (topic -> partition -> offset), or at the end.

        :raises MillraceError: UNAVAILABLE if the broker refuses.
        """
        if self._reader is None:
            self._reader = self._log.reader({}, grows=True)
        for topic, offsets in ends.items():
            self._reader.add(topic, offsets)
        try:
            while not self._ended.is_set() and not self._reader.poll(LOOK_UP, limit=1):
                pass
        finally:
            for topic in ends:  # else it would read on
                self._reader.remove(topic)

    def end(self) -> None:
        """No rest lasts any longer."""
        self._ended.set()

    def close(self) -> None:
        """After the last rest."""
        if self._reader is not None:
            self._reader.close()

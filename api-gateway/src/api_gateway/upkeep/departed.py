"""What services have told of streams that are there no more: its keys are deleted.

Else the topic ``status``, which everybody reads from its beginning, would keep some of each stream that ever
was.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from millrace_core.wire import status
from millrace_core.wire.diagnosis import Diagnosis

OfStream = status.Counters | status.StreamFailure | status.Recalculation
"""What nobody else deletes. Pauses and triggers that are held are deleted by who has told of them."""


@dataclass(slots=True)
class Departed:
    """Takes in the records of the topic, in order."""

    _told: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """Key -> its stream, and when it was written (ms)."""

    def take(self, key: bytes, found: status.AnyStatus | Diagnosis | None, written: int) -> None:
        self._told.pop(key, None)
        # what slots count of no single stream is told of stream 0
        if isinstance(found, OfStream) and found.stream:
            self._told[key] = found.stream, written

    def to_delete(self, streams: Collection[int], older_than: int) -> list[bytes]:
        """Keys that were written before ``older_than`` (ms) and tell of none of these streams. They are given
        once, unless they come again."""
        gone = [key for key, (uid, at) in self._told.items() if uid not in streams and at < older_than]
        for key in gone:
            del self._told[key]
        return gone

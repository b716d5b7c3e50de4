"""What services have told about streams that no longer exist: the keys of these records are deleted.

Otherwise the topic ``status``, which everybody reads from its beginning, would keep records of every stream
that ever existed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from millrace_core.wire import status
from millrace_core.wire.diagnosis import Diagnosis

OfStream = status.Counters | status.StreamFailure | status.Recalculation
"""The records that nobody else deletes. Those of pauses and held triggers are deleted by their writers."""


@dataclass(slots=True)
class Departed:
    """Takes in the records of the topic ``status``, in order."""

    _told: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """Key -> its stream, and when its record was written (ms)."""

    def take(self, key: bytes, found: status.AnyStatus | Diagnosis | None, written: int) -> None:
        self._told.pop(key, None)
        # what slots count for no stream in particular is told of stream 0
        if isinstance(found, OfStream) and found.stream:
            self._told[key] = found.stream, written

    def to_delete(self, streams: Collection[int], older_than: int) -> list[bytes]:
        """The keys that were written before ``older_than`` (ms) and tell of none of these streams. Each key
        is given only once, unless it comes again."""
        gone = [key for key, (uid, at) in self._told.items() if uid not in streams and at < older_than]
        for key in gone:
            del self._told[key]
        return gone

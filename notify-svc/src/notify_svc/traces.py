"""Spans for traced notifications: reading them, sending to a subscriber, delivering to an address."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from millrace_service import Tracing
from millrace_wal import Stretch

Traces = dict[tuple[int, int], "TracedNotices"]
"""By partition and offset of ``notifications``."""
NONE: Traces = {}


@dataclass(eq=False)
class TracedNotices:
    """The notices of one message. ``parent``: the header it came with; ``written``, ``read``: when (ns)."""

    tracing: Tracing
    parent: str
    written: int
    read: int

    @cached_property
    def _read_span(self) -> str:
        """The span of the reading, made when the first receiver gets a notice. The spans of all receivers
        have it as their parent."""
        return self.tracing.record("notification.read", self.parent, self.written, self.read)

    def sent(self) -> None:
        """A subscriber has been sent one of them, just now."""
        self.tracing.record("subscriber.send", self._read_span, self.read, time.time_ns())

    def delivered(self) -> None:
        """An address has confirmed one of them, just now."""
        self.tracing.record("address.send", self._read_span, self.read, time.time_ns())


def traced_in(stretches: Sequence[Stretch], tracing: Tracing) -> Traces:
    """The traced messages among those that have just been read."""
    now = time.time_ns()
    return {
        (some.partition, some.offsets[place]): TracedNotices(tracing, parent, some.written(place), now)
        for some in stretches
        for place, parent in some.traceparents.items()
    }

"""How many messages of a burst are still to come, when the first few have come.

Devices report together. Their producer sends the first message alone and the rest with its next requests,
some milliseconds later. A reader that takes the first messages at once makes the rest wait until it is done
with these, which takes longer than waiting for the rest would have taken. How many these are, the topic's
bursts before tell. Where messages come one by one there is no burst, and nothing is waited for.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

WAIT = 0.015
"""Seconds for which the rest of a burst is waited for, at most."""
MOST = 1_000
"""A burst of more messages is not waited for: its first part shares the fixed cost of a batch already."""
_APART = 2
"""Milliseconds between a message and the next one of the same burst, at most."""
_BURSTS = 5
"""The last bursts of a topic; the smallest of them is what is expected of the next one. So where sizes vary,
few waits are in vain."""
Written = Mapping[str, Sequence[int]]
"""By topic, when the messages of a batch were written, ms since the epoch."""


class Gathering:
    """Learns the bursts of topics from each batch."""

    def __init__(self) -> None:
        self._topics: defaultdict[str, _Bursts] = defaultdict(_Bursts)

    def missing(self, batch: Written) -> int:
        """How many messages are expected to follow at once."""
        return sum(self._topics[topic].missing(times) for topic, times in batch.items())

    def took(self, batch: Written) -> None:
        """This batch is taken as it is."""
        for topic, times in batch.items():
            self._topics[topic].took(times)


class _Bursts:
    """Those of one topic. ``_size`` messages of the present one were taken, the last written at ``_last``."""

    def __init__(self) -> None:
        self._sizes: deque[int] = deque(maxlen=_BURSTS)
        self._size, self._last = 0, -_APART

    def missing(self, times: Sequence[int]) -> int:
        if len(self._sizes) < _BURSTS or min(self._sizes) > MOST:
            return 0
        _, size, _ = self._after(times)
        return max(min(self._sizes) - size, 0)

    def took(self, times: Sequence[int]) -> None:
        over, self._size, self._last = self._after(times)
        self._sizes.extend(over)

    def _after(self, times: Sequence[int]) -> tuple[list[int], int, int]:
        """The sizes of the bursts that are over behind these messages; and the size and the last time of the
        one that is present then."""
        over, size, last = [], self._size, self._last
        for at in sorted(times):
            if abs(at - last) > _APART:
                over.append(size)
                size = 0
            size, last = size + 1, at
        return over, size, last

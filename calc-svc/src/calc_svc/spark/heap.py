"""When a JVM has no memory any more, though it has not said so yet: the rule. Pure.

With -XX:GCTimeLimit it says so only after several full collections in a row that took nearly all time and
freed nearly nothing; whoever waits for an answer of the same JVM waits for all of them.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

SPAN = 4.0
"""Seconds that are judged together."""
SHARE = 0.6
"""Of that time: more of it has gone into collections."""
FULL = 2
"""Full collections in that time: a single one may be slow because the machine is."""
LEFT = 0.95
"""Of the old generation: more of it was left in use by the last full collection. Spark itself, which spills
what is beyond, may fill nine tenths of it."""


class Collected(NamedTuple):
    """Of a JVM, since it began: ``seconds`` of collections, and how many were ``full``; ``left``: the share
    of the old generation that the last full one has left in use."""

    seconds: float
    full: int
    left: float


class Exhaustion:
    """Looks at one JVM again and again. :meth:`ended` may be told by any thread."""

    def __init__(self) -> None:
        self._looks = deque[tuple[float, Collected]]()
        self._has_ended = False
        self._full = 0
        """Full collections that may have been before the end of a query."""

    def ended(self, seconds: float) -> None:
        """A query that took so long is over. If it had the memory, the next full collection finds that free:
        whoever is there now is not to blame for what the last one has left."""
        if seconds > SHARE * SPAN:
            self._has_ended = True

    def seen(self, now: float, collected: Collected) -> bool:
        """Whether it does little but collect, and finds little; ``now``: seconds of any clock."""
        if self._has_ended:
            self._has_ended, self._full = False, collected.full
        self._looks.append((now, collected))
        while len(self._looks) > 1 and now - self._looks[1][0] >= SPAN:
            self._looks.popleft()
        then, before = self._looks[0]
        return (
            now - then >= SPAN
            and collected.seconds - before.seconds > SHARE * (now - then)
            and collected.full - before.full >= FULL
            and collected.full > self._full
            and collected.left > LEFT
        )

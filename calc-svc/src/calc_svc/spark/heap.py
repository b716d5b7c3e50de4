"""The rule for when a JVM has run out of memory, although it has not said so yet. Pure.

With -XX:GCTimeLimit it says so only after several full collections in a row that took nearly all of the time
and freed nearly nothing. Whoever waits for an answer from the same JVM waits for all of these.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

SPAN = 4.0
"""The length, in seconds, of the time that is judged."""
SHARE = 0.6
"""More than this share of that time must have gone into collections."""
FULL = 2
"""At least so many full collections in that time: a single one may be slow because the machine is."""
LEFT = 0.95
"""More than this share of the old generation must still be in use after the last full collection. Spark
itself may fill nine tenths of it, and spills what is beyond."""


class Collected(NamedTuple):
    """What a JVM has collected since it began: ``seconds``: the time spent in collections; ``full``: how many
    were full collections; ``left``: the share of the old generation still in use after the last full one."""

    seconds: float
    full: int
    left: float


class Exhaustion:
    """Looks at one JVM again and again. :meth:`ended` may be called by any thread."""

    def __init__(self) -> None:
        self._looks = deque[tuple[float, Collected]]()
        self._has_ended = False
        self._full = 0
        """How many of the full collections may date from before the end of the last long query."""

    def ended(self, seconds: float) -> None:
        """A query that took ``seconds`` is over. If it had the memory, the next full collection frees that:
        the queries that are there now are not to blame for what the last collection left in use."""
        if seconds > SHARE * SPAN:
            self._has_ended = True

    def seen(self, now: float, collected: Collected) -> bool:
        """Whether the JVM does little but collect, and frees little; ``now``: seconds of any clock."""
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

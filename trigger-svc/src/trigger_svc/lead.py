"""How long before open windows are due their ticks are written: about as long as ticks take to cause
events."""

from __future__ import annotations

from millrace_core.timeline.precision import NS_PER_MS
from millrace_core.trigger.stream import APART

FIRST_GUESS = 112 * NS_PER_MS
LONGEST = 400 * NS_PER_MS
"""However slow micro-batches are, no window triggers earlier than by this and :data:`APART`: otherwise, if
one batch was fast for once, its windows would trigger far too early."""
WEIGHT = 8
"""About how many of the last batches count."""


class Lead:
    """Learns from each batch in which ticks made windows trigger. What was learned ends with the service.

    The lead becomes a part of the tick, so a batch that is evaluated again does not depend on this.
    """

    def __init__(self) -> None:
        self._took = float(FIRST_GUESS)

    def learn(self, took: float) -> None:
        """``took``: ns from a tick to the events that it caused."""
        self._took += (took - self._took) / WEIGHT

    @property
    def time(self) -> int:
        """In ns. The windows of a tick are due within :data:`APART`; the one in the middle triggers exactly
        on time."""
        return min(max(round(self._took) - APART // 2, 0), LONGEST)

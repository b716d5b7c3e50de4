"""How long before open windows are due their ticks are written: about what a tick takes to become events."""

from __future__ import annotations

from millrace_core.timeline.precision import NS_PER_MS
from millrace_core.trigger.stream import APART

FIRST_GUESS = 112 * NS_PER_MS
LONGEST = 400 * NS_PER_MS
"""However slow micro-batches are, no window triggers earlier than that and :data:`APART`: one that was fast
for once would be far too early."""
WEIGHT = 8
"""About how many of the last batches count."""


class Lead:
    """Learns from each batch that ticks made windows trigger in; what was learned ends with the service.

    What it says goes into the tick, so a batch that is evaluated again does not depend on it.
    """

    def __init__(self) -> None:
        self._took = float(FIRST_GUESS)

    def learn(self, took: float) -> None:
        """``took``: ns from a tick to the events that it caused."""
        self._took += (took - self._took) / WEIGHT

    @property
    def time(self) -> int:
        """ns. The windows of a tick are due within :data:`APART`: that in the middle is met exactly."""
        return min(max(round(self._took) - APART // 2, 0), LONGEST)

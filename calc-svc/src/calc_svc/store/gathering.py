"""How long the tables' reader waits for more rows before it takes in those that have come.

Taking in rows costs a millisecond, however few they are. Where rows come in bursts, a short wait brings the
rest of one; they are then in the table before the trigger event of these rows comes, which would have to wait
for them. Where rows come all the time, longer waits save processor time.
"""

from __future__ import annotations

LEAST, MOST = 0.006, 0.02
"""Seconds. What trigger-svc does with a row takes longer than the shorter wait."""
ENOUGH = 1_000
"""Records; with so many, nothing is waited for."""


class Gathering:
    """Used by one thread."""

    def __init__(self) -> None:
        self._seconds = LEAST

    def after(self, read: int, took: float) -> float:
        """Seconds to wait after a step that read so many records; ``took``: its seconds. One that had to wait
        for the first record begins a burst."""
        self._seconds = LEAST if took > LEAST else min(2 * self._seconds, MOST)
        return self._seconds if 0 < read < ENOUGH else 0.0

"""How long a job waits for what is not there yet."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waits:
    """A job waits for what is not there yet until this time (monotonic). ``known``: streams whose triggers
    need nothing more from other tables than what has been read."""

    until: float
    known: frozenset[int] = frozenset()

    @property
    def seconds(self) -> float:
        return max(self.until - time.monotonic(), 0.0)

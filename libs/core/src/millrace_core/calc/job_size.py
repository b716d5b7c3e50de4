"""How large a job is: it has as many triggers as Spark can take in one task of a query that stays planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millrace_core.wire.events import TriggerEvent

EVENTS_PER_JOB = 8_000
ROWS_PER_JOB = 450_000  # with their triggers, few enough for a query that Spark has already planned


@dataclass(slots=True)
class JobSize:
    """How much of a job is taken: events, and the rows of their windows as far as the trigger knows them."""

    events: int = 0
    rows: int = 0

    def takes(self, event: TriggerEvent) -> bool:
        """Count the event in; False if it is the first of the next job."""
        more = max(event.rownum, 1)
        fits = not self.events or (self.events < EVENTS_PER_JOB and self.rows + more <= ROWS_PER_JOB)
        if not fits:
            self.events = self.rows = 0
        self.events += 1
        self.rows += more
        return fits


def job_sizes(events: Sequence[TriggerEvent]) -> list[list[TriggerEvent]]:
    """The events, in order, in parts that a job can take."""
    parts: list[list[TriggerEvent]] = [[]]
    size = JobSize()
    for event in events:
        if not size.takes(event):
            parts.append([])
        parts[-1].append(event)
    return parts if events else []

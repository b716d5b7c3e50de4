"""Which windows' rows are counted in the store, and what follows from the counts: ``_twrownum`` where
disorder made the trigger's own count unsure, and windows that have lost their first row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from millrace_core.model.stream import StreamSpec
from millrace_core.plan import Plan
from millrace_core.store.search import Ints
from millrace_core.trigger.types import type_of
from millrace_core.wire.events import ROWNUM_FROM_STORE, TriggerEvent

COUNTING = "SELECT count(*) FROM %%trows"


def uncounted(spec: StreamSpec, plan: Plan, events: Sequence[TriggerEvent]) -> list[int]:
    """The places of events whose windows' rows must be counted, as far as the plan asks for them."""
    if spec.source is None or "_twrownum" not in plan.uses:
        return []
    return [place for place, event in enumerate(events) if event.rownum == ROWNUM_FROM_STORE]


def with_counts(
    events: Sequence[TriggerEvent], places: Iterable[int], counts: Iterable[int]
) -> list[TriggerEvent]:
    """The events; those at these places get the row counts of their windows."""
    found = list(events)
    for place, count in zip(places, counts, strict=True):
        found[place] = msgspec.structs.replace(events[place], rownum=count)
    return found


def counts_rewritten(spec: StreamSpec) -> bool:
    """Whether overwritten rows count too, in a window that is open or closes with its rows as they came. A
    recalculation reads the table as it is (SEMANTICS-FRONTENDS, S2)."""
    return spec.emission.rewritten == "counted"


def as_it_came(event: TriggerEvent) -> bool:
    """Whether the event tells of a window with its rows as they came: rows that were not treated then do not
    count in it. A recalculation reads the table as it is."""
    return event.cause in ("LIVE", "DELAY")


def counting(spec: StreamSpec) -> StreamSpec:
    """The stream with a query that counts its windows' rows."""
    return msgspec.structs.replace(spec, query=COUNTING, sql=COUNTING, notify=None)


def starts(events: Sequence[TriggerEvent]) -> Ints:
    """The starts of the events' windows."""
    return np.array([event.start for event in events], dtype=np.int64)


def last_instants(spec: StreamSpec, events: Sequence[TriggerEvent]) -> Ints:
    """The last instants that belong to the events' windows."""
    ends = np.array([event.end for event in events], dtype=np.int64)
    return ends - type_of(spec.trigger).moment.half_open


def may_have_ended(spec: StreamSpec, events: Sequence[TriggerEvent]) -> list[TriggerEvent]:
    """The events of windows that were cut again and exist only as long as their first row does.

    Without that row the window no longer exists, and there never was a window of the rows that its query
    would read now (SEMANTICS.md: a recalculation reads the table as of its own time). Whatever removed the
    row has also requested what takes the window's place.
    """
    if not type_of(spec.trigger).begins_with_row(spec.trigger):
        return []  # these windows may begin without a row
    return [event for event in events if event.cause == "RECALC" and event.kind in ("OPEN", "CLOSE")]

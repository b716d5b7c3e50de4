"""Which windows' rows are counted in the store, and what follows: ``_twrownum`` where disorder made the
trigger's own count unsure, and windows that have lost the row that they begin with."""

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
    """The events, those at these places with their windows' row counts."""
    found = list(events)
    for place, count in zip(places, counts, strict=True):
        found[place] = msgspec.structs.replace(events[place], rownum=count)
    return found


def counts_rewritten(spec: StreamSpec) -> bool:
    """Whether rows that were written over count, too, in a window that is open, or closes, as its rows came.
    What is calculated again is read as the table is (SEMANTICS-FRONTENDS, S2)."""
    return spec.emission.rewritten == "counted"


def as_it_came(event: TriggerEvent) -> bool:
    """Whether a window is told of as its rows came: what was not treated then does not count in it. What is
    calculated again is read as the table is."""
    return event.cause in ("LIVE", "DELAY")


def counting(spec: StreamSpec) -> StreamSpec:
    """The stream with a query that counts its windows' rows."""
    return msgspec.structs.replace(spec, query=COUNTING, sql=COUNTING, notify=None)


def starts(events: Sequence[TriggerEvent]) -> Ints:
    """When the events' windows begin."""
    return np.array([event.start for event in events], dtype=np.int64)


def last_instants(spec: StreamSpec, events: Sequence[TriggerEvent]) -> Ints:
    """The last instants that belong to the events' windows."""
    ends = np.array([event.end for event in events], dtype=np.int64)
    return ends - type_of(spec.trigger).moment.half_open


def may_have_ended(spec: StreamSpec, events: Sequence[TriggerEvent]) -> list[TriggerEvent]:
    """Those of windows that were cut again and are there only while the row is that they begin with.

    Without it there is no such window any more, nor was there ever one of the rows that its query reads now
    (SEMANTICS.md: a recalculation reads the table as of its own time). What took the row asks for what is
    there instead.
    """
    if not type_of(spec.trigger).begins_with_row(spec.trigger):
        return []  # these begin where no row need be
    return [event for event in events if event.cause == "RECALC" and event.kind in ("OPEN", "CLOSE")]

"""Windows' rows counted in the store: ``_twrownum`` where disorder made the trigger's own count unsure, and
whether a window that was cut again still has the row that it begins with."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.sources import triggering
from calc_svc.spark.session import Lane
from calc_svc.store.table import StoredTable
from calc_svc.store.virtual import VirtualTable
from millrace_core.model.stream import StreamSpec
from millrace_core.plan import Plan, trows_condition
from millrace_core.store.run import Children
from millrace_core.store.search import Ints, expand
from millrace_core.trigger.types import type_of
from millrace_core.wire.events import ROWNUM_FROM_STORE, Group, TriggerEvent

COUNTING = "SELECT count(*) FROM %%trows"


def count_rows(
    calculator: Calculator, spec: StreamSpec, events: Sequence[TriggerEvent], plan: Plan, lane: Lane
) -> list[TriggerEvent]:
    """The events with their windows' row counts, as far as the plan asks for them.

    A window's rows are those of ``%%trows``: where only their times matter they are counted in the store,
    where a condition does (PRE_FILTER, the columns of COUNT_WINDOW) by a query.
    """
    unsure = [i for i, event in enumerate(events) if event.rownum == ROWNUM_FROM_STORE]
    counted = list(events)
    if not unsure or spec.source is None or "_twrownum" not in plan.uses:
        return counted
    asked = [events[i] for i in unsure]
    if trows_condition(spec) is None:
        totals = _by_time(calculator.store.readable(spec.source.table), spec, asked)
    else:
        totals = _by_query(calculator, spec, asked, lane)
    for i, total in zip(unsure, totals, strict=True):
        counted[i] = msgspec.structs.replace(events[i], rownum=total)
    return counted


def _by_time(
    stored: StoredTable | VirtualTable, spec: StreamSpec, events: Sequence[TriggerEvent]
) -> list[int]:
    first = _starts(events)
    ends = np.array([event.end for event in events], dtype=np.int64)
    last = ends - type_of(spec.trigger).moment.half_open
    return [int(n) for n in _counted(stored, spec, events, first, last)]


def without_beginning(
    stored: StoredTable | VirtualTable, spec: StreamSpec, events: Sequence[TriggerEvent]
) -> set[str]:
    """The ids of windows that were cut again and have lost the row that they begin with since: there is no
    such window any more, nor was there ever one of the rows that its query reads now (SEMANTICS.md: a
    recalculation reads the table as of its own time). What took the row asks for what is there instead."""
    if not type_of(spec.trigger).begins_with_row(spec.trigger):
        return set()  # these begin where no row need be
    again = [event for event in events if event.cause == "RECALC" and event.kind in ("OPEN", "CLOSE")]
    if not again:
        return set()
    first = _starts(again)
    rows = _counted(stored, spec, again, first, first)
    return {event.id for event, count in zip(again, rows, strict=True) if not count}


def _starts(events: Sequence[TriggerEvent]) -> Ints:
    return np.array([event.start for event in events], dtype=np.int64)


def _counted(
    stored: StoredTable | VirtualTable, spec: StreamSpec, events: Sequence[TriggerEvent], first: Ints,
    last: Ints,
) -> Ints:  # fmt: skip
    """How many stored rows the group of each event has in ``[first, last]``."""
    view = stored.view(int(first.min()), int(last.max()))
    with stored.lock:
        sets = [members_of(spec, stored, event.group) for event in events]
    sizes = np.array([len(part) for part in sets], dtype=np.int64)
    _, owner = expand(np.zeros(len(sets), dtype=np.int64), sizes)
    found = view.slices.count(np.concatenate(sets), first[owner], last[owner])
    return np.bincount(owner, weights=found, minlength=len(events)).astype(np.int64)


def _by_query(
    calculator: Calculator, spec: StreamSpec, events: Sequence[TriggerEvent], lane: Lane
) -> list[int]:
    counting = msgspec.structs.replace(spec, query=COUNTING, sql=COUNTING, notify=None)
    outcomes = calculator.calculate(counting, calculator.plan(counting), events, lane)
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [int(outcome.rows.item()) for outcome in outcomes]


def members_of(spec: StreamSpec, stored: StoredTable | VirtualTable, group: Group) -> Children:
    """The tables whose rows are a group's rows, by number."""
    family = stored.family
    if group.table is not None:
        return family.numbers_of([group.table])
    if spec.source is not None and spec.source.child is not None:
        return family.numbers_of([spec.source.child])
    if spec.partition:
        found = family.group(dict(zip(spec.partition, group.key, strict=True)))
    else:
        found = np.array(list(family.numbers.values()), dtype=np.int32)
    ours = triggering(stored, spec.created, found)
    assert ours is not None, "of some tables there are some, or none"
    return ours

"""Windows' rows counted in the store (``millrace_core.calc.counting`` says which, and why)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.recalc_rows import TriggerRows
from calc_svc.jobs.sources import triggering
from calc_svc.spark.session import Runs
from calc_svc.store.table import StoredTable
from calc_svc.store.virtual import VirtualTable
from millrace_core.calc.counting import (
    counting,
    last_instants,
    may_have_ended,
    starts,
    uncounted,
    with_counts,
)
from millrace_core.model.stream import StreamSpec
from millrace_core.plan import Plan, trows_condition
from millrace_core.store.run import Children
from millrace_core.store.search import Ints, expand
from millrace_core.trigger.stream import compiled, essence
from millrace_core.wire.events import Group, TriggerEvent


def count_rows(
    calculator: Calculator, spec: StreamSpec, events: Sequence[TriggerEvent], plan: Plan, lane: Runs
) -> list[TriggerEvent]:
    """The events with their windows' row counts, as far as the plan asks for them.

    A window's rows are those of ``%%trows``. If only their times matter, they are counted in the store; if a
    condition matters too (PRE_FILTER, the columns of COUNT_WINDOW), by a query.
    """
    places = uncounted(spec, plan, events)
    if not places or spec.source is None:
        return list(events)
    asked = [events[place] for place in places]
    if trows_condition(spec) is None:
        stored = calculator.store.readable(spec.source.table)
        totals = _counted(stored, spec, asked, starts(asked), last_instants(spec, asked)).tolist()
    else:
        totals = _by_query(calculator, spec, asked, lane)
    return with_counts(events, places, totals)


def without_beginning(
    stored: StoredTable | VirtualTable, spec: StreamSpec, events: Sequence[TriggerEvent]
) -> set[str]:
    """The ids of windows that were cut again and have since lost the row that they begin with."""
    again = may_have_ended(spec, events)
    if not again:
        return set()
    first = starts(again)
    rows = _counted_by_keys(stored, spec, again) if spec.keys else _counted(stored, spec, again, first, first)
    return {event.id for event, count in zip(again, rows, strict=True) if not count}


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


def _counted_by_keys(
    stored: StoredTable | VirtualTable, spec: StreamSpec, events: Sequence[TriggerEvent]
) -> Ints:
    """How many rows the group of each event has where its window begins, of all its tables' rows."""
    rows = TriggerRows(compiled(essence(spec)), stored)
    with stored.lock:
        tables = [members_of(spec, stored, event.group).tolist() for event in events]
    found = [
        len(rows.reader(event.group, mine)(event.start, event.start).rows)
        for event, mine in zip(events, tables, strict=True)
    ]
    return np.array(found, dtype=np.int64)


def _by_query(
    calculator: Calculator, spec: StreamSpec, events: Sequence[TriggerEvent], lane: Runs
) -> list[int]:
    asked = counting(spec)
    outcomes = calculator.calculate(asked, calculator.plans.of(asked), events, lane)
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
        found = family.group(dict(zip(spec.partition, group.key, strict=False)))
    else:
        found = np.array(list(family.numbers.values()), dtype=np.int32)
    ours = triggering(stored, spec.created, found)
    assert ours is not None, "of some tables there are some, or none"
    return ours

"""Rows themselves trigger, without a window: each has its own results, under its own time (seed 002).

The rows of a group that come in order in one batch are told of together, as one closing from the first of
them to the last: any older rows in between are calculated again, and overwrite their results. Late rows (and
rows that are written again) are told of in the same way, but separately. If a row is deleted, or PRE_FILTER
leaves it out when it is written again, its results are removed. Nothing stays open, so nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from millrace_core.trigger.groups.columns import Columns, Ints, starts_of
from millrace_core.trigger.groups.spans import spans_of
from millrace_core.trigger.groups.watermark import Evaluated
from millrace_core.trigger.types.occurrences import CLOSE, RETRACT, Occurrence, Occurrences, Row
from millrace_core.trigger.types.rows.reach import RowsReach
from millrace_core.trigger.types.windower import Windower


class RowsMemory(msgspec.Struct, array_like=True):
    """Nothing."""


class RowsWindower(Windower):
    """``shared``: rows of one table with equal times may be different rows."""

    memory = RowsMemory

    def __init__(self, shared: bool = False) -> None:
        self.shared = shared

    def on_row(self, memory: Any, row: Row) -> Iterator[Occurrence]:
        yield Occurrence(CLOSE, row.ts, row.ts, 1)

    def on_late(self, memory: Any, row: Row, before: int) -> Iterator[Occurrence]:
        yield Occurrence(CLOSE, row.ts, row.ts, -1)

    def on_time(self, memory: Any, before: int, now: int) -> Iterator[Occurrence]:
        return iter(())

    def on_delete(self, memory: Any, first: int, last: int) -> Iterator[Occurrence]:
        yield Occurrence(RETRACT, first, last, -1)
        if self.shared:
            # perhaps only one of several rows of the same time is gone
            yield Occurrence(CLOSE, first, last, -1)

    def on_unknown(self, memory: Any, ts: int, now: int) -> Iterator[Occurrence]:
        yield Occurrence(RETRACT, ts, ts, -1)
        yield Occurrence(CLOSE, ts, ts, -1)

    def reach(self, origin: int | None = None) -> RowsReach:
        return RowsReach()

    def on_rows(self, memory: Columns, evaluated: Evaluated) -> Occurrences:
        timely = ~evaluated.late
        group, ts, step = evaluated.group[timely], evaluated.ts[timely], evaluated.step[timely]
        heads = starts_of(group)
        tails = np.append(heads[1:], len(group))[: len(heads)] - 1
        in_order = Occurrences.of(group[heads], step[tails], CLOSE, ts[heads], ts[tails], tails - heads + 1)
        if timely.all():
            return in_order
        return Occurrences.join((in_order, self._late(evaluated)))

    def _late(self, evaluated: Evaluated) -> Occurrences:
        group, ts, step = (a[evaluated.late] for a in (evaluated.group, evaluated.ts, evaluated.step))
        found: list[tuple[int, int, int, int]] = []
        for place in np.unique(group).tolist():
            mine = group == place
            last = int(step[mine].max())
            found += [(place, last, *span) for span in spans_of(ts[mine])]
        columns: list[Ints] = [np.array(column, dtype=np.int64) for column in zip(*found, strict=True)]
        place_, step_, first, end = columns
        return Occurrences.of(place_, step_, CLOSE, first, end, -1)

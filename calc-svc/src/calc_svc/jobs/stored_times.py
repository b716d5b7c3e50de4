"""What output tables hold where a stream takes results back: the times of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from calc_svc.store.tables import TableStore
from millrace_core.calc.retraction import Ranges
from millrace_core.model.schema import Table


@dataclass(slots=True)
class StoredTimes:
    """Of one job: what is stored, and what its own earlier stages write."""

    store: TableStore
    _pending: dict[str, set[int]] = field(default_factory=dict)

    def of(self, table: Table, wanted: Mapping[str, Ranges]) -> dict[str, list[int]]:
        """The times, in order, of the rows that sub-tables hold in these ranges (ticks); by name."""
        found = {
            name: [time for time in times if time in wanted[name]]
            for name, times in self._pending.items()
            if name in wanted
        }
        stored = self.store.table(table)
        with stored.lock:
            numbers = stored.family.numbers
            known = [
                (name, numbers[name]) for name, ranges in wanted.items() if name in numbers and len(ranges)
            ]
        if known:
            spans = [(name, number, *span) for name, number in known for span in wanted[name]]
            _, child, first, last = (np.array(column) for column in zip(*spans, strict=True))
            first, last = first.astype(np.int64), last.astype(np.int64)
            view = stored.view(int(first.min()), int(last.max()))
            data, owner, _ = view.slices.between(child.astype(np.int32), first, last)
            times = data[table.key.name].to_list()
            for place, time in zip(owner.tolist(), times, strict=True):
                found.setdefault(spans[place][0], []).append(time)
        return {name: sorted(set(times)) for name, times in found.items()}

    def add(self, written: Mapping[str, Sequence[int]]) -> None:
        """A stage writes these rows."""
        for name, times in written.items():
            self._pending.setdefault(name, set()).update(times)

"""Stored rows as windowers take them: what the trigger reads of each, groups numbered, in order of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from calc_svc.jobs.sources import described
from calc_svc.store.table import StoredTable, View
from calc_svc.store.virtual import Since, VirtualTable
from millrace_core.model.expression import fields_of
from millrace_core.model.revisions import sources
from millrace_core.recalc.groups import groups_of
from millrace_core.recalc.judged import FAR_OFFSET
from millrace_core.recalc.reach import Read
from millrace_core.store.density import Density
from millrace_core.store.family import TBNAME
from millrace_core.store.place import NOWHERE, spans_of
from millrace_core.store.rows import HIGHEST, LOWEST
from millrace_core.store.run import Children
from millrace_core.store.search import Ints
from millrace_core.trigger.rows import evaluate
from millrace_core.trigger.stream import Definition
from millrace_core.trigger.types.reach import Rows, Stretch
from millrace_core.wire.events import Group
from millrace_core.wire.recalc import Request

BEFORE = ((NOWHERE, NOWHERE + 1),)
"""Rows that were stored before places were kept are older than anything that asks."""


@dataclass(slots=True)
class TriggerRows:
    """The rows of a stream's trigger table."""

    definition: Definition
    stored: StoredTable | VirtualTable

    def groups(self, slot: int, slots: int) -> dict[Group, list[int]]:
        """The groups of a slot, and their tables by number."""
        stored = self.stored
        table = stored.table
        with stored.lock:
            family = stored.family
            numbers = family.numbers
            if isinstance(stored, VirtualTable):
                numbers = stored.known_since(self.definition.spec.created)
            members = [
                (number, name, family.uids[number],
                 dict(zip((tag.name for tag in table.tags), family.tags[number], strict=False)))
                for name, number in numbers.items()
            ]  # fmt: skip
        return groups_of(self.definition, members, slot, slots)

    def bounds(self) -> tuple[int, int]:
        """The oldest and the newest time that is stored (or was, and newer than both: none)."""
        low, high = HIGHEST, LOWEST
        for stored, _ in self._sources():
            for first, last, _ in stored.delta.statistics():
                low, high = min(low, first), max(high, last)
            with stored.lock:
                for run in stored.rows.slices().runs:
                    low, high = min(low, int(run.ts.min())), max(high, int(run.ts.max()))
        return low, high

    def _sources(self) -> list[tuple[StoredTable, int]]:
        """What the rows are stored in, and how many rows may come of one there."""
        stored = self.stored
        return stored.sources() if isinstance(stored, VirtualTable) else [(stored, 1)]

    def density(self) -> Density:
        """About how many rows lie where, as it is now."""
        found = Density()
        for stored, times in self._sources():
            with stored.lock:
                floor, runs = stored.rows.floor, stored.rows.slices().runs
            if floor > LOWEST:
                found.add_files(stored.delta.statistics(), floor, times)
            for run in runs:
                found.add_times(run.ts, times)
        return found

    def reader(self, children: Sequence[int]) -> Read:
        """Reads one group: these tables."""
        oldest, _ = self.bounds()
        numbers = np.array(children, dtype=np.int32)

        def read(low: int, high: int) -> Stretch:
            view = (
                self.stored.view(low, high, children)
                if isinstance(self.stored, VirtualTable)
                else self.stored.view(low, high)
            )
            size = len(numbers)
            data, _, child = view.slices.between(numbers, np.full(size, low), np.full(size, high))
            rows = self._rows(view, data, child, np.zeros(len(child), dtype=np.int64))
            return Stretch(rows, low, high, low <= oldest)

        return read

    def slice(self, low: int, high: int, owner: Ints, asked: Request, *, since: bool = False) -> Rows:
        """Rows of many groups; ``owner[number]``: a table's group, -1 for none. ``asked``: says where in the
        log the rows that count were written last; ``since``: those that were written behind that instead."""
        older = () if since else BEFORE
        if isinstance(self.stored, VirtualTable):
            origins = {topic: _behind(spans) if since else spans for topic, spans in asked.origins.items()}
            spans = {topic: (*older, *spans_of(written)) for topic, written in origins.items()}
            view = self.stored.view(low, high, since=Since(spans, {} if since else asked.taken))
            data, child = view.slices.within(low, high)
        else:
            view = self.stored.view(low, high)
            behind = {partition: (end, FAR_OFFSET) for partition, end in asked.seen.items()}
            written = behind if since else asked.written
            data, child = view.slices.within(low, high, (*older, *spans_of(written)))
        group = np.full(len(child), -1, dtype=np.int64)
        known = child < len(owner)
        group[known] = owner[child[known]]
        wanted = np.flatnonzero(group >= 0)
        return self._rows(view, data[wanted], child[wanted], group[wanted])

    def _rows(self, view: View, data: pl.DataFrame, child: Children, group: Ints) -> Rows:
        """Sorted by (group, ts), and only those that PRE_FILTER lets pass."""
        definition = self.definition
        ts = data[data.columns[0]].to_numpy().astype(np.int64)
        signals = definition.signals
        names = {name for signal in signals for name in fields_of(signal.expression)}
        cells = evaluate(signals, self._frame(view, data, child, names)) if signals else {}
        order = np.lexsort((ts, group))
        if definition.filter is not None:
            order = order[cells[definition.filter][order]]
        columns = {signal.name: cells[signal][order] for signal in definition.windower.signals}
        return Rows(group[order], ts[order], columns)

    def _frame(self, view: View, data: pl.DataFrame, child: Children, names: set[str]) -> pl.DataFrame:
        """The columns and tags of these names, in the words of the stream."""
        words, now = self.definition.table, view.table
        known = sources((*now.columns, *now.tags), (*words.columns, *words.tags)) | {TBNAME: TBNAME}
        wanted = {name for name in names if known.get(name) is not None}
        # the time is there always, so that a constant has as many rows
        return described(view, data, child, sorted(wanted | {words.key.name}), words)


def _behind(written: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """What lies behind these stretches of a topic."""
    return {partition: (end, FAR_OFFSET) for partition, (_, end) in written.items()}


def slices(rows: TriggerRows, first: int, last: int, target: int) -> Iterator[tuple[int, int]]:
    """Ranges of time, in order, of about ``target`` rows at most; together all of ``[first, last]`` in which
    anything is stored."""
    oldest, newest = rows.bounds()
    yield from rows.density().slices(max(first, oldest), min(last, newest), target)

"""Stored rows as windowers take them: what the trigger reads of each, by numbered group, ordered by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from calc_svc.jobs.sources import described
from calc_svc.store.table import StoredTable, View
from calc_svc.store.virtual import Since, VirtualTable
from millrace_core.model.expression import fields_of
from millrace_core.model.revisions import sources
from millrace_core.recalc.groups import (
    Member,
    Owners,
    base_of,
    grouped,
    groups_of,
    numbered,
    slot_of_group,
)
from millrace_core.recalc.judged import FAR_OFFSET
from millrace_core.recalc.reach import Read, from_block
from millrace_core.store.density import Density
from millrace_core.store.family import TBNAME
from millrace_core.store.place import NOWHERE, spans_of
from millrace_core.store.run import Children
from millrace_core.store.search import Ints
from millrace_core.timeline.precision import HIGHEST, LOWEST
from millrace_core.trigger.groups import RANGE
from millrace_core.trigger.groups.columns import Array
from millrace_core.trigger.groups.groups import part_of
from millrace_core.trigger.groups.spans import spans_of as ranges_of
from millrace_core.trigger.rows import Signal, evaluate
from millrace_core.trigger.rows.keys import Values, values_of
from millrace_core.trigger.stream import Definition
from millrace_core.trigger.types.reach import Rows, Stretch
from millrace_core.wire.events import Group
from millrace_core.wire.recalc import Part, Request, StoredRows

SLICE_ROWS = 400_000
"""How many rows are looked at together."""
ROWS_PER_PART = 1_000
"""If a group has at most this many rows for each of its parts, one read serves all of its parts."""
BEFORE = ((NOWHERE, NOWHERE + 1),)
"""The rows that were stored before places were kept: they are older than any request."""


@dataclass(slots=True)
class TriggerRows:
    """The rows of a stream's trigger table."""

    definition: Definition
    stored: StoredTable | VirtualTable
    _divided: dict[Group, list[int]] | None = None

    def groups(self, slot: int, slots: int) -> dict[Group, list[int]]:
        """The groups of a slot, and their tables by number. If keys divide the rows of tables into groups,
        this reads all rows, once."""
        if not self.definition.keys:
            return groups_of(self.definition, self._members(), slot, slots)
        if self._divided is None:
            self._divided = self._by_keys()
        return {
            group: tables
            for group, tables in self._divided.items()
            if slot_of_group(self.definition, group, slots) == slot
        }

    def tables_of(self, groups: Iterable[Group]) -> dict[Group, list[int]]:
        """These groups, and their tables by number; without groups that no longer have a table."""
        bases = grouped(self.definition, self._members())
        known = {base_of(self.definition, base): tables for base, tables in bases.items()}
        found = {group: known.get(base_of(self.definition, group)) for group in groups}
        return {group: tables for group, tables in found.items() if tables is not None}

    def _by_keys(self) -> dict[Group, list[int]]:
        """All groups of the stored rows, as their keys divide them."""
        definition = self.definition
        bases = grouped(definition, self._members())
        tables = list(bases.values())
        owner = np.full(1 + max((n for mine in tables for n in mine), default=0), -1, dtype=np.int64)
        for number, children in enumerate(tables):
            owner[children] = number
        found: set[tuple[int, Values]] = set()
        for low, high in slices(self, -RANGE, RANGE, SLICE_ROWS):
            view = self.stored.view(low, high)
            data, child = view.slices.within(low, high)
            base = _owner_of(owner, child)
            mine = np.flatnonzero(base >= 0)
            cells = self._cells(view, data[mine], child[mine])
            kept = self._passed(cells, len(mine))
            said = zip(base[mine].tolist(), values_of(definition.keys, cells), kept.tolist(), strict=True)
            found |= {(number, values) for number, values, wanted in said if wanted}
        of_base = sorted(found, key=lambda one: (one[0], str(one[1])))
        return {
            part_of(base, definition.spec.uid, values): tables[number]
            for number, base in enumerate(bases)
            for owner_, values in of_base if owner_ == number
        }  # fmt: skip

    def _members(self) -> list[Member]:
        stored = self.stored
        table = stored.table
        with stored.lock:
            family = stored.family
            numbers = family.numbers
            if isinstance(stored, VirtualTable):
                numbers = stored.known_since(self.definition.spec.created)
            return [
                (number, name, family.uids[number],
                 dict(zip((tag.name for tag in table.tags), family.tags[number], strict=False)))
                for name, number in numbers.items()
            ]  # fmt: skip

    def bounds(self) -> tuple[int, int]:
        """The oldest and the newest time that is, or was, stored. The first is greater than the second if
        there are no rows."""
        low, high = HIGHEST, LOWEST
        for stored, _ in self._sources():
            # memory first: what leaves it meanwhile has been in the files before
            with stored.lock:
                floor, runs = stored.rows.floor, stored.rows.slices().runs
            for run in runs:
                low, high = min(low, run.low), max(high, run.high)
            if floor > LOWEST:
                for first, last, _ in stored.delta.statistics():
                    low, high = min(low, first), max(high, last)
        return low, high

    def _sources(self) -> list[tuple[StoredTable, int]]:
        """The tables that the rows are stored in, and how many rows one stored row may give."""
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

    def reader(self, group: Group, children: Sequence[int], until: int = HIGHEST) -> Read:
        """Reads one group: its rows of these tables, except rows that were written after the place ``until``
        in its partition."""
        oldest, _ = self.bounds()
        numbers = np.array(children, dtype=np.int32)
        only = numbered(self.definition, {group: list(children)})

        def read(low: int, high: int) -> Stretch:
            view = (
                self.stored.view(low, high, children)
                if isinstance(self.stored, VirtualTable)
                else self.stored.view(low, high)
            )
            size = len(numbers)
            ends = None if until == HIGHEST else np.full(size, until)
            data, _, child = view.slices.between(numbers, np.full(size, low), np.full(size, high), ends)
            rows = self._rows(view, data, child, only)
            return Stretch(rows, low, high, low <= oldest)

        return read

    def reader_for(self, group: Group, children: Sequence[int], parts: Sequence[Part]) -> Read:
        """Reads one group for these parts of it, which are in order of time. If few other rows lie between
        and beside the parts, all is read at once: each read is expensive, however few rows it gives."""
        read, stored = self.reader(group, children), self.stored
        if len(parts) < 2 or not isinstance(stored, StoredTable):
            return read
        first, last = parts[0].first, max(part.last for part in parts)
        with stored.lock:
            floor, slices = stored.rows.floor, stored.rows.slices()
        if first < floor:
            return read  # files are read for all groups anyway, and what was read is kept
        beside = last - first
        low, high = max(first - beside, floor, -RANGE), min(last + beside, RANGE)
        size = len(children)
        rows = slices.count(np.array(children, dtype=np.int32), np.full(size, low), np.full(size, high))
        return from_block(read(low, high), read) if rows.sum() <= ROWS_PER_PART * len(parts) else read

    def at(self, table: str, times: Sequence[int]) -> list[StoredRows]:
        """The rows of each group of a table that are stored at these times and pass PRE_FILTER. ``table`` is
        empty for a normal table."""
        name, wanted = table or self.definition.table.name, set(times)
        members = [member for member in self._members() if member[1] == name]
        found: dict[Group, StoredRows] = {}
        for base, numbers in grouped(self.definition, members).items():
            for low, high in ranges_of(np.array(times, dtype=np.int64)):
                for group, ts, columns in self._divided_rows(base, numbers, low, high):
                    if ts in wanted:
                        mine = found.setdefault(group, StoredRows(table, group, [], {n: [] for n in columns}))
                        mine.ts.append(ts)
                        for column, cell in columns.items():
                            mine.columns[column].append(cell)
        return list(found.values())

    def _divided_rows(
        self, base: Group, numbers: Sequence[int], low: int, high: int
    ) -> Iterator[tuple[Group, int, dict[str, object]]]:
        """The rows of these tables, which belong to ``base``; each with the group that its keys give it."""
        definition = self.definition
        view, size = self.stored.view(low, high), len(numbers)
        data, _, child = view.slices.between(
            np.array(numbers, dtype=np.int32), np.full(size, low), np.full(size, high)
        )
        cells = self._cells(view, data, child)
        kept = self._passed(cells, len(data))
        columns = {one.name: cells[one].tolist() for one in definition.windower.signals}
        ts = data[data.columns[0]].to_numpy().astype(np.int64).tolist()
        for row, values in enumerate(values_of(definition.keys, cells)):
            if kept[row]:
                group = part_of(base, definition.spec.uid, values)
                yield group, ts[row], {name: column[row] for name, column in columns.items()}

    def rewritten(self, part: Part, children: Sequence[int]) -> bool:
        """Whether a part is to be cut again: some parts always are, others only if rows were overwritten."""
        if part.rewritten is None or not isinstance(self.stored, StoredTable):
            return part.rewritten is None
        first, last = part.rewritten
        numbers, size = np.array(children, dtype=np.int32), len(children)
        found, _, _ = self.stored.superseded().between(numbers, np.full(size, first), np.full(size, last))
        return len(found) > 0

    def slice(self, low: int, high: int, owners: Owners, asked: Request, *, since: bool = False) -> Rows:
        """Rows of many groups. ``asked`` says where in the log the rows that count were written: a row counts
        if it was written there last or first, so even one that has been overwritten since. ``since``: give
        the rows that were last written after that instead."""
        older = () if since else BEFORE
        if isinstance(self.stored, VirtualTable):
            origins = {topic: _behind(spans) if since else spans for topic, spans in asked.origins.items()}
            spans = {topic: (*older, *spans_of(written)) for topic, written in origins.items()}
            wanted = Since(spans) if since else Since(spans, asked.taken, first=True)
            view = self.stored.view(low, high, since=wanted)
            data, child = view.slices.within(low, high)
        else:
            view = self.stored.view(low, high)
            behind = {partition: (end, FAR_OFFSET) for partition, end in asked.seen.items()}
            written = behind if since else asked.written
            places = (*older, *spans_of(written))
            data, child = view.slices.within(low, high, places, first=not since)
        return self._rows(view, data, child, owners)

    def _rows(self, view: View, data: pl.DataFrame, child: Children, owners: Owners) -> Rows:
        """The rows sorted by (group, ts), and only those that pass PRE_FILTER."""
        definition = self.definition
        group = _owner_of(owners.by_table, child)
        if (group < 0).any():
            wanted = np.flatnonzero(group >= 0)
            data, child, group = data[wanted], child[wanted], group[wanted]
        ts = data[data.columns[0]].to_numpy().astype(np.int64)
        cells = self._cells(view, data, child)
        if definition.keys:
            group = owners.of_rows(group, values_of(definition.keys, cells))
        order = np.lexsort((ts, group))
        order = order[group[order] >= 0]
        if definition.filter is not None:
            order = order[cells[definition.filter][order]]
        columns = {signal.name: cells[signal][order] for signal in definition.windower.signals}
        return Rows(group[order], ts[order], columns)

    def _cells(self, view: View, data: pl.DataFrame, child: Children) -> dict[Signal, Array]:
        """What the stream reads of these rows."""
        signals = self.definition.signals
        names = {name for signal in signals for name in fields_of(signal.expression)}
        return evaluate(signals, self._frame(view, data, child, names)) if signals else {}

    def _passed(self, cells: Mapping[Signal, Array], count: int) -> Array:
        """bool[rows]: which rows pass PRE_FILTER."""
        passed = self.definition.filter
        return cells[passed] if passed is not None else np.ones(count, dtype=bool)

    def _frame(self, view: View, data: pl.DataFrame, child: Children, names: set[str]) -> pl.DataFrame:
        """The columns and tags of these names; the names are those that the stream uses."""
        words, now = self.definition.table, view.table
        known = sources((*now.columns, *now.tags), (*words.columns, *words.tags)) | {TBNAME: TBNAME}
        wanted = {name for name in names if known.get(name) is not None}
        # the time is always included, so that a constant gets as many rows
        return described(view, data, child, sorted(wanted | {words.key.name}), words)


def _owner_of(by_table: Ints, child: Children) -> Ints:
    """The group of each row's table, -1 for none."""
    found = np.full(len(child), -1, dtype=np.int64)
    known = child < len(by_table)
    found[known] = by_table[child[known]]
    return found


def _behind(written: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """What lies after these stretches of a topic."""
    return {partition: (end, FAR_OFFSET) for partition, (_, end) in written.items()}


def slices(rows: TriggerRows, first: int, last: int, target: int) -> Iterator[tuple[int, int]]:
    """Ranges of time, in order, of about ``target`` rows at most. Together they cover all of
    ``[first, last]`` in which anything is stored."""
    oldest, newest = rows.bounds()
    yield from rows.density().slices(max(first, oldest), min(last, newest), target)

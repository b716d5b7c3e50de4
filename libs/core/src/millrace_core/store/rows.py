"""The rows of one table: a tail of appended frames over runs that share no key.

Runs grow like the levels of a log-structured merge tree. A flush takes the rows of all epochs so far and
starts a new epoch; rows of flushed epochs are in Delta. ``floor``: rows with earlier times are no longer kept
here. Not thread-safe: the owner holds a lock around every call; a :class:`Slices` may be read without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from millrace_core.model.schema import Table
from millrace_core.store.place import nowhere
from millrace_core.store.run import Children, Run, concat, no_run, write_run
from millrace_core.store.search import Bools, Ints
from millrace_core.store.slices import Slices
from millrace_core.store.superseded import Superseded
from millrace_core.timeline.precision import HIGHEST, LOWEST
from millrace_core.wire.rows.decoded import polars_type
from millrace_core.wire.rows.revisions import recast

CHILD = "\x00child"
WIDTH = 4  # this many runs of about one size are merged
LARGEST = 200_000  # a run with more rows is no longer merged: a search passes over runs of other times

Fetch = Callable[[Children, Ints], pl.DataFrame]
"""Stored rows below the floor: (children, times) -> frame with CHILD and the table's columns."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """Rows of ``child`` (its number) with ``first <= ts <= last`` were deleted in this flush epoch."""

    child: int
    first: int
    last: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Flush:
    """What Delta lacks: first ``deletions``, then ``fresh`` rows to append and ``changed`` ones to merge."""

    epoch: int
    deletions: list[Deletion]
    fresh: Run
    changed: Run


@dataclass(frozen=True, slots=True)
class Unflushed:
    """What Delta lacks when a flush begins. ``runs``: all runs of that moment; ``flushed``: the last epoch
    that Delta has."""

    epoch: int
    deletions: list[Deletion]
    runs: tuple[Run, ...]
    flushed: int
    empty: pl.DataFrame

    def sorted(self) -> Flush:
        """It as Delta takes it. This copies the rows, and needs no lock."""
        dirty = [run.only(_dirty(run, self.flushed)) for run in self.runs]
        whole = concat([run for run in dirty if len(run)] or [no_run(self.empty)])
        changed = whole.replaces
        return Flush(self.epoch, self.deletions, whole.only(~changed), whole.only(changed))


@dataclass(slots=True)
class TableRows:
    """``fetch`` reads rows below the floor that a partial update needs (None: there never are any)."""

    table: Table
    fetch: Fetch | None = None
    floor: int = LOWEST
    epoch: int = 1
    flushed: int = 0
    runs: list[Run] = field(default_factory=list)
    superseded: Superseded | None = None
    """Where overwritten rows are kept (None: they are not)."""
    _tail: list[tuple[Children, pl.DataFrame, dict[str, Bools], Ints]] = field(default_factory=list)
    _tail_rows: int = 0
    _newest: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _deletions: list[Deletion] = field(default_factory=list)

    @property
    def key(self) -> str:
        return self.table.columns[0].name

    @property
    def second(self) -> str | None:
        """The second column of a composite key."""
        return next((c.name for c in self.table.columns[1:] if c.composite_key), None)

    @property
    def empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema={c.name: polars_type(c.type) for c in self.table.columns})

    @property
    def count(self) -> int:
        """Rows in memory. Until the tail is sealed, rows in it count in addition to those that they
        overwrite."""
        return sum(run.count for run in self.runs) + self._tail_rows

    @property
    def dirty(self) -> bool:
        """Whether Delta lacks anything."""
        if self._tail or self._deletions:
            return True
        return any(bool((run.epoch > self.flushed).any()) for run in self.runs)

    def append(
        self, child: Children, data: pl.DataFrame, absent: dict[str, Bools], place: Ints | None = None
    ) -> None:
        """Write rows in this order; ``absent``: cells that a row does not name keep what is stored;
        ``place``: where in the log each stands (None: not in the log)."""
        if len(child):
            self._tail.append((child, data, absent, nowhere(len(child)) if place is None else place))
            self._tail_rows += len(child)

    def load(self, run: Run) -> None:
        """Take in rows that Delta holds (one per key) before anything is written."""
        if len(run):
            self._grow(run)
            self.runs.append(run)

    def delete(self, child: int, first: int = LOWEST, last: int = HIGHEST) -> None:
        """Rows of the child with ``first <= ts <= last`` are gone."""
        self.seal()
        one = np.array([child], dtype=np.int32)
        low, high = np.array([first], dtype=np.int64), np.array([last], dtype=np.int64)
        for index, run in enumerate(self.runs):
            positions, _ = run.between(one, low, high)
            if len(positions):
                self.runs[index] = run.without(positions)
        self.runs = [run for run in self.runs if run.count]
        if self.superseded is not None:
            self.superseded.forget(child, first, last)
        if len(self._newest) or self.floor > LOWEST:
            self._deletions.append(Deletion(child, first, last, self.epoch))

    def slices(self) -> Slices:
        """The rows as they stand."""
        self.seal()
        return Slices(tuple(self.runs), self.empty)

    def seal(self) -> None:
        """Turn the tail into a run, which replaces older rows of the same keys."""
        if not self._tail:
            return
        child = np.concatenate([part[0] for part in self._tail])
        data = pl.concat([part[1] for part in self._tail])
        place = np.concatenate([part[3] for part in self._tail])
        names = {name for part in self._tail for name in part[2]}
        absent = {
            name: np.concatenate([p[2].get(name, np.zeros(len(p[0]), dtype=bool)) for p in self._tail])
            for name in names
        }
        self._tail, self._tail_rows = [], 0
        epoch = np.full(len(child), self.epoch, dtype=np.int32)
        run, absent = write_run(child, data, absent, epoch, place, self.second)
        before = self.superseded
        if before is not None and len(run) < len(child):
            before.add_doubles(child, data, place, self.second)
        run = self._supersede(run, absent)
        self._grow(run)
        self.runs.append(run)
        self._merge()

    def _supersede(self, new: Run, absent: dict[str, Bools]) -> Run:
        """Remove the rows that ``new`` overwrites, fill its unnamed cells from them, and flag keys that Delta
        may hold."""
        candidates = self._not_newer(new)
        replaces, data, first = new.replaces.copy(), new.data, new.first
        if len(candidates):
            low, high = int(new.ts[candidates].min()), int(new.ts[candidates].max())
            for index, run in enumerate(self.runs):
                if not run.reaches(low, high):
                    continue
                here, there = run.matches(new, candidates, self.second)
                if not len(here):
                    continue
                replaces[there] |= run.replaces[here] | (run.epoch[here] < self.epoch)
                first = new.place.copy() if first is None else first
                first[there] = run.began[here]
                data = _take_over(data, absent, there, run.data, here)
                if self.superseded is not None:
                    self.superseded.add(run.take(np.unique(here)))
                self.runs[index] = run.without(here)
            self.runs = [run for run in self.runs if run.count]
        below = np.flatnonzero(new.ts < self.floor)
        if len(below):
            replaces[below] = True
            data = self._take_stored(new, data, absent, below)
        return replace(new, data=data, replaces=replaces, first=first)

    def _not_newer(self, new: Run) -> Ints:
        """The positions of rows that may overwrite one: a row newer than all rows of its table cannot. So the
        usual case costs one comparison a table."""
        first = new.firsts
        known = first[new.child[first] < len(self._newest)]
        if not (new.ts[known] <= self._newest[new.child[known]]).any():
            return known[:0]
        known = np.flatnonzero(new.child < len(self._newest))
        return known[new.ts[known] <= self._newest[new.child[known]]]

    def _take_stored(
        self, new: Run, data: pl.DataFrame, absent: dict[str, Bools], below: Ints
    ) -> pl.DataFrame:
        partial = [i for i in below.tolist() if any(mask[i] for mask in absent.values())]
        if not partial or self.fetch is None:
            return data
        wanted = np.array(partial, dtype=np.int64)
        stored = self._not_deleted(self.fetch(new.child[wanted], new.ts[wanted]))
        if not len(stored):
            return data
        child = stored[CHILD].to_numpy().astype(np.int32, copy=False)
        epoch = np.zeros(len(child), dtype=np.int32)
        old, _ = write_run(child, stored.drop(CHILD), {}, epoch, nowhere(len(child)), self.second)
        here, there = old.matches(new, wanted, self.second)
        return _take_over(data, absent, there, old.data, here)

    def _not_deleted(self, stored: pl.DataFrame) -> pl.DataFrame:
        """The frame without the rows that Delta still holds only because the next flush has not yet brought
        their deletions."""
        for deletion in self._deletions:
            gone = (pl.col(CHILD) == deletion.child) & pl.col(self.key).is_between(
                deletion.first, deletion.last
            )
            stored = stored.filter(~gone)
        return stored

    def evolve(self, table: Table) -> None:
        """The table was altered: all rows get its columns; a new one is NULL in them."""
        self.seal()
        old, self.table = self.table, table
        if self.superseded is not None:
            self.superseded.evolve(lambda data: recast(data, old.columns, table.columns))
        self.runs = [replace(run, data=recast(run.data, old.columns, table.columns)) for run in self.runs]

    def _grow(self, run: Run) -> None:
        if not len(run):
            return
        size = int(run.child[-1]) + 1
        if size > len(self._newest):
            grown = np.full(max(size, 2 * len(self._newest)), LOWEST, dtype=np.int64)
            grown[: len(self._newest)] = self._newest
            self._newest = grown
        last = np.append(run.firsts[1:], len(run)) - 1
        np.maximum.at(self._newest, run.child[last], run.ts[last])

    def _merge(self) -> None:
        """Merge the youngest runs while there are WIDTH of about one size."""
        while len(self.runs) >= WIDTH:
            young = self.runs[-WIDTH:]
            if len(young[0]) > WIDTH * sum(len(run) for run in young[1:]) or len(young[0]) > LARGEST:
                return
            self.runs[-WIDTH:] = [concat(young)]

    def begin_flush(self) -> Unflushed:
        """All rows and deletions that Delta lacks; writes from here on belong to the next epoch."""
        self.seal()
        found = Unflushed(self.epoch, list(self._deletions), tuple(self.runs), self.flushed, self.empty)
        self.epoch += 1
        return found

    def end_flush(self, flush: Flush) -> None:
        """Delta has committed the flush: its rows are clean."""
        self.flushed = flush.epoch
        self._deletions = [d for d in self._deletions if d.epoch > flush.epoch]
        if self.floor > LOWEST:
            self._drop_clean_below()

    def fail_flush(self) -> None:
        """It is unknown whether Delta has committed the flush: so its rows are merged the next time, not
        appended."""
        for index, run in enumerate(self.runs):
            self.runs[index] = replace(run, replaces=run.replaces | (run.epoch > self.flushed))

    def evict(self, floor: int) -> None:
        """Keep only rows from ``floor`` on; rows below that Delta lacks stay until their flush."""
        self.raise_floor(floor)
        self._drop_clean_below()

    def raise_floor(self, floor: int) -> None:
        """From now on, rows before ``floor`` are read from Delta. They may still be here until
        :meth:`swap`."""
        self.seal()
        self.floor = max(self.floor, floor)

    def thinned(self, run: Run) -> Run:
        """A run without the rows before the floor that Delta has. This needs no lock."""
        keep = (run.ts >= self.floor) | (run.epoch > self.flushed)
        return run.only(keep if run.live is None else keep & run.live)

    def swap(self, thinned: Sequence[tuple[Run, Run]]) -> None:
        """Put runs in the place of others; one that has changed meanwhile stays until the next flush."""
        instead = {id(run): other for run, other in thinned}
        self.runs = [run for run in (instead.get(id(run), run) for run in self.runs) if len(run)]

    def _drop_clean_below(self) -> None:
        self.runs = [run for run in map(self.thinned, self.runs) if len(run)]

    def expire(self, cut: int) -> None:
        """Rows before ``cut`` are gone, from Delta too. Those that Delta lacks stay until their flush."""
        if self.superseded is not None:
            self.superseded.expire(cut)
        if self.floor < cut:
            self.evict(cut)
            self.floor = LOWEST  # rows below exist nowhere, so nothing is fetched

    def oldest(self) -> int:
        """The lowest time of the rows here; HIGHEST if there are none."""
        self.seal()
        return min((run.low for run in self.runs), default=HIGHEST)

    def middle(self) -> int | None:
        """A time such that about half of the rows are newer."""
        self.seal()
        if not self.runs:
            return None
        step = max(1, sum(map(len, self.runs)) // 10_000)
        return int(np.median(np.concatenate([run.ts[::step] for run in self.runs])))


def _dirty(run: Run, flushed: int) -> Bools:
    dirty = run.epoch > flushed
    return dirty if run.live is None else dirty & run.live


def _take_over(
    data: pl.DataFrame, absent: dict[str, Bools], there: Ints, stored: pl.DataFrame, here: Ints
) -> pl.DataFrame:
    """``data`` with the unnamed cells of its rows ``there`` taken from the stored rows ``here``."""
    for name, mask in absent.items():
        wanted = mask[there]
        if wanted.any():
            column = data[name].scatter(there[wanted], stored[name][here[wanted]])
            data = data.with_columns(column.alias(name))
            mask[there] = False
    return data

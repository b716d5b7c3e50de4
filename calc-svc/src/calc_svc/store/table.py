"""One stored table: rows in memory over rows in Delta, its members, and how far it has read its WAL topic."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from calc_svc.store.delta import KEEP_SECONDS, DeltaRows, StoredRows
from calc_svc.store.superseded_files import SupersededFiles
from millrace_core.model.schema import TICKS_PER_SECOND, Child, Table
from millrace_core.store.family import Family
from millrace_core.store.intake import Intake, Taken
from millrace_core.store.place import Spans, nowhere
from millrace_core.store.rows import CHILD, Flush, TableRows
from millrace_core.store.run import Children, Run, write_run
from millrace_core.store.search import Ints, sort_order
from millrace_core.store.slices import Slices
from millrace_core.store.superseded import Superseded, Unsaved, superseded_run
from millrace_core.timeline.precision import HIGHEST, LOWEST, NS_PER_SECOND
from millrace_core.wire.topics import wal_topic

KEPT_READS = 3
KEPT_ROWS = 1_000_000  # reads of more rows are not kept
KEPT_SECONDS = 30.0
EXPIRE_EVERY = 3600.0
MARGIN = 0.25  # a read begins earlier by this share of its range of times: windows reach back


@dataclass(frozen=True, slots=True)
class Read:
    """Rows read from Delta with times in [low, high], and when (monotonic) they were last asked for."""

    low: int
    high: int
    rows: Run
    at: float


@dataclass(frozen=True, slots=True)
class View:
    """A table at one moment: its rows, and its members' names and tags by number."""

    table: Table
    slices: Slices
    described: pl.DataFrame
    family: Family


class StoredTable:
    """Thread-safe. ``positions``: partition -> the WAL offset up to which (exclusive) it has read; ``there``:
    what it must have read before anything is calculated from it."""

    def __init__(
        self, table: Table, folder: Path, children: Sequence[Child], memory_rows: int,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:  # fmt: skip
        self.table = table
        self.topic = wal_topic(table.db, table.name)
        self.delta = DeltaRows(folder / str(table.uid), table, keep_seconds)
        self.family = Family(table)
        self.rows = TableRows(table, self._fetch)
        self.lock = threading.RLock()
        self.positions: dict[int, int] = {}
        self.there: dict[int, int] = {}
        self.dropped = False
        self._flushed: dict[int, int] = {}
        self._outdated = False
        """Whether files of superseded rows may hold rows that have expired."""
        self._committed = False
        """Whether there are files."""
        self._flushing = threading.Lock()
        self._written_at: float | None = None
        self.unflushed = 0
        """How many rows were taken that Delta lacks."""
        self._reads: list[Read] = []
        self._expire_at = 0.0
        self._changes = 0
        """How often rows below the floor may have changed; each time, earlier reads are forgotten."""
        for child in children:
            self.family.register(child)
        self._intake = Intake(self.family, self.rows)
        self._superseded = SupersededFiles(self.delta)
        self._load(memory_rows)

    def _load(self, memory_rows: int) -> None:
        """Take the newest rows of Delta back into memory, file by file while they fit."""
        files = sorted(self.delta.statistics(), key=lambda file: file[1], reverse=True)
        total, floor = 0, LOWEST
        for _, highest, rows in files:
            total += rows
            if total > memory_rows:
                floor = highest + 1
                break
        if files:
            found = self.delta.read(low=floor)
            self.rows.floor = floor
            self.rows.load(self._as_run(found))

    def _numbers(self, names: pl.Series) -> Children:
        unique = names.unique()
        numbers = pl.DataFrame({"name": unique, "number": [self.family.stored(n) for n in unique.to_list()]})
        joined = pl.DataFrame({"name": names}).join(numbers, "name", "left", maintain_order="left")
        return joined["number"].cast(pl.Int32).to_numpy()

    def resume(self, begins: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
        """Where to read on: the positions that Delta's commits hold, else the partitions' first offsets.

        ``begins``, ``ends``: of the topic's partitions now. A result from before a restart may be based on
        everything up to ``ends``, and must not be replaced by one that is calculated again from less.
        """
        self.there = {partition: end for partition, end in ends.items() if end > begins.get(partition, 0)}
        committed = self.delta.positions(list(begins))
        self._flushed, self._committed = dict(begins) | committed, bool(committed)
        self.positions = dict(self._flushed)
        return dict(self._flushed)

    @property
    def flushed(self) -> dict[int, int]:
        """Partition -> the WAL offset up to which (exclusive) the table's rows are in files."""
        with self.lock:
            return dict(self._flushed) if self._committed else {}

    def take(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], places: Ints | None = None
    ) -> Taken:
        """Apply messages of the topic, in order; ``places``: the place of each in the log (None: they come
        from no log). Called by one thread."""
        places = nowhere(len(keys)) if places is None else places
        decoded = self._intake.decode(values, places)  # without the lock: calculations need not wait for it
        with self.lock:
            taken = self._intake.apply(keys, decoded, places)
            if self._written_at is None:
                self._written_at = time.monotonic()
            self.unflushed += taken.rows
            return taken

    def count_rewritten(self) -> None:
        """From here on keep the versions of rows that are overwritten: a stream counts them. It does not
        count what was overwritten before it was made."""
        with self.lock:
            if self.rows.superseded is None:
                self.rows.seal()
                self.rows.superseded = Superseded()
                self.rows.superseded.load([self._as_superseded(one) for one in self._superseded.read()])

    def _as_superseded(self, found: StoredRows) -> Run:
        child, ts = self._numbers(found.names), found.data[self.rows.key].to_numpy().astype(np.int64)
        order = sort_order(child, ts)
        return superseded_run(child[order], ts[order], found.data[order], found.place[order])

    def superseded(self) -> Slices:
        """The rows that were overwritten, as far as they are kept."""
        with self.lock:
            now = self.rows.slices()
            kept = self.rows.superseded
            return now.none() if kept is None else Slices(tuple(kept.runs), now.empty)

    def advance(self, positions: dict[int, int]) -> None:
        """All before these offsets has been taken, and its dead letters and registrations are written. Called
        by the thread of :meth:`take`."""
        # without the lock: the rows were there before, and who has it may be sorting them
        self.positions = self.positions | positions

    def register(self, child: Child) -> None:
        """A child that the catalog lists."""
        with self.lock:
            self.family.register(child)

    def evolve(self, table: Table) -> None:
        """The table was altered: rows and members go on in its new columns and tags."""
        with self._flushing, self.lock:
            self._forget()
            self.rows.evolve(table)
            self.family.evolve(table)
            self.delta.evolve(table)
            self.table = table
            self._intake = Intake(self.family, self.rows)

    def dirty_for(self, now: float) -> float:
        """Seconds since the oldest write that Delta lacks; 0 if it lacks none."""
        return 0.0 if self._written_at is None else max(now - self._written_at, 1e-9)

    def flush(self) -> int:
        """Bring Delta up to date; returns the number of rows written. If it fails, the rows stay dirty and
        the next flush writes them.
        """
        with self._flushing:
            with self.lock:
                began, self._written_at = self._written_at, None
                rows, self.unflushed = self.unflushed, 0
                positions = dict(self.positions)
                if self.dropped or (
                    positions == self._flushed and not self.rows.dirty and not self._outdated
                ):
                    return 0
                unflushed = self.rows.begin_flush()
                names = list(self.family.names)
                kept = self.rows.superseded
                unsaved = kept.take_unsaved(whole=self._superseded.full) if kept is not None else None
            try:
                flush = unflushed.sorted()
                self._commit(flush, unsaved, names, positions)
            except BaseException:
                with self.lock:
                    self._written_at = began or time.monotonic()
                    self.unflushed += rows
                    self.rows.fail_flush()
                    if kept is not None:
                        kept.unsaved()
                raise
            with self.lock:
                self.rows.end_flush(flush)
                if flush.deletions or len(flush.changed) or (flush.fresh.ts < self.rows.floor).any():
                    self._forget()
            with self.lock:
                self._flushed, self._committed, self._outdated = positions, True, False
            return len(flush.fresh) + len(flush.changed)

    def _commit(
        self, flush: Flush, unsaved: Unsaved | None, names: Sequence[str], positions: Mapping[int, int]
    ) -> None:
        if self.rows.superseded is None:
            self._superseded.remove()
        said = {} if unsaved is None else self._superseded.write(unsaved, names)
        self.delta.commit(flush, names, positions, said)
        if unsaved is not None:
            self._superseded.written(unsaved)

    def files(self, low: int, high: int) -> list[str]:
        """Parquet files of the rows with ``low <= ts <= high`` (and others), with all that has been taken."""
        self.flush()
        with self._flushing:  # between its two commits, a flush has deleted rows that it will write again
            return self.delta.files(low, high)

    def maintain(self) -> None:
        """Compact the files; not while a flush runs."""
        with self._flushing:
            if not self.dropped:
                self.delta.maintain()

    def evict_half(self) -> None:
        """Drop the older half of the rows from memory; from now on they are read from Delta."""
        self.flush()
        with self.lock:
            middle = self.rows.middle()
            if middle is None:
                return
            self.rows.raise_floor(middle + 1)
            runs = list(self.rows.runs)
        # half of the table is copied here, so without the lock
        thinned = [(run, self.rows.thinned(run)) for run in runs]
        with self.lock:
            self.rows.swap(thinned)

    def expire(self, keep: int, now: int, every: float = EXPIRE_EVERY) -> bool:
        """Remove rows whose time is more than ``keep`` minutes before ``now`` (ns); none if ``keep`` is 0.
        This looks for such rows at most once in ``every`` seconds, and does nothing if there are none: files
        that also hold other rows have to be written anew. Returns whether it was time to look."""
        cut = (now // NS_PER_SECOND - keep * 60) * TICKS_PER_SECOND[self.table.precision]
        if not keep or self.dropped or time.monotonic() < self._expire_at:
            return False
        self._expire_at = time.monotonic() + every
        with self.lock:
            oldest = self.rows.oldest()
        stored = min((low for low, _, _ in self.delta.statistics()), default=cut)
        if min(oldest, stored) < cut:
            self._expire(cut)
        with self._flushing:  # a table that is no longer written to is not vacuumed otherwise
            self.delta.vacuum(time.monotonic())
        return True

    def _expire(self, cut: int) -> None:
        """Remove the rows with ``ts < cut``."""
        with self.lock:
            if self.rows.superseded is not None:
                self.rows.superseded.expire(cut)
                self._outdated = True
        self.flush()
        with self._flushing:
            self.delta.expire(cut)
            with self.lock:
                self.rows.expire(cut)
                self._forget()

    def drop(self) -> None:
        """The table is gone: remove its files."""
        self.dropped = True
        with self._flushing:
            self.delta.remove()

    def view(self, low: int = LOWEST, high: int = HIGHEST) -> View:
        """The rows with ``low <= ts <= high`` (and others) as they stand."""
        with self.lock:
            if low >= self.rows.floor:
                return View(self.table, self.rows.slices(), self.family.described(), self.family)
        # rows below the floor that are not flushed yet would be missing from both parts
        self.flush()
        with self.lock:
            floor, slices = self.rows.floor, self.rows.slices()
        stored = self._stored(low, min(high, floor - 1))
        # the rows in memory need not be searched for what lies below the floor
        return self._with_stored(slices if high >= floor else slices.none(), floor, stored)

    def _stored(self, low: int, high: int) -> Run:
        """Delta's rows of these times (and others). The read is kept: what is cut and then calculated is read
        only once."""
        now = time.monotonic()
        with self.lock:
            changes = self._changes
            for place, read in enumerate(self._reads):
                if read.low <= low and high <= read.high:
                    self._reads[place] = replace(read, at=now)
                    return read.rows
        if low > LOWEST and high < HIGHEST:
            low = max(low - int((high - low) * MARGIN), LOWEST + 1)
        rows = self._as_run(self.delta.read(low, high))
        with self.lock:
            if changes == self._changes and len(rows) <= KEPT_ROWS:
                self._reads = [*self._reads, Read(low, high, rows, now)][-KEPT_READS:]
        return rows

    def let_go(self, now: float) -> None:
        """Reads of Delta that nobody has asked for lately are forgotten; ``now``: as time.monotonic."""
        if self._reads:
            with self.lock:
                self._reads = [read for read in self._reads if read.at > now - KEPT_SECONDS]

    def _forget(self) -> None:
        self._reads = []
        self._changes += 1

    def written(self, spans: Spans) -> View:
        """The rows that were written last in one of these spans of the topic, whatever their times are."""
        with self.lock:
            if self.rows.floor == LOWEST:
                return View(
                    self.table, self.rows.slices().written(spans), self.family.described(), self.family
                )
        self.flush()
        with self.lock:
            floor, slices = self.rows.floor, self.rows.slices().written(spans)
        stored = self._as_run(self.delta.read_written(spans, floor - 1))
        return self._with_stored(slices, floor, stored)

    def _with_stored(self, slices: Slices, floor: int, stored: Run) -> View:
        runs = [run.since(floor) for run in map(Run.living, slices.runs)]
        with self.lock:
            described = self.family.described()
        return View(self.table, Slices((*runs, stored), slices.empty), described, self.family)

    def _as_run(self, found: StoredRows) -> Run:
        with self.lock:
            numbers = self._numbers(found.names)
        epoch = np.zeros(len(numbers), dtype=np.int32)
        first = None if bool((found.first == found.place).all()) else found.first
        return write_run(numbers, found.data, {}, epoch, found.place, self.rows.second, first)[0]

    def _fetch(self, child: Children, ts: Ints) -> pl.DataFrame:
        names = [self.family.names[number] for number in child.tolist()]
        found = self.delta.read_at(names, ts.tolist())
        return found.data.insert_column(0, pl.Series(CHILD, self._numbers(found.names)))

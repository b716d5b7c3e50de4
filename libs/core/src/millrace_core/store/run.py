"""A run: rows of one table, sorted by (child, ts[, composite key]), at most one row per key, immutable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from millrace_core.store.place import Spans, inside, is_behind, nowhere
from millrace_core.store.search import Bools, Ints, bisect, expand, sort_order
from millrace_core.timeline.precision import HIGHEST, LOWEST

Children = npt.NDArray[np.int32]


class TooManyRows(Exception):
    """There are more rows than a reader wants to have at once."""


@dataclass(frozen=True, slots=True)
class Run:
    """``data``: the table's columns (the first is the time) by row; ``child``: each row's table; ``epoch``:
    the flush epoch in which it was written; ``replaces``: Delta may hold its key; ``place``: where in the log
    it was last written (see :mod:`millrace_core.store.place`); ``live``: which rows still count (None: all);
    ``first``: where in the log each was first written (None: each was written once)."""

    child: Children
    ts: Ints
    data: pl.DataFrame
    epoch: npt.NDArray[np.int32]
    replaces: Bools
    place: Ints
    live: Bools | None = None
    first: Ints | None = None
    low: int = field(init=False)
    high: int = field(init=False)
    """The lowest and the highest time of its rows, dead or not; of no rows, ``low`` is the higher one."""

    def __post_init__(self) -> None:
        some = len(self.ts) > 0
        object.__setattr__(self, "low", int(self.ts.min()) if some else HIGHEST)
        object.__setattr__(self, "high", int(self.ts.max()) if some else LOWEST)

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def count(self) -> int:
        """The number of rows that count."""
        return len(self.ts) if self.live is None else int(np.count_nonzero(self.live))

    @property
    def began(self) -> Ints:
        """Where in the log each row was first written."""
        return self.place if self.first is None else self.first

    @property
    def firsts(self) -> Ints:
        """The position of each table's first row."""
        return np.flatnonzero(np.diff(self.child, prepend=-1))

    def reaches(self, low: int, high: int) -> bool:
        """Whether it may have rows with ``low <= ts <= high``."""
        return self.low <= high and low <= self.high

    def without(self, positions: Ints) -> Run:
        live = np.ones(len(self), dtype=bool) if self.live is None else self.live.copy()
        live[positions] = False
        return replace(self, live=live)

    def take(self, positions: Ints) -> Run:
        """The rows at these positions, dead or not, as a run (positions must ascend)."""
        return Run(
            self.child[positions], self.ts[positions], self.data[positions],
            self.epoch[positions], self.replaces[positions], self.place[positions],
            first=None if self.first is None else self.first[positions],
        )  # fmt: skip

    def only(self, keep: Bools) -> Run:
        """The rows for which ``keep`` holds, dead or not; the run itself if it holds for all, since copying
        takes time."""
        return self if keep.all() else self.take(np.flatnonzero(keep))

    def living(self) -> Run:
        return self if self.live is None else self.take(np.flatnonzero(self.live))

    def since(self, low: int) -> Run:
        """The rows with ``low <= ts``, dead or not."""
        return self if low <= self.low else self.only(self.ts >= low)

    def bounds(self, child: Children, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """For each query the positions [start, end) of that child's rows with ``low <= ts <= high``."""
        starts, ends = self._rows_of(child)
        first = bisect(self.ts, starts, ends, low, right=False)
        return first, bisect(self.ts, first, ends, high, right=True)

    def _rows_of(self, child: Children) -> tuple[Ints, Ints]:
        """For each query the positions [start, end) of that child's rows."""
        top = int(self.child[-1]) if len(self) else 0
        if top + 4 > len(child):
            return np.searchsorted(self.child, child, "left"), np.searchsorted(self.child, child, "right")
        # more queries than tables: look for each table once, in its own type (else all of them are copied).
        # A table that does not exist is -1 in a query; one may also lie behind the last of the run
        begins = np.searchsorted(self.child, np.arange(-1, top + 3, dtype=self.child.dtype))
        place = np.minimum(child, top + 1) + 1
        return begins[place], begins[place + 1]

    def between(
        self, child: Children, low: Ints, high: Ints, until: Ints | None = None, most: int = HIGHEST
    ) -> tuple[Ints, Ints]:
        """Positions of live rows in the queries' ranges, and the query that each belongs to; ``until``: as in
        :meth:`Slices.between`.

        :raises TooManyRows: for more than ``most`` rows, whatever ``until`` leaves out of them.
        """
        first, end = self.bounds(child, low, high)
        if self.live is None and int((end - first).sum()) > most:
            raise TooManyRows
        positions, owner = expand(first, end)
        if self.live is not None:
            keep = self.live[positions]
            positions, owner = positions[keep], owner[keep]
            if len(positions) > most:
                raise TooManyRows
        if until is not None:
            keep = ~is_behind(self.place[positions], until[owner])
            positions, owner = positions[keep], owner[keep]
        return positions, owner

    def rows(self, positions: Ints) -> pl.DataFrame:
        """The rows at these positions. Adjacent rows, such as those of one table, are not copied: starting
        Polars' threads takes longer than reading so few rows."""
        first, count = int(positions[0]), len(positions)
        if int(positions[-1]) - first + 1 == count and bool((np.diff(positions) == 1).all()):
            return self.data.slice(first, count)
        return self.data[positions]

    def within(self, low: int, high: int, spans: Spans | None = None, *, first: bool = False) -> Ints:
        """Positions of live rows of all children with ``low <= ts <= high``; ``spans``: only those that were
        also last written (``first``: or first written) in one of these spans of the log."""
        keep = (self.ts >= low) & (self.ts <= high)
        found = np.flatnonzero(keep if self.live is None else keep & self.live)
        if spans is None:
            return found
        there = inside(self.place[found], spans)
        if first and self.first is not None:
            there |= inside(self.first[found], spans)
        return found[there]

    def written(self, spans: Spans, *, first: bool = False) -> Run:
        """The live rows that were last written (``first``: or first written) in one of these spans of the
        log."""
        keep = inside(self.place, spans)
        if first and self.first is not None:
            keep |= inside(self.first, spans)
        return self._kept(keep)

    def not_written(self, spans: Spans) -> Run:
        """The live rows whose last write lies in none of these spans of the log."""
        return self._kept(~inside(self.place, spans))

    def _kept(self, keep: Bools) -> Run:
        return self.take(np.flatnonzero(keep if self.live is None else keep & self.live))

    def matches(self, other: Run, candidates: Ints, second: str | None) -> tuple[Ints, Ints]:
        """Pairs (position here, position in ``other``) of equal keys among ``other``'s ``candidates``."""
        ts = other.ts[candidates]
        positions, owner = self.between(other.child[candidates], ts, ts)
        there = candidates[owner]
        if second is None or not len(positions):
            return positions, there
        same = (self.data[second][positions]).eq_missing(other.data[second][there]).to_numpy()
        return positions[same], there[same]


def no_run(empty: pl.DataFrame) -> Run:
    """A run without rows; ``empty``: no rows of the table."""
    none = np.empty(0, dtype=np.int32)
    return Run(none, np.empty(0, dtype=np.int64), empty, none, np.empty(0, dtype=bool), nowhere(0))


def concat(runs: Sequence[Run]) -> Run:
    """One run of the live rows of several runs that share no key."""
    living = [run.living() for run in runs]
    if len(living) == 1:
        return living[0]
    child = np.concatenate([run.child for run in living])
    ts = np.concatenate([run.ts for run in living])
    order = sort_order(child, ts)
    once = all(run.first is None for run in living)
    return Run(
        child[order], ts[order], pl.concat([run.data for run in living])[order],
        np.concatenate([run.epoch for run in living])[order],
        np.concatenate([run.replaces for run in living])[order],
        np.concatenate([run.place for run in living])[order],
        first=None if once else np.concatenate([run.began for run in living])[order],
    )  # fmt: skip


def write_run(
    child: Children, data: pl.DataFrame, absent: dict[str, Bools], epoch: npt.NDArray[np.int32],
    place: Ints, second: str | None, first: Ints | None = None,
) -> tuple[Run, dict[str, Bools]]:  # fmt: skip
    """Makes a run of rows that come in the order of writing. The last write of a key wins; cells that it does
    not name (``absent``) come from the write before, and the row began with the first write of the key
    (``first``: as in :class:`Run`). Also returns which cells are still not named."""
    key = data.columns[0]
    ts = data[key].to_numpy().astype(np.int64, copy=False)
    if second is None:
        order = sort_order(child, ts)
    else:
        frame = pl.DataFrame({"c": child, "t": ts, "s": data[second]})
        order = frame.select(pl.arg_sort_by("c", "t", "s", maintain_order=True)).to_series().to_numpy()
        order = order.astype(np.int64)
    child, ts, data, place = child[order], ts[order], data[order], place[order]
    first = None if first is None else first[order]
    absent = {name: mask[order] for name, mask in absent.items()}
    last = last_of_key(child, ts, data[second] if second else None)
    if last.all():
        none = np.zeros(len(ts), dtype=bool)
        return Run(child, ts, data, epoch[order], none, place, first=first), absent
    data, absent = _fill(data, absent, last)
    keep = np.flatnonzero(last)
    none = np.zeros(len(keep), dtype=bool)
    first = (place if first is None else first)[np.append(True, last[:-1])]
    run = Run(child[keep], ts[keep], data[keep], epoch[order][keep], none, place[keep], first=first)
    return run, {name: mask[keep] for name, mask in absent.items()}


def last_of_key(child: Children, ts: Ints, second: pl.Series | None) -> Bools:
    """Which of the rows, sorted by key, are the last of their key."""
    same = (child[1:] == child[:-1]) & (ts[1:] == ts[:-1])
    if second is not None and len(ts) > 1:
        same &= second[1:].eq_missing(second[:-1]).to_numpy()
    return np.append(~same, True) if len(ts) else np.zeros(0, dtype=bool)


def _fill(data: pl.DataFrame, absent: dict[str, Bools], last: Bools) -> tuple[pl.DataFrame, dict[str, Bools]]:
    """Give each row's unnamed cells the value of the newest earlier write of the same key that names them."""
    places = np.arange(len(last), dtype=np.int64)
    begins = np.append(True, last[:-1])
    first = np.maximum.accumulate(np.where(begins, places, 0))
    filled, left = [], {}
    for name, mask in absent.items():
        source = np.maximum.accumulate(np.where(mask, -1, places))
        known = source >= first
        filled.append(data[name][np.where(known, source, places)].alias(name))
        left[name] = ~known
    return data.with_columns(filled), left

"""Overwritten versions of rows, kept for streams that count a rewritten row once more
(``Emission.rewritten``). Their number is limited: the oldest writes are dropped first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from millrace_core.store.run import Children, Run, last_of_key
from millrace_core.store.search import Bools, Ints, sort_order

MOST = 1_000_000
"""How many versions of one table's rows are kept."""
WIDTH = 16
"""With more runs than this they are merged."""


@dataclass(frozen=True, slots=True)
class Unsaved:
    """What the files of superseded rows lack: these ``runs``. ``whole``: nothing that the files hold counts
    any more."""

    runs: tuple[Run, ...]
    whole: bool


@dataclass(slots=True)
class Superseded:
    """``runs``: sorted as other runs are; a key may be there several times."""

    most: int = MOST
    runs: list[Run] = field(default_factory=list)
    _fresh: list[Run] = field(default_factory=list)
    _whole: bool = True
    """Whether the files have to be written anew."""

    def load(self, runs: Sequence[Run]) -> None:
        """Take in what the files hold, before any row is overwritten."""
        for run in runs:
            self._keep(run)
        self._whole = False

    def take_unsaved(self, *, whole: bool = False) -> Unsaved | None:
        """What has been kept since the last call; None: nothing was added or removed. ``whole``: return
        everything."""
        fresh, whole = self._fresh, self._whole or whole
        if not fresh and not whole:
            return None
        self._fresh, self._whole = [], False
        return Unsaved(tuple(self.runs if whole else fresh), whole)

    def unsaved(self) -> None:
        """What :meth:`take_unsaved` gave last was not written to files."""
        self._whole = True

    def add(self, run: Run) -> None:
        """These rows were overwritten."""
        if not len(run):
            return
        self._fresh.append(run)
        self._keep(run)

    def _keep(self, run: Run) -> None:
        self.runs.append(run)
        while len(self.runs) > 1 and sum(map(len, self.runs)) > self.most:
            del self.runs[0]
        if len(self.runs) > WIDTH:
            self.runs = [_joined(self.runs)]

    def add_doubles(self, child: Children, data: pl.DataFrame, place: Ints, second: str | None) -> None:
        """Add those of these rows, which come in the order of writing, whose key is written again later among
        them."""
        ts = data[data.columns[0]].to_numpy().astype(np.int64, copy=False)
        if second is None:
            order = sort_order(child, ts)
        else:
            frame = pl.DataFrame({"c": child, "t": ts, "s": data[second]})
            order = frame.select(pl.arg_sort_by("c", "t", "s", maintain_order=True)).to_series().to_numpy()
        sorted_rows = data[order]
        last = last_of_key(child[order], ts[order], sorted_rows[second] if second else None)
        positions = np.flatnonzero(~last)
        if len(positions):
            chosen = order[positions]
            self.add(superseded_run(child[chosen], ts[chosen], sorted_rows[positions], place[chosen]))

    def forget(self, child: int, first: int, last: int) -> None:
        """Rows of a table in this range of time were deleted: treat them as never written."""
        self._keep_only(lambda run: ~((run.child == child) & (run.ts >= first) & (run.ts <= last)))

    def expire(self, cut: int) -> None:
        """Rows before ``cut`` are gone."""
        self._keep_only(lambda run: run.ts >= cut)

    def _keep_only(self, wanted: Callable[[Run], Bools]) -> None:
        kept: list[Run] = []
        for run in self.runs:
            stays = wanted(run)
            self._whole |= not stays.all()
            kept.append(run.only(stays))
        self.runs = [run for run in kept if len(run)]

    def evolve(self, recast: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """The table was altered: these rows get its columns, like all others."""
        self.runs = [replace(run, data=recast(run.data)) for run in self.runs]
        self._whole = True


def superseded_run(child: Children, ts: Ints, data: pl.DataFrame, place: Ints) -> Run:
    """A run of rows that are already sorted as in a run."""
    none = np.zeros(len(ts), dtype=bool)
    return Run(child, ts, data, np.zeros(len(ts), dtype=np.int32), none, place)


def _joined(runs: Sequence[Run]) -> Run:
    child, ts = np.concatenate([run.child for run in runs]), np.concatenate([run.ts for run in runs])
    place = np.concatenate([run.place for run in runs])
    order = sort_order(child, ts)
    return superseded_run(child[order], ts[order], pl.concat([run.data for run in runs])[order], place[order])

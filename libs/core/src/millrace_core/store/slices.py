"""What a table holds at one moment, and the rows of ranges of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from millrace_core.store.place import Spans
from millrace_core.store.run import Children, Run, concat
from millrace_core.store.search import Ints
from millrace_core.timeline.precision import HIGHEST


@dataclass(frozen=True, slots=True)
class Slices:
    """A view of the rows at one moment; reading it needs no lock."""

    runs: tuple[Run, ...]
    empty: pl.DataFrame

    def count(self, child: Children, low: Ints, high: Ints) -> Ints:
        """How many rows each query's range holds."""
        total = np.zeros(len(child), dtype=np.int64)
        for run in self._reaching(low, high):
            if run.live is None:
                first, end = run.bounds(child, low, high)
                total += end - first
            else:
                total += np.bincount(run.between(child, low, high)[1], minlength=len(child))
        return total

    def between(
        self, child: Children, low: Ints, high: Ints, until: Ints | None = None, most: int = HIGHEST
    ) -> tuple[pl.DataFrame, Ints, Children]:
        """Rows of the queries' ranges (child, inclusive times) ordered by (query, ts), with each row's query
        and child. ``until``: leaves out rows that were last written after these places, in the same
        partition.

        :raises TooManyRows: for more than ``most`` rows; those that ``until`` leaves out of a run may count.
        """
        parts = []
        for run in self._reaching(low, high):
            positions, owner = run.between(child, low, high, until, most)
            most -= len(positions)
            if len(positions):
                parts.append((run, positions, owner))
        if not parts:
            return self.empty, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
        data = pl.concat([run.rows(positions) for run, positions, _ in parts])
        owner = np.concatenate([part[2] for part in parts])
        if len(parts) > 1:
            ts = np.concatenate([run.ts[positions] for run, positions, _ in parts])
            order = np.lexsort((ts, owner))
            data, owner = data[order], owner[order]
        return data, owner, child[owner]

    def within(
        self, low: int, high: int, spans: Spans | None = None, *, first: bool = False
    ) -> tuple[pl.DataFrame, Children]:
        """Rows of all children with ``low <= ts <= high`` ordered by (child, ts), and each row's child.
        ``spans``: only those that were last written (``first``: or first written) in one of these spans of
        the log.
        """
        parts = [
            run if spans is None and run.live is None and low <= run.low and run.high <= high
            else run.take(run.within(low, high, spans, first=first))
            for run in self.runs
            if run.reaches(low, high)
        ]  # fmt: skip
        parts = [part for part in parts if len(part)]
        if not parts:
            return self.empty, np.empty(0, dtype=np.int32)
        whole = concat(parts)
        return whole.data, whole.child

    def _reaching(self, low: Ints, high: Ints) -> Sequence[Run]:
        """The runs that may have rows of one of these ranges."""
        if len(self.runs) < 2 or not len(low):
            return self.runs
        first, last = int(low.min()), int(high.max())
        return [run for run in self.runs if run.reaches(first, last)]

    def none(self) -> Slices:
        """No rows."""
        return Slices((), self.empty)

    def written(self, spans: Spans, *, first: bool = False) -> Slices:
        """Only the rows that were last written (``first``: or first written) in one of these spans of the
        log."""
        return Slices(tuple(run.written(spans, first=first) for run in self.runs), self.empty)

    def without(self, spans: Spans) -> Slices:
        """Only the rows whose last write lies in none of these spans of the log."""
        return Slices(tuple(run.not_written(spans) for run in self.runs), self.empty)

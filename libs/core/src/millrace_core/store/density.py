"""Estimates how many rows lie in a stretch of time, and cuts time into slices of about one size. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from millrace_core.store.search import Ints

SAMPLED = 1 << 16
"""Up to this many rows in memory are all looked at; of more rows, a sample of this size."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """Times in order, each of which stands for ``weight`` rows."""

    ts: Ints
    weight: float


@dataclass(slots=True)
class Density:
    """The density of the rows of one table, or of several."""

    _files: list[tuple[int, int, float]] = field(default_factory=list)
    _samples: list[_Sample] = field(default_factory=list)

    def add_files(self, files: Sequence[tuple[int, int, int]], end: int, times: int = 1) -> None:
        """Add files, each as (first time, last time, rows). Only rows before ``end`` count, each of them
        ``times`` times."""
        for first, last, rows in files:
            upto = min(last, end - 1)
            if upto >= first:
                share = (upto - first + 1) / (last - first + 1)
                self._files.append((first, upto, rows * share * times))

    def add_times(self, ts: Ints, times: int = 1) -> None:
        """Rows at these times, in any order."""
        if len(ts):
            step = -(-len(ts) // SAMPLED)
            self._samples.append(_Sample(np.sort(ts[::step]), len(ts) / len(ts[::step]) * times))

    def count(self, low: int, high: int) -> float:
        """Rows in ``[low, high]``; those of a file are taken to be spread evenly over its time."""
        total = 0.0
        for sample in self._samples:
            total += sample.weight * (
                int(np.searchsorted(sample.ts, high, "right")) - int(np.searchsorted(sample.ts, low, "left"))
            )
        for first, last, rows in self._files:
            covered = min(last, high) - max(first, low) + 1
            if covered > 0:
                total += rows * covered / (last - first + 1)
        return total

    def slices(self, low: int, end: int, target: int) -> Iterator[tuple[int, int]]:
        """Ranges of time, in order, of at most about ``target`` rows each; together they cover
        ``[low, end]``."""
        width = max(end - low, 1)
        while low <= end:
            high = min(low + width, end)
            while (found := self.count(low, high)) > target and high > low:
                width = (high - low) // 2
                high = low + width
            yield low, high
            low = high + 1
            width = max(width, 1) * (2 if found * 2 <= target else 1)

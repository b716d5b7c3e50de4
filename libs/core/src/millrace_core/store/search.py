"""Binary search in many sorted segments at once, and ranges spelled out as positions."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

FEW = 16

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def bisect(values: Ints, starts: Ints, ends: Ints, targets: Ints, *, right: bool) -> Ints:
    """For each i the insertion point of ``targets[i]`` in the sorted ``values[starts[i]:ends[i]]``.

    ``right``: the point after equal values, as in ``numpy.searchsorted``. All searches advance together, in
    one pass per level of the deepest segment. A few searches are made one by one, which takes less time than
    the passes.
    """
    if len(starts) <= FEW:
        side: Literal["left", "right"] = "right" if right else "left"
        sought = zip(starts.tolist(), ends.tolist(), targets.tolist(), strict=True)
        places = [begin + int(values[begin:end].searchsorted(target, side)) for begin, end, target in sought]
        return np.array(places, dtype=np.int64)
    low, high = starts.astype(np.int64), ends.astype(np.int64)
    while True:
        open_ = np.flatnonzero(low < high)
        if not len(open_):
            return low
        middle = (low[open_] + high[open_]) >> 1
        found, wanted = values[middle], targets[open_]
        above = (found <= wanted) if right else (found < wanted)
        low[open_] = np.where(above, middle + 1, low[open_])
        high[open_] = np.where(above, high[open_], middle)


def expand(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """All positions in the ranges ``[starts[i], ends[i])`` in order, and the range that each belongs to."""
    lengths = np.maximum(ends - starts, 0)
    owner = np.repeat(np.arange(len(starts), dtype=np.int64), lengths)
    before = np.cumsum(lengths) - lengths
    positions = np.arange(len(owner), dtype=np.int64) - before[owner] + starts[owner]
    return positions, owner


def sort_order(child: npt.NDArray[np.int32], ts: Ints) -> Ints:
    """The stable order by (child, ts)."""
    if not len(ts):
        return np.empty(0, dtype=np.int64)
    low, high = int(ts.min()), int(ts.max())
    span = high - low + 1
    if span * (int(child.max()) + 1) < 2**62:
        # a single integer key: timsort then merges the presorted parts in linear time
        key = child.astype(np.int64) * span + (ts - low)
        return np.argsort(key, kind="stable")
    return np.lexsort((ts, child))

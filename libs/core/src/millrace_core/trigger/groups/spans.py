"""Times as few ranges that hold them all."""

from __future__ import annotations

import numpy as np

from millrace_core.trigger.groups.columns import Ints

MOST_SPANS = 64
"""The most ranges of one table and batch that are sent on. Wider ranges cause more windows to be calculated
again, but no different results."""


def spans_of(ts: Ints) -> list[tuple[int, int]]:
    """Times (at least one) as ranges that hold them all: one range for each time, but at most
    :data:`MOST_SPANS`, which are divided where the times lie furthest apart."""
    ts = np.unique(ts)
    gaps = np.diff(ts)
    cuts = np.arange(len(gaps))
    if len(gaps) >= MOST_SPANS:
        cuts = np.sort(np.argsort(-gaps, kind="stable")[: MOST_SPANS - 1])
    first, last = ts[np.append(0, cuts + 1)], ts[np.append(cuts, len(ts) - 1)]
    return list(zip(first.tolist(), last.tolist(), strict=True))

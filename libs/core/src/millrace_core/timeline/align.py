"""Where windows begin. All times and lengths are ticks of one precision."""

from __future__ import annotations


def window_start(ts: int, interval: int, sliding: int, offset: int = 0) -> int:
    """Start of the earliest window that ends after ``ts``; windows are ``[start, start + interval)``.

    Starts are ``offset + k * sliding`` from 1970-01-01 UTC on (a Thursday, so weeks begin on one). The window
    contains ``ts`` unless ``sliding > interval`` and ``ts`` lies in a gap: then it begins after ``ts``.
    """
    return (ts - offset - interval) // sliding * sliding + sliding + offset


def window_starts(ts: int, interval: int, sliding: int, offset: int = 0) -> range:
    """Starts of all windows that contain ``ts``, in order; none in a gap."""
    return range(window_start(ts, interval, sliding, offset), ts + 1, sliding)

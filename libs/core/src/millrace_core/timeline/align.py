"""Where windows begin and slides fire. All times and lengths are ticks of one precision."""

from __future__ import annotations

from datetime import tzinfo

from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.timeline.calendar import add_days, local_midnight

SECONDS_PER_DAY = 86_400


def window_start(ts: int, interval: int, sliding: int, offset: int = 0) -> int:
    """Start of the earliest window that ends after ``ts``; windows are ``[start, start + interval)``.

    Starts are ``offset + k * sliding`` from 1970-01-01 UTC on (a Thursday, so weeks begin on one). The window
    contains ``ts`` unless ``sliding > interval`` and ``ts`` lies in a gap: then it begins after ``ts``.
    """
    return (ts - offset - interval) // sliding * sliding + sliding + offset


def window_starts(ts: int, interval: int, sliding: int, offset: int = 0) -> range:
    """Starts of all windows that contain ``ts``, in order; none in a gap."""
    return range(window_start(ts, interval, sliding, offset), ts + 1, sliding)


def previous_boundary(
    ts: int, every: int, offset: int, precision: Precision, where: tzinfo, origin: int = 0
) -> int:
    """The last instant at or before ``ts`` at which SLIDING or PERIOD fires (seed 000).

    Below one day: the local midnight of each day plus ``offset``, then every ``every``, begun anew each day.
    From one day on: the local midnight of ``origin``'s day plus ``offset``, then every ``every``.
    """
    if every >= SECONDS_PER_DAY * TICKS_PER_SECOND[precision]:
        base = local_midnight(origin, precision, where) + offset
        return base + (ts - base) // every * every
    base = local_midnight(ts - offset, precision, where) + offset
    if base > ts:  # the clocks were changed between the midnight and ts - offset
        base = add_days(base - offset, -1, precision, where) + offset
    return base + (ts - base) // every * every


def next_boundary(
    ts: int, every: int, offset: int, precision: Precision, where: tzinfo, origin: int = 0
) -> int:
    """The first such instant after ``ts``; a day's first may come sooner than ``every`` after its last."""
    following = previous_boundary(ts, every, offset, precision, where, origin) + every
    if every >= SECONDS_PER_DAY * TICKS_PER_SECOND[precision]:
        return following
    base = local_midnight(ts - offset, precision, where)
    for days in (0, 1, 2):
        tomorrow = add_days(base, days, precision, where) + offset
        if tomorrow > ts:
            return min(following, tomorrow)
    return following

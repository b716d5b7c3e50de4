"""Between which times rows mean nothing to a stream yet: read from what it keeps, as ``trigger.waits`` does.

One function for each type of windower that can tell without looking at the rows. Nothing is changed here; the
rules are those of the windowers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from millrace_core.trigger.groups.columns import Columns, Ints
from millrace_core.trigger.groups.watermark import NEVER, Bools
from millrace_core.trigger.interval import IntervalWindower
from millrace_core.trigger.session import SessionWindower
from millrace_core.trigger.sliding import SlidingWindower
from millrace_core.trigger.stream.state import StreamState
from millrace_core.trigger.windower import OPEN


class Span(NamedTuple):
    """Times of rows, both included."""

    first: int
    last: int

    def holds(self, other: Span) -> bool:
        """Whether all of the other lies in this one."""
        return self.first <= other.first and other.last <= self.last


NEVER_CALM = Span(1, 0)
"""No row lies in it."""


class Calm(NamedTuple):
    """What decides whether a stream may put rows off: whether it is ``live``, of which ``child`` it takes
    rows (None: of any), in which ``span`` they mean nothing to it."""

    live: bool
    child: bytes | None
    span: Span


def calm_of(state: StreamState) -> Span:
    """Rows in this span, of whatever tables and in whatever order, make the stream tell and ask nothing.

    It holds until the stream has judged something. Counters do grow by such rows.
    """
    definition, life = state.definition, state.life
    if life.holding or state.waits or not definition.home or definition.table.virtual:
        return NEVER_CALM
    if definition.signals or definition.delay is not None or OPEN in definition.emission.kinds:
        return NEVER_CALM
    state.clock.grow(len(state.groups))
    state.memory.grow(len(state.groups))
    newest = state.clock.singles["newest"]
    seen = newest != NEVER
    if not seen.any() or not state.clock.singles["started"][seen].all():
        return NEVER_CALM
    watermark = definition.clock.watermark
    until = newest[seen] - watermark
    match definition.windower:
        case IntervalWindower() as windower:
            span = _interval(windower, until)
        case SlidingWindower() as windower:
            span = _sliding(windower, state.memory.singles["past"][seen])
        case SessionWindower() as windower:
            span = _session(windower, state.memory, seen, until)
        case _:
            return NEVER_CALM
    # T, which closes windows, lies so far behind the newest row
    return Span(span.first, span.last + watermark)


def _interval(windower: IntervalWindower, until: Ints) -> Span:
    """While all groups are in one window: no row touches a closed one, and T stays before its end."""
    window = windower.grid.unclosed(until)
    only = int(window[0])
    if (window != only).any():
        return NEVER_CALM
    return Span(windower.grid.end(only - 1), windower.grid.end(only) - 1)


def _sliding(windower: SlidingWindower, past: Ints) -> Span:
    """While all groups wait for the same instant."""
    only = int(past[0])
    if (past != only).any():
        return NEVER_CALM
    return Span(only + 1, int(windower.schedule.after(only)) - 1)


def _session(windower: SessionWindower, memory: Columns, seen: Bools, until: Ints) -> Span:
    """Behind all that has closed, within a gap of each open session's last row, and of each other: a table
    that is new must not close a session of its own."""
    now = {name: array[seen] for name, array in memory.singles.items()}
    is_open = now["rows"] > 0
    first = int(np.where(is_open, now["start"], until + 1).max())
    closed = now["closed"] > 0
    if closed.any():
        first = max(first, int(now["closed_end"][closed].max()) + windower.gap + 1)
    last = first + windower.gap
    if is_open.any():
        last = min(last, int(now["last"][is_open].min()) + windower.gap)
    return Span(first, last)

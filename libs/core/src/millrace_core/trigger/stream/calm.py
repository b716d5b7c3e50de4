"""Between which times rows mean nothing to a stream yet: read from what it keeps, without looking at them."""

from __future__ import annotations

from typing import NamedTuple

from millrace_core.trigger.groups.watermark import NEVER
from millrace_core.trigger.stream.state import StreamState
from millrace_core.trigger.types.occurrences import OPEN
from millrace_core.trigger.types.windower import NEVER_CALM, Span


class Calm(NamedTuple):
    """What decides whether a stream may put rows off: whether it is ``live``, of which ``child`` it takes
    rows (None: of any), in which ``span`` they mean nothing to it."""

    live: bool
    child: bytes | None
    span: Span


def calm_of(state: StreamState) -> Span:
    """Rows in this span, of whatever tables and in whatever order, make the stream tell and ask nothing.

    It holds until the stream has evaluated something. Counters do grow by such rows.
    """
    definition, life = state.definition, state.life
    if life.holding or state.waits or not definition.home or definition.table.virtual:
        return NEVER_CALM
    shows = definition.timer is not None or definition.showing is not None
    if definition.signals or shows or OPEN in definition.emission.kinds:
        return NEVER_CALM
    state.clock.grow(len(state.groups))
    state.memory.grow(len(state.groups))
    newest = state.clock.singles["newest"]
    seen = newest != NEVER
    if not seen.any() or not state.clock.singles["started"][seen].all():
        return NEVER_CALM
    watermark = definition.clock.watermark
    until = newest[seen] - watermark
    span = definition.windower.calm(state.memory, seen, until)
    # T, which closes windows, lies so far behind the newest row
    return span if span == NEVER_CALM else Span(span.first, span.last + watermark)

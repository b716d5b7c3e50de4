"""Live rows of groups: clock, windower and MAX_DELAY, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.groups.watermark import Arrivals
from millrace_core.trigger.stream.delay import FAR, NS_PER_MS
from millrace_core.trigger.stream.state import StreamState
from millrace_core.trigger.stream.telling import Output, Telling
from millrace_core.trigger.types.occurrences import Occurrences
from millrace_core.wire.control import Offsets, Tick


class Judging:
    """``expires``: whether rows may be too old: live ones may, those of history are not (seed 000)."""

    def __init__(self, state: StreamState, telling: Telling) -> None:
        self.state, self.telling = state, telling
        self.expires = True

    def judge(self, rows: Arrivals, written: Ints, seen: Offsets) -> Iterator[Output]:
        """What these rows make happen. ``written``: Kafka's timestamp (ms) of each one's message."""
        state = self.state
        definition = state.definition
        state.clock.grow(len(state.groups))
        state.memory.grow(len(state.groups))
        clock = definition.clock if self.expires else replace(definition.clock, expired=None)
        judged = clock.judge(state.clock, rows)
        found = definition.windower.on_rows(state.memory, judged)
        if definition.delay is not None:
            state.delays.grow(len(state.groups))
            touched = np.unique(np.concatenate((judged.group, judged.moves.group))).tolist()
            definition.delay.follow(state.delays, state.memory, touched, found, written)
        unused = definition.windower.unused(judged)
        for cause, count in (judged.dropped | unused).items():
            state.count(cause, count)
        state.count("empty_windows", found.skipped)
        state.count("expired", found.over)
        state.count("rows_used", len(judged.group) - sum(unused.values()) - found.over)
        state.count("late_used", int(judged.late.sum()) - found.over)
        yield from self.telling.tell(found, written, seen)

    def follow(self, places: list[int], found: Occurrences, written: Ints) -> None:
        """Windows of these groups may have opened, or be open no more, without a row."""
        state, delay = self.state, self.state.definition.delay
        if delay is not None and places:
            delay.follow(state.delays, state.memory, places, found, written)

    # ------------------------------------------------------------------ processing time

    @property
    def due(self) -> int:
        """The first processing time (ns) such that a tick that reaches it may mean something to it."""
        delay = self.state.definition.delay
        return FAR if delay is None or not self.state.live else delay.due(self.state.delays)

    def on_tick(self, tick: Tick, seen: Offsets) -> Iterator[Output]:
        """Processing time moved on; ``seen``: offsets of the trigger table that this slot has seen."""
        state, delay = self.state, self.state.definition.delay
        if delay is None or self.due > tick.reach:
            return
        found = delay.fire(state.delays, state.memory, tick.reach)
        seen = seen if state.definition.home else state.life.seen
        yield from self.telling.tell(found, np.array([tick.now // NS_PER_MS]), seen)

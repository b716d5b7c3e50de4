"""Live rows of groups: clock, windower and MAX_DELAY, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from millrace_core.timeline.precision import NS_PER_MS, milliseconds
from millrace_core.trigger.groups.columns import Ints, starts_of
from millrace_core.trigger.groups.watermark import RANGE, Arrivals
from millrace_core.trigger.stream.delay import FAR
from millrace_core.trigger.stream.state import StreamState
from millrace_core.trigger.stream.telling import Output, Telling
from millrace_core.trigger.types.forced import Forced
from millrace_core.trigger.types.occurrences import Occurrences, nothing
from millrace_core.trigger.types.shown import Spans
from millrace_core.wire.control import Offsets, Tick


def spans_by_group(rows: Arrivals) -> Spans:
    """The times of arrived rows by group."""
    heads = starts_of(rows.group)
    parts = zip(rows.group[heads].tolist(), np.split(rows.ts, heads[1:]), strict=True) if len(heads) else ()
    return {group: (ts, ts) for group, ts in parts}


class Judging:
    """``expires``: whether rows may be too old: live rows may, those of history never are (seed 000).
    ``past``: the rows were written while the stream was stopped, in time for windows that the clock has
    closed since."""

    def __init__(self, state: StreamState, telling: Telling) -> None:
        self.state, self.telling = state, telling
        self.expires = True
        self.past = False

    def judge(self, rows: Arrivals, written: Ints, seen: Offsets) -> Iterator[Output]:
        """Evaluate these rows and tell what results. ``written``: Kafka's timestamp (ms) of each row's
        message."""
        state = self.state
        definition = state.definition
        if definition.forced is not None:
            self._await(definition.forced, rows, written)
            return
        state.clock.grow(len(state.groups))
        state.memory.grow(len(state.groups))
        clock = definition.clock if self.expires else replace(definition.clock, expired=None)
        evaluated = clock.judge(state.clock, rows)
        found = definition.windower.on_rows(state.memory, evaluated)
        if definition.delay is not None:
            state.delays.grow(len(state.groups))
            touched = np.unique(np.concatenate((evaluated.group, evaluated.moves.group))).tolist()
            definition.delay.follow(state.delays, state.memory, touched, found, written)
        unused = definition.windower.unused(evaluated)
        for cause, count in (evaluated.dropped | unused).items():
            state.count(cause, count)
        state.count("empty_windows", found.skipped)
        state.count("expired", found.over)
        state.count("rows_used", len(evaluated.group) - sum(unused.values()) - found.over)
        state.count("late_used", int(evaluated.late.sum()) - found.over)
        shown = None if definition.showing is None else self._shown(spans_by_group(rows), found, written)
        yield from self.telling.tell(
            found if shown is None else Occurrences.join((found, shown)), written, seen, rows.log
        )

    def _shown(self, spans: Spans, found: Occurrences, written: Ints) -> Occurrences | None:
        """What is shown of these groups after a batch; None if the stream shows no windows before they
        close."""
        state, showing = self.state, self.state.definition.showing
        if showing is None or not len(written):
            return None
        state.shown.grow(len(state.groups))
        kept = state.memory, state.clock
        return showing.follow(state.shown, kept, spans, found, written, state.doubts)

    def lose(self, place: int, spans: list[tuple[int, int]], found: Occurrences, written: int) -> Occurrences:
        """Rows of a group in these ranges are gone, including rows that wait for T; ``found``: what is told
        of that. Returns it together with what is shown instead."""
        times = np.array([written])
        self.follow([place], found, times)
        first, last = (np.array([span[i] for span in spans], dtype=np.int64) for i in (0, 1))
        shown = self._shown({place: (first, last)}, found, times)
        return found if shown is None else Occurrences.join((found, shown))

    def _await(self, forced: Forced, rows: Arrivals, written: Ints) -> None:
        """Note rows that mean nothing until the clock closes their windows."""
        state = self.state
        state.delays.grow(len(state.groups))
        when = np.full_like(written, -FAR // NS_PER_MS) if self.past else written
        late, outside = forced.take(state.delays, rows.group, rows.ts, when, rows.log)
        state.count("expired", late)
        state.count("out_of_range", outside)
        state.count("rows_used", len(rows.ts) - late - outside)

    def open_again(self, places: list[int], written: Ints, seen: Offsets) -> Iterator[Output]:
        """These groups have been handed over with windows that may be open; ``written``: when that was
        (ms)."""
        found = nothing()
        self.follow(places, found, written)
        everything = np.array([-RANGE]), np.array([RANGE])
        shown = self._shown(dict.fromkeys(places, everything), found, written)
        if shown is not None:
            yield from self.telling.tell(shown, written, seen)

    def follow(self, places: list[int], found: Occurrences, written: Ints) -> None:
        """Windows of these groups may have opened, or ceased to be open, without a row."""
        state, delay = self.state, self.state.definition.delay
        if delay is not None and places:
            delay.follow(state.delays, state.memory, places, found, written)

    # ------------------------------------------------------------------ processing time

    @property
    def due(self) -> int:
        """The first processing time (ns) such that a tick that reaches it may mean something to it."""
        return int(self.state.all_due.min(initial=FAR)) if self.state.live else FAR

    def on_tick(self, tick: Tick, seen: Offsets) -> Iterator[Output]:
        """Processing time moved on; ``seen``: offsets of the trigger table that this slot has seen."""
        state, definition = self.state, self.state.definition
        delay, forced, showing = definition.delay, definition.forced, definition.showing
        if self.due > tick.reach or (forced is not None and state.life.holding):
            return
        seen = seen if state.definition.home else state.life.seen
        if state.dirty and state.life.dirty_until <= tick.reach:
            yield from self.telling.cut_again(tick.now, seen)
        if forced is not None:
            found, windows = forced.fire(state.delays, tick.now)
            upto = [one.upto or seen.get(one.partition, 0) for one in windows]
            partition = np.array(
                [one.partition if end else -1 for one, end in zip(windows, upto, strict=True)]
            )
            times = np.full(len(windows), milliseconds(tick.now))
            yield from self.telling.tell(found, times, seen, (partition, np.array(upto) - 1))
            return
        if delay is not None:
            found = delay.fire(state.delays, state.memory, tick.reach)
        elif showing is not None:
            found = showing.fire(state.shown, (state.memory, state.clock), tick.reach, state.doubts)
        else:
            return
        yield from self.telling.tell(found, np.array([milliseconds(tick.now)]), seen)

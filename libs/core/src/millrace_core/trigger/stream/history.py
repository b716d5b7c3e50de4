"""What a stream deals with besides its live rows: history, rows written while it was stopped, and the ranges
of RECALCULATE STREAM.

It requests them from calc-svc (topic ``recalc``). While it waits for history, live rows are held
(``stream.past``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from millrace_core.timeline.precision import milliseconds
from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.groups.family import Family
from millrace_core.trigger.groups.watermark import NEVER, RANGE, Arrivals
from millrace_core.trigger.stream.changes import Changes, gone_of
from millrace_core.trigger.stream.judging import Judging
from millrace_core.trigger.stream.past import (
    Held,
    HeldChange,
    arrivals_of,
    between_changes,
    hold,
    release,
    stretches,
)
from millrace_core.trigger.stream.state import StreamState
from millrace_core.trigger.stream.telling import Output, Telling
from millrace_core.trigger.stream.versions import held_in_turns, remaining
from millrace_core.trigger.types import type_of
from millrace_core.trigger.types.occurrences import HISTORY, LIVE, OPEN, Occurrence, as_arrays
from millrace_core.wire.control import Offsets
from millrace_core.wire.recalc import Handover, Part, Past, Request, Taken


class History:
    """``judging`` evaluates what is handed over, and the live rows after it; ``changes`` is told of deletes
    that were noted while rows were held."""

    def __init__(self, state: StreamState, telling: Telling, judging: Judging, changes: Changes) -> None:
        self.state, self.telling, self.judging, self.changes = state, telling, judging, changes
        self._outgoing: list[Output] = []

    def take_outgoing(self) -> list[Output]:
        """The requests that it has made since the last call."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    # ------------------------------------------------------------------ life

    def begin(self, slots: int, at: int) -> None:
        self.state.life.slots = slots
        self._ask_for_history(at)

    def _history_from(self) -> int | None:
        options = self.state.definition.spec.options
        return options.fill_history if options.fill_history is not None else options.fill_history_first

    def _treats_untreated(self) -> bool:
        """Whether rows that were written while it was stopped are treated, if that is permitted."""
        emission = self.state.definition.spec.emission
        return emission.untreated == "live" or self._history_from() is not None

    def _ask_for_history(self, at: int) -> None:
        start = self._history_from()
        if start is not None:
            self._wait(self.telling.request("HISTORY", [], {}, at, (max(start, -RANGE), RANGE)), {}, {})

    @property
    def waits_for_untreated(self) -> bool:
        """Whether it holds live rows until what was written during a stop has been told."""
        return self.state.life.holding and self._history_from() is None

    def _wait(
        self, request: Request, since: Offsets, origins: Mapping[str, Offsets], until: Offsets | None = None
    ) -> None:
        """Hold live rows until everything between ``since`` (in a virtual table's sources: ``origins``) and
        the live rows (or ``until``) has been told."""
        life = self.state.life
        spans = {topic: stretches(origins.get(topic, {}), ends) for topic, ends in life.origins.items()}
        spans = {topic: span for topic, span in spans.items() if span}
        ends = life.live_from if until is None else until
        written = {} if self.state.definition.table.virtual else stretches(since, ends)
        life.holding = bool(written or spans)
        if life.holding:
            request = msgspec.structs.replace(
                request, seen=dict(life.live_from), written=written, origins=spans
            )
            self._outgoing.append(self.telling.ask(request))

    def stop(self, seen: Offsets, origins: Mapping[str, Offsets], taken: Taken) -> None:
        """``seen``: what its slot has seen of the trigger table; ``origins``: about where the sources of a
        virtual table are, ``taken``: what this slot has taken from them."""
        life, home = self.state.life, self.state.definition.home
        seen = seen if home else life.seen
        life.running = False
        partitions = life.live_from.keys() | seen.keys()
        stopped_at = {p: max(seen.get(p, 0), life.live_from.get(p, 0)) for p in partitions}
        life.held_to = stopped_at if self.waits_for_untreated else {}
        if self.waits_for_untreated:
            return  # nothing has been evaluated since it was last stopped
        life.stopped_at = stopped_at
        # a group of several tables does not know what these tables have taken, in other slots
        life.origins_stopped = life.origins if home else dict(origins)
        wanted = home and self._treats_untreated()
        life.taken = {name: dict(offsets) for name, offsets in taken.items()} if wanted else {}
        definition = self.state.definition
        changes = definition.spec.options.delete_recalc or definition.loses_rewritten
        heeds = definition.spec.emission.untreated == "live" and changes
        life.missed_from = life.stopped_at if heeds else {}

    def catch_up(
        self, untreated: bool, origins: Mapping[str, Offsets], at: int, family: Family
    ) -> Iterator[Output]:
        """The stream has been started again. ``untreated``: what was written meanwhile is history;
        ``origins``: from where on it is live in the sources of a virtual table; ``family``: the tables that
        exist."""
        life = self.state.life
        missed, life.missed = life.missed, []
        rewritten, life.rewritten = life.rewritten, {}
        again = self.waits_for_untreated
        if again:
            # what it waits for was requested in the epoch before: it is requested anew, together with what it
            # holds
            life.holding = False
            release(self.state.held, self.state.definition.windower.signals)
        if not untreated and not again:
            life.missed_from = {}
        elif not life.holding:
            # before the rows that were written meanwhile, which are as these changes have left them
            for name, first, last in missed:
                yield from self.changes.delete(name, (first, last), milliseconds(at), life.live_from, family)
            for name, times in rewritten.items():
                yield from self.changes.lose_rewritten(name, times, milliseconds(at), life.live_from, family)
        forced = self.state.definition.forced
        if forced is not None and not untreated:
            forced.forget(self.state.delays, at)
        state = self.state
        life.origins = dict(origins)
        if life.holding:
            self._ask_for_history(at)
        elif (untreated or again) and self._treats_untreated():
            state.held.singles["fed"][:] = NEVER
            request = self.telling.request("UNTREATED", [], {}, at, (-RANGE, RANGE), life.taken)
            # rows after the beginning of live rows come by themselves
            held_to = {p: min(end, life.live_from.get(p, end)) for p, end in life.held_to.items()}
            self._wait(request, life.stopped_at, life.origins_stopped, None if untreated else held_to)
        if not life.holding:
            life.taken = {}

    def recalculate(self, first: int, last: int | None, seen: Offsets, at: int) -> Iterator[Output]:
        """RECALCULATE STREAM. With COUNT_WINDOW a group is recalculated only if its T has reached the end of
        the range (seed 000)."""
        state = self.state
        state.grow()
        started = state.clock.singles["newest"] != NEVER
        until = state.until.tolist()
        counting = type_of(state.definition.spec.trigger).numbered
        parts, left_out = [], []
        for place in np.flatnonzero(started).tolist():
            if counting and (last is None or last > until[place]):
                left_out.append(until[place])
                continue
            end = until[place] if last is None else min(last, until[place])
            parts.append(Part(state.groups.get(place), first, end, until[place], state.origin(place)))
        asked = first, RANGE if last is None else last
        seen = seen if state.definition.home else state.life.seen
        request = self.telling.request("MANUAL", parts, seen, at, None if counting else asked)
        ignored = (len(left_out), max(left_out)) if left_out else None
        yield self.telling.ask(msgspec.structs.replace(request, asked=asked, left_out=ignored))

    # ------------------------------------------------------------------ the past

    def take(self, rows: Arrivals, written: Ints, seen: Offsets) -> Iterator[Output]:
        """Evaluate live rows, or hold them."""
        state = self.state
        if state.life.holding:
            state.grow()
            hold(state.held, rows, written, len(state.life.changed))
            return
        yield from self._judge(rows, written, seen)

    def _judge(self, rows: Arrivals, written: Ints, seen: Offsets) -> Iterator[Output]:
        yield from self.judging.judge(rows, written, seen)
        if self.state.waits:
            yield from self.changes.reach(int(written.max(initial=0)), seen)

    def take_past(self, message: Handover, at: int, seen: Offsets) -> Iterator[Output]:
        """Take what calc-svc tells at ``at`` (ms) of the time before the live rows; ``seen``: as for live
        rows."""
        state = self.state
        if not state.life.holding or message.epoch != state.life.epoch:
            return
        seen = seen if state.definition.home else state.life.seen
        pasts = [(place, past) for past in message.groups if (place := state.place_of(past.group)) >= 0]
        state.grow()
        windower = state.definition.windower
        known = [(place, past) for place, past in pasts if past.memory is not None]
        for place, past in known:
            memory = msgspec.msgpack.decode(past.memory or b"", type=windower.memory)
            state.memory.put({place: memory})
            state.clock.singles["newest"][place] = past.newest
            state.clock.singles["started"][place] = 1
        yield from self._tell_opened(known, at, seen)
        fed = state.held.singles["fed"]
        rows = arrivals_of(pasts, lambda place: int(fed[place]), windower.signals)
        for place, past in pasts:
            fed[place] = max(fed[place], past.upto)
        times = np.full(len(rows.ts), at, dtype=np.int64)
        # rows that come without a memory were written while the stream was stopped
        as_live = state.definition.spec.emission.untreated == "live" and not known
        if not as_live:
            self.telling.cause, self.judging.expires = HISTORY, False
        self.judging.past = True
        yield from self._judge(rows, times, seen)
        self.telling.cause, self.judging.expires, self.judging.past = LIVE, True, False
        yield from self.judging.open_again([place for place, _ in known], np.array([at]), seen)
        if message.done:
            yield from self._go_live(at, seen)

    def _tell_opened(self, known: Sequence[tuple[int, Past]], at: int, seen: Offsets) -> Iterator[Output]:
        """Tell of the windows that history left open."""
        found = [
            (place, 0, Occurrence(OPEN, one.start, one.end, one.rownum, HISTORY, detail=one.detail))
            for place, past in known
            for one in past.opened
        ]
        yield from self.telling.tell(as_arrays(found, 0), np.array([at]), seen)

    def _go_live(self, at: int, seen: Offsets) -> Iterator[Output]:
        """Evaluate the held rows and apply what was noted meanwhile."""
        state = self.state
        state.life.holding = False
        changed, state.life.changed = state.life.changed, []
        held = release(state.held, state.definition.windower.signals)
        if state.definition.heeds_arrival:
            yield from self._in_order(held, changed, at, seen)
        else:
            yield from self._at_once(held, changed, at, seen)
        if state.waits:
            yield from self.changes.reach(at, seen)

    def _in_order(
        self, released: Held, changed: Sequence[HeldChange], at: int, seen: Offsets
    ) -> Iterator[Output]:
        """Rows and changes in the order in which they came."""
        applied = 0
        for before, held in between_changes(released):
            yield from self.changes.apply(gone_of(self.state, changed[applied:before]), at, seen)
            applied = before
            for rows, written, versions in held_in_turns(self.state, held):
                yield from self._judge(rows, written, seen)
                if len(versions.ts):
                    yield from self.changes.lose(versions, seen)
        yield from self.changes.apply(gone_of(self.state, changed[applied:]), at, seen)

    def _at_once(
        self, released: Held, changed: Sequence[HeldChange], at: int, seen: Offsets
    ) -> Iterator[Output]:
        """The rows that remain, in order of time, behind a history without what is gone: windows as of now.
        History was read at a moment between two of the changes. Evaluated in the order of the log, the rows
        from before that moment would meet a past that is already without what was deleted by then."""
        gone = gone_of(self.state, changed)
        rows, written, versions = remaining(self.state, released, gone)
        yield from self.changes.apply(gone, at, seen)
        if len(versions.ts):
            yield from self.changes.lose(versions, seen)
        if len(rows.ts):
            yield from self._judge(rows, written, seen)

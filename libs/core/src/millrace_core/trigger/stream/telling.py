"""What a stream says: trigger events, and requests to cut windows again (topic ``recalc``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.stream.delay import NS_PER_MS
from millrace_core.trigger.stream.past import parts_of
from millrace_core.trigger.stream.state import StreamState
from millrace_core.trigger.types.occurrences import LIVE, RECALC, REDO, Occurrences
from millrace_core.wire import events, recalc
from millrace_core.wire.control import Offsets
from millrace_core.wire.events import TriggerBatch, TriggerEvent
from millrace_core.wire.recalc import Part, Request, Taken, Why
from millrace_core.wire.topics import RECALC as REQUESTS
from millrace_core.wire.topics import TRIGGERS

EVENTS_PER_BATCH = 2_000  # keeps a trigger message below a few hundred kB
Output = tuple[str, bytes, bytes]
"""A message to send: topic, key, value."""


def _to_cut_again(found: Occurrences) -> Occurrences:
    """Windows that late rows touch, as what must be cut again."""
    again = (found.cause == RECALC) & (found.kind != REDO)
    if not again.any():
        return found
    mine = found.take(again)
    last = np.maximum(mine.end - 1, mine.start)
    redone = Occurrences.of(mine.group, mine.step, REDO, mine.start, last, mine.rownum)
    return Occurrences.join((found.take(~again), redone))


class Telling:
    """``cause``: of what is told of as live."""

    def __init__(self, state: StreamState) -> None:
        self.state = state
        self.cause = LIVE

    def tell(self, found: Occurrences, written: Ints, seen: Offsets) -> Iterator[Output]:
        """Requests for what must be cut again, and the events that somebody wants; ``written[step]``: Kafka's
        timestamp (ms) of a step's cause."""
        state = self.state
        if state.definition.put_off is not None and self.cause == LIVE:
            found = _to_cut_again(found)
        asked = found.kind == REDO
        if asked.any():
            at = int(written[found.step[asked]].max()) * NS_PER_MS
            parts = parts_of(found, state.groups.get, state.until, state.origin, self._vague())
            parts = [part for part in parts if part.open or part.first <= part.last]
            if state.definition.put_off is not None and self.cause == LIVE:
                self._put_off(parts, at, state.definition.put_off)
            else:
                yield self.ask(self.request("CHANGE", parts, seen, at))
        if self.cause != LIVE:
            found.cause = np.where(found.cause == LIVE, self.cause, found.cause)
        definition = state.definition
        found = definition.emission.arrange(found)
        state.count("recalculated", int((found.cause == RECALC).any()))
        if len(found):
            state.count_sent(len(found), int(written[found.step].max()) * NS_PER_MS)
        for begin in range(0, len(found), EVENTS_PER_BATCH):
            part = found.take(np.arange(begin, min(begin + EVENTS_PER_BATCH, len(found))))
            yield self._batch(definition.emission.events(part, state.groups.get, written), seen)

    def _put_off(self, parts: Sequence[Part], at: int, every: int) -> None:
        """These are cut again the next time that all such are: each ``every`` ns from when it was made."""
        life, created = self.state.life, self.state.definition.spec.created * NS_PER_MS
        if not life.dirty:
            life.dirty_until = created + ((at - created) // every + 1) * every
        merged: list[tuple[int, int, int]] = []
        for id_, first, last in sorted([*life.dirty, *((p.group.id, p.first, p.last) for p in parts)]):
            if merged and merged[-1][0] == id_ and first <= merged[-1][2] + 1:
                merged[-1] = (id_, merged[-1][1], max(last, merged[-1][2]))
            else:
                merged.append((id_, first, last))
        life.dirty = merged

    def cut_again(self, at: int, seen: Offsets) -> Iterator[Output]:
        """What was put off is asked for, at ``at`` (ns)."""
        state, life = self.state, self.state.life
        dirty, life.dirty = life.dirty, []
        places = state.groups.places()
        until = state.until.tolist()
        parts = [
            Part(state.groups.get(place), first, min(last, until[place]), until[place], state.origin(place))
            for id_, first, last in dirty
            if (place := places.get(id_)) is not None
        ]
        if parts:
            yield self.ask(self.request("CHANGE", parts, seen, at))

    def _vague(self) -> Callable[[int], bool]:
        """Says of a group whether its open windows are shown and only the stored rows know them."""
        state = self.state
        if state.definition.showing is None:
            return lambda place: False
        windower, doubts = state.definition.windower, state.doubts
        return lambda place: place in doubts or windower.vague(state.memory.get(place)) is not None

    def tell_all(self, found: Sequence[TriggerEvent], seen: Offsets, at: int) -> Iterator[Output]:
        """These events; ``at``: when what caused them was written, ns."""
        if found:
            self.state.count_sent(len(found), at)
        for begin in range(0, len(found), EVENTS_PER_BATCH):
            yield self._batch(list(found[begin : begin + EVENTS_PER_BATCH]), seen)

    def farewells(self, seen: Offsets) -> Iterator[Output]:
        """DELETE_OUTPUT_TABLE: groups whose table was dropped in this batch, after all their events."""
        groups = self.state.groups
        if groups.ended and self.state.definition.spec.options.delete_output_table:
            ended = [groups.get(place) for place in groups.ended]
            yield self._batch([TriggerEvent("", "GONE", "LIVE", group, 0, 0, 0, 0) for group in ended], seen)

    def _batch(self, told: list[TriggerEvent], seen: Offsets) -> Output:
        uid, slot, life = self.state.uid, self.state.slot, self.state.life
        life.number += 1
        batch = TriggerBatch(uid, life.epoch, slot, life.number, seen, told)
        return TRIGGERS.name, f"{uid}/{slot}".encode(), events.encode(batch)

    # ------------------------------------------------------------------ requests

    def request(
        self, why: Why, parts: list[Part], seen: Offsets, at: int, rest: tuple[int, int] | None = None,
        taken: Taken | None = None,
    ) -> Request:  # fmt: skip
        uid, slot, life = self.state.uid, self.state.slot, self.state.life
        return Request(uid, life.epoch, slot, life.slots, why, dict(seen), at, parts, rest, taken=taken or {})

    def ask(self, request: Request) -> Output:
        """The request as a message."""
        self.state.count("requests_sent", 1)
        return REQUESTS.name, recalc.key(self.state.uid, self.state.slot), recalc.encode(request)

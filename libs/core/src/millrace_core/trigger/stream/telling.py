"""What a stream says: trigger events, and requests to cut windows again (topic ``recalc``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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


class Telling:
    """``cause``: of what is told of as live."""

    def __init__(self, state: StreamState) -> None:
        self.state = state
        self.cause = LIVE

    def tell(self, found: Occurrences, written: Ints, seen: Offsets) -> Iterator[Output]:
        """Requests for what must be cut again, and the events that somebody wants; ``written[step]``: Kafka's
        timestamp (ms) of a step's cause."""
        state = self.state
        asked = found.kind == REDO
        if asked.any():
            at = int(written[found.step[asked]].max()) * NS_PER_MS
            parts = parts_of(found, state.groups.get, state.until, state.origin)
            parts = [part for part in parts if part.first <= part.last]
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

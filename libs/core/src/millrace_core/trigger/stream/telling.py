"""What a stream says: trigger events, and requests to cut windows again (topic ``recalc``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from millrace_core.timeline.precision import NS_PER_MS
from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.groups.watermark import Bools, Log
from millrace_core.trigger.stream.past import parts_of
from millrace_core.trigger.stream.state import StreamState
from millrace_core.trigger.types.occurrences import CORRECT, LIVE, RECALC, REDO, Occurrences
from millrace_core.wire import events, recalc
from millrace_core.wire.control import Offsets
from millrace_core.wire.events import TriggerBatch, TriggerEvent
from millrace_core.wire.recalc import Part, Request, Taken, Why
from millrace_core.wire.topics import RECALC as REQUESTS
from millrace_core.wire.topics import TRIGGERS

EVENTS_PER_BATCH = 2_000  # keeps a trigger message below a few hundred kB
Output = tuple[str, bytes, bytes]
"""A message to send: topic, key, value."""


def _asks(found: Occurrences) -> Bools:
    """bool[occurrences]: those that are requests."""
    asks: Bools = (found.kind == REDO) | (found.kind == CORRECT)
    return asks


def _to_cut_again(found: Occurrences) -> Occurrences:
    """The occurrences, with windows that late rows touch turned into requests to cut them again."""
    again = (found.cause == RECALC) & ~_asks(found)
    if not again.any():
        return found
    mine = found.take(again)
    last = np.maximum(mine.end - 1, mine.start)
    redone = Occurrences.of(mine.group, mine.step, REDO, mine.start, last, mine.rownum)
    return Occurrences.join((found.take(~again), redone))


def closed_by(events: Sequence[TriggerEvent], log: Log) -> list[TriggerEvent]:
    """The events; those of closed windows state which part of the log counts in them. ``log``: partition and
    offset of each event's cause."""
    partition, offset = (numbers.tolist() for numbers in log)
    return [
        replace(event, written={partition[at]: (0, offset[at] + 1)})
        if event.kind == "CLOSE" and event.cause == "LIVE" and partition[at] >= 0
        else event
        for at, event in enumerate(events)
    ]


class Telling:
    """``cause``: the cause that is given to what would be told as live."""

    def __init__(self, state: StreamState) -> None:
        self.state = state
        self.cause = LIVE

    def tell(
        self, found: Occurrences, written: Ints, seen: Offsets, log: Log | None = None
    ) -> Iterator[Output]:
        """Requests for what must be cut again, and the events that somebody wants. ``written[step]``: Kafka's
        timestamp (ms) of a step's cause. ``log``: partition and offset by step, if windows must not contain
        rows from after what closed them."""
        if not len(found):
            return  # as after most rows
        state = self.state
        if state.definition.put_off is not None and self.cause == LIVE:
            found = _to_cut_again(found)
        asked = _asks(found)
        if asked.any():
            at = int(written[found.step[asked]].max()) * NS_PER_MS
            parts = parts_of(found, state.groups.get, state.until, state.origin, self._openings())
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
            events = definition.emission.events(part, state.groups.get, written)
            if log is not None:
                events = closed_by(events, (log[0][part.step], log[1][part.step]))
            yield self._batch(events, seen)

    def _put_off(self, parts: Sequence[Part], at: int, every: int) -> None:
        """Note parts that are cut again at the next joint time for them: every ``every`` ns, counted from the
        creation of the stream."""
        life, created = self.state.life, self.state.definition.spec.created * NS_PER_MS
        if not self.state.dirty:
            life.dirty_until = created + ((at - created) // every + 1) * every
        merged: list[tuple[int, int, int]] = []
        told = [(part.group.id, part.first, part.last) for part in parts if part.rewritten is None]
        doubtful = [
            (part.group.id, part.first, part.last, *part.rewritten) for part in parts if part.rewritten
        ]
        life.doubtful = sorted({*life.doubtful, *doubtful})
        for id_, first, last in sorted([*life.dirty, *told]):
            if merged and merged[-1][0] == id_ and first <= merged[-1][2] + 1:
                merged[-1] = (id_, merged[-1][1], max(last, merged[-1][2]))
            else:
                merged.append((id_, first, last))
        life.dirty = merged

    def cut_again(self, at: int, seen: Offsets) -> Iterator[Output]:
        """Request what was put off, at ``at`` (ns)."""
        state, life = self.state, self.state.life
        dirty: list[tuple[int, int, int, tuple[int, int] | None]] = [(*one, None) for one in life.dirty]
        dirty += [(id_, first, last, (one, other)) for id_, first, last, one, other in life.doubtful]
        life.dirty, life.doubtful = [], []
        places = state.groups.places()
        until, openings = state.until.tolist(), self._openings()
        parts = [
            Part(
                state.groups.get(place),
                first,
                min(last, until[place]),
                until[place],
                state.origin(place),
                lost=openings(place)[1],
                rewritten=rewritten,
            )
            for id_, first, last, rewritten in dirty
            if (place := places.get(id_)) is not None
        ]
        if parts:
            yield self.ask(self.request("CHANGE", parts, seen, at))

    def _openings(self) -> Callable[[int], tuple[bool, bool]]:
        """Makes a function that says two things of a group: whether only the stored rows know its open
        windows and the stream shows such windows; and whether only the stored rows know them at all."""
        state, definition = self.state, self.state.definition
        windower, doubts = definition.windower, {} if definition.showing is None else state.doubts

        def of(place: int) -> tuple[bool, bool]:
            lost = windower.vague(state.memory.get(place)) is not None
            return definition.showing is not None and (lost or place in doubts), lost

        return of

    def tell_all(self, found: Sequence[TriggerEvent], seen: Offsets, at: int) -> Iterator[Output]:
        """Tell these events; ``at``: when their cause was written, ns."""
        if found:
            self.state.count_sent(len(found), at)
        for begin in range(0, len(found), EVENTS_PER_BATCH):
            yield self._batch(list(found[begin : begin + EVENTS_PER_BATCH]), seen)

    def farewells(self, seen: Offsets) -> Iterator[Output]:
        """DELETE_OUTPUT_TABLE: tell of the groups whose table was dropped in this batch, after all their
        events."""
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

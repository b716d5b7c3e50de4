"""The answers to requests, as messages of a size that suits the log and a job."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from millrace_core.calc.job_size import JobSize
from millrace_core.recalc.by_hand import ByHand
from millrace_core.recalc.judged import merged
from millrace_core.timeline.precision import milliseconds
from millrace_core.trigger.stream import Definition
from millrace_core.trigger.types.occurrences import CLOSE, INVALID, Occurrences
from millrace_core.wire.events import ANSWERING, EventKind, Group, TriggerBatch, TriggerEvent
from millrace_core.wire.recalc import Handover, Part, Past, Request

GROUPS_PER_MESSAGE = 500
ROWS_PER_MESSAGE = 20_000
NUMBER_BITS = 32


@dataclass(slots=True)
class Work:
    """How far an answer has come. ``fraction``: how much of the time that it covers is done, 0 to 1.
    ``began``: when work began, in seconds of a clock that never goes back."""

    rows: int = 0
    events: int = 0
    fraction: float = 0.0
    began: float = 0.0
    by_hand: ByHand = field(default_factory=ByHand)


Output = TriggerBatch | Handover
OPENED: EventKind = "OPEN"
CLOSED: EventKind = "CLOSE"


def retell(told: dict[int, int], found: Occurrences) -> None:
    """Update the windows that were told of (start -> end) with these occurrences: the parts of one request
    may touch."""
    for kind, start, end in zip(*(a.tolist() for a in (found.kind, found.start, found.end)), strict=True):
        if kind == INVALID:
            told.pop(start, None)
        elif kind == CLOSE:
            told[start] = end


class Settled:
    """The ranges of starts (both included), by group, whose windows have already been told of. ``opened``:
    the windows (group, start) whose opening somebody else tells of."""

    def __init__(self, opened: Collection[tuple[int, int]] = ()) -> None:
        self._opened = frozenset(opened)
        self._of: dict[int, list[tuple[int, int]]] = {}
        self._merged: dict[int, tuple[tuple[int, int], ...]] = {}

    def add(self, group: int, starts: tuple[int, int]) -> None:
        self._of.setdefault(group, []).append(starts)
        self._merged.pop(group, None)

    def holds(self, group: int, start: int) -> bool:
        """Whether a window that starts there has already been told of."""
        if group not in self._merged:
            self._merged[group] = merged(self._of.get(group, ()))
        mine = self._merged[group]
        place = bisect_left(mine, start, key=lambda starts: starts[1])
        return place < len(mine) and mine[place][0] <= start

    def without(self, batch: TriggerBatch) -> TriggerBatch:
        """The batch without the closings of these windows, and without the openings that somebody else tells
        of."""
        kept = [event for event in batch.events if not self._is_told(event)]
        return batch if len(kept) == len(batch.events) else msgspec.structs.replace(batch, events=kept)

    def _is_told(self, event: TriggerEvent) -> bool:
        if event.kind == OPENED:
            return (event.group.id, event.start) in self._opened
        return event.kind == CLOSED and self.holds(event.group.id, event.start)


def coalesced(parts: Sequence[Part], *, onward: bool = False) -> list[Part]:
    """The parts, with touching ranges of one group put together, each up to the latest T: the latest request
    knows which windows are open then. The origin is the earliest that any of them knows: late rows may have
    moved it back between two requests. ``onward``: a change touches all windows after it, so all ranges of a
    group are put together."""
    found: list[Part] = []
    latest: dict[int, Part] = {}
    origins: dict[int, int] = {}
    for part in parts:
        known = latest.get(part.group.id)
        if known is None or part.until >= known.until:
            latest[part.group.id] = part
        if part.origin is not None:
            origins[part.group.id] = min(part.origin, origins.get(part.group.id, part.origin))
    for part in sorted(parts, key=lambda part: (part.group.id, part.first)):
        last = found[-1] if found else None
        if last is not None and last.group.id == part.group.id and (onward or part.first <= last.last + 1):
            found[-1] = msgspec.structs.replace(
                last, last=max(last.last, part.last), open=last.open or part.open
            )
        else:
            asked = latest[part.group.id]
            origin = origins.get(part.group.id)
            found.append(msgspec.structs.replace(part, until=asked.until, origin=origin, lost=asked.lost))
    return found


def handovers(
    requests: Sequence[Request], pasts: Iterator[tuple[int, Past]], slots: list[int]
) -> Iterator[Handover]:
    by_slot: dict[int, list[Past]] = {}
    for group, past in pasts:
        by_slot.setdefault(slots[group], []).append(past)
    for request in requests:
        yield from chunks(request, by_slot.get(request.slot, []))
        yield Handover(request.stream, request.epoch, request.slot, done=True)


def chunks(request: Request, pasts: Sequence[Past]) -> Iterator[Handover]:
    """Messages of a size that suits the log."""
    some: list[Past] = []
    size = 0
    for past in pasts:
        some.append(past)
        size += len(past.ts)
        if len(some) >= GROUPS_PER_MESSAGE or size >= ROWS_PER_MESSAGE:
            yield Handover(request.stream, request.epoch, request.slot, some)
            some, size = [], 0
    if some:
        yield Handover(request.stream, request.epoch, request.slot, some)


@dataclass(slots=True)
class Writer:
    """Makes trigger batches of what was found, each of the size of one job."""

    request: Request
    place: tuple[int, int]
    seen: dict[int, int]
    definition: Definition
    work: Work
    _events: list[TriggerEvent] = field(default_factory=list)
    _size: JobSize = field(default_factory=JobSize)
    _sent: int = 0

    def batches(self, found: Occurrences, groups: Sequence[Group]) -> Iterator[TriggerBatch]:
        arranged = self.definition.emission.arrange(found)
        arranged.step = np.zeros(len(arranged), dtype=np.int64)
        at = [milliseconds(self.request.localtime)]
        for event in self.definition.emission.events(arranged, groups.__getitem__, at):
            if not self._size.takes(event):
                yield from self._send()
            self._events.append(event)

    def flush(self, rows: int = 0) -> Iterator[TriggerBatch]:
        """Send what has been found, if it has at least this many rows."""
        if self._events and self._size.rows >= rows:
            self._size = JobSize()
            yield from self._send()

    def _send(self) -> Iterator[TriggerBatch]:
        _, offset = self.place
        number = (offset << NUMBER_BITS) + self._sent
        events, self._events = self._events, []
        self._sent += 1
        self.work.events += len(events)
        # under one key, whichever slot asked: so a later answer is calculated later
        yield TriggerBatch(self.request.stream, self.request.epoch, ANSWERING, number, self.seen, events)

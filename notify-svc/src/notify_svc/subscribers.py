"""Subscribers: they listen to a stream's events over our WebSocket, without being named in the stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from millrace_core.errors import WireError
from millrace_core.notice.message import Outgoing
from millrace_core.notice.position import Cursor, Positions, latest
from millrace_core.wire import notices
from millrace_core.wire.notices import NoticeText
from millrace_wal import Record
from notify_svc import metrics
from notify_svc.traces import NONE, TracedNotices, Traces


@dataclass(eq=False)
class Told:
    """A notice on its way to subscribers, made once for all of them. ``after``: the place after it in the
    log; ``traced``: its trace, if it is traced."""

    notice: NoticeText
    partition: int
    after: Cursor
    traced: TracedNotices | None = None

    @cached_property
    def outgoing(self) -> Outgoing:
        return Outgoing(self.notice.stream, bytes(self.notice.text))

    @cached_property
    def event_type(self) -> str:
        return self.notice.event_type


@dataclass(eq=False)
class Reached:
    """How far a reader has passed on what it reads; shared by the subscribers that it reads for."""

    positions: Positions = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Taken:
    """What a subscriber gets now: ``events`` up to ``position``, and then how many it ``missed`` after those,
    up to ``end`` (None: it missed some before the events, nobody knows how many); ``traced``: the traces of
    the events."""

    events: list[Outgoing]
    position: Positions
    missed: int | None
    end: Positions
    traced: Sequence[TracedNotices] = ()


@dataclass(eq=False)
class Subscriber:
    """Events of ``stream`` (db.name), of these ``types`` (all when empty) and this ``group`` (all when None).

    Of the events that it does not take in time, the ``limit`` oldest wait; the others count as missed.
    """

    stream: str
    types: frozenset[str]
    group: str | None
    limit: int
    reached: Reached = field(default_factory=Reached)
    _seen: dict[int, Cursor] = field(default_factory=dict)
    _at: Positions = field(default_factory=dict)
    _waiting: list[Told] = field(default_factory=list)
    _missed: int = 0
    _lost: bool = False
    _some: asyncio.Event = field(default_factory=asyncio.Event)
    _room: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def full(self) -> bool:
        return len(self._waiting) >= self.limit

    @property
    def seen(self) -> Positions:
        """By partition, the position after the last notice of its stream that it was offered."""
        return self._seen

    def begin(self, at: Positions, *, lost: bool = False) -> None:
        """It begins at this position; ``lost``: whether some of what it wanted before that is gone."""
        self._at, self._seen = dict(at), dict(at)
        self.reached = Reached(dict(at))
        if lost:
            self._lost = True
            self._some.set()

    def offer(self, told: Told) -> None:
        """Give it a notice of its stream; one that it was offered before is skipped."""
        if told.after <= self._seen.get(told.partition, (0, 0)):
            return
        self._seen[told.partition] = told.after
        if self.group is not None and told.notice.group != self.group:
            return
        if self.types and told.event_type not in self.types:
            return
        # what comes after a missed event counts as missed, too: otherwise no position could say what was
        # missed in between
        if self._missed or self.full:
            self._missed += 1
            metrics.MISSED.inc()
        else:
            self._waiting.append(told)
        self._some.set()

    async def room(self) -> None:
        """Wait until it has room for an event."""
        while self.full:
            self._room.clear()
            await self._room.wait()

    async def take(self) -> Taken:
        """Wait for events, and take those that are there."""
        await self._some.wait()
        self._some.clear()
        told, missed = self._waiting, self._missed
        lost, self._lost = self._lost, False
        self._waiting, self._missed = [], 0
        self._room.set()
        end = latest(self._seen, latest(self._at, self.reached.positions))
        position = {**self._at, **{one.partition: one.after for one in told}} if missed else end
        self._at = end
        traced = [one.traced for one in told if one.traced is not None]
        return Taken([one.outgoing for one in told], position, None if lost else missed, end, traced)


def told_of(records: list[Record], traces: Traces = NONE) -> list[Told]:
    """The notices of these records, in order."""
    found: list[Told] = []
    for record in records:
        try:
            batch = notices.BATCHES.read(record.key, record.value).notices
        except WireError:
            continue  # the intake, which reads for the addresses, makes a dead letter of it
        last, traced = len(batch) - 1, traces.get((record.partition, record.offset))
        for index, notice in enumerate(batch):
            after = (record.offset + 1, 0) if index == last else (record.offset, index + 1)
            found.append(Told(notice, record.partition, after, traced))
    return found

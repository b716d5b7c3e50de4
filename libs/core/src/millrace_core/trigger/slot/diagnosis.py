"""A slot's part of the answer to DIAGNOSE STREAM, read from what it keeps of the stream."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import msgspec
import numpy as np

from millrace_core.trigger.groups.columns import OWNER, Ints
from millrace_core.trigger.groups.watermark import NEVER
from millrace_core.trigger.slot.holdings import holdings
from millrace_core.trigger.slot.hosted import AnyStream
from millrace_core.trigger.stream.delay import DelayMemory
from millrace_core.trigger.stream.period import PeriodStream
from millrace_core.trigger.stream.stream import Stream
from millrace_core.trigger.stream.telling import Output
from millrace_core.trigger.types.clock import NewsMemory
from millrace_core.wire import diagnosis
from millrace_core.wire.control import DiagnoseStream
from millrace_core.wire.diagnosis import Diagnosis, GroupPart, OpenWindow, Wait
from millrace_core.wire.topics import STATUS

MOST_WINDOWS = 10
"""How many open windows of a group are listed; the rest is only counted."""
MOST_BYTES = 400_000
"""Groups that would make a message longer than this are left out: Kafka takes a megabyte."""


def answer(
    asked: DiagnoseStream, number: int, slot: int, streams: Mapping[int, AnyStream], failed: Mapping[int, str]
) -> Output:
    """The answer of this slot, as a message. ``number``: that of the control record; ``failed``: streams that
    are set aside or cannot be kept at all, and why."""
    stream, failure = streams.get(asked.uid), failed.get(asked.uid, "")
    part = Diagnosis(asked.uid, slot, number, failure=failure)
    if stream is not None:
        try:
            part = part_of(stream, number, asked.limit, failure)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # a question must never stop what is asked about
            why = f"its state in slot {slot} cannot be read: {type(error).__name__}: {error}"
            part = msgspec.structs.replace(part, failure=failure or why)
    return STATUS.name, diagnosis.key(asked.uid, slot), diagnosis.encode(part)


def part_of(stream: AnyStream, number: int, limit: int, failure: str = "") -> Diagnosis:
    """What the slot knows of a stream: its life, its counters, its newest ``limit`` groups."""
    stream.clock.grow(len(stream.groups))
    stream.memory.grow(len(stream.groups))
    newest = stream.clock.singles["newest"]
    groups: list[GroupPart] = []
    left = MOST_BYTES
    of = _Groups(stream)
    for place in islice(np.argsort(-newest, kind="stable").tolist(), limit):
        group = of.part(place)
        left -= diagnosis.size(group)
        if left < 0:
            break
        groups.append(group)
    life, held = stream.life, holdings(stream)
    return Diagnosis(
        stream.uid, stream.slot, number, True, failure, life.running, life.gone, life.holding,
        dict(life.totals), len(stream.groups), groups, held.windows, held.waiting,
    )  # fmt: skip


class _Groups:
    """The groups of a stream; what is needed for all of them is counted once."""

    def __init__(self, stream: AnyStream) -> None:
        self._stream = stream
        waiting = stream.clock.lists["waiting"]
        self._waiting = _counted(waiting[OWNER], len(stream.groups))
        self._first = np.zeros(len(stream.groups), dtype=np.int64)
        # the rows are sorted by (group, time): go backwards, so that each group's first row is written last
        self._first[waiting[OWNER][::-1]] = waiting["ts"][::-1]
        self._held = np.zeros(len(stream.groups), dtype=np.int64)
        if isinstance(stream, Stream):
            self._held = _counted(stream.state.held.lists["rows"][OWNER], len(stream.groups))

    def part(self, place: int) -> GroupPart:
        stream = self._stream
        group = stream.groups.get(place)
        if isinstance(stream, PeriodStream):
            return GroupPart(group, waits=_instant(stream, place))
        watermark = stream.definition.clock.watermark
        windows, idle = stream.definition.windower.waits(stream.memory.get(place), watermark)
        newest = int(stream.clock.singles["newest"][place])
        seen = newest != NEVER
        return GroupPart(
            group, newest if seen else None, newest - watermark if seen else None,
            int(self._waiting[place]), int(self._first[place]), int(self._held[place]),
            self._delayed(windows[:MOST_WINDOWS], place), max(len(windows) - MOST_WINDOWS, 0),
            [] if windows else idle,
        )  # fmt: skip

    def _delayed(self, windows: list[OpenWindow], place: int) -> list[OpenWindow]:
        """The windows, with what each waits for because of MAX_DELAY."""
        delays = self._stream.state.delays
        if self._stream.definition.delay is None or place >= delays.count:
            return windows
        memory = delays.get(place)
        assert isinstance(memory, DelayMemory)
        due = {window.start: window.due for window in memory.open}
        return [
            OpenWindow(w.start, w.end, w.rows, [*w.waits, Wait("delay", due[w.start])])
            if w.start in due else w
            for w in windows
        ]  # fmt: skip


def _counted(owner: Ints, groups: int) -> Ints:
    """How many records each group has."""
    return np.bincount(owner, minlength=groups)


def _instant(stream: PeriodStream, place: int) -> list[Wait]:
    """What a group of a PERIOD stream waits for."""
    progress = stream.progress
    waits = [Wait("time", stream.schedule.after(max(progress.instant, progress.began)))]
    memory = stream.memory.get(place)
    assert isinstance(memory, NewsMemory)
    return [*waits, Wait("data")] if stream.only_with_data and not memory.news else waits

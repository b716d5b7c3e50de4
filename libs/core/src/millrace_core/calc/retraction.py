"""Results that are no longer valid: which rows go, for a stream that retracts them (``Emission.obsolete``).

The key of a result is its time, which is the start of its window. The last event of a group about a key
counts: a window may close, be retracted, and close again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from millrace_core.calc.outcome import Outcome
from millrace_core.model.schema import Table
from millrace_core.model.stream import StreamSpec
from millrace_core.model.triggers import Trait
from millrace_core.trigger.types import type_of
from millrace_core.wire.events import Group, TriggerEvent
from millrace_core.wire.message import Message
from millrace_core.wire.operations import Delete, encode_operation
from millrace_core.wire.topics import wal_topic

Found = Sequence[tuple[TriggerEvent, Outcome]]
"""Events with what their queries gave, in order."""


@dataclass(slots=True)
class Ranges:
    """Whole numbers, as ranges (both ends included) that neither overlap nor touch, in order."""

    firsts: list[int] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)

    def add(self, first: int, last: int) -> None:
        """Take these numbers in; none if ``first > last``."""
        if first > last:
            return
        low, high = bisect_left(self.lasts, first - 1), bisect_right(self.firsts, last + 1)
        if low < high:
            first, last = min(first, self.firsts[low]), max(last, self.lasts[high - 1])
        self.firsts[low:high], self.lasts[low:high] = [first], [last]

    def __contains__(self, number: int) -> bool:
        place = bisect_left(self.lasts, number)
        return place < len(self.firsts) and self.firsts[place] <= number

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.firsts, self.lasts, strict=True)

    def __len__(self) -> int:
        return len(self.firsts)


@dataclass(frozen=True, slots=True)
class Settled:
    """``standing``: the events whose results are written. ``obsolete``: the keys, by group (its id), whose
    rows go unless they are written now, in ticks of the trigger table. ``groups``: the groups by id."""

    standing: Found
    obsolete: Mapping[int, Ranges]
    groups: Mapping[int, Group]


def retracts(spec: StreamSpec) -> bool:
    """Whether rows of windows that no longer exist are removed."""
    return spec.emission.obsolete == "retracted"


def settled(spec: StreamSpec, events: Sequence[TriggerEvent], outcomes: Mapping[int, Outcome]) -> Settled:
    """What remains to be written and removed after these events. ``outcomes``: by ``id()`` of the event; a
    failed calculation leaves its row as it is."""
    obsolete: dict[int, Ranges] = {}
    kept: dict[int, Ranges] = {}
    groups = {event.group.id: event.group for event in events}
    standing: list[tuple[TriggerEvent, Outcome]] = []
    type_ = type_of(spec.trigger)
    # where a window is made of rows, no other valid window can begin inside it
    alone = Trait.ROWS in type_.traits and not type_.numbered
    # where each row has its own result, an event says which rows are read again: all as they are now
    by_row = type_.by_row
    for event in reversed(events):
        gone = obsolete.setdefault(event.group.id, Ranges())
        outcome = outcomes.get(id(event))
        if event.kind == "RETRACT":
            gone.add(event.start, event.end)
        elif event.kind == "INVALID":
            gone.add(event.start, event.start)
        elif outcome is not None and outcome.error is not None:
            kept.setdefault(event.group.id, Ranges()).add(event.start, event.end if by_row else event.start)
        elif outcome is not None:
            if by_row or event.start not in gone:
                standing.append((event, outcome))
            if alone and event.kind != "OPEN":
                gone.add(event.start + (not by_row), event.end)
    for gid, starts in kept.items():
        obsolete[gid] = _without(obsolete[gid], starts)
    standing.reverse()
    return Settled(standing, {gid: gone for gid, gone in obsolete.items() if len(gone)}, groups)


def _without(ranges: Ranges, others: Ranges) -> Ranges:
    left = Ranges()
    for first, last in ranges:
        begin = first
        for low, high in others:
            if low <= last and high >= begin:
                left.add(begin, low - 1)
                begin = high + 1
        left.add(begin, last)
    return left


Stored = Callable[[Mapping[str, Ranges]], Mapping[str, Sequence[int]]]
"""The times of the rows that sub-tables hold in these ranges, in order, by the sub-table's name."""


def deletions(
    table: Table, obsolete: Mapping[str, Ranges], written: Mapping[str, Collection[int]], stored: Stored
) -> list[Message]:
    """The messages that delete rows of the output table, before the new ones are written.

    ``obsolete``: by sub-table, in the table's ticks. ``written``: the times that are written now. Rows at
    these times are overwritten, so they need no delete, unless several rows may have one time (composite
    key).
    """
    topic = wal_topic(table.db, table.name)
    messages: list[Message] = []
    for name, times in stored(obsolete).items():
        stays = set() if table.has_composite_key else set(written.get(name, ()))
        for first, last in _runs(sorted(set(times)), stays, obsolete[name]):
            messages.append(Message(topic, name.encode(), encode_operation(Delete(first, last))))
    return messages


def _runs(times: Sequence[int], stays: Collection[int], within: Ranges) -> Iterator[tuple[int, int]]:
    """The times to delete, as few ranges as possible that hold no times that stay."""
    for first, last in within:
        run: list[int] = []
        for time in times[bisect_left(times, first) : bisect_right(times, last)]:
            if time not in stays:
                run.append(time)
            elif run:
                yield run[0], run[-1]
                run = []
        if run:
            yield run[0], run[-1]

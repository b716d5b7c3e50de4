"""Spans for traced rows: reading them, evaluating them, and sending what they cause.

A row is traced if its producer says so in a header, or if it is sampled here. Only the reader (``ahead``)
traces: rows that micro-batches evaluate are not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from millrace_core.trigger.stream import Output
from millrace_core.wire import events
from millrace_core.wire.topics import REGROUP, TRIGGERS, slot_for, stream_in
from millrace_service import OFF, Tracing
from millrace_wal import Message, Stretch

Streams = Callable[["TracedRow"], Collection[int]]
"""Says which streams (their uids) a row is for."""


@dataclass(frozen=True, slots=True)
class TracedRow:
    """A message with rows. ``slot``: the slot that evaluates it; ``parent``: the header that it came with, or
    empty; ``written``: when its producer wrote it, ns."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    slot: int | None
    parent: str
    written: int


def causes(rows: Sequence[TracedRow], sent: Sequence[Output], streams: Streams) -> dict[int, int]:
    """Which row has caused what is sent: place in ``sent`` -> place in ``rows``.

    The event of a window that has closed names its cause. Anything that does not is taken to be caused by the
    last of these rows for its stream and its slot.
    """
    of = [streams(row) for row in rows]
    found = {}
    for place, (topic, key, value) in enumerate(sent):
        if topic == TRIGGERS.name:
            batch = events.decode(value)
            mine = [at for at, row in enumerate(rows) if row.slot == batch.slot and batch.stream in of[at]]
            named = [dict(event.written) for event in batch.events if event.written]
            if named and not any(rows[at].topic == REGROUP.name for at in mine):
                mine = [at for at in mine if any(_ends(one, rows[at]) for one in named)]
        elif topic == REGROUP.name:
            mine = [at for at in range(len(rows)) if stream_in(key) in of[at]]
        else:
            continue
        if mine:
            found[place] = mine[-1]
    return found


def _ends(written: dict[int, tuple[int, int]], row: TracedRow) -> bool:
    return row.partition in written and written[row.partition][1] == row.offset + 1


@dataclass(frozen=True, slots=True)
class TracedRows:
    """The traced rows of one batch. ``read``: when they were read (ns)."""

    tracing: Tracing
    rows: Sequence[TracedRow]
    read: int

    @contextmanager
    def sending(self, sent: Sequence[Output], streams: Streams) -> Iterator[list[Message]]:
        """The rows have been evaluated. The block sends what they cause, as the messages that this yields."""
        evaluated, tracing = time.time_ns(), self.tracing
        parents = []
        for row in self.rows:
            parent = tracing.record(
                "row.read", row.parent, row.written, self.read,
                topic=row.topic, partition=row.partition, offset=row.offset,
            )  # fmt: skip
            parents.append(tracing.record("row.evaluate", parent, self.read, evaluated))
        found = causes(self.rows, sent, streams)
        steps = {
            place: tracing.begin("event.send", parents[at], evaluated, topic=sent[place][0])
            for place, at in found.items()
        }
        yield [
            Message(*one, steps[place].traceparent if place in steps else "")
            for place, one in enumerate(sent)
        ]
        for step in steps.values():
            step.end()


class RowTraces:
    """Finds the rows that are traced. ``on``: whether any are; ``slots``: how many slots there are."""

    def __init__(self, tracing: Tracing = OFF, slots: int = 1) -> None:
        self.on = tracing.on
        self._tracing, self._slots = tracing, slots

    def of(self, stretches: Sequence[Stretch], read: int) -> TracedRows | None:
        """The traced rows of what was read at that time; None if there are none."""
        rows = [row for some in stretches for row in self._rows(some)]
        return TracedRows(self._tracing, rows, read) if rows else None

    def _rows(self, some: Stretch) -> Iterator[TracedRow]:
        given = some.traceparents
        # rows on their way to their group were already sampled when they were first read
        parents = given if some.topic == REGROUP.name else self._tracing.sampler.parents(len(some), given)
        for place, parent in sorted(parents.items()):
            key = some.keys[place]
            yield TracedRow(
                some.topic, some.partition, some.offsets[place], key,
                slot_for(some.topic, key, self._slots), parent, some.written(place),
            )  # fmt: skip

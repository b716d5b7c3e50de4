"""Messages of Kafka's client, as columns.

The client makes an object for each message. Twenty thousand of them do not fit into a processor's cache, and
each look at all of them waits for memory: so they are taken few at a time, and let go before more are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from confluent_kafka import Message as Given

from millrace_wal.record import TRACEPARENT, Stretch

FEW = 500
"""So many messages are taken at a time."""


class Columns:
    """Messages as they were read, in columns, partition by partition as they came."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []

    def add(self, messages: list[Any]) -> list[tuple[str, int, int]]:
        """Take in messages without errors; returns topic, partition and the offset after the last of each
        part. The cells are read by C alone: a poll may return thousands of messages of one row each."""
        if not messages:
            return []
        partitions, topics = list(map(Given.partition, messages)), list(map(Given.topic, messages))
        if partitions.count(partitions[0]) == topics.count(topics[0]) == len(messages):
            return [self._add(topics[0], partitions[0], messages)]
        places = zip(topics, partitions, messages, strict=True)
        return [
            self._add(topic, partition, [message for _, _, message in same])
            for (topic, partition), same in groupby(places, itemgetter(0, 1))
        ]

    def _add(self, topic: str, partition: int, messages: list[Any]) -> tuple[str, int, int]:
        part = self._parts[-1] if self._parts else None
        if part is None or (part.topic, part.partition) != (topic, partition):
            part = _Part(topic, partition)
            self._parts.append(part)
        return topic, partition, part.add(messages)

    def written(self, most: int) -> dict[str, list[int]]:
        """By topic, when the first ``most`` messages were written, ms since the epoch."""
        found: dict[str, list[int]] = {}
        for part in self._parts:
            if most > 0:
                found.setdefault(part.topic, []).extend(part.timestamps[:most])
                most -= len(part.values)
        return found

    def stretches(self) -> list[Stretch]:
        """All that was taken in, in the order in which it came."""
        return [
            Stretch(
                part.topic, part.partition, part.offsets, part.keys, part.values, part.timestamps,
                part.traceparents,
            )
            for part in self._parts
        ]  # fmt: skip


@dataclass(slots=True)
class _Part:
    """Messages of one partition; ``offsets`` are a range as long as there are no holes."""

    topic: str
    partition: int
    offsets: range | list[int] = range(0)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    traceparents: dict[int, str] = field(default_factory=dict)

    def add(self, messages: list[Any]) -> int:
        """Take in messages of this partition; returns the offset after the last."""
        first: int = messages[0].offset()
        end: int = messages[-1].offset() + 1
        before = self.offsets
        without_holes = end - first == len(messages)
        offsets = range(first, end) if without_holes else list(map(Given.offset, messages))
        if isinstance(before, list):
            before += offsets
        elif not before:
            self.offsets = offsets
        elif without_holes and before.stop == first:
            self.offsets = range(before.start, end)
        else:
            self.offsets = [*before, *offsets]
        if any(map(Given.headers, messages)):
            self.traceparents |= _traceparents(messages, len(self.values))
        self.keys += map(Given.key, messages)
        self.values += map(Given.value, messages)
        self.timestamps += map(itemgetter(1), map(Given.timestamp, messages))
        return end


def _traceparents(messages: Sequence[Any], first: int) -> dict[int, str]:
    """The headers of traced messages, by place; that of the first message is ``first``."""
    return {
        place: value.decode("ascii", "replace")
        for place, headers in enumerate(map(Given.headers, messages), first)
        for name, value in headers or ()
        if name == TRACEPARENT and value is not None
    }

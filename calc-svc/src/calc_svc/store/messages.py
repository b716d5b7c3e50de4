"""Messages of one topic as they were read, in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from millrace_core.store.place import places_of
from millrace_core.store.search import Ints
from millrace_wal import Record, Stretch


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one topic, in the order in which they came, as stretches of its partitions."""

    stretches: Sequence[Stretch]

    def __len__(self) -> int:
        return sum(map(len, self.stretches))

    def __add__(self, later: Messages) -> Messages:
        return Messages([*self.stretches, *later.stretches])

    @property
    def keys(self) -> Sequence[bytes | None]:
        """The key of each."""
        return _joined([some.keys for some in self.stretches])

    @property
    def values(self) -> Sequence[bytes | None]:
        """The value of each."""
        return _joined([some.values for some in self.stretches])

    @property
    def places(self) -> Ints:
        """The place of each in the log."""
        parts = [places_of(some.partition, some.offsets) for some in self.stretches]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    @property
    def ends(self) -> dict[int, int]:
        """Partition -> the offset after the last of them."""
        found: dict[int, int] = {}
        for some in self.stretches:
            found[some.partition] = max(some.end, found.get(some.partition, 0))
        return found

    def records(self) -> list[Record]:
        """Each of them."""
        return [record for some in self.stretches for record in some.records()]

    def record(self, index: int) -> Record:
        """One of them."""
        for some in self.stretches:
            if index < len(some):
                return some.record(index)
            index -= len(some)
        raise IndexError(index)

    def split(self, index: int) -> tuple[Messages, Messages]:
        """The messages before that one, and the rest, beginning with it."""
        before: list[Stretch] = []
        after: list[Stretch] = []
        for some in self.stretches:
            cut = min(max(index, 0), len(some))
            if cut:
                before.append(some.part(0, cut))
            if cut < len(some):
                after.append(some.part(cut, len(some)))
            index -= len(some)
        return Messages(before), Messages(after)


NONE = Messages(())


def by_topic(stretches: Iterable[Stretch]) -> dict[str, Messages]:
    """What was read from several topics, by topic."""
    found: dict[str, list[Stretch]] = {}
    for some in stretches:
        found.setdefault(some.topic, []).append(some)
    return {topic: Messages(parts) for topic, parts in found.items()}


def _joined(parts: Sequence[Sequence[bytes | None]]) -> Sequence[bytes | None]:
    return parts[0] if len(parts) == 1 else [cell for part in parts for cell in part]

"""What every log takes and returns, and what it can do. ``kafka`` and ``memory`` implement it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType, TracebackType
from typing import NamedTuple, Protocol, Self

from millrace_core.wire.message import Message as Message
from millrace_core.wire.topics import Topic

BEGIN = -2
"""As a position: that of the partition's first record that is still kept."""
END = -1
"""As a position: after the partition's last record as of now."""

TRACEPARENT = "traceparent"
"""The header of a traced message, as in W3C's Trace Context."""

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""The most bytes of a message, key and value together; a larger one is refused with TOO_LARGE."""

Positions = dict[str, dict[int, int]]
"""Topic -> partition -> the offset of the next record (or BEGIN and END, where a reader is to start)."""


class Record(NamedTuple):
    """A message as it lies in the log. ``timestamp``: milliseconds since the epoch."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive messages of one partition as they were read, in columns: making an object for each message
    costs more than reading it. ``offsets``: a range if there are no holes. ``timestamps``: ms since the
    epoch. ``traceparents``: place -> header of the messages that have one."""

    topic: str
    partition: int
    offsets: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    traceparents: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    def written(self, place: int) -> int:
        """When the message at a place was written, ns since the epoch."""
        return self.timestamps[place] * 1_000_000

    @property
    def end(self) -> int:
        """The offset after the last message."""
        return self.offsets[-1] + 1

    def record(self, place: int) -> Record:
        """The message at a place."""
        return Record(
            self.topic, self.partition, self.offsets[place], self.timestamps[place],
            self.keys[place], self.values[place],
        )  # fmt: skip

    def records(self) -> list[Record]:
        """All messages, as records."""
        columns = (self.offsets, self.timestamps, self.keys, self.values)
        return [Record(self.topic, self.partition, *cells) for cells in zip(*columns, strict=True)]

    def part(self, first: int, end: int) -> Stretch:
        """The messages at the places [first, end)."""
        part = slice(first, end)
        return Stretch(
            self.topic, self.partition, self.offsets[part], self.keys[part], self.values[part],
            self.timestamps[part],
            {at - first: one for at, one in self.traceparents.items() if first <= at < end},
        )  # fmt: skip


Traceparents = Mapping[tuple[str, int, int], str]
"""The headers of traced messages, by topic, partition and offset."""


def stretches_of(
    records: Iterable[Record], traceparents: Traceparents = MappingProxyType({})
) -> list[Stretch]:
    """The records in columns, in the same order."""
    found = []
    for (topic, partition), same in groupby(records, itemgetter(0, 1)):
        mine = list(same)
        offsets = [one.offset for one in mine]
        keys, values = [one.key for one in mine], [one.value for one in mine]
        stamps = [one.timestamp for one in mine]
        places = ((topic, partition, offset) for offset in offsets)
        traced = {at: traceparents[place] for at, place in enumerate(places) if place in traceparents}
        found.append(Stretch(topic, partition, offsets, keys, values, stamps, traced))
    return found


class Closing:
    """Lets what has a ``close`` be used in a ``with`` statement."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Reader(Protocol):
    """Reads partitions from given offsets on; it belongs to no consumer group and commits nothing. Used by
    one thread. If a fatal error ends its client, a new one goes on where reading stands."""

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        """The next records, up to ``limit``: at once when some are there, else those that come first within
        ``timeout`` seconds. Ordered within a partition. While the broker is away: empty."""

    def stretches(self, timeout: float, limit: int = 5000) -> list[Stretch]:
        """As :meth:`poll`, in columns. Each message is returned once, by either of the two."""

    def add(self, topic: str, positions: Mapping[int, int]) -> None:
        """Read these partitions too, from these offsets; one that is read already moves to its offset."""

    def remove(self, topic: str) -> None:
        """Stop reading the topic; it is not an error if it is not read."""

    def positions(self) -> Positions:
        """Where reading stands: everything before has been returned by :meth:`poll`. Positions also pass
        offsets that hold no record (compaction, transaction markers), so compare these with
        ``end_offsets``."""

    def moved(self) -> Positions:
        """The same, of only those topics that :meth:`poll` has heard of since this was last asked."""

    def close(self) -> None: ...


class GroupReader(Protocol):
    """A member of a consumer group. The members share the topics' partitions; each partition starts where the
    group committed last, or at its first record. Used by one thread.

    What was returned but not committed comes again when partitions change hands and come back, and when a
    fatal error has ended the member's client: a new client then takes over by itself, within the next calls.
    """

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        """As :meth:`Reader.poll`. Keeps the membership alive: a member that does not poll for ten minutes
        loses its partitions. With ``limit`` 0 it does only that and returns nothing."""

    def stretches(self, timeout: float, limit: int = 5000) -> list[Stretch]:
        """As :meth:`poll`, in columns."""

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Say that the group is done with everything before these offsets; durable when it returns.
        Partitions that this member no longer has are ignored: their new owner reads on from the last
        commit."""

    def assigned(self) -> set[tuple[str, int]]:
        """The topics' partitions that belong to this member, as of its last :meth:`poll`."""

    def positions(self) -> Positions:
        """Topic -> partition -> the offset after all that was returned to this member or was committed
        before. A partition of which it has heard nothing yet is left out."""

    def close(self) -> None: ...


class Log(Protocol):
    """Topics of partitions of records. Safe to use from several threads.

    All methods raise MillraceError: UNAVAILABLE when the broker cannot be reached or refuses, or a topic does
    not exist; TIMEOUT when it does not answer in time (whether an append happened is then unknown).
    """

    def append(self, messages: Sequence[Message], timeout: float = 30) -> list[tuple[int, int]]:
        """Append messages; they are durable (all replicas have them) when it returns: (partition, offset) of
        each. When it raises, some of the messages may be in the log."""

    def ensure_topics(self, topics: Sequence[Topic | tuple[str, int]]) -> None:
        """Create the topics that do not exist ((name, partitions): kept forever) and wait until they can be
        used. An existing topic stays as it is, except for how long its records are kept."""

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics with their records and wait until they are gone; a topic may already be missing."""

    def empty_topics(self, names: Sequence[str]) -> None:
        """Forget the records that these topics hold; new offsets continue after the old ones."""

    def trim(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        """Forget the records before these offsets (topic -> partition -> offset, none behind the end). A
        topic that does not exist is not an error."""

    def cut_for(self, kept: Mapping[str, int]) -> None:
        """Records of these topics are going to be trimmed once they are so old (ms): be ready to give their
        space back soon after. A topic that does not exist is not an error."""

    def offsets_at(self, topic: str, at: int) -> dict[int, int]:
        """Partition -> offset of the first record written at that time (ms since the epoch) or later; if
        there is none, an offset after all that were written before."""

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Partition -> the offset that a consumer group has committed; a partition without a commit is left
        out."""

    def topics(self, prefix: str = "") -> list[str]:
        """The topics whose names begin with the prefix, sorted."""

    def begin_offsets(self, topic: str) -> dict[int, int]:
        """Partition -> offset of the first record still kept."""

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Partition -> the offset after the last record that a reader can see."""

    def ends_of(self, topics: Collection[str]) -> Positions:
        """As :meth:`end_offsets`, of many topics in one question; topics that do not exist are left out."""

    def reader(
        self, positions: Mapping[str, Mapping[int, int]], grows: bool = False, gathers: bool = False
    ) -> Reader:
        """A reader of these topics and partitions from these offsets. ``grows``: records of a topic that is
        added, and the position after the end of a transaction, are to come within a tenth of a second, not
        two seconds; asking that often costs the broker more. ``gathers``: it waits some
        milliseconds for the rest of a burst of records, as far as the topic's bursts before tell its size."""

    def subscribe(self, group: str, topics: Sequence[str], gathers: bool = False) -> GroupReader:
        """A new member of the group, over these topics. A member that was killed keeps its partitions until
        its session ends, six seconds after it was last heard of; one that is closed leaves them at once.
        ``gathers``: as for :meth:`reader`."""

    def close(self) -> None: ...

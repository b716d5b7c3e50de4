"""What every log gives and takes, and what one can do. ``kafka`` and ``memory`` implement it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType, TracebackType
from typing import NamedTuple, Protocol, Self

from millrace_core.wire.message import Message as Message
from millrace_core.wire.topics import Topic

BEGIN = -2
"""As a position: the partition's first record that is still kept."""
END = -1
"""As a position: behind the partition's last record as of now."""

TRACEPARENT = "traceparent"
"""The header of a message that is traced, as W3C's Trace Context has it."""

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""Key and value of a message together; a larger one is refused with TOO_LARGE."""

Positions = dict[str, dict[int, int]]
"""Topic -> partition -> the offset of the next record (BEGIN and END where a reader is placed)."""


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
    """Messages of one partition as they were read, one after the other, in columns: an object for each of
    them costs more than to read it. ``times``: the timestamps from one place to before another, asked for
    where somebody wants them; ``traceparents``: likewise, by place, of those that have one."""

    topic: str
    partition: int
    offsets: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    times: Callable[[int, int], Sequence[int]]
    traceparents: Callable[[], Mapping[int, str]] = dict

    def __len__(self) -> int:
        return len(self.values)

    @property
    def timestamps(self) -> Sequence[int]:
        """Of all of them, ms since the epoch."""
        return self.times(0, len(self))

    def written(self, place: int) -> int:
        """When the message at a place was written, ns since the epoch."""
        (at,) = self.times(place, place + 1)
        return at * 1_000_000

    @property
    def end(self) -> int:
        """The offset behind the last of them."""
        return self.offsets[-1] + 1

    def record(self, place: int) -> Record:
        """The message at a place."""
        (at,) = self.times(place, place + 1)
        return Record(
            self.topic, self.partition, self.offsets[place], at, self.keys[place], self.values[place]
        )

    def records(self) -> list[Record]:
        """All of them."""
        columns = (self.offsets, self.timestamps, self.keys, self.values)
        return [Record(self.topic, self.partition, *cells) for cells in zip(*columns, strict=True)]

    def part(self, first: int, end: int) -> Stretch:
        """Those from one place to before another."""
        part, times, traceparents = slice(first, end), self.times, self.traceparents
        return Stretch(
            self.topic, self.partition, self.offsets[part], self.keys[part], self.values[part],
            lambda begin, to: times(first + begin, first + to),
            lambda: {at - first: one for at, one in traceparents().items() if first <= at < end},
        )  # fmt: skip


Traceparents = Mapping[tuple[str, int, int], str]
"""By topic, partition and offset."""


def stretches_of(
    records: Iterable[Record], traceparents: Traceparents = MappingProxyType({})
) -> list[Stretch]:
    """Records, in order, in columns."""
    found = []
    for (topic, partition), same in groupby(records, itemgetter(0, 1)):
        mine = list(same)
        offsets = [one.offset for one in mine]
        keys, values = [one.key for one in mine], [one.value for one in mine]
        stamps = [one.timestamp for one in mine]
        places = ((topic, partition, offset) for offset in offsets)
        traced = {at: traceparents[place] for at, place in enumerate(places) if place in traceparents}
        found.append(Stretch(topic, partition, offsets, keys, values, _cells(stamps), traced.copy))
    return found


def _cells(stamps: Sequence[int]) -> Callable[[int, int], Sequence[int]]:
    return lambda first, end: stamps[first:end]


class Closing:
    """Makes what has a ``close`` usable in a ``with`` statement."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Reader(Protocol):
    """Reads partitions from given offsets on; no consumer group, nothing is committed. Used by one thread.
    A client that a fatal error has ended is followed by a new one, which goes on where reading stands."""

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        """The next records, up to ``limit``: at once when some are there, else those that come first within
        ``timeout`` seconds. Ordered within a partition. While the broker is away: empty."""

    def stretches(self, timeout: float, limit: int = 5000) -> list[Stretch]:
        """As :meth:`poll`, in columns; what is read next is given by either, once."""

    def add(self, topic: str, positions: Mapping[int, int]) -> None:
        """Read these partitions too, from these offsets; one that is read already moves there."""

    def remove(self, topic: str) -> None:
        """Read no more of the topic; one that is not read is not an error."""

    def positions(self) -> Positions:
        """Where reading stands: everything before has come out of :meth:`poll`. Passes over offsets that hold
        no record (compaction, transaction markers), so compare with ``end_offsets`` by this."""

    def moved(self) -> Positions:
        """The same of the topics that :meth:`poll` has heard of since this was asked last."""

    def close(self) -> None: ...


class GroupReader(Protocol):
    """A member of a consumer group: the group's members share the topics' partitions, each starts where the
    group committed last, or at the first record. Used by one thread.

    What was given and not committed comes again when partitions change hands and come back, and when a fatal
    error has ended the member's client: a new one then follows by itself, within the next calls.
    """

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        """As :meth:`Reader.poll`. Keeps the membership alive: a member that does not poll for ten minutes
        loses its partitions. With ``limit`` 0 it does only that and gives nothing."""

    def stretches(self, timeout: float, limit: int = 5000) -> list[Stretch]:
        """As :meth:`poll`, in columns."""

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """The group is done with all before these offsets; durable when it returns. Partitions that this
        member has no more are passed over: their new owner reads on from the last commit."""

    def assigned(self) -> set[tuple[str, int]]:
        """The topics' partitions that are this member's, as of its last :meth:`poll`."""

    def positions(self) -> Positions:
        """Topic -> partition -> offset behind all that this member was given or that was committed before;
        a partition of which it has heard nothing yet is not in it."""

    def close(self) -> None: ...


class Log(Protocol):
    """Topics of partitions of records. Safe to use from several threads.

    All methods raise MillraceError: UNAVAILABLE when the broker cannot be reached or refuses, or a topic does
    not exist; TIMEOUT when it does not answer in time (whether an append happened is then unknown).
    """

    def append(self, messages: Sequence[Message], timeout: float = 30) -> list[tuple[int, int]]:
        """Append messages, durably (all replicas have them) when it returns: (partition, offset) of each.
        When it raises, some of the messages may be in the log."""

    def ensure_topics(self, topics: Sequence[Topic | tuple[str, int]]) -> None:
        """Create the topics that do not exist ((name, partitions): kept forever) and wait until they can be
        used. An existing topic stays as it is, but for how long its records are kept."""

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics with their records and wait until they are gone; a missing one is not an error."""

    def empty_topics(self, names: Sequence[str]) -> None:
        """Forget the records that these topics hold; offsets go on from where they are."""

    def trim(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        """Forget the records before these offsets (topic -> partition -> offset, none behind the end). A
        topic that does not exist is not an error."""

    def offsets_at(self, topic: str, at: int) -> dict[int, int]:
        """Partition -> offset of the first record written at that time (ms since the epoch) or later; where
        there is none, an offset behind all that were written before."""

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Partition -> the offset that a consumer group has committed; a partition without a commit is not in
        it."""

    def topics(self, prefix: str = "") -> list[str]:
        """The topics whose name begins so, sorted."""

    def begin_offsets(self, topic: str) -> dict[int, int]:
        """Partition -> offset of the first record still kept."""

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Partition -> offset behind the last record that a reader can have."""

    def ends_of(self, topics: Collection[str]) -> Positions:
        """:meth:`end_offsets` of many topics in one question; those that do not exist are left out."""

    def reader(self, positions: Mapping[str, Mapping[int, int]], grows: bool = False) -> Reader:
        """A reader of these topics and partitions from these offsets. ``grows``: what is added to it, and the
        position behind the end of a transaction, is to come within a tenth of a second, not two seconds;
        asking so often costs the broker more."""

    def subscribe(self, group: str, topics: Sequence[str]) -> GroupReader:
        """A new member of the group, over these topics. A member that was killed keeps its partitions until
        its session ends, six seconds after it was last heard of; one that is closed leaves them at once."""

    def close(self) -> None: ...

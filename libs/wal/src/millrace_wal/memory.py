"""The log in memory: the same behaviour without a broker, for tests. It does no compaction."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire.topics import Topic
from millrace_wal.record import (
    BEGIN,
    END,
    MAX_MESSAGE_BYTES,
    Closing,
    Message,
    Positions,
    Record,
    Stretch,
    stretches_of,
)


def _now() -> int:
    return time.time_ns() // 1_000_000


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key: murmur2 as Kafka's Java clients compute it."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(key)) & mask
    whole = len(key) & ~3
    for i in range(0, whole, 4):
        k = (int.from_bytes(key[i : i + 4], "little") * m) & mask
        k = ((k ^ (k >> 24)) * m) & mask
        h = ((h * m) & mask) ^ k
    if len(key) > whole:
        h = ((h ^ int.from_bytes(key[whole:], "little")) * m) & mask
    h = ((h ^ (h >> 13)) * m) & mask
    return ((h ^ (h >> 15)) & 0x7FFFFFFF) % partitions


@dataclass(slots=True)
class _Group:
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    members: list[MemoryGroupReader] = field(default_factory=list)


class MemoryLog(Closing):
    """See :class:`millrace_wal.record.Log`. ``clock`` gives the records' timestamps, in milliseconds."""

    def __init__(self, clock: Callable[[], int] = _now) -> None:
        self._clock = clock
        self._topics: dict[str, list[list[Record]]] = {}
        self._begins: dict[str, dict[int, int]] = {}
        self.traceparents: dict[tuple[str, int, int], str] = {}
        self.kept: dict[str, int] = {}
        """Topic -> what :meth:`cut_for` was told."""
        self._groups: dict[str, _Group] = {}
        self._keyless = itertools.count()
        self._refused = False
        self.changed = threading.Condition(threading.RLock())

    def append(self, messages: Sequence[Message], timeout: float = 30) -> list[tuple[int, int]]:
        with self.changed:
            if self._refused:
                self._refused = False
                raise MillraceError(ErrorCode.UNAVAILABLE, "append: a fatal error has ended the client")
            for message in messages:
                if len(message.key or b"") + len(message.value or b"") > MAX_MESSAGE_BYTES:
                    raise MillraceError(
                        ErrorCode.TOO_LARGE,
                        f"append to topic {message.topic}: a message has more than {MAX_MESSAGE_BYTES} bytes",
                    )
                self._partitions(message.topic, "append")
            places = [self._append(message) for message in messages]
            self.changed.notify_all()
            return places

    def _append(self, message: Message) -> tuple[int, int]:
        parts = self._topics[message.topic]
        if message.key is None:
            partition = next(self._keyless) % len(parts)
        else:
            partition = partition_of(message.key, len(parts))
        offset = len(parts[partition])
        parts[partition].append(
            Record(message.topic, partition, offset, self._clock(), message.key, message.value)
        )
        if message.traceparent:
            self.traceparents[message.topic, partition, offset] = message.traceparent
        return partition, offset

    def _partitions(self, topic: str, doing: str) -> list[list[Record]]:
        if topic not in self._topics:
            raise MillraceError(ErrorCode.UNAVAILABLE, f"{doing}: topic {topic} does not exist")
        return self._topics[topic]

    def ensure_topics(self, topics: Sequence[Topic | tuple[str, int]]) -> None:
        with self.changed:
            for topic in topics:
                name, count = (topic.name, topic.partitions) if isinstance(topic, Topic) else topic
                self._topics.setdefault(name, [[] for _ in range(count)])
            self.changed.notify_all()

    def delete_topics(self, names: Sequence[str]) -> None:
        with self.changed:
            for name in names:
                self._topics.pop(name, None)
                self._begins.pop(name, None)
                self.traceparents = {at: one for at, one in self.traceparents.items() if at[0] != name}
                for group in self._groups.values():
                    group.committed = {w: o for w, o in group.committed.items() if w[0] != name}

    def empty_topics(self, names: Sequence[str]) -> None:
        with self.changed:
            self._begins |= {name: self.end_offsets(name) for name in names}

    def trim(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        with self.changed:
            for topic in ends.keys() & self._topics.keys():
                known = self.begin_offsets(topic)
                self._begins[topic] = known | {p: max(end, known[p]) for p, end in ends[topic].items()}

    def cut_for(self, kept: Mapping[str, int]) -> None:
        with self.changed:
            self.kept |= {topic: one for topic, one in kept.items() if topic in self._topics}

    def offsets_at(self, topic: str, at: int) -> dict[int, int]:
        with self.changed:
            parts = self._partitions(topic, "look up times")
            begins = self.begin_offsets(topic)
            return {
                p: next((r.offset for r in part if r.timestamp >= at and r.offset >= begins[p]), len(part))
                for p, part in enumerate(parts)
            }

    def committed(self, group: str, topic: str) -> dict[int, int]:
        with self.changed:
            known = self._groups.get(group, _Group()).committed
            return {partition: offset for (name, partition), offset in known.items() if name == topic}

    def topics(self, prefix: str = "") -> list[str]:
        with self.changed:
            return sorted(name for name in self._topics if name.startswith(prefix))

    def begin_offsets(self, topic: str) -> dict[int, int]:
        with self.changed:
            zeros = dict.fromkeys(range(len(self._partitions(topic, "read offsets"))), 0)
            return zeros | self._begins.get(topic, {})

    def end_offsets(self, topic: str) -> dict[int, int]:
        with self.changed:
            return {i: len(p) for i, p in enumerate(self._partitions(topic, "read offsets"))}

    def ends_of(self, topics: Collection[str]) -> Positions:
        with self.changed:
            return {topic: self.end_offsets(topic) for topic in topics if topic in self._topics}

    def reader(
        self, positions: Mapping[str, Mapping[int, int]], grows: bool = False, gathers: bool = False
    ) -> MemoryReader:
        return MemoryReader(self, positions)

    def subscribe(self, group: str, topics: Sequence[str], gathers: bool = False) -> MemoryGroupReader:
        with self.changed:
            return MemoryGroupReader(self, self._groups.setdefault(group, _Group()), topics)

    def end_client(self) -> None:
        """The effect of a fatal error on the client that appends: the next append is refused, once."""
        with self.changed:
            self._refused = True

    def forget(self, reader: MemoryGroupReader) -> None:
        """The effect of a killed member's session ending: others get its partitions."""
        with self.changed:
            for group in self._groups.values():
                group.members = [member for member in group.members if member is not reader]
            self.changed.notify_all()

    def close(self) -> None:
        """Nothing to close: the records stay for others who hold the log."""

    def partitions(self, topic: str) -> list[list[Record]]:
        """The records of a topic by partition; none if there is no such topic. Hold ``changed``."""
        return self._topics.get(topic, [])

    def take(self, positions: dict[tuple[str, int], int], limit: int) -> list[Record]:
        """Records from these positions on; the positions move with them. Hold ``changed``."""
        found: list[Record] = []
        for (topic, partition), position in list(positions.items()):
            parts = self.partitions(topic)
            if partition >= len(parts):
                continue
            # a topic that was deleted and made again is shorter: begin anew
            begin = self._begins.get(topic, {}).get(partition, 0)
            start = max(position, begin) if position <= len(parts[partition]) else begin
            taken = parts[partition][start : start + limit - len(found)]
            found += taken
            positions[topic, partition] = start + len(taken)
        return found

    def await_records(
        self, positions: Callable[[], dict[tuple[str, int], int]], timeout: float, limit: int
    ) -> list[Record]:
        until = time.monotonic() + timeout
        with self.changed:
            while not (records := self.take(positions(), limit)):
                left = until - time.monotonic()
                if left <= 0 or not self.changed.wait(left):
                    return self.take(positions(), limit)
            return records


class MemoryReader(Closing):
    """See :class:`millrace_wal.record.Reader`."""

    def __init__(self, log: MemoryLog, positions: Mapping[str, Mapping[int, int]]) -> None:
        self._log = log
        self._positions: dict[tuple[str, int], int] = {}
        self._told: Positions = {}
        for topic, offsets in positions.items():
            self.add(topic, offsets)

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        return self._log.await_records(lambda: self._positions, timeout, limit)

    def stretches(self, timeout: float, limit: int = 5000) -> list[Stretch]:
        return stretches_of(self.poll(timeout, limit), self._log.traceparents)

    def add(self, topic: str, positions: Mapping[int, int]) -> None:
        with self._log.changed:
            for partition, offset in positions.items():
                marks = {BEGIN: self._log.begin_offsets, END: self._log.end_offsets}
                found = marks[offset](topic)[partition] if offset in marks else offset
                self._positions[topic, partition] = found

    def remove(self, topic: str) -> None:
        self._positions = {w: o for w, o in self._positions.items() if w[0] != topic}

    def positions(self) -> Positions:
        found: Positions = {}
        for (topic, partition), offset in self._positions.items():
            found.setdefault(topic, {})[partition] = offset
        return found

    def moved(self) -> Positions:
        before, self._told = self._told, self.positions()
        return {topic: offsets for topic, offsets in self._told.items() if before.get(topic) != offsets}

    def close(self) -> None:
        self._positions = {}


class MemoryGroupReader(Closing):
    """See :class:`millrace_wal.record.GroupReader`."""

    def __init__(self, log: MemoryLog, group: _Group, topics: Sequence[str]) -> None:
        self._log = log
        self._group = group
        self._topics = tuple(topics)
        self._positions: dict[tuple[str, int], int] = {}
        self._joins_in = 0
        group.members = [*group.members, self]

    def end_client(self) -> None:
        """The effect of a fatal error on this member's client. The next poll makes a new client, which has
        joined by the poll after that, and begins where commits stand. Until then nothing is assigned."""
        with self._log.changed:
            self._joins_in, self._positions = 2, {}
            self._log.changed.notify_all()

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        with self._log.changed:
            self._joins_in = max(self._joins_in - 1, 0)
            if self._joins_in:
                return []
        if limit == 0:
            time.sleep(timeout)
            return []
        return self._log.await_records(self._assigned, timeout, limit)

    def stretches(self, timeout: float, limit: int = 5000) -> list[Stretch]:
        return stretches_of(self.poll(timeout, limit), self._log.traceparents)

    def _assigned(self) -> dict[tuple[str, int], int]:
        """My share of the partitions. Those that I had before keep their position. Hold ``changed``."""
        members = self._group.members
        if self not in members or self._joins_in:
            self._positions = {}
            return self._positions
        everything = [(t, p) for t in self._topics for p in range(len(self._log.partitions(t)))]
        mine = everything[members.index(self) :: len(members)]
        committed = self._group.committed
        self._positions = {w: self._positions.get(w, committed.get(w, 0)) for w in mine}
        return self._positions

    def assigned(self) -> set[tuple[str, int]]:
        with self._log.changed:
            return set(self._assigned())

    def positions(self) -> Positions:
        found: Positions = {}
        with self._log.changed:
            for (topic, partition), offset in self._assigned().items():
                found.setdefault(topic, {})[partition] = offset
        return found

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        with self._log.changed:
            mine = self._assigned()
            self._group.committed |= {where: offset for where, offset in offsets.items() if where in mine}

    def close(self) -> None:
        with self._log.changed:
            self._group.members = [m for m in self._group.members if m is not self]
            self._log.changed.notify_all()

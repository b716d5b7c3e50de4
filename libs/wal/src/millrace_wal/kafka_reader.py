"""Readers on Kafka: one of explicit partitions, one of a consumer group."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from millrace_wal.kafka_errors import MISSING, MOVING, REBALANCED, kafka_error
from millrace_wal.record import Closing, Positions, Record

_SERVED_IN_TIME = 0.05
"""Seconds a membership-only poll may take; it is served by then or with the next one."""


_PASSING = MISSING | MOVING | REBALANCED | {
    KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT,
    KafkaError._MAX_POLL_EXCEEDED,
}  # fmt: skip
"""What a consumer gets over by itself: the broker is away, a topic is gone (its reader hears of that
elsewhere), the group is changing."""


def _consumer_config(common: dict[str, Any]) -> dict[str, Any]:
    return common | {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": False,
        # what is there is given at once; a broker that is asked ten times a second takes a fiftieth of a core
        "fetch.wait.max.ms": 2000,
        # how long fetching rests after the local queue was full (the default of 1 s starves a fast reader)
        "fetch.queue.backoff.ms": 5,
        "topic.metadata.refresh.interval.ms": 5000,
    }


_GROWING: dict[str, Any] = {"fetch.wait.max.ms": 200}
"""A partition that is added waits for the running fetch to end; half as long takes a hundredth of a core."""


class _Batches:
    """Records in batches from a consumer, and where it stands."""

    def __init__(self, consumer: Consumer, doing: str) -> None:
        self._consumer = consumer
        self._doing = doing
        self.positions: Positions = {}
        self.moved: set[str] = set()

    def poll(self, timeout: float, limit: int) -> list[Record]:
        # consume() waits until it has all it was asked for, so: one message in time, then those there are
        until = time.monotonic() + timeout
        while True:
            messages = self._consume(1, max(until - time.monotonic(), 0))
            if messages and limit > 1:
                messages += self._consume(limit - 1, 0)
            records = [record for message in messages if (record := self._record(message)) is not None]
            # the end of a partition wakes us up too
            if records or time.monotonic() >= until:
                return records

    def _consume(self, count: int, timeout: float) -> list[Any]:
        try:
            return self._consumer.consume(count, timeout)  # type: ignore[no-any-return]
        except KafkaException as error:
            raise kafka_error(error, self._doing) from error

    def _record(self, message: Any) -> Record | None:
        error = message.error()
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        self.moved.add(topic)
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self.positions.setdefault(topic, {})[partition] = offset
            elif error.fatal() or error.code() not in _PASSING:
                raise kafka_error(error, self._doing)
            return None
        self.positions.setdefault(topic, {})[partition] = offset + 1
        return Record(topic, partition, offset, message.timestamp()[1], message.key(), message.value())


class KafkaReader(Closing):
    """See :class:`millrace_wal.record.Reader`. ``resolve`` gives the offsets for BEGIN and END."""

    def __init__(
        self,
        common: dict[str, Any],
        positions: Mapping[str, Mapping[int, int]],
        logger: Any,
        resolve: Callable[[str, Mapping[int, int]], dict[int, int]],
        grows: bool = False,
    ) -> None:
        self._resolve = resolve
        config = _consumer_config(common) | {"group.id": "none"} | (_GROWING if grows else {})
        self._consumer = Consumer(config, logger=logger)
        self._batches = _Batches(self._consumer, "read")
        self._read: dict[str, set[int]] = {}
        """Topic -> partitions, as assigned; to ask the consumer takes a time that grows with all of them."""
        for topic, offsets in positions.items():
            self.add(topic, offsets)

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        return self._batches.poll(timeout, limit)

    def add(self, topic: str, positions: Mapping[int, int]) -> None:
        found = self._resolve(topic, positions)
        read = self._read.setdefault(topic, set())
        again = [TopicPartition(topic, partition) for partition in found if partition in read]
        if again:
            self._consumer.incremental_unassign(again)
        self._consumer.incremental_assign([TopicPartition(topic, *place) for place in found.items()])
        read.update(found)
        self._batches.positions.setdefault(topic, {}).update(found)

    def remove(self, topic: str) -> None:
        self._batches.positions.pop(topic, None)
        self._batches.moved.discard(topic)
        parts = [TopicPartition(topic, partition) for partition in self._read.pop(topic, ())]
        if parts:
            self._consumer.incremental_unassign(parts)

    def positions(self) -> Positions:
        return {topic: dict(offsets) for topic, offsets in self._batches.positions.items()}

    def moved(self) -> Positions:
        moved, self._batches.moved = self._batches.moved, set()
        positions = self._batches.positions
        return {topic: dict(positions[topic]) for topic in moved if topic in positions}

    def close(self) -> None:
        self._consumer.close()


class KafkaGroupReader(Closing):
    """See :class:`millrace_wal.record.GroupReader`. Kafka's classic group protocol: under the newer one a
    member that was killed and comes back waits for its session's end, under any name."""

    def __init__(
        self, common: dict[str, Any], group: str, topics: Sequence[str], client: str, logger: Any
    ) -> None:
        config = _consumer_config(common) | {
            "group.id": group,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 2_000,
            "max.poll.interval.ms": 600_000,
        }
        if client:
            config["group.instance.id"] = client
        self._group = group
        self._consumer = Consumer(config, logger=logger)
        self._batches = _Batches(self._consumer, f"read as group {group}")
        self._consumer.subscribe(list(topics))
        self._paused = False
        self._held: list[Record] = []

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        if limit == 0:
            self._keep_alive(timeout)
            return []
        if self._paused:
            self._consumer.resume(self._consumer.assignment())
            self._paused = False
        if self._held:
            held, self._held = self._held[:limit], self._held[limit:]
            return held
        return self._batches.poll(timeout, limit)

    def _keep_alive(self, timeout: float) -> None:
        self._consumer.pause(self._consumer.assignment())
        self._paused = True
        # a partition that is assigned just now is not paused and may give records
        self._held += self._batches.poll(min(timeout, _SERVED_IN_TIME), 1000)
        time.sleep(max(timeout - _SERVED_IN_TIME, 0))

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        mine = self.assigned()
        parts = [TopicPartition(*where, offset) for where, offset in offsets.items() if where in mine]
        if not parts:
            return
        doing = f"commit for group {self._group}"
        try:
            done = self._consumer.commit(offsets=parts, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() in REBALANCED:
                return
            raise kafka_error(error, doing) from error
        for part in done:
            if part.error is not None and part.error.code() not in REBALANCED | MISSING:
                raise kafka_error(part.error, doing)

    def assigned(self) -> set[tuple[str, int]]:
        return {(part.topic, part.partition) for part in self._consumer.assignment()}

    def positions(self) -> Positions:
        return {topic: dict(offsets) for topic, offsets in self._batches.positions.items()}

    def close(self) -> None:
        self._consumer.close()

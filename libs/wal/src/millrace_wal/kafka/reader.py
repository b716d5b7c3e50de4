"""Readers on Kafka: one of given partitions, one that is a member of a consumer group.

When a client ends (``client``), both go on with a new one. The reader of given partitions goes on where it
stands; the member of a group begins where commits stand, as after a rebalance.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from millrace_wal.kafka.client import Client
from millrace_wal.kafka.errors import MISSING, REBALANCED, Strikes, is_fatal, kafka_error
from millrace_wal.kafka.silence import Silence
from millrace_wal.record import Closing, Positions, Record, Stretch

_SERVED_IN_TIME = 0.05
"""Seconds that a membership-only poll may take; what is not served by then is served by the next one."""
SESSION_MS = 6_000
"""How long a killed member of a group keeps its partitions; the least that brokers allow unless they are
configured otherwise."""
STATISTICS_MS = 2_000


def _consumer_config(common: dict[str, Any]) -> dict[str, Any]:
    return common | {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": False,
        # records that are there come at once; being asked ten times a second costs the broker a
        # fiftieth of a core
        "fetch.wait.max.ms": 2000,
        # how long fetching rests after the local queue was full (the default of 1 s starves a fast reader)
        "fetch.queue.backoff.ms": 5,
        "topic.metadata.refresh.interval.ms": 5000,
    }


_GROWING: dict[str, Any] = {"fetch.wait.max.ms": 200}
"""A partition that is added waits for the running fetch to end; half of this costs a hundredth of a core."""


def _taken(held: list[Stretch], limit: int) -> list[Stretch]:
    """Take the first ``limit`` messages out of ``held``."""
    found: list[Stretch] = []
    while held and limit > 0:
        first = held.pop(0)
        if len(first) > limit:
            held.insert(0, first.part(limit, len(first)))
            first = first.part(0, limit)
        found.append(first)
        limit -= len(first)
    return found


class KafkaReader(Closing):
    """See :class:`millrace_wal.record.Reader`. ``resolve`` gives the offsets for BEGIN and END. ``ends``
    gives the ends of topics as another client knows them; None: silence is not looked for."""

    def __init__(
        self,
        common: dict[str, Any],
        positions: Mapping[str, Mapping[int, int]],
        logger: Any,
        resolve: Callable[[str, Mapping[int, int]], dict[int, int]],
        grows: bool = False,
        ends: Callable[[Collection[str]], Positions] | None = None,
        gathers: bool = False,
    ) -> None:
        self._resolve, self._logger = resolve, logger
        self._silence = None if ends is None else Silence(ends)
        self._config = _consumer_config(common) | {"group.id": "none"} | (_GROWING if grows else {})
        self._read: dict[str, set[int]] = {}
        """Topic -> partitions, as assigned; asking the consumer takes longer the more of them there are."""
        self._client = Client(self._make, logger, "read", gathers)
        for topic, offsets in positions.items():
            self.add(topic, offsets)

    def _make(self) -> Consumer:
        """A client that reads on where this reader stands."""
        consumer = Consumer(self._config, logger=self._logger)
        if self._read:
            at = self._client.positions
            consumer.incremental_assign([
                TopicPartition(topic, partition, at[topic][partition])
                for topic, partitions in self._read.items()
                for partition in partitions
            ])  # fmt: skip
        return consumer

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        return [record for some in self.stretches(timeout, limit) for record in some.records()]

    def stretches(self, timeout: float, limit: int = 5000) -> list[Stretch]:
        try:
            found = self._client.stretches(timeout, limit)
        except KafkaException as error:
            if not is_fatal(error.args[0]):
                raise kafka_error(error, "read") from error
            self._client.follow(str(error.args[0]))
            return []
        # it returned fewer than the limit, so it has returned all that it had fetched
        if self._silence is not None and self._read and sum(map(len, found)) < limit:
            silent = self._silence.topics(self._client.positions)
            if silent:
                self._client.follow(f"no records of topic {silent[0]} arrive, although it has some")
        return found

    def add(self, topic: str, positions: Mapping[int, int]) -> None:
        found = self._resolve(topic, positions)
        read = self._read.setdefault(topic, set())
        consumer = self._client.consumer
        again = [TopicPartition(topic, partition) for partition in found if partition in read]
        if again:
            consumer.incremental_unassign(again)
        consumer.incremental_assign([TopicPartition(topic, *place) for place in found.items()])
        read.update(found)
        self._client.positions.setdefault(topic, {}).update(found)

    def remove(self, topic: str) -> None:
        self._client.positions.pop(topic, None)
        self._client.moved.discard(topic)
        parts = [TopicPartition(topic, partition) for partition in self._read.pop(topic, ())]
        if parts:
            self._client.consumer.incremental_unassign(parts)

    def positions(self) -> Positions:
        return {topic: dict(offsets) for topic, offsets in self._client.positions.items()}

    def moved(self) -> Positions:
        moved, self._client.moved = self._client.moved, set()
        positions = self._client.positions
        return {topic: dict(positions[topic]) for topic in moved if topic in positions}

    def close(self) -> None:
        self._client.close()


class KafkaGroupReader(Closing):
    """See :class:`millrace_wal.record.GroupReader`. It uses Kafka's classic group protocol: under the newer
    one a killed member that comes back must wait for the end of its old session."""

    def __init__(
        self, common: dict[str, Any], group: str, topics: Sequence[str], logger: Any, gathers: bool = False
    ) -> None:
        self._config = _consumer_config(common) | {
            "group.id": group,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": SESSION_MS // 3,
            "max.poll.interval.ms": 600_000,
            "statistics.interval.ms": STATISTICS_MS,
            "stats_cb": self._see,
        }
        self._group, self._topics, self._logger = group, list(topics), logger
        self._commits, self._coordinator = Strikes(), Strikes()
        self._lost = ""
        self._paused = False
        self._held: list[Stretch] = []
        self._client = Client(self._make, logger, f"read as group {group}", gathers)

    def _make(self) -> Consumer:
        consumer = Consumer(self._config, logger=self._logger)
        consumer.subscribe(self._topics)
        return consumer

    def _see(self, statistics: str) -> None:
        """Notes whether this client has lost its group's coordinator although brokers answer; librdkafka
        calls this in a poll."""
        found = json.loads(statistics)
        state = found.get("cgrp", {}).get("state", "up")
        reached = any(one["state"] == "UP" for one in found.get("brokers", {}).values())
        if state == "up" or not reached:
            self._coordinator.forget()
        elif self._coordinator.out():
            self._lost = f"its coordinator was not found ({state}), although a broker answers"

    def _follow(self, why: str) -> None:
        """A new client joins the group. What was returned and not committed comes again."""
        self._client.follow(why)
        self._client.positions = {}
        self._held, self._paused, self._lost = [], False, ""
        self._commits.forget()
        self._coordinator.forget()

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        return [record for some in self.stretches(timeout, limit) for record in some.records()]

    def stretches(self, timeout: float, limit: int = 5000) -> list[Stretch]:
        if self._lost:
            self._follow(self._lost)
        try:
            return self._stretches(timeout, limit)
        except KafkaException as error:
            if not is_fatal(error.args[0]):
                raise kafka_error(error, f"read as group {self._group}") from error
            self._follow(str(error.args[0]))
            return []

    def _stretches(self, timeout: float, limit: int) -> list[Stretch]:
        consumer = self._client.consumer
        if limit == 0:
            consumer.pause(consumer.assignment())
            self._paused = True
            # a partition that has just been assigned is not paused, and may give records
            self._held += self._client.stretches(min(timeout, _SERVED_IN_TIME), 1000)
            time.sleep(max(timeout - _SERVED_IN_TIME, 0))
            return []
        if self._paused:
            consumer.resume(consumer.assignment())
            self._paused = False
        return _taken(self._held, limit) if self._held else self._client.stretches(timeout, limit)

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        mine = self.assigned()
        parts = [TopicPartition(*where, offset) for where, offset in offsets.items() if where in mine]
        if not parts:
            return
        try:
            failed = self._commit(parts)
        except KafkaException as error:
            failed = error.args[0]
        if failed is None or failed.code() in REBALANCED:
            self._commits.forget()
        elif is_fatal(failed) or self._commits.out():
            self._follow(str(failed))
        else:
            raise kafka_error(failed, f"commit for group {self._group}")

    def _commit(self, parts: list[TopicPartition]) -> KafkaError | None:
        done = self._client.consumer.commit(offsets=parts, asynchronous=False)
        errors = (part.error for part in done if part.error is not None)
        return next((error for error in errors if error.code() not in REBALANCED | MISSING), None)

    def assigned(self) -> set[tuple[str, int]]:
        try:
            return {(part.topic, part.partition) for part in self._client.consumer.assignment()}
        except KafkaException as error:
            raise kafka_error(error, f"read as group {self._group}") from error

    def positions(self) -> Positions:
        return {topic: dict(offsets) for topic, offsets in self._client.positions.items()}

    def close(self) -> None:
        self._client.close()

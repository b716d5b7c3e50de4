"""A client of Kafka that reads messages in columns, and is replaced when it is done for.

A client may end: by a fatal error, or because it loses its group's coordinator and never finds it again
(librdkafka issues 2725, 3437).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import Message as Given

from millrace_wal.kafka.errors import MISSING, MOVING, REBALANCED, is_fatal
from millrace_wal.kafka.gathering import MOST, WAIT, Gathering
from millrace_wal.record import TRACEPARENT, Positions, Stretch

_CLOSED_IN_TIME = 10.0
"""Seconds that the end of a client may take."""
_SHORTEST_WAIT = 0.001
"""Seconds; librdkafka counts milliseconds, and takes less for none."""
BATCH_BYTES = 6 << 20
"""About how long the messages of a batch are together, whatever its limit allows: a message may hold
thousands of rows. What is made of more of them does not stay in the processor's caches, and each time takes
memory that the kernel has to clear first."""
_LOOKED_AT = 100  # so many messages of a batch tell how long they are
_PASSING = MISSING | MOVING | REBALANCED | {
    KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT,
    KafkaError._MAX_POLL_EXCEEDED,
}  # fmt: skip
"""Errors that a consumer recovers from by itself: the broker is away, a topic is gone (its reader hears of
that elsewhere), the group is changing."""


def _times(messages: list[Any], first: int, end: int) -> list[int]:
    return list(map(itemgetter(1), map(Given.timestamp, messages[first:end])))


def _traceparents(messages: list[Any]) -> dict[int, str]:
    return {
        at: value.decode("ascii", "replace")
        for at, headers in enumerate(map(Given.headers, messages))
        for name, value in headers or ()
        if name == TRACEPARENT and value is not None
    }


def _mean_bytes(found: list[Stretch]) -> float:
    """How long some of the messages are, on average."""
    values = [value for some in found for value in some.values[: 1 + _LOOKED_AT // len(found)]]
    return sum(len(value or b"") for value in values) / len(values)


def _written(messages: list[Any]) -> dict[str, list[int]]:
    """By topic, when the records among these messages were written. A batch of more than MOST is as good as
    one of little more: looking at each message would take too long."""
    found: dict[str, list[int]] = {}
    for one in messages[: MOST + 1]:
        if one.error() is None:
            found.setdefault(one.topic(), []).append(one.timestamp()[1])
    return found


class Client:
    """A consumer that is replaced when it is done for. ``make``: makes one and gives it its work."""

    def __init__(self, make: Callable[[], Consumer], logger: Any, doing: str, gathers: bool) -> None:
        self._make, self._logger, self._doing = make, logger, doing
        self._gathering = Gathering() if gathers else None
        self.consumer = make()
        self._failure: KafkaError | None = None
        self._mean = 0.0
        """How long the messages of the last batch were, in bytes."""
        self.positions: Positions = {}
        self.moved: set[str] = set()

    def stretches(self, timeout: float, limit: int) -> list[Stretch]:
        """Messages in a batch, of :data:`BATCH_BYTES` if they are as long as those before. An error is raised
        once all messages before it have been returned."""
        self._raise_failure()
        if self._mean * limit > BATCH_BYTES:
            limit = max(int(BATCH_BYTES / self._mean), 1)
        # consume() waits for all it was asked for; so ask for one message in time, then for those there
        until = time.monotonic() + timeout
        while True:
            messages = self._consume(1, max(until - time.monotonic(), 0))
            if messages and limit > 1:
                messages += self._consume(limit - 1, 0)
                self._gather(messages, limit)
            found = [some for part in self._without_events(messages) for some in self._in_columns(part)]
            if found:
                self._mean = _mean_bytes(found)
            if self._failure is not None and not found:
                self._raise_failure()
            # the end of a partition wakes us up too
            if found or time.monotonic() >= until:
                return found

    def _gather(self, messages: list[Any], limit: int) -> None:
        """Wait for the rest of a burst, if these messages are its beginning."""
        gathering, until = self._gathering, time.monotonic() + WAIT
        if gathering is None:
            return
        while batch := _written(messages):
            missing = min(gathering.missing(batch), limit - len(messages))
            left = until - time.monotonic()
            if missing <= 0 or left < _SHORTEST_WAIT or self._failure is not None:
                gathering.took(batch)
                return
            messages += self._consume(missing, left)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise KafkaException(failure)

    def _consume(self, count: int, timeout: float) -> list[Any]:
        try:
            return self.consumer.consume(count, timeout)  # type: ignore[no-any-return]
        except KafkaException as error:
            self._failure = error.args[0]
            return []

    def _without_events(self, messages: list[Any]) -> Iterator[list[Any]]:
        """The records among these messages, in parts; the events between them are handled."""
        begin = 0
        if any(map(Given.error, messages)):  # comparing a KafkaError with None fails
            for place, error in enumerate(map(Given.error, messages)):
                if error is not None:
                    yield messages[begin:place]
                    self._heed(messages[place], error)
                    begin = place + 1
        yield messages[begin:] if begin else messages

    def _heed(self, message: Any, error: KafkaError) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self._reached(message.topic(), message.partition(), message.offset())
        elif is_fatal(error) or error.code() not in _PASSING:
            self._failure = error
        elif message.topic() is not None:
            self.moved.add(message.topic())

    def _reached(self, topic: str, partition: int, offset: int) -> None:
        self.moved.add(topic)
        self.positions.setdefault(topic, {})[partition] = offset

    def _in_columns(self, messages: list[Any]) -> Iterator[Stretch]:
        """The messages, partition by partition as they come. The cells are read by C alone: a poll may return
        thousands of messages of one row each."""
        for partition, same in groupby(messages, Given.partition):
            mine = list(same)
            topics = list(map(Given.topic, mine))
            if topics.count(topics[0]) == len(topics):
                yield self._stretch(topics[0], partition, mine)
            else:  # partitions of several topics, with the same number
                for topic, some in groupby(mine, Given.topic):
                    yield self._stretch(topic, partition, list(some))

    def _stretch(self, topic: str, partition: int, messages: list[Any]) -> Stretch:
        first, last = messages[0].offset(), messages[-1].offset()
        self._reached(topic, partition, last + 1)
        without_holes = last - first + 1 == len(messages)
        offsets = range(first, last + 1) if without_holes else list(map(Given.offset, messages))
        keys, values = list(map(Given.key, messages)), list(map(Given.value, messages))
        return Stretch(
            topic, partition, offsets, keys, values,
            partial(_times, messages), partial(_traceparents, messages),
        )  # fmt: skip

    def follow(self, why: str) -> None:
        """Drop this client and go on with a new one. The old one is not closed: closing a client
        after a fatal error would occupy a core forever. So it does not leave its group; its session
        ends by itself."""
        self._logger.warning("%s: this client cannot be used any more and is replaced: %s", self._doing, why)
        self._failure = None
        self.consumer = self._make()

    def close(self) -> None:
        """Leave the group, unless that takes too long: after a fatal error of the client it takes forever."""
        closing = threading.Thread(target=self.consumer.close, name="wal-client-closing", daemon=True)
        closing.start()
        closing.join(_CLOSED_IN_TIME)

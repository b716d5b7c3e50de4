"""A client of Kafka that reads messages in columns, and is replaced when it is done for.

A client may end: by a fatal error, or because it loses its group's coordinator and never finds it again
(librdkafka issues 2725, 3437).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import Message as Given

from millrace_wal.kafka.columns import FEW, Columns
from millrace_wal.kafka.errors import MISSING, MOVING, REBALANCED, is_fatal
from millrace_wal.kafka.gathering import MOST, WAIT, Gathering
from millrace_wal.record import Positions, Stretch

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


def _mean_bytes(found: list[Stretch]) -> float:
    """How long some of the messages are, on average."""
    values = [value for some in found for value in some.values[: 1 + _LOOKED_AT // len(found)]]
    return sum(len(value or b"") for value in values) / len(values)


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
            columns = Columns()
            if self._take(columns, 1, max(until - time.monotonic(), 0)) and limit > 1:
                left = limit - 1 - self._take(columns, limit - 1, 0)
                self._gather(columns, left)
            found = columns.stretches()
            if found:
                self._mean = _mean_bytes(found)
            if self._failure is not None and not found:
                self._raise_failure()
            # the end of a partition wakes us up too
            if found or time.monotonic() >= until:
                return found

    def _take(self, columns: Columns, count: int, timeout: float) -> int:
        """Take messages in; returns how many were taken. The first is waited for."""
        taken = 0
        while taken < count and self._failure is None:
            asked = min(count - taken, FEW)
            few = self._take_few(columns, asked, 0 if taken else timeout)
            taken += few
            if few < asked:
                break
        return taken

    def _take_few(self, columns: Columns, count: int, timeout: float) -> int:
        """As :meth:`_take`. When it returns the messages are gone, and the next ones take their memory, which
        the processor's cache still has."""
        messages = self._consume(count, timeout)
        for part in self._without_events(messages):
            for reached in columns.add(part):
                self._reached(*reached)
        return len(messages)

    def _gather(self, columns: Columns, limit: int) -> None:
        """Wait for the rest of a burst, if these messages are its beginning: at most so many more."""
        gathering, until = self._gathering, time.monotonic() + WAIT
        if gathering is None:
            return
        # a batch of more than MOST is as good as one of little more
        while batch := columns.written(MOST + 1):
            missing = min(gathering.missing(batch), limit)
            left = until - time.monotonic()
            if missing <= 0 or left < _SHORTEST_WAIT or self._failure is not None:
                gathering.took(batch)
                return
            limit -= self._take(columns, missing, left)

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

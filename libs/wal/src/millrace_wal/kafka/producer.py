"""Appending on Kafka: one producer, and the thread that serves its callbacks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from millrace_core.errors import ErrorCode, MillraceError
from millrace_wal.kafka.errors import is_fatal, kafka_error
from millrace_wal.record import MAX_MESSAGE_BYTES, TRACEPARENT, Message

_CONFIG = {
    "enable.idempotence": True,
    "acks": "all",
    # whoever appends gives all its messages at once, and waits until they are there
    "linger.ms": 0,
    "compression.type": "lz4",
    # the hash of Java's clients: Spark and every other producer then choose the same partition of a key
    "partitioner": "murmur2_random",
    "message.max.bytes": MAX_MESSAGE_BYTES + 65536,
    "delivery.timeout.ms": 30_000,
    "topic.metadata.propagation.max.ms": 3000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 262_144,
}


class _Pending:
    """One append that is under way: counts down as deliveries are reported."""

    def __init__(self, count: int) -> None:
        self.places: list[tuple[int, int]] = [(-1, -1)] * count
        self.failed: KafkaError | None = None
        self.failed_topic = ""
        self._left = count
        self._lock = threading.Lock()
        self.done = threading.Event()
        if not count:
            self.done.set()

    def report(self, index: int, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.places[index] = (message.partition(), message.offset())
        elif self.failed is None:
            self.failed, self.failed_topic = error, message.topic()
        self.finish(1)

    def finish(self, count: int) -> None:
        with self._lock:
            self._left -= count
            if self._left <= 0:
                self.done.set()


class Appender:
    """Safe to use from several threads. ``ended``: a fatal error has ended it; a new one must replace it."""

    def __init__(self, common: dict[str, Any], logger: logging.Logger) -> None:
        self._brokers = common["bootstrap.servers"]
        self._logger = logger
        self.producer = Producer(common | _CONFIG | {"error_cb": self._heed}, logger=logger)
        self.ended = False
        self._closed = False
        self._sending = threading.Event()
        """Set when something has been given to the producer, or this is closed."""
        self._deliveries = threading.Thread(target=self._serve, name="wal-deliveries", daemon=True)
        self._deliveries.start()

    def _heed(self, error: KafkaError) -> None:
        if is_fatal(error) and not self.ended:
            self._logger.warning("append: this client cannot be used any more and is replaced: %s", error)
            self.ended = True

    def _serve(self) -> None:
        """Serve the producer's callbacks: deliveries as they come, all others once a second."""
        while not self._closed or len(self.producer):
            waiting = len(self.producer)
            try:
                self.producer.poll(0.2 if waiting else 0)
            except KafkaException as error:
                # poll raises a fatal error; deliveries of what was under way are still reported
                self._heed(error.args[0])
            if not waiting:
                self._sending.wait(1)
                self._sending.clear()

    def append(self, messages: Sequence[Message], timeout: float) -> list[tuple[int, int]]:
        """See :meth:`millrace_wal.record.Log.append`."""
        pending = _Pending(len(messages))
        until = time.monotonic() + timeout
        for index, message in enumerate(messages):
            self._produce(message, pending, index, until)
        if not pending.done.wait(max(until - time.monotonic(), 0)):
            raise MillraceError(
                ErrorCode.TIMEOUT,
                f"append: the broker at {self._brokers} did not confirm the messages within {timeout:g} s",
            )
        if pending.failed is not None:
            self._heed(pending.failed)
            raise kafka_error(pending.failed, f"append to topic {pending.failed_topic}")
        return pending.places

    def _produce(self, message: Message, pending: _Pending, index: int, until: float) -> None:
        def on_delivery(error: KafkaError | None, delivered: Any) -> None:
            pending.report(index, error, delivered)

        headers = {TRACEPARENT: message.traceparent} if message.traceparent else None
        while True:
            try:
                self.producer.produce(
                    message.topic, message.value, message.key, on_delivery=on_delivery, headers=headers
                )
                if not self._sending.is_set():
                    self._sending.set()
                return
            except BufferError as error:
                # the queue is full; the thread of deliveries empties it
                if time.monotonic() > until:
                    raise MillraceError(
                        ErrorCode.TIMEOUT,
                        f"append: the broker at {self._brokers} does not accept any more messages",
                    ) from error
                time.sleep(0.005)
            except KafkaException as error:
                self._heed(error.args[0])
                raise kafka_error(error, f"append to topic {message.topic}") from error

    def close(self) -> None:
        """Wait a little for messages in flight; callers that wait for the others get an error."""
        if self._closed:
            return
        with suppress(KafkaException):  # flush raises a fatal error
            self.producer.flush(0 if self.ended else 5)
        self.producer.purge()
        self._closed = True
        self._sending.set()
        if threading.current_thread() is not self._deliveries:
            self._deliveries.join(5)

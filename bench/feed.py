"""A producer outside, as anyone would write one: fast for filling topics, prompt for a steady load."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Producer

from bench.stage import BenchError

_COMMON: dict[str, Any] = {"acks": "all", "enable.idempotence": True, "partitioner": "murmur2_random"}
_FAST: dict[str, Any] = {
    "linger.ms": 20,
    "batch.size": 1_000_000,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 262_144,
}
ARROW_HEADERS = [("content-type", b"application/vnd.apache.arrow.stream")]
"""What a producer sets on a value in Arrow; Millrace goes by the value itself."""
_PROMPT: dict[str, Any] = {"linger.ms": 0, "socket.nagle.disable": True}


class Feed:
    """Writes messages; :meth:`done` waits until all are there."""

    def __init__(self, broker: str, prompt: bool = False) -> None:
        settings = _COMMON | (_PROMPT if prompt else _FAST)
        self._producer = Producer({"bootstrap.servers": broker} | settings)
        self._failed: list[str] = []

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(str(error))

    def write(
        self, topic: str, key: str, value: bytes, headers: list[tuple[str, bytes]] | None = None
    ) -> None:
        """Queues one message; waits while the queue is full."""
        headers = ARROW_HEADERS if headers is None and value[:1] == b"\xff" else headers
        while True:
            try:
                self._producer.produce(topic, value, key, headers=headers, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.1)

    def serve(self) -> None:
        """Takes in delivery reports."""
        self._producer.poll(0)

    def done(self, seconds: float = 300) -> None:
        """:raises BenchError: unless all messages were written."""
        left = self._producer.flush(seconds)
        if left or self._failed:
            raise BenchError(f"{left + len(self._failed)} messages were not written: {self._failed[:1]}")

    def fill(self, topic: str, tables: int, values: Iterable[bytes]) -> float:
        """Each value once for every table; the seconds that it took."""
        began = time.monotonic()
        keys = [f"d{number}" for number in range(tables)]
        for value in values:
            for key in keys:
                self.write(topic, key, value)
            self.serve()
        self.done()
        return time.monotonic() - began

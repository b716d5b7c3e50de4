"""Rows written through Kafka, as any outside producer would write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from millrace_core.wire.topics import wal_topic

SECONDS = 30.0


class ToProduce(NamedTuple):
    """A message: the topic of the super table (for a normal table: its own), the table's name, JSON."""

    topic: str
    key: str
    value: str


def message(db: str, stable: str | None, table: str, rows: Sequence[Mapping[str, Any]]) -> ToProduce:
    """One row as an object, several as an array of objects."""
    data = dict(rows[0]) if len(rows) == 1 else [dict(row) for row in rows]
    return ToProduce(wal_topic(db, stable or table), table, json.dumps(data, ensure_ascii=False))


def produce(broker: Mapping[str, str], what: ToProduce) -> None:
    """Writes the message and waits until it is in Kafka. ``broker``: its address and login, as settings of
    the Kafka client. :raises KafkaException: if it is not written within 30 s."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            **broker,
            "acks": "all",
            "message.timeout.ms": int(SECONDS * 1000),
            # the hash of Java's clients: all writers of a table must choose the same partition
            "partitioner": "murmur2_random",
        }
    )
    producer.produce(what.topic, key=what.key, value=what.value.encode(), on_delivery=delivered)
    left = producer.flush(SECONDS + 1)
    if failures:
        raise KafkaException(failures[0])
    if left:
        raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT))

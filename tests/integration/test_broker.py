"""The embedded broker: a real Kafka that keeps its topics over a restart and takes one sentence to refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from millrace.broker import Broker
from millrace.java import Java
from millrace.processes import RunFolder, free_port, kill
from millrace_core.errors import MillraceError

pytestmark = pytest.mark.java


def _read_one(address: str, topic: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(15)
        assert message is not None
        assert message.error() is None
        value: bytes | None = message.value()
        return value
    finally:
        consumer.close()


def test_topics_outlive_a_kill_and_a_stop(java: Java, jars: Path, tmp_path: Path) -> None:
    broker = Broker(java, jars, tmp_path, free_port())
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(15)
        producer = Producer({"bootstrap.servers": broker.address, "acks": "all", "log_level": 0})
        producer.produce("kept", value=b"a row", key=b"a table")
        assert producer.flush(15) == 0
        kill(RunFolder(tmp_path), "broker")
        assert not broker.answers()
        broker.start()
        broker.stop()
        broker.start()
        assert _read_one(broker.address, "kept") == b"a row"
    finally:
        broker.stop()
    assert not broker.answers()


def test_a_taken_port_is_refused_in_one_sentence(java: Java, jars: Path, broker: str, tmp_path: Path) -> None:
    second = Broker(java, jars, tmp_path, int(broker.rsplit(":", 1)[1]))
    with pytest.raises(MillraceError, match=r"port \d+ of the broker is in use"):
        second.start()
    assert not (tmp_path / "run").exists()

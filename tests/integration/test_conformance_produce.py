"""The conformance runner's producer against a real broker: what it writes is a WAL message of the table."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaException

from millrace_conformance import producer
from millrace_wal import BEGIN, KafkaLog, Message

pytestmark = pytest.mark.java


def test_rows_are_written_where_the_services_read_them(broker: str) -> None:
    rows = [{"ts": 1, "v": 1.5}, {"ts": 2, "v": None}]
    with KafkaLog(broker, "test") as log:
        log.ensure_topics([("wal.cproduce.meters", 4)])
        for part in (rows, rows[:1]):
            message = producer.message("cproduce", "meters", "d1", part)
            producer.produce({"bootstrap.servers": broker}, message)
        reader = log.reader({"wal.cproduce.meters": dict.fromkeys(range(4), BEGIN)})
        found = []
        while len(found) < 2 and (records := reader.poll(10)):
            found += records
        reader.close()
        # a table's messages lie in one partition, that of the project's own writers
        (place,) = log.append([Message("wal.cproduce.meters", b"d1", b"[]")])
    assert [(one.key, json.loads(one.value or b"")) for one in found] == [(b"d1", rows), (b"d1", rows[0])]
    assert {one.partition for one in found} == {place[0]}


def test_a_topic_that_is_not_there(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "SECONDS", 3.0)
    with pytest.raises(KafkaException):
        producer.produce({"bootstrap.servers": broker}, producer.message("cnowhere", None, "t", [{"ts": 1}]))

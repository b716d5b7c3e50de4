"""Clients of Kafka that a fatal error has ended, on librdkafka's own mock of a broker: no Java is needed. The
same is asked of a real broker, and of the log in memory, by ``millrace_wal.contract.groups``."""

from __future__ import annotations

import ctypes
import logging
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, Producer

from millrace_core.errors import ErrorCode, MillraceError
from millrace_wal import Message
from millrace_wal.contract.log import read
from millrace_wal.kafka import reader as kafka_reader
from millrace_wal.kafka.errors import Strikes
from millrace_wal.kafka.producer import Appender
from millrace_wal.kafka.reader import KafkaGroupReader, KafkaReader

LOGGER = logging.getLogger("test")
TOPIC = "t"


@pytest.fixture(scope="module")
def common() -> Iterator[dict[str, Any]]:
    """How a client reaches a mock of one broker, with three records in partition 0 of a topic."""
    mock = Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
    library = librdkafka()
    library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
    cluster = ctypes.c_void_p(library.rd_kafka_handle_mock_cluster(handle(mock)))
    # it would wait three seconds for more members of a group
    library.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 50)
    (broker,) = mock.list_topics(timeout=10).brokers.values()
    for number in range(3):
        mock.produce(TOPIC, b"%d" % number, partition=0)
    assert mock.flush(10) == 0
    yield {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0}


def librdkafka() -> ctypes.CDLL:
    folder = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    return ctypes.CDLL(str(next(folder.glob("librdkafka*"))))


def handle(client: object) -> ctypes.c_void_p:
    """The extension's objects begin with Python's two words, then comes librdkafka's handle."""
    return ctypes.c_void_p.from_address(id(client) + 2 * ctypes.sizeof(ctypes.c_void_p))


def end(client: object) -> None:
    """By librdkafka's own means for tests: it does all that a fatal error from the broker does."""
    fatal = librdkafka().rd_kafka_test_fatal_error
    fatal.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
    assert fatal(handle(client), KafkaError.FENCED_INSTANCE_ID, b"a test") == 0


def cores(seconds: float) -> float:
    """What this process takes, on average."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    time.sleep(seconds)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) / seconds


def test_a_member_comes_back_where_commits_stand_and_what_was_before_it_rests(
    common: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # the group goes on without the member that has ended when its session is over
    monkeypatch.setattr(kafka_reader, "SESSION_MS", 1_000)
    reader = KafkaGroupReader(common, "g", [TOPIC], LOGGER)
    assert [record.value for record in read(reader, 3)] == [b"0", b"1", b"2"]
    reader.commit({(TOPIC, 0): 1})
    end(reader._client.consumer)  # not kept: it leaves when it is freed
    assert [record.value for record in read(reader, 2, 30)] == [b"1", b"2"]
    assert cores(1) < 0.5
    reader.close()


def test_a_member_that_does_not_find_its_coordinator_is_followed(
    common: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = KafkaGroupReader(common, "lost", [TOPIC], LOGGER)
    assert len(read(reader, 3)) == 3
    first = reader._client.consumer
    now = [0.0]
    reader._coordinator = Strikes(10, lambda: now[0])
    up, down = '{"b": {"state": "UP"}}', '{"b": {"state": "CONNECT"}}'
    said = '{"cgrp": {"state": "%s"}, "brokers": %s}'
    for seconds, state, brokers in ((0, "wait-coord", down), (20, "wait-coord", up), (25, "wait-coord", up)):
        now[0] = seconds
        reader._see(said % (state, brokers))
    reader._see(said % ("up", up))
    now[0] = 40
    reader._see(said % ("wait-coord", up))
    reader.poll(0)
    assert reader._client.consumer is first, "it was found in between, or no broker was reached"
    now[0] = 51
    reader._see(said % ("wait-coord", up))
    reader.poll(0)
    assert reader._client.consumer is not first
    reader.close()


def test_a_reader_of_partitions_goes_on_where_it_stands(common: dict[str, Any]) -> None:
    reader = KafkaReader(common, {TOPIC: {0: 0}}, LOGGER, lambda _, positions: dict(positions))
    assert [record.value for record in read(reader, 3)] == [b"0", b"1", b"2"]
    reader.add(TOPIC, {0: 1})
    first = reader._client.consumer
    end(first)
    assert [record.value for record in read(reader, 2)] == [b"1", b"2"]
    assert reader._client.consumer is not first
    reader.close()


def test_an_appender_that_has_ended_says_so_and_refuses(common: dict[str, Any]) -> None:
    appender = Appender(common, LOGGER)
    (place,) = appender.append([Message("other", b"k", b"1")], 10)
    end(appender.producer)
    with pytest.raises(MillraceError) as caught:
        appender.append([Message("other", b"k", b"2")], 10)
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert appender.ended
    assert appender._deliveries.is_alive(), "others wait for what was under way"
    appender.close()
    assert not appender._deliveries.is_alive()
    following = Appender(common, LOGGER)
    assert following.append([Message("other", b"k", b"2")], 10) == [(place[0], place[1] + 1)]
    following.close()


def test_a_reader_whose_client_hears_nothing_of_a_topic_goes_on_by_a_new_one(
    common: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace_wal.kafka.silence.SILENT", 0.0)
    ends: dict[str, dict[int, int]] = {TOPIC: {0: 3}}
    reader = KafkaReader(
        common, {TOPIC: {0: 3}}, LOGGER, lambda _, positions: dict(positions), ends=lambda _: ends
    )
    first = reader._client.consumer
    for _ in range(3):
        assert reader.poll(0) == []
    assert reader._client.consumer is first
    ends[TOPIC] = {0: 4}
    assert reader.poll(0) == []
    assert reader._client.consumer is first, "it may be on its way"
    assert reader.poll(0) == []
    assert reader._client.consumer is not first
    assert reader.positions() == {TOPIC: {0: 3}}
    reader.add(TOPIC, {0: 0})
    ends[TOPIC] = {0: 3}
    assert [record.value for record in read(reader, 3)] == [b"0", b"1", b"2"]
    reader.close()

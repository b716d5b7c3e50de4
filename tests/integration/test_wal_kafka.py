"""The log on Kafka keeps the contract of every log; and what only a real broker can do."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from millrace.broker import Broker
from millrace.java import Java
from millrace.processes import RunFolder, free_port, kill, running
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire.topics import Topic
from millrace_wal import GroupReader, KafkaLog, Log, Message, Reader, Record, replay
from millrace_wal.contract.groups import EndClient, GroupContract
from millrace_wal.contract.log import LogContract, fresh, read, until
from millrace_wal.contract.trim import TrimContract
from millrace_wal.kafka import growing_reader
from millrace_wal.kafka.client import BATCH_BYTES
from millrace_wal.kafka.growing_reader import GrowingReader
from millrace_wal.kafka.reader import SESSION_MS

pytestmark = pytest.mark.java


@pytest.fixture
def log(broker: str) -> Iterator[KafkaLog]:
    with KafkaLog(broker, "test") as log:
        yield log


class TestKafkaLog(LogContract):
    pass


class TestKafkaTrim(TrimContract):
    pass


def test_how_long_a_topic_keeps_records_follows_its_definition(log: KafkaLog) -> None:
    name = fresh("kept")
    log.ensure_topics([Topic(name, "k", "v", retention_ms=60_000)])
    for _ in range(2):
        log.ensure_topics([Topic(name, "k", "v", retention_ms=-1)])
    (settings,) = log._admin.client.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
    assert settings.result(10)["retention.ms"].value == "-1"


class TestKafkaGroups(GroupContract):
    @pytest.fixture
    def end_client(self) -> EndClient:
        """By librdkafka's own means for tests: it does all that a fatal error from the broker does."""
        library = ctypes.CDLL(next(str(path) for path in Path(confluent_kafka.__file__).parent.with_name(
            "confluent_kafka.libs").glob("librdkafka*")))  # fmt: skip
        end = library.rd_kafka_test_fatal_error
        end.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)

        def end_client(what: Log | Reader | GroupReader) -> None:
            match what:
                case KafkaLog():
                    client: object = what._appender.producer
                case GrowingReader():
                    client = what._often._client.consumer
                case _:
                    client = what._client.consumer  # type: ignore[union-attr]
            # the extension's objects begin with Python's two words, then comes librdkafka's handle
            handle = ctypes.c_void_p.from_address(id(client) + 2 * ctypes.sizeof(ctypes.c_void_p)).value
            assert end(handle, KafkaError.FENCED_INSTANCE_ID, b"a test") == 0

        return end_client


KILLED = """
import sys, time
from millrace_wal import KafkaLog
reader = KafkaLog(sys.argv[1], "killed").subscribe(sys.argv[2], [sys.argv[3]])
while not reader.poll(0.2):
    pass
print("reads", flush=True)
while True:
    reader.poll(1)
"""


def test_a_member_that_was_killed_keeps_its_partitions_no_longer_than_its_session(
    broker: str, log: KafkaLog
) -> None:
    name, group = fresh("killed"), fresh("group")
    log.ensure_topics([(name, 1)])
    log.append([Message(name, b"k", b"1")])
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, broker, group, name], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"reads\n"
        other.kill()
    began = time.monotonic()
    with log.subscribe(group, [name]) as reader:
        assert [record.value for record in read(reader, 1, 60)] == [b"1"]
    assert time.monotonic() - began < 2 * SESSION_MS / 1000


def _config(broker: str, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": broker})
    found = admin.describe_configs([resource])[resource].result(15)
    return {name: entry.value for name, entry in found.items()}


def test_topics_are_kept_as_their_table_says(broker: str, log: KafkaLog) -> None:
    compacted, days, ever = fresh("compacted"), fresh("days"), fresh("ever")
    a_day = Topic(days, "k", "v", retention_ms=86_400_000)
    log.ensure_topics([Topic(compacted, "k", "v", 2, compacted=True), a_day, (ever, 1)])
    assert _config(broker, compacted)["cleanup.policy"] == "compact"
    assert _config(broker, days)["cleanup.policy"] == "delete"
    assert _config(broker, days)["retention.ms"] == "86400000"
    assert _config(broker, ever)["retention.ms"] == "-1"
    assert int(_config(broker, ever)["max.message.bytes"]) > 8 * 1024 * 1024


def test_many_messages_are_appended_fast(log: KafkaLog) -> None:
    name = fresh("fast")
    log.ensure_topics([(name, 4)])
    messages = [Message(name, b"d%d" % (i % 100), b'{"ts":%d,"v":1.5}' % i) for i in range(20_000)]
    log.append(messages[:10])
    start = time.monotonic()
    places = log.append(messages)
    took = time.monotonic() - start
    assert len(set(places)) == 20_000
    # a guard against sending one by one, not a benchmark: that would take about a minute
    assert took < 10


def test_long_messages_come_few_at_a_time(log: KafkaLog) -> None:
    """A batch of as many as were asked for would be in memory together."""
    topic = fresh("long")
    log.ensure_topics([(topic, 1)])
    sent = [Message(topic, b"k", b"%d" % number * 250_000) for number in range(100, 140)]
    log.append(sent)
    reader = log.reader({topic: {0: 0}})
    batches = [reader.poll(15, 1)]  # tells how long they are

    def all_came() -> bool:
        batches.append(reader.poll(1, 10_000))
        return sum(map(len, batches)) == len(sent)

    assert until(all_came)
    reader.close()
    assert [one.value for part in batches for one in part] == [one.value for one in sent]
    assert max(sum(len(one.value or b"") for one in part) for part in batches) <= BATCH_BYTES


def test_no_broker_is_an_error_in_time() -> None:
    with KafkaLog(f"127.0.0.1:{free_port()}", "test") as log:
        start = time.monotonic()
        with pytest.raises(MillraceError) as caught:
            log.append([Message("t", b"k", b"v")], timeout=0.5)
        assert caught.value.code is ErrorCode.TIMEOUT
        assert time.monotonic() - start < 5
        reader = log.reader({"t": {0: 0}})
        assert reader.poll(0.2) == []
        reader.close()


def test_no_broker_makes_questions_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace_wal.kafka.log._ASK", 0.5)
    with KafkaLog(f"127.0.0.1:{free_port()}", "test") as log:
        for ask in (log.topics, lambda: log.end_offsets("t"), lambda: log.ensure_topics([("t", 1)])):
            with pytest.raises(MillraceError, match="cannot be reached") as caught:
                ask()
            assert caught.value.code is ErrorCode.UNAVAILABLE


def test_transactions_of_other_producers_do_not_hide_the_end(broker: str, log: KafkaLog) -> None:
    name = fresh("transactions")
    log.ensure_topics([(name, 1)])
    producer = Producer({"bootstrap.servers": broker, "transactional.id": name})
    producer.init_transactions(30)
    for number, finish in enumerate((producer.commit_transaction, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(name, value=b"%d" % number)
        producer.flush(30)
        finish(30)
    # two records and two markers (written behind the answer); the aborted record is never seen
    assert until(lambda: log.end_offsets(name) == {0: 4})
    reader = log.reader({name: {0: 0}}, grows=True)
    assert [r.value for r in read(reader, 1)] == [b"0"]
    reader.poll(1)
    assert reader.positions() == {name: {0: 4}}
    reader.close()
    assert [r.value for r in replay(log, name)] == [b"0"]


def test_topics_that_are_read_apart_come_once_and_in_order(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing_reader, "MANY", 2)
    monkeypatch.setattr(growing_reader, "SORTED_EVERY", 0.5)
    names = [fresh(f"apart{number}") for number in range(6)]
    log.ensure_topics([(name, 1) for name in names])
    reader = log.reader({name: {0: 0} for name in names}, grows=True)
    found: dict[str, list[int]] = {name: [] for name in names}

    def take(timeout: float) -> None:
        for record in reader.poll(timeout):
            found[record.topic].append(int(record.value or b""))

    for number in range(400):
        # the first all the time, the others by turns: each of them joins the often read ones and leaves them
        busy = names[1 + number // 80 % 5]
        log.append([Message(name, b"k", b"%d" % number) for name in (names[0], busy)])
        take(0.01)
    ends = {name: log.end_offsets(name) for name in names}

    def all_taken() -> bool:
        take(0.1)
        return reader.positions() == ends

    assert until(all_taken)
    reader.close()
    expected = {name: [n for n in range(400) if names[1 + n // 80 % 5] == name] for name in names[1:]}
    assert found == {names[0]: list(range(400)), **expected}


def _taken(log: KafkaLog) -> list[Record]:
    """What a member of the group is given; it commits that."""
    with log.subscribe("g", ["t"]) as member:
        found = read(member, 1, 3)
        member.commit({("t", 0): 2})
        return found


def test_everything_goes_on_after_the_broker_was_killed(java: Java, jars: Path, tmp_path: Path) -> None:
    broker = Broker(java, jars, tmp_path, free_port())
    broker.start()
    try:
        with KafkaLog(broker.address, "test") as log:
            log.ensure_topics([("t", 1)])
            reader, member = log.reader({"t": {0: 0}}), log.subscribe("g", ["t"])
            log.append([Message("t", b"k", b"1")])
            assert len(read(reader, 1)) == len(read(member, 1)) == 1
            member.commit({("t", 0): 1})
            kill(RunFolder(tmp_path), "broker")
            assert reader.poll(0.5) == member.poll(0.5) == []
            with pytest.raises(MillraceError) as caught:
                log.end_offsets("t")
            assert caught.value.code is ErrorCode.UNAVAILABLE
            broker.start()
            assert log.append([Message("t", b"k", b"2")]) == [(0, 1)]
            assert [r.value for r in read(reader, 1)] == [b"2"]
            assert b"2" in [r.value for r in read(member, 1, 60)]
            member.close()
            reader.close()
            # a commit is passed over if the group was formed anew; what was not committed comes again
            assert until(lambda: not _taken(log), 60)
    finally:
        broker.stop()


def test_offsets_are_told_after_the_broker_stood_still(java: Java, jars: Path, tmp_path: Path) -> None:
    """Longer than its session lasts: its partitions get a new leader's epoch."""
    broker = Broker(java, jars, tmp_path, free_port())
    broker.start()
    try:
        with KafkaLog(broker.address, "test") as log:
            log.ensure_topics([("t", 1)])
            assert log.end_offsets("t") == {0: 0}
            process = running(RunFolder(tmp_path), "broker")
            assert process is not None
            process.suspend()
            time.sleep(20)
            process.resume()
            time.sleep(10)
            assert log.end_offsets("t") == {0: 0}
    finally:
        broker.stop()

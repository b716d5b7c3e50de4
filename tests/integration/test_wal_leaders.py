"""Topics that are deleted and made again behind the back of clients that know their leaders of before.

A broker that was killed leads by a higher epoch afterwards; a topic that is made again begins with the
lowest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.broker import Broker
from millrace.java import Java
from millrace.processes import RunFolder, free_port, kill
from millrace_wal import KafkaLog, Reader, replay
from millrace_wal.contract.log import fresh, numbers, read, until, values

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("leaders")


@pytest.fixture(scope="module")
def broker(java: Java, jars: Path, place: Path) -> Iterator[Broker]:
    one = Broker(java, jars, place, free_port())
    one.start()
    try:
        yield one
    finally:
        one.stop()


def killed_and_started(broker: Broker, place: Path) -> None:
    kill(RunFolder(place), "broker")
    assert until(lambda: not broker.answers())
    broker.start()


def made_again(broker: Broker, names: list[str]) -> None:
    """By another client, as another service does it."""
    with KafkaLog(broker.address, "other") as other:
        other.delete_topics(names)
        other.ensure_topics([(name, 1) for name in names])


@pytest.mark.parametrize("grows", [False, True])
def test_a_topic_that_was_made_again_is_read_and_its_offsets_are_told(
    broker: Broker, place: Path, grows: bool
) -> None:
    name, kept = fresh("again"), fresh("kept")
    with KafkaLog(broker.address, "test") as log:
        log.ensure_topics([(name, 1), (kept, 1)])
        log.append(numbers(name, 0, 2) + numbers(kept, 0, 1))
        reader: Reader = log.reader({name: {0: 0}, kept: {0: 0}}, grows=grows)
        assert len(read(reader, 3)) == 3
        for _ in range(2):
            killed_and_started(broker, place)
            log.append(numbers(name, 2, 3))
            assert values(read(reader, 1, 60)) == [b"2"]
            assert log.begin_offsets(name) == {0: 0}
            assert log.ends_of([name]) == {name: log.end_offsets(name)}
        made_again(broker, [name])
        log.append(numbers(name, 0, 9))
        log.append(numbers(kept, 1, 2))
        assert log.ends_of([name]) == {name: {0: 9}}
        assert log.end_offsets(name) == {0: 9}
        assert log.begin_offsets(name) == {0: 0}
        assert log.offsets_at(name, 0) == {0: 0}
        found = read(reader, 6, 30)
        assert sorted((r.topic, r.value) for r in found)[-1] == (kept, b"1")
        assert reader.positions()[name] == {0: 9}
        assert len(list(replay(log, name))) == 9
        reader.close()

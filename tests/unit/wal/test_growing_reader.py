"""Topics are read apart by how often they bring something; nobody can tell."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_wal import MemoryLog, Message, Reader
from millrace_wal.kafka.growing_reader import MANY, OFTEN, SELDOM, SORTED_EVERY, GrowingReader
from millrace_wal.memory import MemoryReader

from ...conftest import examples

TOPICS = [f"t{number}" for number in range(MANY + 1)]


class Reading:
    """A log of many topics, a reader that reads some apart, and the readers that this one made."""

    def __init__(self) -> None:
        self.log, self.made, self.grows, self.now = MemoryLog(), list[Reader](), list[bool](), 0.0
        self.log.ensure_topics([(topic, 1) for topic in TOPICS])
        self.reader = GrowingReader(self._make, {topic: {0: 0} for topic in TOPICS}, lambda: self.now)
        self.written: dict[str, int] = {}

    def _make(self, positions: Mapping[str, Mapping[int, int]], grows: bool) -> Reader:
        self.grows.append(grows)
        self.made.append(MemoryReader(self.log, positions))
        return self.made[-1]

    def write(self, topic: str) -> None:
        self.written[topic] = self.written.get(topic, 0) + 1
        self.log.append([Message(topic, b"k", b"%d" % self.written[topic])])

    def read(self) -> list[tuple[str, int]]:
        return [(record.topic, int(record.value or b"")) for record in self.reader.poll(0)]

    def sort(self) -> None:
        self.now += SORTED_EVERY + 1
        assert self.read() == []

    def apart(self) -> set[str]:
        return set(self.made[1].positions()) if len(self.made) > 1 else set()


def test_what_seldom_brings_something_is_read_apart() -> None:
    one = Reading()
    for _ in range(OFTEN):
        one.write("t1")
        assert one.read() == [("t1", one.written["t1"])]
    one.write("t2")
    assert one.read() == [("t2", 1)]
    one.sort()
    assert one.apart() == set(TOPICS) - {"t1"}
    one.write("t1")
    one.write("t2")
    assert sorted(one.read()) == [("t1", OFTEN + 1), ("t2", 2)]
    for _ in range(OFTEN):
        one.write("t3")
        one.read()
    one.sort()
    assert one.apart() == set(TOPICS) - {"t3"}, "and the other way round"


def test_few_topics_are_read_together() -> None:
    one = Reading()
    one.reader.remove(TOPICS[-1])
    one.sort()
    assert len([reader for reader in one.made if reader.positions()]) == 1


def test_fetches_wait_longer_when_no_topic_has_come_for_a_while() -> None:
    one = Reading()
    one.reader.remove(TOPICS[-1])
    growing = one.made[0]
    one.write("t1")
    assert one.read() == [("t1", 1)]
    assert one.grows == [True]
    one.sort()
    grown = one.made[1]
    assert one.grows == [True, False]
    assert (len(growing.positions()), len(grown.positions())) == (0, MANY)
    one.write("t1")
    assert one.read() == [("t1", 2)]
    one.reader.add(TOPICS[-1], {0: 0})
    assert (len(growing.positions()), len(grown.positions())) == (MANY + 1, 0), "none waits for a fetch"
    one.write("t1")
    one.write(TOPICS[-1])
    assert sorted(one.read()) == [("t1", 3), (TOPICS[-1], 1)]


def test_neither_often_nor_seldom_stays_where_it_is() -> None:
    one = Reading()
    for _ in range(SELDOM + 1):
        one.write("t1")
        one.read()
    one.sort()
    assert "t1" not in one.apart()


steps = st.lists(st.sampled_from(["t1", "t2", "t3", "read", "sort", "leave t2", "again t2"]), max_size=60)


@settings(max_examples=examples(100))
@given(steps, st.booleans())
def test_each_record_comes_once_and_in_order(some: list[str], few: bool) -> None:
    one = Reading()
    found: dict[str, list[int]] = {}
    expected: dict[str, list[int]] = {}
    reading = set(TOPICS)
    if few:
        for topic in TOPICS[4:]:
            one.reader.remove(topic)
            reading.discard(topic)

    def read() -> None:
        for topic, number in one.read():
            found.setdefault(topic, []).append(number)

    for step in some:
        match step.split():
            case ["read"]:
                read()
            case ["sort"]:
                one.now += SORTED_EVERY + 1
                read()
            case ["leave", topic]:
                read()
                one.reader.remove(topic)
                reading.discard(topic)
            case ["again", topic]:
                read()
                one.reader.add(topic, {0: 0})
                reading.add(topic)
                expected.setdefault(topic, []).extend(range(1, one.written.get(topic, 0) + 1))
            case [topic]:
                one.write(topic)
                if topic in reading:
                    expected.setdefault(topic, []).append(one.written[topic])
    read()
    assert found == {topic: numbers for topic, numbers in expected.items() if numbers}
    assert one.reader.positions() == {topic: {0: one.written.get(topic, 0)} for topic in reading}

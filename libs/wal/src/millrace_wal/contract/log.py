"""Tests of what every log must do. A test module subclasses :class:`LogContract` with a fixture ``log``;
nothing else imports this (it needs pytest). ``contract.groups`` has the tests of members of groups."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import ClassVar

import pytest

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire.topics import Topic
from millrace_wal.record import (
    BEGIN,
    END,
    MAX_MESSAGE_BYTES,
    GroupReader,
    Log,
    Message,
    Reader,
    Record,
    Stretch,
)
from millrace_wal.replay import replay

_names = itertools.count()
_START = f"{time.time_ns():x}"


def fresh(stem: str) -> str:
    """A name that no other test uses."""
    return f"{stem}.{_START}.{next(_names)}"


def topic(log: Log, partitions: int = 1) -> str:
    name = fresh("contract")
    log.ensure_topics([(name, partitions)])
    return name


def read(reader: Reader | GroupReader, count: int, within: float = 15) -> list[Record]:
    """Poll until ``count`` records came; fewer when time is up."""
    records: list[Record] = []
    until = time.monotonic() + within
    while len(records) < count and time.monotonic() < until:
        records += reader.poll(min(0.2, within))
    return records


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def _stretches(reader: Reader | GroupReader, count: int, within: float = 15) -> list[Stretch]:
    """As :func:`read`, in columns."""
    found: list[Stretch] = []
    end = time.monotonic() + within
    while sum(map(len, found)) < count and time.monotonic() < end:
        found += reader.stretches(0.2)
    return found


def traced(stretches: list[Stretch]) -> dict[int, str]:
    """Offset -> header, for the messages that have one."""
    return {some.offsets[at]: one for some in stretches for at, one in some.traceparents.items()}


def _took(reader: Reader, found: list[Record], count: int) -> bool:
    """Polls in columns; returns whether that many have come."""
    for some in reader.stretches(0.2, 7):
        assert len(some) and some.end == some.offsets[-1] + 1
        middle = len(some) // 2
        found += some.part(0, middle).records() + some.part(middle, len(some)).records()
    return len(found) >= count


def until(condition: Callable[[], bool], within: float = 15) -> bool:
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def numbers(name: str, start: int, end: int, key: bytes | None = b"k") -> list[Message]:
    return [Message(name, key, b"%d" % i) for i in range(start, end)]


class Paced:
    """Waiting for what must not come, or for a reader to find that nothing comes, takes this many seconds
    times ``pace``: a broker needs that time, while a log in memory returns what it has at once."""

    pace: ClassVar[float] = 1


class LogContract(Paced):
    def test_what_is_appended_is_read_back(self, log: Log) -> None:
        name = topic(log)
        before = time.time_ns() // 1_000_000
        places = log.append([Message(name, b"a", b"1"), Message(name, None, b"2"), Message(name, b"a", None)])
        assert places == [(0, 0), (0, 1), (0, 2)]
        with log.reader({name: {0: BEGIN}}) as reader:  # type: ignore[attr-defined]
            records = read(reader, 3)
        assert [r[:3] for r in records] == [(name, 0, 0), (name, 0, 1), (name, 0, 2)]
        assert [(r.key, r.value) for r in records] == [(b"a", b"1"), (None, b"2"), (b"a", None)]
        assert all(before - 1000 <= r.timestamp <= time.time_ns() // 1_000_000 + 1000 for r in records)

    def test_a_message_that_is_traced_carries_its_header(self, log: Log) -> None:
        name, header = topic(log), f"00-{1:032x}-{2:016x}-01"
        log.append([*numbers(name, 0, 3), Message(name, b"k", b"3", header), *numbers(name, 4, 6)])
        with log.reader({name: {0: BEGIN}}) as reader:  # type: ignore[attr-defined]
            found = _stretches(reader, 6)
            assert traced(found) == {3: header}
            parts = [part for some in found for part in (some.part(0, 2), some.part(2, len(some)))]
            assert traced(parts) == {3: header}
            log.append(numbers(name, 6, 7))
            assert traced(_stretches(reader, 1)) == {}

    def test_a_reader_that_gathers_returns_all_that_comes_in_its_order(self, log: Log) -> None:
        name = topic(log)
        with log.reader({name: {0: BEGIN}}, gathers=True) as reader:  # type: ignore[attr-defined]
            for burst in range(5):
                log.append(numbers(name, 20 * burst, 20 * burst + 1))
                log.append(numbers(name, 20 * burst + 1, 20 * burst + 20))
                got = read(reader, 20)
                assert values(got) == [b"%d" % i for i in range(20 * burst, 20 * burst + 20)]
                assert reader.positions() == {name: {0: 20 * burst + 20}}

    def test_nothing_appended_is_nothing_done(self, log: Log) -> None:
        assert log.append([]) == []

    def test_a_key_stays_in_its_partition_in_order(self, log: Log) -> None:
        name = topic(log, 4)
        messages = [Message(name, b"device-%d" % (i % 10), b"%d" % i) for i in range(1000)]
        places = log.append(messages)
        of_key = {
            m.key: {p for n, (p, _) in zip(messages, places, strict=True) if n.key == m.key} for m in messages
        }
        assert all(len(found) == 1 for found in of_key.values())
        assert len({p for found in of_key.values() for p in found}) > 1
        reader = log.reader({name: dict.fromkeys(range(4), BEGIN)})
        records = read(reader, 1000)
        reader.close()
        for key in of_key:
            assert values([r for r in records if r.key == key]) == [m.value for m in messages if m.key == key]

    @pytest.mark.parametrize(("key", "partition"), [(b"d1", 5), (b"meters-0001", 2), ("设备".encode(), 1)])
    def test_the_partition_of_a_key_is_that_of_javas_clients(
        self, log: Log, key: bytes, partition: int
    ) -> None:
        name = topic(log, 7)
        assert log.append([Message(name, key, b"x")]) == [(partition, 0)]

    def test_threads_append_side_by_side(self, log: Log) -> None:
        name = topic(log, 2)
        places: dict[int, list[tuple[int, int]]] = {}

        def work(number: int) -> None:
            places[number] = log.append(numbers(name, 0, 500, b"t%d" % number))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({place for found in places.values() for place in found}) == 2000
        assert sum(log.end_offsets(name).values()) == 2000
        for found in places.values():
            assert found == sorted(found)

    def test_a_missing_topic_is_an_error_that_names_it(self, log: Log) -> None:
        name = fresh("missing")
        for attempt in (
            lambda: log.append([Message(name, b"k", b"v")]),
            lambda: log.end_offsets(name),
            lambda: log.begin_offsets(name),
            lambda: log.reader({name: {0: END}}),
        ):
            with pytest.raises(MillraceError, match=name) as caught:
                attempt()
            assert caught.value.code is ErrorCode.UNAVAILABLE
        assert name not in log.topics()

    def test_a_message_too_large_is_refused_and_the_next_one_taken(self, log: Log) -> None:
        name = topic(log)
        with pytest.raises(MillraceError, match=name) as caught:
            log.append([Message(name, b"k", bytes(MAX_MESSAGE_BYTES))])
        assert caught.value.code is ErrorCode.TOO_LARGE
        assert log.append([Message(name, b"k", bytes(MAX_MESSAGE_BYTES - 1))]) == [(0, 0)]

    def test_topics_are_made_once_and_listed(self, log: Log) -> None:
        prefix = fresh("list") + "."
        log.ensure_topics([Topic(prefix + "b", "k", "v", 3, compacted=True), (prefix + "a", 2)])
        log.append([Message(prefix + "a", b"k", b"v")])
        log.ensure_topics([(prefix + "a", 5)])
        assert log.topics(prefix) == [prefix + "a", prefix + "b"]
        assert set(log.topics(prefix)) <= set(log.topics())
        assert set(log.end_offsets(prefix + "b")) == {0, 1, 2}
        assert sum(log.end_offsets(prefix + "a").values()) == 1
        assert len(log.end_offsets(prefix + "a")) == 2

    def test_a_deleted_topic_is_gone_and_begins_anew(self, log: Log) -> None:
        name = topic(log)
        log.append(numbers(name, 0, 3))
        log.delete_topics([name, fresh("missing")])
        assert log.topics(name) == []
        log.ensure_topics([(name, 1)])
        assert log.end_offsets(name) == {0: 0}
        assert log.append(numbers(name, 7, 8)) == [(0, 0)]
        assert values(list(replay(log, name))) == [b"7"]

    def test_an_emptied_topic_keeps_its_offsets(self, log: Log) -> None:
        name, other = topic(log), topic(log, 2)
        log.append(numbers(name, 0, 3))
        reader = log.reader({name: {0: 0}})
        assert values(read(reader, 3)) == [b"0", b"1", b"2"]
        log.empty_topics([name, other])
        assert log.begin_offsets(name) == log.end_offsets(name) == {0: 3}
        assert log.begin_offsets(other) == {0: 0, 1: 0}
        assert list(replay(log, name)) == []
        behind = log.reader({name: {0: 1}})
        assert log.append(numbers(name, 3, 5)) == [(0, 3), (0, 4)]
        assert values(read(reader, 2)) == values(read(behind, 2)) == [b"3", b"4"]
        assert values(list(replay(log, name))) == [b"3", b"4"]
        reader.close()
        behind.close()

    def test_a_topic_that_is_cut_keeps_what_it_has(self, log: Log) -> None:
        name = topic(log)
        log.append(numbers(name, 0, 3))
        for _ in range(2):
            log.cut_for({name: 60_000, fresh("missing"): 60_000})
        log.cut_for({})
        assert values(list(replay(log, name))) == [b"0", b"1", b"2"]

    def test_offsets_tell_begin_and_end(self, log: Log) -> None:
        name = topic(log, 2)
        assert log.begin_offsets(name) == log.end_offsets(name) == {0: 0, 1: 0}
        ((partition, _),) = log.append(numbers(name, 0, 1))
        log.append(numbers(name, 1, 5))
        assert log.begin_offsets(name) == {0: 0, 1: 0}
        assert log.end_offsets(name) == {partition: 5, 1 - partition: 0}

    def test_the_ends_of_many_topics_are_told_at_once(self, log: Log) -> None:
        first, second = topic(log, 2), topic(log)
        log.append(numbers(second, 0, 3))
        assert log.ends_of([first, second, fresh("missing")]) == {first: {0: 0, 1: 0}, second: {0: 3}}
        assert log.ends_of([]) == log.ends_of([fresh("missing")]) == {}

    def test_a_reader_starts_where_it_is_told(self, log: Log) -> None:
        name = topic(log)
        log.append(numbers(name, 0, 5))
        middle, last = log.reader({name: {0: 3}}), log.reader({name: {0: END}})
        assert values(read(middle, 2)) == [b"3", b"4"]
        assert last.poll(0.3) == []
        log.append(numbers(name, 5, 6))
        assert values(read(last, 1)) == values(read(middle, 1)) == [b"5"]
        middle.close()
        last.close()

    def test_a_reader_gives_no_more_than_the_limit(self, log: Log) -> None:
        name = topic(log)
        log.append(numbers(name, 0, 10))
        reader = log.reader({name: {0: 0}})
        assert until(lambda: values(reader.poll(0.2, 1)) == [b"0"])
        rest: list[Record] = []
        while len(rest) < 9:
            some = reader.poll(1, 4)
            assert 1 <= len(some) <= 4
            rest += some
        assert values(rest) == [b"%d" % i for i in range(1, 10)]
        reader.close()

    def test_a_reader_gives_in_columns_what_it_gives_one_by_one(self, log: Log) -> None:
        names = [topic(log, 2), topic(log, 2)]
        keys = [b"a", b"b", b"c", None]
        for begin in range(0, 40, 8):
            log.append([Message(names[i // 4 % 2], keys[i % 4], b"%d" % i) for i in range(begin, begin + 8)])
        places = {name: {0: 0, 1: 0} for name in names}
        alone, together = log.reader(places), log.reader(places, grows=True)
        one_by_one, in_columns = read(alone, 40), list[Record]()
        assert until(lambda: _took(together, in_columns, 40))
        in_columns += together.poll(0.1 * self.pace)
        order = [record[:3] for record in in_columns]
        assert sorted(order, key=lambda place: place[:2]) == sorted(order), "in order in each partition"
        assert sorted(in_columns, key=lambda r: r[:3]) == sorted(one_by_one, key=lambda r: r[:3])
        assert together.positions() == alone.positions() == log.ends_of(names)
        alone.close()
        together.close()

    def test_a_record_comes_out_long_before_the_timeout(self, log: Log) -> None:
        name = topic(log)
        reader = log.reader({name: {0: 0}})
        reader.poll(1 * self.pace)
        threading.Timer(0.2 * self.pace, log.append, [numbers(name, 0, 1)]).start()
        start = time.monotonic()
        assert values(reader.poll(10)) == [b"0"]
        assert time.monotonic() - start < 3
        reader.close()

    def test_topics_join_and_leave_a_reader(self, log: Log) -> None:
        first, second = topic(log), topic(log)
        log.append(numbers(first, 0, 2) + numbers(second, 0, 2))
        reader = log.reader({first: {0: 0}}, grows=True)
        assert values(read(reader, 2)) == [b"0", b"1"]
        reader.add(second, {0: 1})
        assert [(r.topic, r.value) for r in read(reader, 1)] == [(second, b"1")]
        reader.remove(first)
        reader.remove(first)
        log.append(numbers(first, 2, 3) + numbers(second, 2, 3))
        assert [(r.topic, r.value) for r in read(reader, 2, within=1 * self.pace)] == [(second, b"2")]
        assert reader.positions() == {second: {0: 3}}
        reader.add(second, {0: 0})
        assert values(read(reader, 3)) == [b"0", b"1", b"2"]
        reader.close()

    def test_what_moved_is_told_once(self, log: Log) -> None:
        first, second = topic(log), topic(log)
        reader = log.reader({first: {0: 0}, second: {0: 0}}, grows=True)
        reader.poll(0.3 * self.pace)
        reader.moved()
        log.append(numbers(first, 0, 2))
        read(reader, 2)
        reader.poll(0.3 * self.pace)  # the end of a topic is news too
        assert reader.moved()[first] == {0: 2}
        assert reader.moved() == {}
        log.append(numbers(first, 2, 3) + numbers(second, 0, 1))
        read(reader, 2)
        reader.remove(first)
        assert reader.moved() == {second: {0: 1}}
        reader.close()

    def test_a_reader_of_nothing_gives_nothing(self, log: Log) -> None:
        reader = log.reader({})
        assert reader.poll(0.05 * self.pace) == []
        assert reader.positions() == {}
        reader.close()

    def test_a_reader_outlives_the_deletion_of_a_topic(self, log: Log) -> None:
        gone, kept = topic(log), topic(log)
        log.append(numbers(gone, 0, 1) + numbers(kept, 0, 1))
        reader = log.reader({gone: {0: 0}, kept: {0: 0}})
        assert len(read(reader, 2)) == 2
        log.delete_topics([gone])
        reader.poll(0.3 * self.pace)
        log.append(numbers(kept, 1, 2))
        assert values(read(reader, 1)) == [b"1"]
        reader.close()

    def test_positions_reach_the_end(self, log: Log) -> None:
        name = topic(log, 2)
        log.append(numbers(name, 0, 20))
        reader = log.reader({name: {0: BEGIN, 1: BEGIN}})
        read(reader, 20)
        reader.poll(0.2 * self.pace)
        assert reader.positions() == {name: log.end_offsets(name)}
        reader.close()

    def test_replay_gives_all_up_to_the_end(self, log: Log) -> None:
        name = topic(log, 3)
        assert list(replay(log, name)) == []
        messages = [Message(name, b"%d" % (i % 7), b"%d" % i) for i in range(300)]
        log.append(messages)
        assert sorted(values(list(replay(log, name)))) == sorted(m.value for m in messages)  # type: ignore[type-var]

    def test_replay_leaves_out_what_came_later(self, log: Log) -> None:
        name = topic(log)
        log.append(numbers(name, 0, 3))
        records = replay(log, name)
        first = next(records)
        log.append(numbers(name, 3, 6))
        assert values([first, *records]) == [b"0", b"1", b"2"]

"""Tests of what every log must do when topics forget records; see ``millrace_wal.contract.log``."""

from __future__ import annotations

import time

from millrace_wal.contract.log import fresh, numbers, read, topic, until
from millrace_wal.gaps import Gap, Gaps
from millrace_wal.record import Log, Message
from millrace_wal.replay import replay


class TrimContract:
    def test_a_trimmed_topic_keeps_what_lies_behind(self, log: Log) -> None:
        name, other = topic(log, 2), topic(log)
        log.append([Message(name, b"device-%d" % (i % 10), b"%d" % i) for i in range(100)])
        log.append(numbers(other, 0, 2))
        ends = log.end_offsets(name)
        log.trim({name: {0: 7, 1: ends[1]}, fresh("missing"): {0: 1}})
        log.trim({name: {0: 3}})
        log.trim({})
        assert log.begin_offsets(name) == {0: 7, 1: ends[1]}
        assert (log.end_offsets(name), log.begin_offsets(other)) == (ends, {0: 0})
        assert sorted(one[1:3] for one in replay(log, name)) == [(0, at) for at in range(7, ends[0])]

    def test_times_tell_offsets(self, log: Log) -> None:
        name = topic(log)
        log.append(numbers(name, 0, 2))
        time.sleep(0.01)
        between = time.time_ns() // 1_000_000
        time.sleep(0.01)
        log.append(numbers(name, 2, 4))
        assert log.offsets_at(name, between) == {0: 2}
        assert log.offsets_at(name, between - 60_000) == {0: 0}
        assert log.offsets_at(name, between + 60_000) == {0: 4}

    def test_what_a_group_has_committed(self, log: Log) -> None:
        name, group = topic(log), fresh("group")
        log.append(numbers(name, 0, 5))
        assert log.committed(group, name) == {}
        reader = log.subscribe(group, [name])
        assert len(read(reader, 5)) == 5
        reader.commit({(name, 0): 3})
        assert log.committed(group, name) == {0: 3}
        assert log.committed(group, fresh("missing")) == {}
        reader.close()

    def test_a_gap_is_noticed_by_who_begins_before_it(self, log: Log) -> None:
        name = topic(log)
        log.append(numbers(name, 0, 10))
        log.trim({name: {0: 4}})
        gaps = Gaps(log)
        assert gaps.begin(name, {0: 1}) == [Gap(name, 0, 1, 4)]
        assert gaps.begin(name, {0: 4}) == []
        with log.reader({name: {0: 4}}) as reader:  # type: ignore[attr-defined]
            assert gaps.take(read(reader, 6)) == []
            log.append(numbers(name, 10, 20))
            log.trim({name: {0: 15}})
            assert until(lambda: log.begin_offsets(name) == {0: 15})
        gaps = Gaps(log)
        gaps.begin(name, {0: 15})
        with log.reader({name: {0: 17}}) as reader:  # type: ignore[attr-defined]
            assert gaps.take(read(reader, 3)) == [], "passed over, but not gone"
        gone = "11 offsets of topic x, partition 2, were deleted before they were read: 3 to 13"
        assert str(Gap("x", 2, 3, 14)) == gone

    def test_a_gap_is_noticed_by_a_group_behind_its_commit(self, log: Log) -> None:
        name, group = topic(log), fresh("group")
        log.append(numbers(name, 0, 10))
        first = log.subscribe(group, [name])
        assert Gaps(log, group).take(read(first, 10)) == []
        first.commit({(name, 0): 2})
        first.close()
        log.trim({name: {0: 6}})
        second, gaps = log.subscribe(group, [name]), Gaps(log, group)
        assert gaps.take(read(second, 4)) == [Gap(name, 0, 2, 6)]
        log.append(numbers(name, 10, 11))
        assert gaps.take(read(second, 1)) == []
        second.close()

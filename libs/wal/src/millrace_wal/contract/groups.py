"""Tests of what members of consumer groups must do on every log, also when a fatal error has ended a client.
A test module subclasses :class:`GroupContract` with the fixtures ``log`` and ``end_client``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from millrace_core.errors import ErrorCode, MillraceError
from millrace_wal.contract.log import Paced, fresh, numbers, read, topic, traced, until, values
from millrace_wal.record import GroupReader, Log, Message, Reader, Stretch

EndClient = Callable[[Log | Reader | GroupReader], None]
"""Lets a fatal error end the client of a reader, or the client with which the log appends."""


class GroupContract(Paced):
    def test_a_group_goes_on_behind_its_last_commit(self, log: Log) -> None:
        name, group = topic(log), fresh("group")
        log.append(numbers(name, 0, 5))
        reader = log.subscribe(group, [name])
        assert values(read(reader, 5)) == [b"0", b"1", b"2", b"3", b"4"]
        assert reader.positions() == {name: {0: 5}}
        reader.commit({(name, 0): 3})
        reader.close()
        again = log.subscribe(group, [name], gathers=True)
        assert values(read(again, 2)) == [b"3", b"4"]
        again.commit({(name, 0): 5})
        again.close()
        last = log.subscribe(group, [name])
        start = time.monotonic()
        while last.positions() != {name: {0: 5}} and time.monotonic() < start + 20:
            assert last.poll(0.2) == []
        assert last.positions() == {name: {0: 5}}  # it stands at the end though nothing came
        last.close()
        other = log.subscribe(fresh("group"), [name])
        assert len(read(other, 5)) == 5
        other.close()

    def test_members_share_the_partitions(self, log: Log) -> None:
        name, group = topic(log, 4), fresh("group")
        members = [log.subscribe(group, [name]) for _ in range(2)]
        parts: list[set[int]] = [set(), set()]

        def shared() -> bool:
            # partitions move between the members until the group has settled: look at new records each time
            log.append([Message(name, b"%d" % i, b"x") for i in range(40)])
            for number, member in enumerate(members):
                parts[number] = {r.partition for r in member.poll(0.3 * self.pace)}
                assert {(name, part) for part in parts[number]} <= member.assigned()
            return bool(parts[0]) and bool(parts[1]) and not (parts[0] & parts[1])

        assert until(shared, 40)
        for member in members:
            member.close()

    def test_a_commit_of_a_partition_of_another_is_passed_over(self, log: Log) -> None:
        name, other, group = topic(log), topic(log), fresh("group")
        log.append(numbers(name, 0, 2) + numbers(other, 0, 2))
        reader = log.subscribe(group, [name])
        assert len(read(reader, 2)) == 2
        reader.commit({(other, 0): 2, (name, 0): 1})
        reader.close()
        both = log.subscribe(group, [name, other])
        assert sorted((r.topic, r.offset) for r in read(both, 3)) == sorted(
            [(name, 1), (other, 0), (other, 1)]
        )
        both.close()

    def test_keeping_alive_gives_and_loses_nothing(self, log: Log) -> None:
        name, group = topic(log), fresh("group")
        reader = log.subscribe(group, [name])
        log.append(numbers(name, 0, 3))
        for _ in range(5):
            assert reader.poll(0.1 * self.pace, limit=0) == []
        assert values(read(reader, 3)) == [b"0", b"1", b"2"]
        log.append(numbers(name, 3, 6))
        assert reader.poll(0.1 * self.pace, limit=0) == []
        assert values(read(reader, 3)) == [b"3", b"4", b"5"]
        reader.close()

    def test_what_a_member_is_given_in_columns_has_the_headers_of_what_is_traced(self, log: Log) -> None:
        name, group, header = topic(log), fresh("group"), f"00-{1:032x}-{2:016x}-01"
        log.append([*numbers(name, 0, 3), Message(name, b"k", b"3", header), *numbers(name, 4, 6)])
        reader = log.subscribe(group, [name])
        found: list[Stretch] = []

        def all_came() -> bool:
            reader.poll(0, limit=0)  # what comes in this poll is kept for the next one
            found.extend(reader.stretches(0.2, 4))
            return sum(map(len, found)) == 6

        assert until(all_came)
        assert [offset for some in found for offset in some.offsets] == list(range(6))
        assert traced(found) == {3: header}
        reader.close()

    def test_a_member_whose_client_has_ended_comes_back_where_commits_stand(
        self, log: Log, end_client: EndClient
    ) -> None:
        name, group = topic(log), fresh("group")
        log.append(numbers(name, 0, 5))
        reader = log.subscribe(group, [name])
        assert len(read(reader, 5)) == 5
        reader.commit({(name, 0): 3})
        for _ in range(2):
            end_client(reader)
            assert values(read(reader, 2, 60)) == [b"3", b"4"]
            assert reader.positions() == {name: {0: 5}}
        log.append(numbers(name, 5, 6))
        assert values(read(reader, 1)) == [b"5"]
        reader.commit({(name, 0): 6})
        reader.close()
        with log.subscribe(group, [name]) as again:  # type: ignore[attr-defined]
            assert read(again, 1, 2 * self.pace) == []

    def test_a_commit_of_a_client_that_has_ended_is_done_or_passed_over(
        self, log: Log, end_client: EndClient
    ) -> None:
        name, group = topic(log), fresh("group")
        log.append(numbers(name, 0, 2))
        reader = log.subscribe(group, [name])
        assert len(read(reader, 2)) == 2
        end_client(reader)
        reader.commit({(name, 0): 2})
        log.append(numbers(name, 2, 3))
        assert until(lambda: b"2" in values(reader.poll(0.2)), 60)
        reader.commit({(name, 0): 3})
        reader.close()
        with log.subscribe(group, [name]) as again:  # type: ignore[attr-defined]
            assert read(again, 1, 2 * self.pace) == []

    @pytest.mark.parametrize("grows", [False, True])
    def test_a_reader_whose_client_has_ended_goes_on_where_it_stands(
        self, log: Log, end_client: EndClient, grows: bool
    ) -> None:
        first, second, third = topic(log), topic(log, 2), topic(log)
        log.append([*numbers(first, 0, 3), *numbers(second, 0, 2, b"k"), *numbers(third, 0, 1)])
        reader = log.reader({first: {0: 0}, third: {0: 0}}, grows=grows)
        reader.add(second, {0: 0, 1: 0})
        assert len(read(reader, 6)) == 6
        reader.remove(third)
        end_client(reader)
        log.append([*numbers(first, 3, 4), *numbers(second, 2, 4, b"k"), *numbers(third, 1, 2)])
        found = read(reader, 4, 5 * self.pace)
        assert sorted((r.topic, r.value) for r in found) == sorted(
            [(first, b"3"), (second, b"2"), (second, b"3")]
        )
        assert reader.positions()[first] == {0: 4}
        reader.close()

    def test_an_append_after_the_end_of_its_client_is_taken(self, log: Log, end_client: EndClient) -> None:
        name = topic(log)
        log.append(numbers(name, 0, 1))
        for number in (1, 2):
            end_client(log)
            assert until(partial(self._taken, log, numbers(name, number, number + 1)))
        reader = log.reader({name: {0: 0}})
        assert values(read(reader, 3)) == [b"0", b"1", b"2"]
        reader.close()

    @staticmethod
    def _taken(log: Log, messages: Sequence[Message]) -> bool:
        try:
            log.append(messages, timeout=5)
        except MillraceError as error:
            assert error.code is ErrorCode.UNAVAILABLE
            return False
        return True

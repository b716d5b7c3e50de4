"""The log in memory keeps the contract of every log."""

from __future__ import annotations

import pytest

from millrace_wal import BEGIN, GroupReader, Log, MemoryLog, Message, Reader
from millrace_wal.contract.groups import EndClient, GroupContract
from millrace_wal.contract.log import LogContract
from millrace_wal.contract.trim import TrimContract
from millrace_wal.memory import MemoryGroupReader

PACE = 0.02
"""Such a log gives at once what it has."""


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
def end_client() -> EndClient:
    def end(what: Log | Reader | GroupReader) -> None:
        if isinstance(what, MemoryLog | MemoryGroupReader):
            what.end_client()  # to a reader of partitions nobody can tell that it happened

    return end


class TestMemoryLog(LogContract):
    pace = PACE


class TestMemoryGroups(GroupContract):
    pace = PACE


class TestMemoryTrim(TrimContract):
    pass


def test_what_a_member_had_that_was_killed_goes_to_others_once_it_is_forgotten(log: MemoryLog) -> None:
    log.ensure_topics([("t", 2)])
    killed, other = log.subscribe("g", ["t"]), log.subscribe("g", ["t"])
    assert killed.assigned() and other.assigned() and not killed.assigned() & other.assigned()
    log.forget(killed)
    assert killed.assigned() == set()
    assert other.assigned() == {("t", 0), ("t", 1)}


def test_the_clock_gives_the_timestamps() -> None:
    log = MemoryLog(clock=lambda: 42)
    log.ensure_topics([("t", 1)])
    log.append([Message("t", b"k", b"v")])
    assert [r.timestamp for r in log.reader({"t": {0: BEGIN}}).poll(0)] == [42]

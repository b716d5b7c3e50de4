"""The flaky log: without faults it keeps the contract, and each fault does what it says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from millrace_core.errors import ErrorCode, MillraceError
from millrace_wal import GroupReader, Log, MemoryLog, Message, Reader
from millrace_wal.contract.groups import EndClient, GroupContract
from millrace_wal.contract.log import LogContract
from millrace_wal.contract.trim import TrimContract
from millrace_wal.flaky import FlakyGroupReader, FlakyLog, InjectedFault, Killed

PACE = 0.02
"""Below it is a log in memory, which gives at once what it has."""
TWO = [Message("t", b"a", b"1"), Message("t", b"a", b"2")]


@pytest.fixture
def log() -> FlakyLog:
    return FlakyLog(MemoryLog())


@pytest.fixture
def end_client() -> EndClient:
    def end(what: Log | Reader | GroupReader) -> None:
        if isinstance(what, FlakyLog):
            what.log.end_client()
        elif isinstance(what, FlakyGroupReader):
            what.end_client()

    return end


class TestFlakyLog(LogContract):
    pace = PACE


class TestFlakyGroups(GroupContract):
    pace = PACE


class TestFlakyTrim(TrimContract):
    pass


def flaky(*faults: InjectedFault) -> FlakyLog:
    inner = MemoryLog()
    inner.ensure_topics([("t", 1)])
    return FlakyLog(inner, faults)


@pytest.mark.parametrize(
    ("fault", "there", "code"),
    [
        (InjectedFault.BEFORE, 0, ErrorCode.UNAVAILABLE),
        (InjectedFault.HALF, 1, ErrorCode.TIMEOUT),
        (InjectedFault.AFTER, 2, ErrorCode.TIMEOUT),
    ],
)
def test_an_append_that_fails(fault: InjectedFault, there: int, code: ErrorCode) -> None:
    log = flaky(fault)
    with pytest.raises(MillraceError) as raised:
        log.append(TWO)
    assert raised.value.code is code and code.value.retry
    assert log.log.end_offsets("t") == {0: there}
    assert log.append(TWO) == [(0, there), (0, there + 1)]
    assert log.calls == [("append", fault), ("append", InjectedFault.NONE)]


@pytest.mark.parametrize(
    ("fault", "there"), [(InjectedFault.KILLED_BEFORE, 0), (InjectedFault.KILLED_AFTER, 2)]
)
def test_a_process_that_is_killed(fault: InjectedFault, there: int) -> None:
    log = flaky(fault)
    with pytest.raises(Killed):
        log.append(TWO)
    assert log.log.end_offsets("t") == {0: there}


def test_what_a_killed_process_read_goes_to_the_next() -> None:
    log = flaky()
    log.append(TWO)
    killed = log.subscribe("g", ["t"])
    log.give([InjectedFault.KILLED_AFTER])
    with pytest.raises(Killed):
        killed.poll(0)
    assert len(log.subscribe("g", ["t"]).poll(0)) == 2


@pytest.mark.parametrize("fault", [InjectedFault.BEFORE, InjectedFault.HALF, InjectedFault.AFTER])
def test_a_poll_that_fails_has_given_nothing(fault: InjectedFault) -> None:
    log = flaky()
    log.append(TWO)
    reader, member = log.reader({"t": {0: 0}}), log.subscribe("g", ["t"])
    for one in (reader, member):
        log.give([fault])
        with pytest.raises(MillraceError):
            one.poll(0)
        assert [record.value for record in one.poll(0)] == [b"1", b"2"]


@pytest.mark.parametrize(
    ("fault", "committed", "raises"),
    [
        (InjectedFault.BEFORE, 0, True), (InjectedFault.HALF, 0, True),
        (InjectedFault.AFTER, 1, True), (InjectedFault.ENDED, 1, False),
    ],
)  # fmt: skip
def test_a_commit_that_fails(fault: InjectedFault, committed: int, raises: bool) -> None:
    heard: list[tuple[str, Mapping[tuple[str, int], int]]] = []
    log = flaky()
    log.on_commit = lambda group, offsets: heard.append((group, offsets))
    log.append(TWO)
    member = log.subscribe("g", ["t"])
    member.poll(0)
    log.give([fault])
    try:
        member.commit({("t", 0): 1})
        assert not raises
    except MillraceError:
        assert raises
    member.close()
    assert heard == [("g", {("t", 0): 1})] * committed
    assert len(log.subscribe("g", ["t"]).poll(0)) == 2 - committed


def test_a_member_whose_client_has_ended_begins_where_commits_stand() -> None:
    log = flaky()
    log.append(TWO)
    member = log.subscribe("g", ["t"])
    assert len(member.poll(0)) == 2
    member.commit({("t", 0): 1})
    log.give([InjectedFault.ENDED])
    assert member.poll(0) == []
    assert member.poll(0) == []
    assert [record.value for record in member.poll(0)] == [b"2"]

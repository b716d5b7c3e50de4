"""The log in memory keeps the contract of every log."""

from __future__ import annotations

import pytest

from millrace_wal import BEGIN, MemoryLog, Message
from millrace_wal.contract import LogContract


class TestMemoryLog(LogContract):
    @pytest.fixture
    def log(self) -> MemoryLog:
        return MemoryLog()


def test_the_clock_gives_the_timestamps() -> None:
    log = MemoryLog(clock=lambda: 42)
    log.ensure_topics([("t", 1)])
    log.append([Message("t", b"k", b"v")])
    assert [r.timestamp for r in log.reader({"t": {0: BEGIN}}).poll(0)] == [42]

"""The clock over a log that fails: an instant that it has watched for is told with the ends of its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from millrace_core.wire import control
from millrace_core.wire.topics import CLOCK, CONTROL, TOPICS, wal_topic
from millrace_wal import MemoryLog, Message, Record, replay
from millrace_wal.flaky import FAILURES, FlakyLog, InjectedFault
from millrace_wal.memory import MemoryReader
from trigger_svc.clock import Clock

from ...conftest import examples
from ...works import Steps

NONE, BEFORE, AFTER, HALF = InjectedFault.NONE, InjectedFault.BEFORE, InjectedFault.AFTER, InjectedFault.HALF
MS = 1_000_000
HOUR = 3_600_000 * MS
TOPIC = wal_topic("d", "meters")


class Time(MemoryLog):
    """Time passes when the clock waits, and not else; ns."""

    def __init__(self, begin: int) -> None:
        super().__init__(lambda: self.now // MS)
        self.now = begin
        self.ensure_topics([*TOPICS, (TOPIC, 2)])

    def reader(
        self, positions: Mapping[str, Mapping[int, int]], grows: bool = False, gathers: bool = False
    ) -> MemoryReader:
        return _Waits(self, positions)


class _Waits(MemoryReader):
    def __init__(self, time: Time, positions: Mapping[str, Mapping[int, int]]) -> None:
        super().__init__(time, positions)
        self._time = time

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        found = super().poll(0, limit)
        self._time.now += 0 if found else round(timeout * 1_000 * MS)
        return found


def ticks(log: MemoryLog) -> list[control.Tick]:
    return [control.decode_tick(record.value) for record in replay(log, CLOCK.name) if record.value]


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
# the ends of the table are not told, or the tick cannot be written: it is not an hour until the next
@example([NONE] * 7 + [BEFORE])
@example([NONE] * 8 + [BEFORE])
@example([NONE] * 7 + [HALF, AFTER])
@given(what_fails=st.lists(st.sampled_from(FAILURES), max_size=14))
def test_an_instant_is_told_with_the_ends_of_its_table(kit: Any, what_fails: list[InjectedFault]) -> None:
    instant = 500_000 * HOUR
    time = Time(instant - 700 * MS)
    flaky = FlakyLog(time)
    hourly = kit.stream(1, trigger={"Period": {"every": 3_600_000}})
    defined = control.encode(control.DefineStream(hourly, {0: 0, 1: 0}))
    time.append([Message(CONTROL.name, b"", defined)])
    clock = Clock(flaky, structlog.get_logger("test"), lambda: (), lambda: time.now)
    steps = Steps(lambda: clock)
    flaky.give(what_fails)
    while time.now < instant:
        steps.step()
    for _ in what_fails:
        steps.step()
    flaky.give([])
    until = time.now + 3_000 * MS
    while time.now < until:
        steps.step()
    told = [tick for tick in ticks(time) if tick.since < instant <= tick.now and TOPIC in tick.ends]
    assert told, "the next instant of the stream is in an hour"
    assert told[0].ends == {TOPIC: {0: 0, 1: 0}}

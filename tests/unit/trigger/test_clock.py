"""The clock of trigger-svc on an in-memory log: ticks only while somebody waits, and what they say."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import structlog

from millrace_core.model.stream import Duration, Period, StreamSpec
from millrace_core.trigger.delay import FAR
from millrace_core.wire import control
from millrace_core.wire.topics import CLOCK, CONTROL, TOPICS, wal_topic
from millrace_wal import MemoryLog, Message, replay
from trigger_svc.clock import Clock, idle_tick

TOPIC = wal_topic("d", "meters")


def ticks(log: MemoryLog) -> list[control.Tick]:
    return [control.decode_tick(record.value) for record in replay(log, CLOCK.name) if record.value]


def until(condition: Callable[[], bool], within: float = 30) -> bool:
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def start() -> tuple[MemoryLog, Clock]:
    log = MemoryLog()
    log.ensure_topics([*TOPICS, (TOPIC, 2)])
    return log, Clock(log, structlog.get_logger("test"), lambda: FAR)


def tell(log: MemoryLog, *records: control.AnyControl) -> None:
    log.append([Message(CONTROL.name, None, control.encode(record)) for record in records])


def test_a_clock_that_nobody_needs_is_silent(kit: Any) -> None:
    log, clock = start()
    tell(log, control.DefineStream(kit.stream(), {0: 0}))
    clock.start()
    clock.start()
    time.sleep(0.3)
    assert ticks(log) == []
    clock.stop()


def test_ticks_come_with_the_streams_that_need_them(kit: Any) -> None:
    log, clock = start()
    log.append([Message(TOPIC, b"c1", b"{}")] * 3)
    before = time.time_ns()
    clock.start()
    tell(log, control.DefineStream(kit.stream(1, trigger={"Period": {"every": 100}}), {0: 0, 1: 0}))
    assert until(lambda: len(ticks(log)) >= 3)
    tell(log, control.StopStream(1))
    clock.stop()
    found = ticks(log)
    assert all(tick.ends == {TOPIC: log.end_offsets(TOPIC)} for tick in found)
    assert all(before <= tick.since < tick.now for tick in found)
    assert {tick.since for tick in found} == {found[0].since}
    # each tick comes with another instant that is due
    assert len({tick.now // 100_000_000 for tick in found}) == len(found)


def test_a_tick_comes_when_an_open_window_is_due() -> None:
    log = MemoryLog()
    log.ensure_topics(TOPICS)
    due = [time.time_ns() + 400_000_000]
    clock = Clock(log, structlog.get_logger("test"), lambda: due[0])
    clock.start()
    assert until(lambda: bool(ticks(log)))
    assert ticks(log)[0].now >= due[0]
    time.sleep(0.3)
    assert len(ticks(log)) == 1, "the slots have not read it yet"
    first, due[0] = ticks(log)[0].now, time.time_ns() + 100_000_000
    assert until(lambda: len(ticks(log)) == 2)
    assert ticks(log)[1].now >= due[0] > first
    due[0] = FAR
    clock.stop()


def test_a_table_that_is_gone_does_not_stop_the_clock(kit: Any) -> None:
    log, clock = start()
    log.delete_topics([TOPIC])
    tell(
        log,
        control.DefineStream(kit.stream(1, trigger={"Period": {"every": 100}}), {0: 0}),
        control.DefineStream(StreamSpec(2, "d", "s2", "", Period(Duration(100, "a"))), {}),
    )
    clock.start()
    assert until(lambda: len(ticks(log)) >= 2)
    clock.stop()
    assert all(tick.ends == {} for tick in ticks(log))


def test_nothing_fires_on_an_idle_tick(kit: Any) -> None:
    log, _ = start()
    idle_tick(log)
    (tick,) = ticks(log)
    cluster = kit.Cluster()
    cluster.define(StreamSpec(2, "d", "s2", "", Period(Duration(100, "a"))))
    cluster.send(CLOCK.name, None, control.encode(tick))
    cluster.run()
    assert cluster.triggers == []

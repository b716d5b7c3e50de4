"""The clock of trigger-svc on an in-memory log: ticks only while somebody waits, and what they say."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import mean
from typing import Any

import pytest
import structlog

from millrace_core.model.stream import Duration, StreamSpec
from millrace_core.trigger.slot import Slot
from millrace_core.trigger.stream import APART
from millrace_core.trigger.types import Period
from millrace_core.wire import control
from millrace_core.wire.topics import CLOCK, CONTROL, TOPICS, wal_topic
from millrace_service import Life
from millrace_wal import MemoryLog, Message, Record, replay
from millrace_wal.memory import MemoryReader
from trigger_svc.clock import CLOSEST, LATE, Clock, idle_tick
from trigger_svc.lead import LONGEST, Lead

MS = 1_000_000
TOPIC = wal_topic("d", "meters")


def ticks(log: MemoryLog) -> list[control.Tick]:
    return [control.decode_tick(record.value) for record in replay(log, CLOCK.name) if record.value]


LOGGER = structlog.get_logger("test")


def until(condition: Callable[[], bool], within: float = 30) -> bool:
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def start() -> tuple[MemoryLog, Life]:
    log = MemoryLog()
    log.ensure_topics([*TOPICS, (TOPIC, 2)])
    return log, life_of(Clock(log, LOGGER, lambda: ()))


def life_of(clock: Clock) -> Life:
    return Life(clock, LOGGER)


def tell(log: MemoryLog, *records: control.AnyControl) -> None:
    log.append([Message(CONTROL.name, b"", control.encode(record)) for record in records])


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
    clock = life_of(Clock(log, LOGGER, lambda: due))
    clock.start()
    assert until(lambda: bool(ticks(log)))
    assert ticks(log)[0].now >= due[0]
    time.sleep(0.3)
    assert len(ticks(log)) == 1, "the slots have not read it yet"
    first, due[0] = ticks(log)[0].now, time.time_ns() + 100_000_000
    assert until(lambda: len(ticks(log)) == 2)
    assert ticks(log)[1].now >= due[0] > first
    due.clear()
    clock.stop()


class Deployment(MemoryLog):
    """A clock and slots in a time of their own, in ms: it moves on when the clock waits, up to ``until``.

    The query takes all messages there are as a micro-batch of ``batch`` ms, at whose end the slots are judged
    and say what is due; then it begins the next.
    """

    def __init__(self, kit: Any, batch: int) -> None:
        super().__init__()
        self.ensure_topics(TOPICS)
        self.cluster = kit.Cluster(slots=4)
        self.batch = batch
        self.time, self.until = 0.0, 0.0
        self.ends = 0.0
        self.running: list[Any] = []
        self.writes: list[tuple[int, str]] = []
        self.delays_due: list[int] = []
        self.ticked: list[int] = []
        self.told: dict[str, list[float]] = {}
        self.lead = Lead()
        self.clock = life_of(Clock(self, LOGGER, lambda: self.delays_due, self.now, lambda: self.lead.time))

    def now(self) -> int:
        return round(self.time * MS)

    def run(self, end: float) -> None:
        self.until = end
        self.clock.start()
        assert until(lambda: self.time >= self.until)

    def append(self, messages: Sequence[Message], timeout: float = 30) -> list[tuple[int, int]]:
        for message in messages:
            self.ticked.append(control.decode_tick(message.value or b"").now)
            self.cluster.send(*message[:3])
        self._begin()
        return super().append(messages)

    def reader(
        self, positions: Mapping[str, Mapping[int, int]], grows: bool = False, gathers: bool = False
    ) -> MemoryReader:
        return _Pace(self, positions)

    def advance(self, seconds: float) -> None:
        end = min(self.time + seconds * 1_000, self.until)
        while self.running and self.ends <= end:
            self.time = self.ends
            self._judge()
            self._begin()
        self.time = max(self.time, end)
        self._begin()

    def _begin(self) -> None:
        while self.writes and self.writes[0][0] <= self.time:
            at, child = self.writes.pop(0)
            self.cluster.now = at
            self.cluster.write(child, [1])
        if self.cluster.waiting and not self.running:
            self.running, self.cluster.waiting = self.cluster.waiting, []
            self.ends = self.time + self.batch

    def _judge(self) -> None:
        later, self.cluster.waiting, self.running = self.cluster.waiting, self.running, []
        known = len(self.cluster.triggers)
        values = [value for topic, *_, value in self.cluster.waiting if topic == CLOCK.name]
        ticks = [control.decode_tick(value or b"").now for value in values]
        self.cluster.run()
        if ticks and len(self.cluster.triggers) > known:
            self.lead.learn(self.now() - mean(ticks))
        for trigger in self.cluster.triggers[known:]:
            for event in trigger.events:
                self.told.setdefault(str(event.group.table), []).append(self.time)
        self.cluster.waiting = later
        states = self.cluster.blobs.values()
        self.delays_due = sorted({due for state in states for due in Slot.delays_due(state)})


class _Pace(MemoryReader):
    """The clock's reader of control records; there are none, and waiting for them is how time passes."""

    def __init__(self, deployment: Deployment, positions: Mapping[str, Mapping[int, int]]) -> None:
        super().__init__(deployment, positions)
        self._deployment = deployment

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        if self._deployment.time >= self._deployment.until:
            time.sleep(0.01)
        else:
            self._deployment.advance(timeout)
        return []


@pytest.mark.parametrize("batch", [80, 300])
def test_windows_that_come_due_close_together_do_not_wait_for_each_others_batches(
    kit: Any, batch: int
) -> None:
    one = Deployment(kit, batch)
    one.cluster.define(kit.stream(max_delay=3_000))
    one.writes = [(number * 61, f"c{number}") for number in range(40)]
    opened = {child: at + 1 for at, child in one.writes}
    one.run(12_000)
    one.cluster.control(control.StopStream(1))
    one.run(20_000)
    one.clock.stop()
    assert len(one.told) == 40
    first = Lead().time / MS
    later = []
    for child, times in one.told.items():
        off = [at - opened[child] - 3_000 * number for number, at in enumerate(times, 1)]
        longest = max(first, min(2 * batch, LONGEST / MS))
        assert len(times) >= 2 and min(off) >= batch - longest - APART / MS, child
        # the batch that runs when its time comes, and its own
        assert max(off) <= 2 * batch - min(first, batch / 2) + CLOSEST / MS, child
        later += off[1:]
    assert abs(mean(later)) < batch / 4, "they are as often early as late"
    assert min(b - a for a, b in pairwise(one.ticked)) >= CLOSEST
    assert max(one.ticked) <= (12_000 + 2 * batch) * MS, "nobody waits any more"


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


class Naps(MemoryLog):
    """A clock that wakes later than it means to: its third wait takes ``nap`` ns longer."""

    def __init__(self, nap: int) -> None:
        super().__init__(lambda: self.time // MS)
        self.nap, self.time, self.waits, self.woken = nap, 1_000_000 * MS, 0, 0
        self.ensure_topics([*TOPICS, (TOPIC, 2)])

    def reader(
        self, positions: Mapping[str, Mapping[int, int]], grows: bool = False, gathers: bool = False
    ) -> MemoryReader:
        return _Napping(self, positions)


class _Napping(MemoryReader):
    def __init__(self, log: Naps, positions: Mapping[str, Mapping[int, int]]) -> None:
        super().__init__(log, positions)
        self._naps = log

    def poll(self, timeout: float, limit: int = 5000) -> list[Record]:
        log = self._naps
        found = super().poll(0, limit)
        log.waits += bool(timeout)
        log.time += round(timeout * 1_000 * MS)
        if log.waits == 3 and not log.woken:
            log.time += log.nap
            log.woken = log.time
        return found


def after_a_nap(kit: Any, nap: int) -> tuple[int, list[control.Tick], int]:
    """When the clock began and woke; its ticks."""
    log = Naps(nap)
    begin = log.time
    clock = Clock(log, LOGGER, lambda: (), lambda: log.time)
    tell(log, control.DefineStream(kit.stream(1, trigger={"Period": {"every": 100}}), {0: 0, 1: 0}))
    clock.begin()
    while log.waits < 10:
        clock.step()
    clock.end()
    return begin, ticks(log), log.woken


def test_what_was_planned_while_the_clock_slept_is_missed(kit: Any) -> None:
    begin, found, woken = after_a_nap(kit, LATE + MS)
    before = [tick for tick in found if tick.now < woken]
    after = [tick for tick in found if tick.now >= woken]
    assert {tick.since for tick in before} == {begin}
    assert {tick.since for tick in after} == {woken}
    first = after[0].now
    assert woken < first <= woken + 100 * MS and first % (100 * MS) == 0, "the first instant after it woke"


def test_a_clock_that_is_late_by_as_much_as_is_allowed_fires_late(kit: Any) -> None:
    begin, found, woken = after_a_nap(kit, LATE)
    assert {tick.since for tick in found} == {begin}
    assert woken in [tick.now for tick in found]

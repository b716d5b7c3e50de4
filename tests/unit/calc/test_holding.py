"""Triggers of a paused stream stay in the log: nothing lost, in order, no other stream waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from calc_svc.catalog import CatalogView
from calc_svc.holding import AGAIN, LIVE, Holding, Share
from calc_svc.job import Product
from calc_svc.loop import TriggerLoop
from calc_svc.overtaking import Overtaking
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.model.stream import Duration, Period, StreamSpec
from millrace_core.wire import events, status
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.status import StreamPaused, TriggersHeld
from millrace_core.wire.topics import CATALOG, NOTIFICATIONS, STATUS, TRIGGERS
from millrace_wal import MemoryLog, Message, Record

PAUSED, OTHER = 7, 8


class Jobs:
    """In the place of the jobs, which need Spark: notes what is to be calculated, in order."""

    def __init__(self, catalog: CatalogView) -> None:
        self.catalog = catalog
        self.store = SimpleNamespace(wait=lambda *_: None)
        self.done: list[tuple[int, int]] = []
        self.told: Callable[[], None] = lambda: None

    def low_latency(self, uid: int) -> bool:
        return False

    def run(self, uid: int, batches: Sequence[TriggerBatch]) -> Product:
        for batch in batches:
            self.done += [(uid, event.start) for event in batch.events]
        self.told()
        return Product(uid)

    def stop(self) -> None:
        return None

    def of(self, uid: int) -> list[int]:
        return [number for stream, number in list(self.done) if stream == uid]


class Calc:
    """The trigger loop, and a catalog that follows the log as calc-svc's does."""

    def __init__(self, log: MemoryLog, share: Share = LIVE) -> None:
        self.view = CatalogView()
        self.jobs = Jobs(self.view)
        self._log = log
        self._reader = log.reader({CATALOG.name: {0: 0}, STATUS.name: {0: 0}})
        self.follow()
        self.loop = TriggerLoop(log, self.jobs, Overtaking(), share)  # type: ignore[arg-type]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.loop.start()

    def follow(self) -> None:
        for record in self._reader.poll(0):
            if record.topic == CATALOG.name:
                self.view.apply(record.offset, record.key or b"", record.value)
            else:
                self.view.apply_status(record.key or b"", record.value)

    def _run(self) -> None:
        while not self._stop.wait(0.01):
            self.follow()

    def stop(self) -> None:
        self.loop.stop()
        self._stop.set()
        self._thread.join()


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.ensure_topics([CATALOG, STATUS, TRIGGERS, NOTIFICATIONS])
    for uid in (PAUSED, OTHER):
        log.append([Message(CATALOG.name, key_of(entry(uid)), encode(entry(uid)))])
    return log


def entry(uid: int) -> StreamEntry:
    return StreamEntry(StreamSpec(uid, "db", f"s{uid}", "", Period(Duration(1, "s"))), "Running", 0, -1)


def pause(log: MemoryLog, *, end: bool = False) -> None:
    paused = StreamPaused(PAUSED, 2, 0, "ws://somewhere cannot be connected to")
    log.append([Message(STATUS.name, status.key(paused), None if end else status.encode(paused))])


def trigger(log: MemoryLog, *streams: int, numbers: range, slot: int = 0) -> None:
    for number in numbers:
        for uid in streams:
            event = TriggerEvent(
                f"{uid}-{number}", "ON_TIME", "LIVE", Group(0, (), None), number, number, 0, 0
            )
            batch = TriggerBatch(uid, 0, slot, number, {}, [event])
            log.append([Message(TRIGGERS.name, f"{uid}/{slot}".encode(), events.encode(batch))])


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def uncommitted(log: MemoryLog) -> int:
    """How many trigger messages a new start of calc-svc would read."""
    with log.subscribe("calc-svc", [TRIGGERS.name]) as probe:
        return len(probe.poll(0))


def test_a_paused_stream_waits_and_goes_on_in_order(log: MemoryLog) -> None:
    calc = Calc(log)
    trigger(log, PAUSED, OTHER, numbers=range(5))
    until(lambda: len(calc.jobs.done) == 10)
    pause(log)
    until(lambda: calc.view.paused(PAUSED))
    trigger(log, PAUSED, OTHER, numbers=range(5, 40))
    until(lambda: calc.jobs.of(OTHER) == list(range(40)))
    time.sleep(0.3)
    assert calc.jobs.of(PAUSED) == list(range(5))
    until(lambda: len(calc.view.held()) == 1)
    pause(log, end=True)
    trigger(log, PAUSED, OTHER, numbers=range(40, 60))
    until(lambda: len(calc.jobs.done) == 120)
    trigger(log, PAUSED, numbers=range(60, 65))
    until(lambda: len(calc.jobs.done) == 125)
    assert calc.jobs.of(PAUSED) == list(range(65))
    until(lambda: calc.view.held() == {})
    calc.stop()
    assert uncommitted(log) == 0


def test_what_is_live_and_what_answers_requests_wait_each_by_itself(log: MemoryLog) -> None:
    pause(log)
    live, again = Calc(log), Calc(log, AGAIN)
    until(lambda: live.view.paused(PAUSED) and again.view.paused(PAUSED))
    trigger(log, PAUSED, numbers=range(5))
    trigger(log, PAUSED, numbers=range(5, 10), slot=-1)
    until(lambda: len(live.view.held()) == 2)
    assert live.jobs.done == again.jobs.done == []
    pause(log, end=True)
    until(lambda: live.view.held() == {})
    assert live.jobs.of(PAUSED) == list(range(5))
    assert again.jobs.of(PAUSED) == list(range(5, 10))
    live.stop()
    again.stop()


def test_a_restart_repeats_no_other_stream_and_loses_nothing(log: MemoryLog) -> None:
    pause(log)
    calc = Calc(log)
    trigger(log, PAUSED, OTHER, numbers=range(10))
    trigger(log, PAUSED, numbers=range(10), slot=1)
    until(lambda: calc.jobs.of(OTHER) == list(range(10)))
    until(lambda: calc.view.held())
    time.sleep(0.3)
    calc.stop()
    # what was left is committed past: the note in the status topic says where it begins
    assert uncommitted(log) == 0
    trigger(log, PAUSED, OTHER, numbers=range(10, 12))
    again = Calc(log)
    until(lambda: again.jobs.of(OTHER) == [10, 11])
    assert again.jobs.of(PAUSED) == []
    pause(log, end=True)
    until(lambda: len(again.jobs.of(PAUSED)) == 22)
    until(lambda: again.view.held() == {})
    again.stop()
    assert again.jobs.of(PAUSED).count(11) == 1
    # the slots are two sequences, each in order
    assert sorted(again.jobs.of(PAUSED)) == sorted([*range(12), *range(10)])


def test_a_pause_while_it_catches_up_stops_it_again(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calc_svc.holding.TAKE", 3)
    pause(log)
    calc = Calc(log)
    trigger(log, PAUSED, numbers=range(30))
    until(lambda: calc.view.held())

    def again() -> None:
        if len(calc.jobs.done) == 6:
            pause(log)
            calc.follow()

    calc.jobs.told = again
    pause(log, end=True)
    until(lambda: len(calc.jobs.done) >= 6)
    time.sleep(0.3)
    reached = len(calc.jobs.done)
    assert reached < 30
    until(lambda: list(calc.view.held().values()) == [reached])
    pause(log, end=True)
    until(lambda: calc.jobs.of(PAUSED) == list(range(30)))
    calc.stop()


def test_what_a_dropped_stream_left_is_forgotten(log: MemoryLog) -> None:
    pause(log)
    calc = Calc(log)
    trigger(log, PAUSED, OTHER, numbers=range(3))
    until(lambda: calc.view.held())
    log.append([Message(CATALOG.name, key_of(entry(PAUSED)), None)])
    pause(log, end=True)
    until(lambda: calc.view.held() == {})
    calc.stop()
    assert calc.jobs.of(PAUSED) == []


def holding_of_two_partitions() -> tuple[CatalogView, Holding]:
    """A stream is paused, and both partitions have a trigger of it; the catalog has heard of no mark yet."""
    log, view = MemoryLog(), CatalogView()
    log.ensure_topics([STATUS, (TRIGGERS.name, 2)])
    view.apply(0, key_of(entry(PAUSED)), encode(entry(PAUSED)))
    paused = StreamPaused(PAUSED, 2, 0, "ws://somewhere cannot be connected to")
    view.apply_status(status.key(paused), status.encode(paused))
    holding = Holding(log, view)
    holding.own({(TRIGGERS.name, 0), (TRIGGERS.name, 1)})
    kept, marks = holding.sift([record(0, 10), record(1, 20)])
    assert kept == [] and [_held(mark) for mark in marks] == [(PAUSED, 0, 10), (PAUSED, 1, 20)]
    return view, holding


def record(partition: int, offset: int) -> Record:
    return Record(TRIGGERS.name, partition, offset, 0, b"%d/0" % PAUSED, b"")


def _held(message: Message) -> tuple[int, int, int]:
    found = status.decode(message.value or b"")
    assert isinstance(found, TriggersHeld)
    return found.stream, found.partition, found.offset


def test_the_marks_of_a_partition_go_with_it() -> None:
    """Another instance calculates what was held there: this one does not, nor does it hold by its mark."""
    view, holding = holding_of_two_partitions()
    holding.own({(TRIGGERS.name, 1)})
    paused = StreamPaused(PAUSED, 2, 0, "")
    view.apply_status(status.key(paused), None)
    assert holding.due == (PAUSED, 1)
    # partition 0 comes back after another instance has calculated all of it: nothing of it is held any more
    holding.own({(TRIGGERS.name, 0), (TRIGGERS.name, 1)})
    kept, marks = holding.sift([record(0, 11), record(1, 21)])
    assert [one.partition for one in kept] == [0] and marks == []


def test_a_partition_that_comes_brings_the_marks_that_others_wrote() -> None:
    view, holding = holding_of_two_partitions()
    holding.own({(TRIGGERS.name, 1)})
    for partition, offset in ((0, 15), (1, 5)):
        held = TriggersHeld(PAUSED, partition, offset)
        view.apply_status(status.key(held), status.encode(held))
    holding.own({(TRIGGERS.name, 0), (TRIGGERS.name, 1)})
    assert holding.sift([record(0, 16)]) == ([], [])
    paused = StreamPaused(PAUSED, 2, 0, "")
    view.apply_status(status.key(paused), None)
    # its own mark of partition 1, which it kept, is newer than what it has read of the status topic
    assert holding._marks == {(PAUSED, 0): 15, (PAUSED, 1): 20}


def test_the_status_says_paused_and_why(log: MemoryLog) -> None:
    view = CatalogView()
    record = StreamPaused(PAUSED, 1, 5, "ws://a is away")
    for uid in (PAUSED, OTHER):
        view.apply(0, key_of(entry(uid)), encode(entry(uid)))
    view.apply_status(status.key(record), status.encode(record))
    assert view.stream_statuses() == {
        ("db", "s7"): ("Paused", "ws://a is away"),
        ("db", "s8"): ("Running", ""),
    }
    view.apply_status(status.key(record), None)
    assert view.paused(PAUSED) == ""


@pytest.mark.parametrize("record", [StreamPaused(3, 1, 9, "why"), TriggersHeld(3, 1, 9)])
def test_its_records_survive_the_wire(record: StreamPaused | TriggersHeld) -> None:
    assert status.decode(status.encode(record)) == record
    assert status.part_of(status.key(record)) == (3, 1)

"""Triggers of a stream that waits stay in the log: nothing lost, in order, no other stream waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from calc_svc.catalog import CatalogView
from calc_svc.holding import AGAIN, LIVE, Holding, Share
from calc_svc.job import Product, Waits
from calc_svc.loop import TriggerLoop
from calc_svc.overtaking import Overtaking
from calc_svc.store import Behind, Wanted
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.stream import Duration, Period, StreamSpec
from millrace_core.wire import events, status
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.status import StreamPaused, TriggersHeld
from millrace_core.wire.topics import CATALOG, NOTIFICATIONS, STATUS, TRIGGERS
from millrace_wal import MemoryLog, Message, Record

PAUSED, OTHER = 7, 8


class Store:
    """How far each stream's rows are stored, by its number; all of them at first."""

    def __init__(self, catalog: CatalogView) -> None:
        self.catalog = catalog
        self.positions: dict[str, int] = {}

    def missing(self, wanted: Wanted) -> str | None:
        if self.catalog.position < wanted.catalog:
            return f"catalog offset {wanted.catalog}"
        for topic, offsets in wanted.wal.items():
            if self.positions.get(topic, 1 << 60) < offsets[0]:
                return f"{topic}/0 offset {offsets[0]}"
        return None

    def reach(self, wanted: Wanted, timeout: float) -> None:
        if (missing := self.missing(wanted)) is not None:
            raise Behind(wanted, missing, timeout)


class Jobs:
    """In the place of the jobs, which need Spark: notes what is to be calculated, in order. ``others``: what
    a stream waits for beside its own rows."""

    def __init__(self, catalog: CatalogView) -> None:
        self.catalog = catalog
        self.store = Store(catalog)
        self.done: list[tuple[int, int]] = []
        self.told: Callable[[], None] = lambda: None
        self.others: dict[int, Callable[[], MillraceError | None]] = {}

    def wanted(self, uid: int, batches: Sequence[TriggerBatch]) -> Wanted:
        return Wanted(wal={f"wal.d.s{uid}": {0: max(batch.seen.get(0, 0) for batch in batches)}})

    def low_latency(self, uid: int) -> bool:
        return False

    def run(self, uid: int, batches: Sequence[TriggerBatch], waits: Waits) -> Product:
        if uid in self.others and uid not in waits.known and (error := self.others[uid]()) is not None:
            return Product(uid, waits=error)
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

    def __init__(self, log: MemoryLog, share: Share = LIVE, stored: Mapping[str, int] | None = None) -> None:
        self.view = CatalogView()
        self.jobs = Jobs(self.view)
        self.jobs.store.positions = dict(stored or {})
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
            batch = TriggerBatch(uid, 0, slot, number, {0: number}, [event])
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
    holding = Holding(log, view, lambda _: None)
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


ROWS = f"wal.d.s{PAUSED}"
"""Where the rows of a stream lie that is not paused here, but waits for them."""


def test_triggers_wait_for_their_rows_however_long_and_no_other_stream_waits(log: MemoryLog) -> None:
    calc = Calc(log, stored={ROWS: 10})
    trigger(log, PAUSED, OTHER, numbers=range(40))
    until(lambda: calc.jobs.of(OTHER) == list(range(40)))
    until(lambda: calc.jobs.of(PAUSED) == list(range(11)))
    until(lambda: calc.view.held())
    assert calc.view.stream_statuses()["db", "s7"] == (
        "Running", f"waits until this is stored: {ROWS}/0 offset 11",
    )  # fmt: skip
    trigger(log, PAUSED, OTHER, numbers=range(40, 50))
    until(lambda: calc.jobs.of(OTHER) == list(range(50)))
    calc.jobs.store.positions[ROWS] = 30
    until(lambda: calc.jobs.of(PAUSED) == list(range(31)))
    calc.stop()
    # killed here: what waits is committed past, and still known
    assert uncommitted(log) == 0
    again = Calc(log, stored={ROWS: 30})
    until(lambda: again.view.waiting()[PAUSED].endswith("offset 31"))
    assert again.jobs.done == []
    again.jobs.store.positions[ROWS] = 60
    until(lambda: again.jobs.of(PAUSED) == list(range(31, 50)))
    until(lambda: again.view.held() == {})
    assert again.view.stream_statuses()["db", "s7"] == ("Running", "")
    again.stop()


def test_many_streams_that_wait_are_read_again_together(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calc_svc.holding.TAKE", 7)
    streams = list(range(100, 112))
    for uid in streams:
        log.append([Message(CATALOG.name, key_of(entry(uid)), encode(entry(uid)))])
    waits = {f"wal.d.s{uid}": uid % 4 for uid in streams}
    calc = Calc(log, stored=waits)
    trigger(log, *streams, numbers=range(20))
    for reached in (5, 13, 14, 30):
        until(lambda: calc.view.held())
        calc.jobs.store.positions = {topic: reached + at for topic, at in waits.items()}
        expected = {uid: list(range(min(reached + uid % 4 + 1, 20))) for uid in streams}
        until(lambda: {uid: calc.jobs.of(uid) for uid in streams} == expected)  # noqa: B023
    until(lambda: calc.view.held() == {})
    calc.stop()


def test_what_a_query_needs_beside_is_waited_for_once(log: MemoryLog) -> None:
    """Another table is written to all the time, and is never read up to its end."""
    calc = Calc(log)
    other = "wal.d.other"
    calc.jobs.store.positions[other] = 0
    end = 0

    def behind() -> MillraceError:
        nonlocal end
        end += 10
        return Behind(Wanted(wal={other: {0: end}}), other, 0)

    calc.jobs.others[PAUSED] = behind
    trigger(log, PAUSED, OTHER, numbers=range(20))
    until(lambda: calc.jobs.of(OTHER) == list(range(20)))
    assert calc.jobs.of(PAUSED) == []
    calc.jobs.store.positions[other] = end
    # what was written to the other table since they came is not theirs
    until(lambda: len(calc.jobs.of(PAUSED)) > 0)
    while len(calc.jobs.of(PAUSED)) < 20:
        calc.jobs.store.positions[other] = end
        time.sleep(0.01)
    assert calc.jobs.of(PAUSED) == list(range(20))
    calc.stop()


def test_what_may_come_by_itself_is_tried_again(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calc_svc.reach.AGAIN_SECONDS", 0.02)
    calc = Calc(log)
    tries = iter(range(1000))
    calc.jobs.others[PAUSED] = lambda: (
        MillraceError(ErrorCode.UNAVAILABLE, "the output table is away") if next(tries) < 30 else None
    )
    trigger(log, PAUSED, numbers=range(10))
    until(lambda: calc.view.waiting() == {PAUSED: "waits: the output table is away"})
    until(lambda: calc.jobs.of(PAUSED) == list(range(10)))
    until(lambda: calc.view.held() == {})
    calc.stop()


def test_a_stream_whose_record_is_on_the_way_is_waited_for_and_one_that_is_gone_is_not(
    log: MemoryLog,
) -> None:
    calc = Calc(log)
    new = entry(9)
    follow, calc.follow = calc.follow, lambda: None  # type: ignore[method-assign]
    log.append([Message(CATALOG.name, key_of(new), encode(new))])
    trigger(log, 9, OTHER, numbers=range(3))
    until(lambda: calc.jobs.of(OTHER) == [0, 1, 2])
    assert calc.jobs.of(9) == []
    follow()
    calc.follow = follow  # type: ignore[method-assign]
    until(lambda: calc.jobs.of(9) == [0, 1, 2])
    log.append([Message(CATALOG.name, key_of(new), None)])
    until(lambda: calc.view.stream(9) is None)
    trigger(log, 9, numbers=range(3, 6))
    until(lambda: calc.view.held() == {})
    until(lambda: sum(calc.loop.done(partition) for partition in range(4)) == 9)
    calc.stop()
    assert uncommitted(log) == 0


@pytest.mark.parametrize("record", [StreamPaused(3, 1, 9, "why"), TriggersHeld(3, 1, 9, "rows")])
def test_its_records_survive_the_wire(record: StreamPaused | TriggersHeld) -> None:
    assert status.decode(status.encode(record)) == record
    assert status.part_of(status.key(record)) == (3, 1)

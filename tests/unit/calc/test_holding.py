"""Triggers of a paused stream stay in the log: nothing lost, in order, no other stream waits."""

from __future__ import annotations

import pytest

from calc_svc.loops.holding import AGAIN, Chunk, Holding
from calc_svc.store.catalog import CatalogView
from millrace_core.calc.waiting import Left
from millrace_core.catalog import encode, key_of
from millrace_core.wire import status
from millrace_core.wire.status import StreamPaused, TriggersHeld
from millrace_core.wire.topics import CATALOG, STATUS, TRIGGERS
from millrace_wal import Gap, MemoryLog, Message, Record, replay

from .calc_loop import ONE, OTHER, Calc, entry, trigger, two_streams, uncommitted, until


@pytest.fixture
def log() -> MemoryLog:
    return two_streams()


def pause(log: MemoryLog, *, end: bool = False) -> None:
    paused = StreamPaused(ONE, 2, 0, "ws://somewhere cannot be reached")
    log.append([Message(STATUS.name, status.key(paused), None if end else status.encode(paused))])


def test_a_paused_stream_waits_and_goes_on_in_order(log: MemoryLog) -> None:
    calc = Calc(log)
    trigger(log, ONE, OTHER, numbers=range(5))
    until(lambda: len(calc.jobs.done) == 10)
    pause(log)
    until(lambda: calc.view.paused(ONE))
    trigger(log, ONE, OTHER, numbers=range(5, 40))
    until(lambda: calc.jobs.of(OTHER) == list(range(40)))
    calc.take_steps()
    assert calc.jobs.of(ONE) == list(range(5))
    until(lambda: len(calc.view.held()) == 1)
    pause(log, end=True)
    trigger(log, ONE, OTHER, numbers=range(40, 60))
    until(lambda: len(calc.jobs.done) == 120)
    trigger(log, ONE, numbers=range(60, 65))
    until(lambda: len(calc.jobs.done) == 125)
    assert calc.jobs.of(ONE) == list(range(65))
    until(lambda: calc.view.held() == {})
    calc.stop()
    assert uncommitted(log) == 0


def test_what_is_live_and_what_answers_requests_wait_each_by_itself(log: MemoryLog) -> None:
    pause(log)
    live, again = Calc(log), Calc(log, AGAIN)
    until(lambda: live.view.paused(ONE) and again.view.paused(ONE))
    trigger(log, ONE, numbers=range(5))
    trigger(log, ONE, numbers=range(5, 10), slot=-1)
    until(lambda: len(live.view.held()) == 2)
    assert live.jobs.done == again.jobs.done == []
    pause(log, end=True)
    until(lambda: live.view.held() == {})
    assert live.jobs.of(ONE) == list(range(5))
    assert again.jobs.of(ONE) == list(range(5, 10))
    live.stop()
    again.stop()


def test_a_restart_repeats_no_other_stream_and_loses_nothing(log: MemoryLog) -> None:
    pause(log)
    calc = Calc(log)
    trigger(log, ONE, OTHER, numbers=range(10))
    trigger(log, ONE, numbers=range(10), slot=1)
    until(lambda: calc.jobs.of(OTHER) == list(range(10)))
    until(lambda: calc.view.held())
    calc.take_steps()
    calc.stop()
    # what was left is committed past: the note in the status topic says where it begins
    assert uncommitted(log) == 0
    trigger(log, ONE, OTHER, numbers=range(10, 12))
    again = Calc(log)
    until(lambda: again.jobs.of(OTHER) == [10, 11])
    assert again.jobs.of(ONE) == []
    pause(log, end=True)
    until(lambda: len(again.jobs.of(ONE)) == 22)
    until(lambda: again.view.held() == {})
    again.stop()
    assert again.jobs.of(ONE).count(11) == 1
    # the slots are two sequences, each in order
    assert sorted(again.jobs.of(ONE)) == sorted([*range(12), *range(10)])


def test_a_pause_while_it_catches_up_stops_it_again(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calc_svc.loops.holding.TAKE", 3)
    pause(log)
    calc = Calc(log)
    trigger(log, ONE, numbers=range(30))
    until(lambda: calc.view.held())

    def again() -> None:
        if len(calc.jobs.done) == 6:
            pause(log)
            calc.follow()

    calc.jobs.told = again
    pause(log, end=True)
    until(lambda: len(calc.jobs.done) >= 6)
    calc.take_steps()
    reached = len(calc.jobs.done)
    assert reached < 30
    until(lambda: list(calc.view.held().values()) == [reached])
    pause(log, end=True)
    until(lambda: calc.jobs.of(ONE) == list(range(30)))
    calc.stop()


def test_what_a_dropped_stream_left_is_forgotten(log: MemoryLog) -> None:
    pause(log)
    calc = Calc(log)
    trigger(log, ONE, OTHER, numbers=range(3))
    until(lambda: calc.view.held())
    log.append([Message(CATALOG.name, key_of(entry(ONE)), None)])
    pause(log, end=True)
    until(lambda: calc.view.held() == {})
    calc.stop()
    assert calc.jobs.of(ONE) == []


def test_triggers_that_waited_and_are_kept_no_longer_are_told(log: MemoryLog) -> None:
    pause(log)
    calc = Calc(log)
    until(lambda: calc.view.paused(ONE))
    trigger(log, ONE, OTHER, numbers=range(5))
    until(lambda: calc.view.held() and calc.jobs.of(OTHER) == list(range(5)))
    ((_, partition),) = calc.view.held()
    kept = [one.key for one in replay(log, TRIGGERS.name) if one.partition == partition]
    log.trim({TRIGGERS.name: {partition: len(kept) - 1}})
    pause(log, end=True)
    until(lambda: calc.view.held() == {})
    calc.stop()
    assert len(calc.jobs.of(ONE)) < 5
    statuses = [status.decode(one.value) for one in replay(log, STATUS.name) if one.value is not None]
    (problem,) = [one for one in statuses if isinstance(one, status.Problem)]
    assert problem.streams == (ONE,) and f"partition {partition}, were deleted before" in problem.message


def test_streams_whose_triggers_are_all_there_are_told_of_no_loss() -> None:
    log, lost = MemoryLog(), list[tuple[Gap, tuple[int, ...]]]()
    log.ensure_topics([(TRIGGERS.name, 1)])
    log.append([Message(TRIGGERS.name, b"1/0", b"") for _ in range(10)])
    log.trim({TRIGGERS.name: {0: 8}})
    holding = Holding(log, CatalogView(), lambda _: None, lambda gap, streams: lost.append((gap, streams)))
    holding._open(0, {(1, 0): 5, (2, 0): 7, (3, 0): 8, (4, 0): 9})
    assert lost == [(Gap(TRIGGERS.name, 0, 5, 8), (1, 2))]


def holding_of(count: int, trimmed: int = 0) -> tuple[Holding, list[Gap]]:
    """Over a partition of this many triggers, of which the first are gone."""
    log, lost = MemoryLog(), list[Gap]()
    log.ensure_topics([(TRIGGERS.name, 1)])
    log.append([Message(TRIGGERS.name, b"1/0", b"") for _ in range(count)])
    log.trim({TRIGGERS.name: {0: trimmed}})
    return Holding(log, CatalogView(), lambda _: None, lambda gap, _: lost.append(gap)), lost


def test_what_is_kept_from_its_first_trigger_on_is_not_lost() -> None:
    holding, lost = holding_of(10, trimmed=8)
    assert holding._open(0, {(1, 0): 8}).positions() == {TRIGGERS.name: {0: 8}}
    assert lost == []


def test_a_reader_goes_on_unless_something_that_can_go_on_lies_before_it() -> None:
    holding, _ = holding_of(10)
    reader = holding._open(0, {(1, 0): 4, (2, 0): 9})
    assert [one.offset for one in reader.poll(0, 2)] == [4, 5]
    assert holding._open(0, {(1, 0): 6, (2, 0): 9}) is reader
    assert holding._open(0, {(2, 0): 9}) is reader
    assert [one.offset for one in holding._open(0, {(2, 0): 9, (3, 0): 5}).poll(0, 2)] == [5, 6]


def test_only_what_was_in_a_chunk_or_changed_is_told_anew() -> None:
    """Of a stream with long pauses nothing is written for each chunk of the others' triggers."""
    holding, _ = holding_of(0)
    inside, other, waited, waits, ends = ((uid, 0) for uid in range(1, 6))
    holding.leave(dict.fromkeys((inside, other, waits, ends), Left(5, "")) | {waited: Left(5, "rows")})
    for part in (inside, other, waits, ends):
        del holding._left[part]
    record = Record(TRIGGERS.name, 0, 12, 0, b"1/0", b"")
    chunk = Chunk([record], dict.fromkeys((inside, other, waited, waits), 20) | {ends: None})
    told = [status.decode(one.value) if one.value else None for one in holding.calculated(
        chunk, {waits: Left(15, "a table")}
    )]  # fmt: skip
    assert told == [
        TriggersHeld(*inside, 20, ""), TriggersHeld(*waited, 20, ""), TriggersHeld(*waits, 15, "a table"),
        None,
    ]  # fmt: skip
    assert holding._marks == {inside: 20, other: 20, waited: 20, waits: 15}


def holding_of_two_partitions() -> tuple[CatalogView, Holding]:
    """A stream is paused, and both partitions have a trigger of it; the catalog has heard of no mark yet."""
    log, view = MemoryLog(), CatalogView()
    log.ensure_topics([STATUS, (TRIGGERS.name, 2)])
    view.apply(0, key_of(entry(ONE)), encode(entry(ONE)))
    paused = StreamPaused(ONE, 2, 0, "ws://somewhere cannot be reached")
    view.apply_status(status.key(paused), status.encode(paused))
    holding = Holding(log, view, lambda _: None, lambda *_: None)
    holding.own({(TRIGGERS.name, 0), (TRIGGERS.name, 1)})
    kept, marks = holding.sift([record(0, 10), record(1, 20)])
    assert kept == [] and [_held(mark) for mark in marks] == [(ONE, 0, 10), (ONE, 1, 20)]
    return view, holding


def record(partition: int, offset: int) -> Record:
    return Record(TRIGGERS.name, partition, offset, 0, b"%d/0" % ONE, b"")


def _held(message: Message) -> tuple[int, int, int]:
    found = status.decode(message.value or b"")
    assert isinstance(found, TriggersHeld)
    return found.stream, found.partition, found.offset


def test_the_marks_of_a_partition_go_with_it() -> None:
    """Another instance calculates what was held there: this one does not, nor does it hold by its mark."""
    view, holding = holding_of_two_partitions()
    holding.own({(TRIGGERS.name, 1)})
    paused = StreamPaused(ONE, 2, 0, "")
    view.apply_status(status.key(paused), None)
    assert holding.due == [(ONE, 1)]
    # partition 0 comes back after another instance has calculated all of it: nothing of it is held any more
    holding.own({(TRIGGERS.name, 0), (TRIGGERS.name, 1)})
    kept, marks = holding.sift([record(0, 11), record(1, 21)])
    assert [one.partition for one in kept] == [0] and marks == []


def test_a_partition_that_comes_brings_the_marks_that_others_wrote() -> None:
    view, holding = holding_of_two_partitions()
    holding.own({(TRIGGERS.name, 1)})
    for partition, offset in ((0, 15), (1, 5)):
        held = TriggersHeld(ONE, partition, offset)
        view.apply_status(status.key(held), status.encode(held))
    holding.own({(TRIGGERS.name, 0), (TRIGGERS.name, 1)})
    assert holding.sift([record(0, 16)]) == ([], [])
    paused = StreamPaused(ONE, 2, 0, "")
    view.apply_status(status.key(paused), None)
    # its own mark of partition 1, which it kept, is newer than what it has read of the status topic
    assert holding._marks == {(ONE, 0): 15, (ONE, 1): 20}


def test_the_status_says_paused_and_why(log: MemoryLog) -> None:
    view = CatalogView()
    record = StreamPaused(ONE, 1, 5, "ws://a is away")
    for uid in (ONE, OTHER):
        view.apply(0, key_of(entry(uid)), encode(entry(uid)))
    view.apply_status(status.key(record), status.encode(record))
    assert view.stream_statuses() == {
        ("db", "s7"): ("Paused", "ws://a is away"),
        ("db", "s8"): ("Running", ""),
    }
    view.apply_status(status.key(record), None)
    assert view.paused(ONE) == ""


@pytest.mark.parametrize("record", [StreamPaused(3, 1, 9, "why"), TriggersHeld(3, 1, 9, "rows")])
def test_its_records_survive_the_wire(record: StreamPaused | TriggersHeld) -> None:
    assert status.decode(status.encode(record)) == record
    assert status.part_of(status.key(record)) == (3, 1)

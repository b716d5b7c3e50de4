"""Two loops over the topic ``triggers``: what is live goes first, answers to requests have their own."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import structlog

from calc_svc.jobs.waits import Waits
from calc_svc.loops import triggers as loop
from calc_svc.loops.holding import AGAIN, LIVE, Share
from calc_svc.loops.overtaking import Overtaking
from calc_svc.loops.triggers import TriggerLoop
from calc_svc.store.catalog import CatalogView
from millrace_core.calc import job_size
from millrace_core.calc.job_size import job_sizes
from millrace_core.calc.product import Product
from millrace_core.calc.waiting import Behind, Wanted
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.model.stream import Duration, StreamSpec
from millrace_core.model.triggers import Trigger
from millrace_core.trigger.types import Period, Session
from millrace_core.wire import events
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.topics import CATALOG, TOPICS, TRIGGERS
from millrace_service import Life
from millrace_wal import MemoryLog, Message, replay

ONE = 7
EVERY_SECOND = Period(Duration(1, "s"))


def event(number: int, rows: int = 0) -> TriggerEvent:
    return TriggerEvent(f"{number}", "CLOSE", "LIVE", Group(0, (), None), number, number, rows, 0)


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


LOGGER = structlog.get_logger("test")


class Both:
    """Both loops; what they calculate is noted in order. ``gate``: what is live waits for it."""

    def __init__(self, log: MemoryLog, trigger: Trigger = EVERY_SECOND) -> None:
        self.log, self.gate = log, threading.Event()
        self.done: list[tuple[str, int]] = []
        self.begun: list[str] = []
        self.ends: list[int] = []
        """Of the windows that are calculated, in order."""
        self.stored = True
        """Whether the rows are there that live triggers have seen."""
        self.catalog = CatalogView()
        self.catalog.status_position = 1 << 60
        entry = StreamEntry(StreamSpec(ONE, "db", "s", "", trigger), "Running", 0, -1)
        self.catalog.apply(0, key_of(entry), encode(entry))
        overtaking = Overtaking()
        self.live = TriggerLoop(log, self._jobs(LIVE), overtaking)
        self.again = TriggerLoop(log, self._jobs(AGAIN), overtaking, AGAIN, self.live)

    def _jobs(self, share: Share) -> Any:
        def run(uid: int, batches: Sequence[TriggerBatch], waits: Waits) -> Product:
            self.begun.append(share.group)
            if share is LIVE:
                self.gate.wait(60)
            self.done += [(share.group, one.start) for batch in batches for one in batch.events]
            self.ends += [one.end for batch in batches for one in batch.events]
            return Product(uid)

        def missing(wanted: Wanted) -> str | None:
            return None if self.stored or not wanted.catalog else "rows"

        def reach(wanted: Wanted, timeout: float) -> None:
            if what := missing(wanted):
                raise Behind(wanted, what, timeout)

        def wanted(uid: int, batches: Sequence[TriggerBatch]) -> Wanted:
            return Wanted(catalog=int(share is LIVE))

        return cast(Any, SimpleNamespace(
            catalog=self.catalog, run=run,
            store=SimpleNamespace(reach=reach, missing=missing, sent=lambda rows, places: None),
            stop=lambda: None, low_latency=lambda uid: False, wanted=wanted,
        ))  # fmt: skip

    def write(self, slot: int, number: int, window: int | None = None, seen: int = 0) -> tuple[int, int]:
        """``seen``: how many rows it has seen, which is its end as well."""
        one = event(number if window is None else window)
        if seen:
            one = msgspec.structs.replace(one, end=seen)
        batch = TriggerBatch(ONE, 0, slot, number, {0: seen} if seen else {}, [one])
        (place,) = self.log.append([Message(TRIGGERS.name, f"{ONE}/{slot}".encode(), events.encode(batch))])
        return place

    def committed(self, share: Share, place: tuple[int, int]) -> bool:
        """Whether a start of the loop would not read what was written there."""
        partition, offset = place
        return self.log.committed(share.group, TRIGGERS.name).get(partition, 0) > offset

    def __enter__(self) -> Both:
        self.lives = [Life(loop, LOGGER) for loop in (self.live, self.again)]
        for life in self.lives:
            life.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        for life in reversed(self.lives):
            life.stop()


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.ensure_topics([*TOPICS, CATALOG])
    return log


def left(log: MemoryLog, group: str) -> list[bytes | None]:
    """The keys that a new start of a loop would read."""
    with log.subscribe(group, [TRIGGERS.name]) as probe:
        return [record.key for record in probe.poll(0)]


def test_each_loop_calculates_its_share(log: MemoryLog) -> None:
    with Both(log) as both:
        both.gate.set()
        for number in range(10):
            both.write(number % 2, number)
            both.write(-1, 100 + number)
        until(lambda: len(both.done) == 20)
        until(lambda: both.again.done(0) + both.again.done(1) + both.again.done(2) + both.again.done(3) == 20)
    assert sorted(one for group, one in both.done if group == LIVE.group) == list(range(10))
    assert sorted(one for group, one in both.done if group == AGAIN.group) == list(range(100, 110))
    # what is read again after a restart is the other loop's
    assert all(not events.answers_request(key) for key in left(log, AGAIN.group))
    assert all(events.answers_request(key) for key in left(log, LIVE.group))


@pytest.mark.parametrize("slot", range(8))
def test_answers_wait_for_what_is_live_and_live_ones_for_nobody(log: MemoryLog, slot: int) -> None:
    """Whatever partition either lies in (chaos, seed 2: an older live result came last)."""
    with Both(log) as both:
        both.write(slot, 1)
        until(lambda: both.begun == [LIVE.group])
        partition, offset = both.write(-1, 100)
        time.sleep(0.2)
        assert both.done == []
        assert both.again.done(partition) <= offset
        both.gate.set()
        until(lambda: both.again.done(partition) > offset)
        assert both.done == [(LIVE.group, 1), (AGAIN.group, 100)]


@pytest.mark.parametrize("slot", range(4))
def test_answers_wait_for_live_triggers_that_wait_for_their_rows(log: MemoryLog, slot: int) -> None:
    """Chaos, seed 2: a store that was behind after a restart; the live result was written last."""
    with Both(log) as both:
        both.gate.set()
        both.stored = False
        place = both.write(slot, 1)
        until(lambda: both.live.done(place[0]) > place[1])
        partition, offset = both.write(-1, 100)
        until(lambda: both.again.done(partition) > offset)
        time.sleep(0.2)
        assert both.done == []
        both.stored = True
        until(lambda: len(both.done) == 2)
        assert both.done == [(LIVE.group, 1), (AGAIN.group, 100)]


@pytest.mark.parametrize("slot", range(4))
def test_an_answer_that_waited_says_of_a_window_what_was_told_of_it_since(log: MemoryLog, slot: int) -> None:
    """Chaos, seed 20: the end that history knew was written over that of what is live, which had seen more
    rows; also after a kill between the two."""
    for seen in (9, 12):
        with Both(log, Session(Duration(5, "s"))) as both:
            answer = both.write(-1, seen, window=1, seen=5)
            live = both.write(slot, seen, window=1, seen=seen)
            both.gate.set()
            until(lambda: len(both.done) == 2)
            # a loop that is stopped before it has committed does it again after the restart
            for share, place in ((AGAIN, answer), (LIVE, live)):
                until(partial(both.committed, share, place))
        assert both.done == [(LIVE.group, 1), (AGAIN.group, 1)]
        assert both.ends == [seen, seen]


def test_after_a_restart_the_loop_of_answers_knows_that_nothing_is_live_any_more(log: MemoryLog) -> None:
    with Both(log) as both:
        both.gate.set()
        both.write(0, 1)
        until(lambda: len(both.done) == 1)
    assert left(log, LIVE.group) == []
    with Both(log) as both:
        both.write(-1, 100)
        until(lambda: both.done == [(AGAIN.group, 100)])


def test_answers_wait_for_what_is_live_in_another_process(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "OTHERS_SECONDS", 0.01)
    with log.subscribe(LIVE.group, [TRIGGERS.name]) as other, Both(log) as both:
        both.gate.set()
        until(lambda: both.live.own)
        other.poll(0)
        theirs = {partition for _, partition in other.assigned()}
        assert theirs and theirs.isdisjoint(both.live.own)
        places = [both.write(slot, 1) for slot in range(8)]
        ours = sum(partition not in theirs for partition, _ in places)
        both.write(-1, 100)
        until(lambda: len(both.done) == ours)
        time.sleep(0.2)
        assert (AGAIN.group, 100) not in both.done
        ends = log.end_offsets(TRIGGERS.name)
        other.commit({(TRIGGERS.name, partition): ends[partition] for partition in theirs})
        until(lambda: both.done[ours:] == [(AGAIN.group, 100)])


def test_jobs_are_bounded_by_events_and_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_size, "EVENTS_PER_JOB", 4)
    monkeypatch.setattr(job_size, "ROWS_PER_JOB", 100)

    def sizes(*rows: int) -> list[list[int]]:
        return [[one.rownum for one in part] for part in job_sizes([event(n, r) for n, r in enumerate(rows)])]

    assert sizes() == []
    assert sizes(1, 2, 3, 4, 5) == [[1, 2, 3, 4], [5]]
    assert sizes(60, 40, 1) == [[60, 40], [1]]
    assert sizes(500, 1, 99, 1) == [[500], [1, 99], [1]]  # one event is never divided
    assert sizes(-1, -1, 98, -1) == [[-1, -1, 98], [-1]]  # what is not known counts as one


class Results:
    """Both loops over a table that is one number, its version: a window's result is the version that its
    calculation has read, written a moment later."""

    OUT = "out"

    def __init__(self, log: MemoryLog, rng: random.Random) -> None:
        self.log, self.rng, self.version = log, rng, 0
        log.ensure_topics([(self.OUT, 1)])
        self.both = Both(log)
        self.both.gate.set()
        for share in (self.both.live, self.both.again):
            share._jobs.run = self.run  # type: ignore[method-assign]

    def run(self, uid: int, batches: Sequence[TriggerBatch], waits: Waits) -> Product:
        read = self.version
        time.sleep(self.rng.random() / 300)
        windows = [one.start for batch in batches for one in batch.events]
        return Product(uid, [Message(self.OUT, b"%d" % start, b"%d" % read) for start in windows])

    def last(self) -> dict[int, int]:
        return {int(one.key or b""): int(one.value or b"") for one in replay(self.log, self.OUT)}


@pytest.mark.parametrize("seed", range(5))
def test_the_last_result_of_a_window_has_read_the_newest_rows(log: MemoryLog, seed: int) -> None:
    rng = random.Random(seed)
    results = Results(log, rng)
    newest: dict[int, int] = {}
    ends: dict[int, int] = {}
    with results.both as both:
        for number in range(150):
            results.version += 1
            # a window that closes, or a late row's; a recalculation by hand
            both.write(rng.choice((0, -1)), number, window := rng.randrange(3))
            newest[window] = results.version
            time.sleep(rng.random() / 500)
        ends = log.end_offsets(TRIGGERS.name)
        until(lambda: all(loop.done(p) >= end for loop in (both.live, both.again) for p, end in ends.items()))
    assert {window: read >= newest[window] for window, read in results.last().items()} == dict.fromkeys(
        newest, True
    )


def test_what_another_loop_wrote_meanwhile_is_calculated_again(log: MemoryLog) -> None:
    overtaking = Overtaking()

    def batches(*windows: int) -> dict[int, list[TriggerBatch]]:
        return {ONE: [TriggerBatch(ONE, 0, 0, 0, {}, [event(window) for window in windows])]}

    with overtaking.turn() as slow:
        with overtaking.turn() as quick:
            assert quick.written(batches(2, 3)) == {}
        with overtaking.turn() as quick:
            assert quick.written({ONE + 1: batches(1)[ONE]}) == {}
        assert slow.written(batches(1, 2)) == batches(2)
    with overtaking.turn() as slow, overtaking.turn() as quick:
        # both have written: one of them has to look again, and one is enough
        assert slow.written(batches(1)) == {}
        assert quick.written(batches(1)) == batches(1)
    with overtaking.turn() as after:
        assert after.written(batches(1, 2, 3)) == {}

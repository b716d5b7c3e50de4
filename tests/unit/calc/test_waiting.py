"""Triggers wait for what they need, however long: nothing is given up, no other stream waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from calc_svc.loops import triggers
from millrace_core.calc.waiting import Behind, Wanted
from millrace_core.catalog import key_of
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire.topics import CATALOG, TRIGGERS
from millrace_wal import MemoryLog, Message

from .calc_loop import ONE, OTHER, Calc, define, entry, trigger, two_streams, uncommitted, until


@pytest.fixture
def log() -> MemoryLog:
    return two_streams()


ROWS = f"wal.d.s{ONE}"
"""Where the rows of a stream lie."""


def test_triggers_wait_for_their_rows_however_long_and_no_other_stream_waits(log: MemoryLog) -> None:
    calc = Calc(log, stored={ROWS: 10})
    trigger(log, ONE, OTHER, numbers=range(40))
    until(lambda: calc.jobs.of(OTHER) == list(range(40)))
    until(lambda: calc.jobs.of(ONE) == list(range(11)))
    until(lambda: calc.view.held())
    assert calc.view.stream_statuses()["db", "s7"] == (
        "Running", f"waits until this is stored: {ROWS}/0 offset 11",
    )  # fmt: skip
    trigger(log, ONE, OTHER, numbers=range(40, 50))
    until(lambda: calc.jobs.of(OTHER) == list(range(50)))
    calc.jobs.store.positions[ROWS] = 30
    until(lambda: calc.jobs.of(ONE) == list(range(31)))
    until(lambda: calc.view.waiting()[ONE].endswith("offset 31"))
    calc.stop()
    # killed here: what waits is committed past, and still known
    assert uncommitted(log) == 0
    again = Calc(log, stored={ROWS: 30})
    until(lambda: again.view.waiting()[ONE].endswith("offset 31"))
    assert again.jobs.done == []
    again.jobs.store.positions[ROWS] = 60
    until(lambda: again.jobs.of(ONE) == list(range(31, 50)))
    until(lambda: again.view.held() == {})
    assert again.view.stream_statuses()["db", "s7"] == ("Running", "")
    again.stop()


def test_what_waits_is_known_before_a_partition_is_read(log: MemoryLog) -> None:
    """Where it begins stands in the topic ``status``, which another thread reads: the group has committed
    past it."""
    calc = Calc(log, stored={ROWS: 3})
    trigger(log, ONE, OTHER, numbers=range(10))
    until(lambda: calc.jobs.of(OTHER) == list(range(10)) and calc.view.held())
    calc.stop()
    again = Calc(log, follows=False)
    trigger(log, ONE, OTHER, numbers=range(10, 12))
    time.sleep(0.3)
    assert again.jobs.done == []
    again.follows.set()
    until(lambda: again.jobs.of(ONE) == list(range(4, 12)))
    until(lambda: again.jobs.of(OTHER) == [10, 11])
    again.stop()


def test_many_streams_that_wait_are_read_again_together(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calc_svc.loops.holding.TAKE", 7)
    streams = list(range(100, 112))
    for uid in streams:
        define(log, uid)
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

    calc.jobs.others[ONE] = behind
    trigger(log, ONE, OTHER, numbers=range(20))
    until(lambda: calc.jobs.of(OTHER) == list(range(20)))
    assert calc.jobs.of(ONE) == []

    def read() -> bool:
        calc.jobs.store.positions[other] = end
        return len(calc.jobs.of(ONE)) > 0

    # what was written to the other table since they came is not theirs
    until(read)
    while len(calc.jobs.of(ONE)) < 20:
        calc.jobs.store.positions[other] = end
        time.sleep(0.01)
    assert calc.jobs.of(ONE) == list(range(20))
    calc.stop()


def test_what_may_come_by_itself_is_tried_again(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace_core.calc.rounds.AGAIN_SECONDS", 0.02)
    calc = Calc(log)
    tries = iter(range(1000))
    calc.jobs.others[ONE] = lambda: (
        MillraceError(ErrorCode.UNAVAILABLE, "the output table is away") if next(tries) < 30 else None
    )
    trigger(log, ONE, numbers=range(10))
    until(lambda: calc.view.waiting() == {ONE: "waits: the output table is away"})
    until(lambda: calc.jobs.of(ONE) == list(range(10)))
    until(lambda: calc.view.held() == {})
    calc.stop()


def test_a_stream_whose_record_is_on_the_way_is_waited_for_and_one_that_is_gone_is_not(
    log: MemoryLog,
) -> None:
    calc = Calc(log)
    new = entry(9)
    follow, calc.follow = calc.follow, lambda: None  # type: ignore[method-assign]
    define(log, 9)
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


def test_what_a_round_leaves_for_the_next_does_not_count_as_calculated(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers wait until what is live before them is done."""
    monkeypatch.setattr(triggers, "ROUND_BYTES", 1)
    calc, done = Calc(log), list[int]()
    (partition,) = _written(log, lambda: trigger(log, OTHER, numbers=range(1)))
    until(lambda: calc.loop.done(partition) == 1)
    calc.jobs.long[OTHER] = threading.Event()
    calc.jobs.told = lambda: done.append(calc.loop.done(partition))
    # all of them are there before the first is calculated, so some are read together
    trigger(log, OTHER, numbers=range(1, 5))
    calc.jobs.long[OTHER].set()
    until(lambda: calc.loop.done(partition) == 5)
    assert (calc.jobs.of(OTHER), done) == ([0, 1, 2, 3, 4], [1, 2, 3, 4])
    calc.stop()
    assert uncommitted(log) == 0


def _written(log: MemoryLog, write: Callable[[], None]) -> set[int]:
    """The partitions of ``triggers`` in which something is written."""
    before = log.end_offsets(TRIGGERS.name)
    write()
    return {partition for partition, end in log.end_offsets(TRIGGERS.name).items() if end > before[partition]}

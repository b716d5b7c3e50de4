"""A stream whose calculation takes long goes on beside the rounds of the others."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from calc_svc.jobs.waits import Waits
from calc_svc.loops import aside
from millrace_core.calc.product import Product
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire import status
from millrace_core.wire.events import TriggerBatch
from millrace_core.wire.topics import STATUS
from millrace_wal import MemoryLog, replay

from .calc_loop import ONE, OTHER, Calc, Jobs, trigger, two_streams, uncommitted, until


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "ROUND_SECONDS", 0.05)
    monkeypatch.setattr(aside, "TICK", 0.01)


@contextmanager
def calculating(log: MemoryLog, *, long: bool = False) -> Iterator[tuple[Calc, threading.Event]]:
    """The loop; where ``long``, the calculation of one stream takes until this."""
    calc, end = Calc(log), threading.Event()
    if long:
        calc.jobs.long[ONE] = end
    yield calc, end
    end.set()
    calc.stop()


def held(log: MemoryLog) -> dict[tuple[int, int], int]:
    """The triggers that the log says wait: from which offset on, by stream and partition."""
    found: dict[bytes, status.TriggersHeld | None] = {}
    for record in replay(log, STATUS.name):
        told = status.decode(record.value) if record.value else None
        if isinstance(told, status.TriggersHeld):
            found[record.key or b""] = told
        elif record.key in found:
            found[record.key or b""] = None
    return {(one.stream, one.partition): one.offset for one in found.values() if one is not None}


def test_the_others_go_on_and_what_came_meanwhile_is_calculated_after_it() -> None:
    log = two_streams()
    with calculating(log, long=True) as (calc, end):
        trigger(log, ONE, OTHER, numbers=range(3))
        until(lambda: calc.jobs.of(OTHER) == [0, 1, 2])
        for number in range(3, 6):
            trigger(log, ONE, OTHER, numbers=range(number, number + 1))
            until(lambda: calc.jobs.of(OTHER)[-1] == number)  # noqa: B023
        calc.take_steps()
        assert calc.jobs.of(ONE) == []
        assert uncommitted(log) == 0, "the log says where they go on"
        assert held(log)
        end.set()
        until(lambda: calc.jobs.of(ONE) == list(range(6)))
        until(lambda: not held(log))
        trigger(log, ONE, numbers=range(6, 8))
        until(lambda: calc.jobs.of(ONE) == list(range(8)))


def test_triggers_in_other_partitions_wait_too() -> None:
    """One thread at a time calculates a stream."""
    log = two_streams()
    with calculating(log, long=True) as (calc, end):
        trigger(log, ONE, OTHER, numbers=range(1))
        until(lambda: calc.loop._calculating.aside == {ONE})
        for slot in range(1, 8):
            trigger(log, ONE, OTHER, numbers=range(slot, slot + 1), slot=slot)
        until(lambda: len(calc.jobs.of(OTHER)) == 8)
        calc.take_steps()
        assert calc.jobs.of(ONE) == []
        end.set()
        until(lambda: sorted(calc.jobs.of(ONE)) == list(range(8)))
        until(lambda: not held(log))
        calc.take_steps()
        assert len(calc.jobs.of(ONE)) == 8


def test_after_a_restart_it_is_calculated_again() -> None:
    log = two_streams()
    with calculating(log, long=True) as (calc, _):
        trigger(log, ONE, OTHER, numbers=range(3))
        until(lambda: calc.jobs.of(OTHER) == [0, 1, 2])
        until(lambda: held(log) and uncommitted(log) == 0)
        with calculating(log) as (again, _):
            until(lambda: again.jobs.of(ONE) == [0, 1, 2])
            assert again.jobs.of(OTHER) == []


def test_one_that_waits_for_something_in_the_end_is_tried_again() -> None:
    log = two_streams()
    with calculating(log) as (calc, end):
        away = [Product(ONE, waits=MillraceError(ErrorCode.UNAVAILABLE, "away"))]

        def run(uid: int, batches: Sequence[TriggerBatch], waits: Waits) -> Product:
            if away:
                assert end.wait(60)
                return away.pop()
            return Jobs.run(calc.jobs, uid, batches, waits)

        calc.jobs.run = run  # type: ignore[method-assign]
        trigger(log, ONE, numbers=range(2))
        until(lambda: calc.loop._calculating.aside == {ONE})
        end.set()
        until(lambda: calc.jobs.of(ONE) == [0, 1])
        until(lambda: not held(log))

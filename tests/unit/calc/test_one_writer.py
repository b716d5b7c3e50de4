"""A stream that takes results back, or shows windows early: what changed is cut and calculated in one turn,
behind all that was told before (chaos, seed 17: an answer that had waited took newer windows back)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import pytest

from calc_svc.loops import triggers as loop
from calc_svc.loops.holding import AGAIN, LIVE
from calc_svc.loops.one_writer import OneWriter
from calc_svc.loops.recalc import RecalcLoop
from millrace_core.calc.overtaking import one_writer
from millrace_core.calc.product import Product
from millrace_core.calc.waiting import Wanted
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.stream import Duration, Emission, StreamSpec
from millrace_core.recalc.requests import LANES
from millrace_core.recalc.sending import Output, Work
from millrace_core.recalc.told import Told
from millrace_core.trigger.types import Period
from millrace_core.wire import events, recalc
from millrace_core.wire.events import ANSWERED, ANSWERING, TriggerBatch
from millrace_core.wire.recalc import Request
from millrace_core.wire.topics import RECALC, TRIGGERS
from millrace_service import Life
from millrace_wal import MemoryLog, Message, replay

from .test_shares import LOGGER, ONE, Both, event, left, log, until

__all__ = ["log"]
LANE = next(iter(LANES))
CUT = 1000
"""The window that the answer to the request at n tells of is CUT + n."""
LATE = MillraceError(ErrorCode.TIMEOUT, "a table has not been read")


def spec(emission: Emission) -> StreamSpec:
    return StreamSpec(ONE, "db", "s", "", Period(Duration(1, "s")), emission=emission)


class Three(Both):
    """Both loops over ``triggers``, and that which answers. ``cutting``: an answer is not given before it is
    set; ``late``: how often a job of an answer finds that something is missing."""

    def __init__(self, log: MemoryLog, emission: Emission) -> None:
        super().__init__(log)
        entry = StreamEntry(spec(emission), "Running", 0, -1)
        self.catalog.apply(0, key_of(entry), encode(entry))
        self.cutting = threading.Event()
        self.cutting.set()
        self.late = 0
        overtaking = self.live._calculating._overtaking
        jobs = self._jobs(AGAIN)

        def run(uid: int, batches: Sequence[TriggerBatch], waits: object) -> Product:
            if self.late:
                self.late -= 1
                return Product(uid, waits=LATE)
            self.done += [("answer", one.start) for batch in batches for one in batch.events]
            return Product(uid)

        jobs.run = run
        writer = partial(OneWriter, log, jobs, overtaking, (self.live, self.again))
        self.lane = RecalcLoop(log, cast(Any, self), LANE, self.again.done, writer)
        self.told, self.store = Told(self.catalog), jobs.store

    def definitions(self) -> Wanted:
        return Wanted()

    def wanted(self, requests: Sequence[Request], later: Iterable[Request] = ()) -> Wanted:
        return Wanted()

    def answer(
        self, requests: Sequence[Request], place: tuple[int, int], work: Work, later: object
    ) -> Iterator[Output]:
        self.done.append(("cut", 0))
        self.cutting.wait(60)
        told = [event(CUT + request.localtime) for request in requests]
        yield TriggerBatch(ONE, 0, ANSWERING, place[1], {}, told)

    def ask(self, number: int) -> None:
        request = Request(ONE, 0, 0, 1, "CHANGE", {}, number, rest=(0, 10))
        self.log.append([Message(RECALC.name, recalc.key(ONE, 0), recalc.encode(request))])

    def __enter__(self) -> Three:
        super().__enter__()
        self.lives.append(Life(self.lane, LOGGER))
        self.lives[-1].start()
        return self

    @property
    def slots(self) -> list[int]:
        """By whom something was told."""
        return [events.decode(record.value or b"").slot for record in replay(self.log, TRIGGERS.name)]


SHOWN = Emission(when="at_once", obsolete="retracted")


def test_which_streams_have_one_writer() -> None:
    assert not one_writer(spec(Emission()))
    assert one_writer(spec(SHOWN))
    assert one_writer(spec(Emission(obsolete="retracted"))) and one_writer(spec(Emission(when="max_delay")))


def test_an_answer_is_cut_when_what_was_told_before_is_calculated(log: MemoryLog) -> None:
    with Three(log, SHOWN) as three:
        three.write(0, 1)
        until(lambda: three.begun == [LIVE.group])
        three.ask(1)
        until(lambda: three.lane._pending == [] and three.lane._answering < float("inf"))
        assert three.done == []
        three.gate.set()
        until(lambda: ANSWERED in three.slots)
        assert three.done == [(LIVE.group, 1), ("cut", 0), ("answer", CUT + 1)]
    # it stands in the log, and nobody calculates it again
    with Three(log, SHOWN) as three:
        three.write(0, 2)
        until(lambda: three.begun == [LIVE.group])
        three.gate.set()
        until(lambda: left(log, AGAIN.group) == left(log, LIVE.group) == [])
        assert three.done == [(LIVE.group, 2)]


def test_after_a_restart_an_answer_waits_for_loops_that_have_not_begun(log: MemoryLog) -> None:
    three = Three(log, SHOWN)
    three.gate.set()
    three.write(0, 1)
    three.ask(1)
    lane = Life(three.lane, LOGGER)
    lane.start()
    until(lambda: three.lane._answering < float("inf"))
    assert three.done == []
    live = [Life(one, LOGGER) for one in (three.live, three.again)]
    for life in live:
        life.start()
    until(lambda: ANSWERED in three.slots)
    assert three.done == [(LIVE.group, 1), ("cut", 0), ("answer", CUT + 1)]
    for life in (lane, *live):
        life.stop()


def test_what_is_live_is_left_while_windows_are_cut(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "WAIT_SECONDS", 0.05)
    with Three(log, SHOWN) as three:
        three.gate.set()
        three.cutting.clear()
        three.ask(1)
        until(lambda: three.done == [("cut", 0)])
        partition, offset = three.write(0, 1)
        until(lambda: three.live.done(partition) > offset)
        assert three.live.holds(ONE)
        # the next one waits for what was left
        three.ask(2)
        three.cutting.set()
        until(lambda: len(three.done) == 5)
        assert three.done == [
            ("cut", 0), ("answer", CUT + 1), (LIVE.group, 1), ("cut", 0), ("answer", CUT + 2),
        ]  # fmt: skip


def test_what_a_job_misses_is_cut_again_when_it_has_come(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calc_svc.loops.recalc.AGAIN_SECONDS", 0.02)
    with Three(log, SHOWN) as three:
        three.gate.set()
        three.late = 2
        three.ask(1)
        until(lambda: ANSWERED in three.slots)
        assert three.done == [("cut", 0)] * 3 + [("answer", CUT + 1)]
        until(lambda: left(log, LANE) == [])


def test_answers_of_other_streams_are_calculated_from_the_log(log: MemoryLog) -> None:
    with Three(log, Emission()) as three:
        three.gate.set()
        three.ask(1)
        until(lambda: three.done == [("cut", 0), (AGAIN.group, CUT + 1)])
        assert three.slots == [ANSWERING]

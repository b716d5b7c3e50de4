"""The trigger loop over a log that fails: what is committed is calculated and written, or known as held."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calc_svc.jobs.waits import Waits
from calc_svc.loops import holding
from calc_svc.loops import triggers as loop
from calc_svc.loops.overtaking import Overtaking
from calc_svc.loops.triggers import TriggerLoop
from calc_svc.store.catalog import CatalogView
from millrace_core.calc.product import Product
from millrace_core.catalog import encode, key_of
from millrace_core.model.schema import Table
from millrace_core.wire import events, status
from millrace_core.wire.events import TriggerBatch
from millrace_core.wire.status import StreamPaused, TriggersHeld
from millrace_core.wire.topics import CATALOG, STATUS, TOPICS, TRIGGERS, wal_topic
from millrace_service.life import Work
from millrace_wal import MemoryLog, Message, replay
from millrace_wal.flaky import FAILURES, KILLS, FlakyLog, InjectedFault

from ...conftest import examples
from ...works import Steps
from .calc_loop import ONE, OTHER, Jobs, define, trigger

NONE, BEFORE, AFTER, HALF = InjectedFault.NONE, InjectedFault.BEFORE, InjectedFault.AFTER, InjectedFault.HALF
KILLED, ENDED = InjectedFault.KILLED_AFTER, InjectedFault.ENDED
OUT = Table("db", "out", "normal", 5, "ms", (), (), 0)
TOPIC = wal_topic("db", "out")
Event = tuple[str, int]
WHOLE = loop.ROUND_BYTES


class Results(Jobs):
    """Each trigger gives one row: its stream and number."""

    def run(self, uid: int, batches: Sequence[TriggerBatch], waits: Waits) -> Product:
        product = super().run(uid, batches, waits)
        if product.waits is None:
            numbers = [event.start for batch in batches for event in batch.events]
            product.messages += [Message(TOPIC, b"%d" % uid, b"%d" % number) for number in numbers]
        return product


class Calc:
    """calc-svc's trigger loop without its thread. What it would wait for happens while it waits."""

    def __init__(self) -> None:
        self.log = FlakyLog(MemoryLog(), on_commit=self.committed)
        inner = self.log.log
        inner.ensure_topics([*TOPICS, (TOPIC, 1)])
        for uid in (ONE, OTHER):
            define(inner, uid)
        inner.append([Message(CATALOG.name, key_of(OUT), encode(OUT))])
        self.stored: dict[str, int] = {}
        self.numbers = {ONE: 0, OTHER: 0}
        self.reached: dict[int, int] = {}
        self.steps = Steps(self.make, lambda work: work._calculating.close())  # type: ignore[attr-defined]

    def make(self) -> Work:
        view = CatalogView()
        readers = [self.log.log.reader({topic.name: {0: 0}}) for topic in (CATALOG, STATUS)]
        jobs = Results(view)
        jobs.store.positions = self.stored
        made = TriggerLoop(self.log, jobs, Overtaking())  # type: ignore[arg-type]

        def follow() -> None:
            for record in readers[0].poll(0):
                view.apply(record.offset, record.key or b"", record.value)
            for record in readers[1].poll(0):
                view.apply_status(record.key or b"", record.value)
            view.status_position = readers[1].positions()[STATUS.name][0]

        class Passing(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                follow()
                return self.is_set()

        made.stopping = made._calculating._stopping = Passing()
        follow()
        self.follow = follow
        return made

    def happens(self, kind: str, uid: int) -> None:
        log, paused = self.log.log, StreamPaused(uid, 2, 0, "ws://somewhere cannot be reached")
        if kind == "trigger":
            number = self.numbers[uid]
            self.numbers[uid] += 1
            trigger(log, uid, numbers=range(number, number + 1), slot=number % 2)
        elif kind == "store":
            self.stored[wal_topic("db", f"s{uid}")] = self.numbers[uid]
        elif kind == "behind":
            self.stored[wal_topic("db", f"s{uid}")] = max(self.numbers[uid] - 1, 0)
        else:
            value = status.encode(paused) if kind == "pause" else None
            log.append([Message(STATUS.name, status.key(paused), value)])

    def results(self) -> list[tuple[int, int]]:
        """(stream, number) in the order in which they were written."""
        return [(int(r.key or b""), int(r.value or b"")) for r in replay(self.log.log, TOPIC)]

    def held(self) -> dict[tuple[int, int], int]:
        """Stream and partition -> from where on its triggers are held, as the topic ``status`` says."""
        found: dict[bytes, bytes | None] = {r.key or b"": r.value for r in replay(self.log.log, STATUS.name)}
        texts = [status.decode(value) for value in found.values() if value is not None]
        return {(one.stream, one.partition): one.offset for one in texts if isinstance(one, TriggersHeld)}

    def committed(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        there, held = set(self.results()), self.held()
        for (topic, partition), offset in offsets.items():
            self.reached[partition] = max(self.reached.get(partition, 0), offset)
            for record in self.log.log.reader({topic: {partition: 0}}).poll(0)[:offset]:
                batch = events.decode(record.value or b"")
                begins = held.get((batch.stream, partition), offset)
                known = begins <= record.offset or (batch.stream, batch.events[0].start) in there
                assert known, "committed, not written, and not held"

    @property
    def done(self) -> bool:
        ends = self.log.log.end_offsets(TRIGGERS.name)
        if self.held():
            return False
        return all(self.reached.get(partition, 0) == end for partition, end in ends.items())


def play(rounds: list[tuple[list[Event], list[InjectedFault]]]) -> Calc:
    calc = Calc()
    for events_, what_fails in rounds:
        for event in events_:
            calc.happens(*event)
        calc.log.give(what_fails)
        calc.steps.step()
        calc.steps.step()
    calc.log.give([])
    for uid in (ONE, OTHER):
        calc.happens("go on", uid)
        calc.happens("store", uid)
    for _ in range(60):
        calc.steps.step()
        calc.follow()
        if calc.done:
            break
    return calc


kinds = st.sampled_from(["trigger", "trigger", "trigger", "pause", "go on", "behind", "store"])
happenings = st.lists(st.tuples(kinds, st.sampled_from([ONE, OTHER])), max_size=5)
faults = st.lists(st.sampled_from(FAILURES + KILLS), max_size=10)


@settings(max_examples=examples(100))
@example([([("trigger", ONE)], [NONE] * 3 + [HALF]), ([("trigger", ONE)], [])], WHOLE)
@example([([("pause", ONE), ("trigger", ONE)], [NONE] * 3 + [AFTER]), ([("go on", ONE)], [KILLED])], WHOLE)
# the partition is lost with the poll that gives a trigger, behind one that is held
@example([([("trigger", ONE), ("pause", ONE)], []), ([("trigger", ONE)] * 2, [ENDED])], WHOLE)
@example([([("trigger", ONE), ("trigger", OTHER)], [NONE] * 3 + [ENDED]), ([], [KILLED])], 1)
@given(st.lists(st.tuples(happenings, faults), min_size=1, max_size=6), st.sampled_from([1, WHOLE]))
def test_what_is_committed_is_written_or_held(
    rounds: list[tuple[list[Event], list[InjectedFault]]], most: int
) -> None:
    """``most``: how long a round's messages may be together, in bytes; at 1 it takes one message."""
    with pytest.MonkeyPatch.context() as patch:
        for module, names in ((loop, ("POLL", "WAIT_SECONDS", "AGAIN_WAIT_SECONDS", "PASS_SECONDS")),
                              (holding, ("POLL",))):  # fmt: skip
            for name in names:
                patch.setattr(module, name, 0)
        patch.setattr(loop, "ROUND_BYTES", most)
        calc = play(rounds)
    calc.steps.kill()
    assert calc.done, "everything is calculated and committed, and nothing is held"
    wanted = {(uid, number) for uid, count in calc.numbers.items() for number in range(count)}
    assert set(calc.results()) == wanted

"""Messages reach the slots by the reader, by micro-batches in the driver, and by workers: whichever takes
them, and whatever is killed in between, the same is told, under the same numbers and ids."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import structlog
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.conftest import examples

from millrace_core.trigger.rows import Messages
from millrace_core.wire import control, events, regroup
from millrace_core.wire.rows.decoder import encode_rows
from millrace_core.wire.topics import CLOCK, CONTROL, REGROUP, TOPICS, TRIGGERS, slot_for, wal_topic
from millrace_wal import MemoryLog, Message, Record, replay
from trigger_svc.ahead import Ahead
from trigger_svc.evaluator import Evaluator
from trigger_svc.ledger.states import Generation, Positions
from trigger_svc.messages import is_rows
from trigger_svc.positions import behind, between, fetch
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.workers import judge_slots

LOGGER = structlog.get_logger("test")
SLOTS = 3


class Deployment:
    """trigger-svc without Spark, over a log in memory; its reader and its micro-batches are stepped."""

    def __init__(self, folder: Path, kit: Any) -> None:
        self.kit = kit
        self.now = 0
        self.log = MemoryLog(lambda: self.now)
        self.log.ensure_topics([*TOPICS, (wal_topic("d", "meters"), 2)])
        self.settings = TriggerSettings(data_dir=folder, slots=SLOTS)
        self.evaluator = self._evaluator()
        self.ahead = Ahead(self.log, self.evaluator, LOGGER)
        self._begun = False

    def _evaluator(self) -> Evaluator:
        return Evaluator(self.settings, self.log, LOGGER)

    # ------------------------------------------------------------------ what others do

    def control(self, record: control.AnyControl) -> None:
        self.log.append([Message(CONTROL.name, b"x", control.encode(record))])

    def define(self, uid: int, late: int = 0, **options: Any) -> None:
        """``late``: rows that are written between the question for the ends and the record."""
        spec = self.kit.stream(uid, **options)
        record = control.DefineStream(spec, self.log.end_offsets(wal_topic("d", "meters")))
        for number in range(late):
            self.write("abc"[number % 3], self.now)
        self.control(record)

    def write(self, child: str, *times: int) -> None:
        self.now += 1
        value = encode_rows([{"ts": ts, "v": 1} for ts in times])
        self.log.append([Message(wal_topic("d", "meters"), child.encode(), value)])

    def tick(self) -> None:
        self.now += 20
        topic = wal_topic("d", "meters")
        tick = control.Tick(self.now * 10**6, 0, {topic: self.log.end_offsets(topic)})
        self.log.append([Message(CLOCK.name, None, control.encode(tick))])

    # ------------------------------------------------------------------ the service

    def read_ahead(self) -> None:
        """A step of the reader that finds something."""
        if not self._begun:
            self.ahead.begin()
            self._begun = True
        before = self.evaluator.evaluated
        for _ in range(8):
            self.ahead.step()
            if self.evaluator.evaluated != before:
                return

    def ends(self) -> Positions:
        return self.log.ends_of([topic.name for topic in TOPICS] + self.log.topics("wal."))

    def in_driver(self) -> None:
        """A small micro-batch; a large one that did not end goes first."""
        evaluator, ends = self.evaluator, self.ends()
        evaluator.ready()
        if evaluator.pending() is not None:
            self.in_workers()
        for _ in range(9):
            if not behind(evaluator.positions, ends):
                break
            records = fetch(self.log, *between(evaluator.positions, ends, list(evaluator.positions)))
            evaluator.evaluate(Messages.of([one for one in records if is_rows(one.topic)]))
            evaluator.evaluate(Messages.of([one for one in records if not is_rows(one.topic)]))
            evaluator.pass_over(ends)

    def in_workers(self, fails: bool = False) -> None:
        """A large one. ``fails``: a part of it is sent, then the process ends."""
        evaluator, ends = self.evaluator, self.ends()
        evaluator.ready()
        rows = [topic for topic in evaluator.positions if is_rows(topic)]
        found = evaluator.pending() or between(evaluator.positions, ends, rows)[1]
        if found:
            evaluator.evaluate_large(found, lambda *told: self._work(found, *told, fails))
        evaluator.catch_up(ends)

    def _work(self, ends: Positions, starts: Positions, before: Generation, number: int, fails: bool) -> None:
        records = fetch(self.log, {topic: starts.get(topic, {}) for topic in ends}, ends)
        judge = judge_slots(SLOTS, self.evaluator.states, before, number, 1_000)
        for sent in judge(iter(_frames(records))):
            messages = sent.to_pylist()
            for one in messages[: len(messages) // 2] if fails else messages:
                self.log.append([Message(one["topic"], one["key"], one["value"])])
            if fails:
                raise Died

    def seal(self) -> None:
        self.evaluator.ready()
        self.evaluator.seal()

    def kill(self) -> None:
        self.evaluator.close()
        if self._begun:
            self.ahead.end()
        self.evaluator = self._evaluator()
        self.ahead, self._begun = Ahead(self.log, self.evaluator, LOGGER), False

    def finish(self) -> None:
        """All that there is, regrouped rows of regrouped rows too, is evaluated."""
        for _ in range(20):
            self.in_driver()
            if not behind(self.evaluator.positions, self.ends()):
                return
        raise AssertionError("it comes to no end")

    # ------------------------------------------------------------------ what came out

    def told(self) -> dict[tuple[int, int, int], bytes]:
        """The trigger batches by (stream, slot, number): one that comes again must say the same."""
        found: dict[tuple[int, int, int], bytes] = {}
        for record in replay(self.log, TRIGGERS.name):
            batch = events.decode(record.value or b"")
            number = (batch.stream, batch.slot, batch.number)
            same = found.setdefault(number, record.value or b"")
            assert same == record.value, "a batch that comes again says the same"
        return found

    def events(self) -> set[tuple[Any, ...]]:
        found = set()
        for value in self.told().values():
            batch = events.decode(value)
            for one in batch.events:
                found.add((batch.stream, one.id, one.kind, one.start, one.end, one.group.table, one.cause))
        return found

    def regrouped(self) -> None:
        """Numbers that come again have the rows that they had."""
        known: dict[tuple[int, int, int], tuple[bytes, Any]] = {}
        for record in replay(self.log, REGROUP.name):
            one = regroup.decode(record.value or b"")
            told = (one.ts, one.group)
            assert known.setdefault((one.stream, one.slot, one.number), told) == told


class Died(Exception):
    """The process, in the middle of a large batch."""


def _frames(records: list[Record]) -> Iterator[pa.RecordBatch]:
    if records:
        slots = [slot_for(one.topic, one.key, SLOTS) for one in records]
        columns: dict[str, Any] = {"slot": pa.array(slots, pa.int32())}
        for place, name in enumerate(("topic", "partition", "offset", "timestamp", "key", "value")):
            kind = pa.binary() if name in ("key", "value") else None
            columns[name] = pa.array([one[place] for one in records], kind)
        yield pa.RecordBatch.from_pydict(columns)


SESSION = {"Session": {"gap": 5}}
write = st.tuples(st.just("write"), st.sampled_from("abc"), st.integers(0, 3))
STEPS = st.one_of(
    write, write, write,
    st.tuples(st.sampled_from(["ahead", "driver", "workers", "died", "seal", "kill", "tick"])),
    st.tuples(st.just("define"), st.integers(0, 3)),
)  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def nothing_is_waited_for() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trigger_svc.ahead.WAIT", 0.0)
        yield


@settings(max_examples=examples(60))
@given(steps=st.lists(STEPS, min_size=4, max_size=30))
@example(steps=[("write", "a", 1), ("ahead",), ("kill",), ("write", "a", 3), ("workers",), ("kill",)])
@example(steps=[("write", "a", 1), ("write", "b", 3), ("died",), ("kill",), ("write", "a", 3), ("workers",)])
@example(steps=[("define", 2), ("ahead",), ("write", "a", 3), ("ahead",), ("kill",), ("write", "b", 3)])
def test_any_way_tells_the_same(kit: Any, steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = Deployment(Path(folder) / "mixed", kit)
        plain = Deployment(Path(folder) / "plain", kit)
        both = (one, plain)
        for each in both:
            each.define(1)
            each.define(2, partition=(), trigger=SESSION)
            each.in_driver()
        defined = 2
        clock = {"a": 0, "b": 0, "c": 0}
        for step, *more in steps:
            if step == "write":
                child, gap = more
                clock[child] += 1 + 4 * gap
                for each in both:
                    each.write(child, clock[child])
            elif step == "define":
                defined += 1
                for each in both:
                    each.define(defined, late=more[0])
            else:
                _do(one, step)
        for each in both:
            each.finish()
            each.regrouped()
        assert _final(one) == _final(plain)


def _do(one: Deployment, step: str) -> None:
    match step:
        case "ahead":
            one.read_ahead()
        case "driver":
            one.in_driver()
        case "workers":
            one.in_workers()
        case "died":
            try:
                one.in_workers(fails=True)
            except Died:
                one.kill()
        case "seal":
            one.seal()
        case "kill":
            one.kill()


def _final(one: Deployment) -> set[tuple[Any, ...]]:
    """Of streams by table: all events; of the ungrouped one the windows, for tables reach it in no order."""
    return {event for event in one.events() if event[0] != 2}

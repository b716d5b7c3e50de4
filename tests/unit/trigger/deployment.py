"""trigger-svc without Spark, over a log in memory; its reader and its micro-batches are stepped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import structlog

from millrace_core.trigger.rows import Messages
from millrace_core.wire import control, events, regroup
from millrace_core.wire.rows.decoder import encode_rows
from millrace_core.wire.topics import CLOCK, CONTROL, REGROUP, TOPICS, TRIGGERS, slot_for, wal_topic
from millrace_wal import MemoryLog, Message, Record, replay
from millrace_wal.flaky import FlakyLog
from trigger_svc.ahead import Ahead
from trigger_svc.evaluator import Evaluator
from trigger_svc.ledger.states import Generation, Positions
from trigger_svc.messages import is_rows
from trigger_svc.positions import behind, between, fetch
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.workers import judge_slots

LOGGER = structlog.get_logger("test")
SLOTS = 3
METERS = wal_topic("d", "meters")


class Deployment:
    """``log``: what is there; ``flaky``: as the service sees it."""

    def __init__(self, folder: Path, kit: Any) -> None:
        self.kit = kit
        self.now = 0
        self.log = MemoryLog(lambda: self.now)
        self.log.ensure_topics([*TOPICS, (METERS, 2)])
        self.flaky = FlakyLog(self.log)
        self.settings = TriggerSettings(data_dir=folder, slots=SLOTS)
        self.evaluator = self._evaluator()
        self.ahead = Ahead(self.flaky, self.evaluator)
        self._begun = False

    def _evaluator(self) -> Evaluator:
        return Evaluator(self.settings, self.flaky, LOGGER)

    # ------------------------------------------------------------------ what others do

    def control(self, record: control.AnyControl) -> None:
        self.log.append([Message(CONTROL.name, b"x", control.encode(record))])

    def definition(self, uid: int, **options: Any) -> control.DefineStream:
        """Of a stream that is live for what is written from now on."""
        return control.DefineStream(self.kit.stream(uid, **options), self.log.end_offsets(METERS))

    def define(self, uid: int, late: int = 0, **options: Any) -> None:
        """``late``: rows that are written between the question for the ends and the record."""
        record = self.definition(uid, **options)
        for number in range(late):
            self.write("abc"[number % 3], self.now)
        self.control(record)

    def write(self, child: str, *times: int, topic: str = METERS) -> None:
        self.now += 1
        value = encode_rows([{"ts": ts, "v": 1} for ts in times])
        self.log.append([Message(topic, child.encode(), value)])

    def tick(self) -> None:
        self.now += 20
        tick = control.Tick(self.now * 10**6, 0, {METERS: self.log.end_offsets(METERS)})
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

    def in_workers(self, fails: bool = False) -> None:
        """A large one. ``fails``: a part of it is sent, then the process ends."""
        evaluator, ends = self.evaluator, self.ends()
        evaluator.ready()
        rows = [topic for topic in evaluator.positions if is_rows(topic)]
        found = evaluator.pending() or between(evaluator.positions, ends, rows)[1]
        if found:
            evaluator.evaluate_large(found, lambda *told: self.work(found, *told, fails))
        evaluator.catch_up(ends)

    def work(
        self, ends: Positions, starts: Positions, before: Generation, number: int, fails: bool = False
    ) -> None:
        """What workers do."""
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
        self.ahead, self._begun = Ahead(self.flaky, self.evaluator), False

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
                span, rows = (one.start, one.end), one.rownum
                found.add((batch.stream, one.id, one.kind, *span, one.group.table, one.cause, rows))
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

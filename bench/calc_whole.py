"""``python -m bench.calc_whole [--quick]``: what a window costs in calc-svc, from its rows to its stored
result, by stage, in processor time.

calc-svc's own parts in this process, on a real table store and real Spark; only Kafka's client is left out:
its messages are lists here. The jobs are those of ``bench.peers``: rows in rounds, one a message, every
device has one in each. Events come as trigger-svc sends them: those of ``deep`` or ``wide`` many rounds at a
time (as after a pause, and while it keeps up). Every result is compared with what the rows say. The first
half is not counted.

Microseconds a window: ``rows``: the store takes the messages of the trigger table; ``events``: messages of
``triggers`` become batches; ``job``: batches become results; ``notices``: notifications become messages,
which notify-svc reads; ``results``: the store takes the messages of the output table; ``flush``: both tables
go to Delta; ``jvm``: Spark's process, meanwhile.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import psutil

from bench.goals import Figure
from bench.in_process import LOCALTIME, InProcess, in_process
from bench.peers.jobs import JOBS, PHASES, Job, expected, texts
from bench.peers.millrace import query_of
from bench.report import run
from bench.stage import DB, BenchError, say
from bench.workload import rows_of
from calc_svc.store.table import StoredTable
from millrace_core.calc.product import Product, notice_messages
from millrace_core.model.stream import StreamSpec
from millrace_core.store.place import place_of
from millrace_core.wire import events, notices
from millrace_core.wire.events import TriggerBatch, TriggerEvent, trigger_ids
from millrace_core.wire.message import Message

DEVICES, ROUNDS = 1_000, 1_200
DEPTHS = {"deep": 600, "wide": 20}
"""Rounds of a micro-batch."""
FLUSHED = 100_000  # rows that are flushed together: those of about a second
SLOTS, EVENTS_PER_BATCH, TAKE = 8, 2_000, 20_000
MEMORY_ROWS = 8_000_000
STAGES = ("rows", "events", "job", "notices", "results", "flush", "jvm", "all")
FIGURES = tuple(
    Figure(f"{job}.{depth}.{stage}", "us") for job in JOBS for depth in DEPTHS for stage in STAGES
)


@dataclass
class Clock:
    """Processor seconds by stage, and of Spark's process in all."""

    jvm: psutil.Process
    spent: dict[str, float] = field(default_factory=dict)
    began: float = 0.0

    def begin(self) -> None:
        """Count from here."""
        self.spent, self.began = dict.fromkeys(STAGES[:-2], 0.0), self._jvm()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """What this process does meanwhile belongs to this stage."""
        began = time.process_time()
        try:
            yield
        finally:
            self.spent[name] += time.process_time() - began

    def figures(self, windows: int) -> dict[str, float]:
        """Microseconds a window."""
        spent = self.spent | {"jvm": self._jvm() - self.began}
        spent["all"] = sum(spent.values())
        return {stage: round(seconds * 1e6 / windows, 2) for stage, seconds in spent.items()} | {
            "windows": windows
        }

    def _jvm(self) -> float:
        used = self.jvm.cpu_times()
        return used.user + used.system


@dataclass
class Whole:
    """One job in one process."""

    one: InProcess
    job: Job
    devices: int
    depth: int
    clock: Clock = field(init=False)
    spec: StreamSpec = field(init=False)
    rows: StoredTable = field(init=False)
    out: StoredTable = field(init=False)
    _unflushed: int = 0
    _number: int = 0
    _taken: int = 0

    def __post_init__(self) -> None:
        self.clock = Clock(psutil.Process().children()[0])
        self.rows = self.one.table("rows0", ("v",), self.devices)
        text = query_of(self.job, f"{DB}.rows0", f"{DB}.out0")
        self.spec = self.one.stream(f"CREATE STREAM {DB}.s0 {text}")
        assert self.spec.output is not None
        found = self.one.catalog.tables()[self.spec.output.db, self.spec.output.table]
        self.out = self.one.store.table(found)
        self.jobs = self.one.jobs()

    def measure(self, rounds: int) -> dict[str, float]:
        """Microseconds a window. :raises BenchError: if a result is wrong or missing."""
        told = expected(self.job, 2 * rounds, 1, PHASES, 1)
        windows, begin = 0, 0
        self.clock.begin()
        while begin < 2 * rounds:
            if begin == rounds:
                self.clock.begin()
                windows = 0
            upto = begin + self.depth
            self._store(begin, upto)
            due = told.filter(pl.col("closed").is_between(begin, upto - 1))
            fired = self._batches(due)
            self._check(due, self._answer(fired))
            windows += len(due) * self.devices // PHASES
            begin = upto
        return self.clock.figures(windows)

    def _store(self, begin: int, upto: int) -> None:
        keys, values = [], []
        names = [f"rows0_{n}".encode() for n in range(self.devices)]
        for block in texts(self.job, begin, upto, 1):
            keys += names
            values += [block[n % PHASES] for n in range(self.devices)]
        for at in range(0, len(keys), TAKE):
            some = keys[at : at + TAKE]
            places = np.arange(self._taken, self._taken + len(some)) + place_of(0, 0)
            with self.clock.stage("rows"):
                self.rows.take(some, values[at : at + TAKE], places)
            self._taken += len(some)
        self.rows.advance({0: self._taken})
        self._unflushed += len(keys)

    def _batches(self, due: pl.DataFrame) -> list[bytes]:
        """What trigger-svc sends: slot by slot, groups in order, each group's windows in order."""
        groups = self.one.groups("rows0")
        by_phase = {
            phase: list(zip(part["start"], self._ends(part), self._counts(part), strict=True))
            for (phase,), part in due.with_columns(phase=pl.col("device").str.slice(3).cast(pl.Int32))
            .sort("start").group_by("phase")
        }  # fmt: skip
        found = []
        for slot in range(SLOTS):
            told: list[TriggerEvent] = []
            for number in range(slot, self.devices, SLOTS):
                mine, group = by_phase.get(number % PHASES, []), groups[number]
                ids = trigger_ids(self.spec.uid, [group.id] * len(mine), [start for start, _, _ in mine])
                told += [
                    TriggerEvent(id_, "CLOSE", "LIVE", group, *times, LOCALTIME)
                    for id_, times in zip(ids, mine, strict=True)
                ]
            for at in range(0, len(told), EVENTS_PER_BATCH):
                self._number += 1
                part = told[at : at + EVENTS_PER_BATCH]
                batch = TriggerBatch(self.spec.uid, 0, slot, self._number, {0: self._taken}, part)
                found.append(events.encode(batch))
        return found

    def _ends(self, due: pl.DataFrame) -> list[int]:
        return (due["last"] if "last" in due.columns else due["start"] + self.job.width_ms).to_list()

    def _counts(self, due: pl.DataFrame) -> list[int]:
        return due["n"].to_list() if "n" in due.columns else [self.job.cycle] * len(due)

    def _answer(self, fired: Sequence[bytes]) -> list[Message]:
        with self.clock.stage("events"):
            batches = [events.decode(one) for one in fired]
        with self.clock.stage("job"):
            product: Product = self.jobs.run(self.spec.uid, batches)
        if product.status is not None:
            raise BenchError(product.status.message)
        with self.clock.stage("notices"):
            for message in notice_messages(self.spec.uid, product.notices):
                notices.read(message.value or b"")
        keys, values = [m.key for m in product.messages], [m.value for m in product.messages]
        with self.clock.stage("results"):
            for at in range(0, len(keys), TAKE):
                taken = self.out.take(keys[at : at + TAKE], values[at : at + TAKE])
                self._unflushed += taken.rows
        if self._unflushed >= FLUSHED:
            self._unflushed = 0
            with self.clock.stage("flush"):
                self.rows.flush()
                self.out.flush()
        return product.messages

    def _check(self, due: pl.DataFrame, messages: Sequence[Message]) -> None:
        wanted = {
            (int(device[3:]), start): tuple(row)
            for device, start, *row in due.select("device", "start", *self.job.columns).iter_rows()
        }
        found = 0
        for message in messages:
            for row in rows_of(message.value):
                found += 1
                number = int(row["who"].rpartition("_")[2])
                if wanted[number % PHASES, row["ts"]] != tuple(row[name] for name in self.job.columns):
                    raise BenchError(f"a wrong result: {row}")
        if found != len(due) * self.devices // PHASES:
            raise BenchError(f"{found} results, not {len(due) * self.devices // PHASES}")


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Microseconds of processor time a window, by job, depth and stage."""
    devices, rounds = (PHASES, 60) if given.quick else (DEVICES, ROUNDS)
    found: dict[str, Any] = {}
    for name in given.jobs.split(","):
        for depth in given.depths.split(","):
            with in_process(MEMORY_ROWS) as one:
                whole = Whole(one, JOBS[name], devices, min(DEPTHS[depth], rounds))
                found.setdefault(name, {})[depth] = whole.measure(rounds)
            say(f"{name}.{depth}: {found[name][depth]}")
    return found


if __name__ == "__main__":
    run(
        "calc_whole",
        __doc__,
        measure,
        FIGURES,
        jobs={"default": ",".join(JOBS)},
        depths={"default": ",".join(DEPTHS)},
    )

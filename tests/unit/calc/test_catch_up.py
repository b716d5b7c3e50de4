"""calc-svc was down while rows came: its store has much to read, and nothing is given up meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.job import StreamJobs
from calc_svc.loops import consumer
from calc_svc.loops import triggers as loop
from calc_svc.loops.overtaking import Overtaking
from calc_svc.loops.triggers import TriggerLoop
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import Duration, Output, Source, StreamSpec
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.trigger.types import Interval
from millrace_core.wire import events, status
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.status import StreamFailure
from millrace_core.wire.topics import CATALOG, STATUS, TRIGGERS, wal_topic
from millrace_service import Life
from millrace_wal import MemoryLog, Message, Record, replay

from .conftest import Running, eventually

WIDTH, WINDOWS, ROWS = 1000, 40, 50
COLUMNS = (Column("ts", TIMESTAMP), Column("v", DataType("INT")))
RESULT = (Column("ts", TIMESTAMP), Column("n", BIGINT))
MANY, BESIDE = (
    Table("power", name, "normal", uid, "ms", COLUMNS) for name, uid in (("many", 1), ("beside", 2))
)
OUTPUTS = [
    Table("power", f"{name}_out", "normal", uid, "ms", RESULT) for name, uid in (("many", 3), ("beside", 4))
]


class Slow(MemoryLog):
    """Of the table with many rows the first are read, and the others once ``open`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()

    def take(self, positions: dict[tuple[str, int], int], limit: int) -> list[Record]:
        topic = wal_topic("power", MANY.name)
        late = {at for at, first in positions.items() if at[0] == topic and first >= WINDOWS * ROWS // 2}
        shown = {at: first for at, first in positions.items() if self.open.is_set() or at not in late}
        found = super().take(shown, limit)
        positions.update(shown)
        return found


class Calc(Running):
    """The consumer and the trigger loop with their jobs, whose SQL is run on DuckDB."""

    partitions = 1

    def __init__(self, folder: Path, duck: Any) -> None:
        self.slow = Slow()
        super().__init__(folder, log=self.slow)
        self.duck = duck
        self.define(BESIDE, MANY, *OUTPUTS)  # as the log in memory is read, one after the other
        for uid, (table, output) in enumerate(zip((MANY, BESIDE), OUTPUTS, strict=True), 1):
            second = Duration(1, "s")
            spec = StreamSpec(
                uid, "power", f"s{uid}", "", Interval(second, second), Source(table),
                query="SELECT _twstart AS ts, count(*) AS n FROM %%trows", database="power",
                output=Output("power", output.name, RESULT),
            )  # fmt: skip
            entry = StreamEntry(spec, "Running", 0, -1)
            self.log.append([Message(CATALOG.name, key_of(entry), encode(entry))])

    def start(self) -> None:
        super().start()
        calculator = Calculator(self.duck, self.catalog, self.store, 1_000)
        jobs = StreamJobs(calculator, self.catalog, self.store)
        jobs.ends = self.log.end_offsets
        self.loop = Life(TriggerLoop(self.log, jobs, Overtaking()), structlog.get_logger("test"))
        self.loop.start()

    def stop(self) -> None:
        self.loop.stop()
        super().stop()

    def window(self, uid: int, table: Table, number: int, rows: int) -> None:
        """A window's rows, each a message, and the trigger that closes it."""
        for place in range(rows):
            self.send(None, {"ts": number * WIDTH + place, "v": 1}, table)
        seen = self.log.end_offsets(wal_topic("power", table.name))
        group = Group(0, (), None)
        start = number * WIDTH
        event = TriggerEvent(f"{uid}-{number}", "CLOSE", "LIVE", group, start, start + WIDTH, rows, 0)
        batch = TriggerBatch(uid, 0, 0, number, seen, [event])
        self.log.append([Message(TRIGGERS.name, f"{uid}/0".encode(), events.encode(batch))])

    def told(self) -> list[status.AnyStatus]:
        return [status.decode(one.value) for one in replay(self.log, STATUS.name) if one.value is not None]

    def held(self) -> str:
        """What triggers wait for, as it is told."""
        return " ".join(one.waits for one in self.told() if isinstance(one, status.TriggersHeld))

    def results(self, output: Table) -> list[tuple[int, int]]:
        """(start, rows) of the windows, in the order in which they were written."""
        written = [
            msgspec.json.decode(one.value or b"") for one in replay(self.log, wal_topic("power", output.name))
        ]
        return [(row["ts"], row["n"]) for rows in written for row in rows]


@pytest.fixture
def calc(tmp_path: Path, duck: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Calc]:
    monkeypatch.setattr(consumer, "BATCH", 10)
    monkeypatch.setattr(loop, "WAIT_SECONDS", 0.05)
    yield Calc(tmp_path / "tables", duck)


def test_all_that_waits_is_calculated_once_its_rows_are_stored(calc: Calc) -> None:
    for number in range(WINDOWS):
        calc.window(1, MANY, number, ROWS)
    calc.start()
    calc.window(2, BESIDE, 0, 1)
    eventually(lambda: bool(calc.results(OUTPUTS[1])), 30)
    assert calc.results(OUTPUTS[1]) == [(0, 1)]
    eventually(lambda: "power.many" in calc.held())
    assert len(calc.results(OUTPUTS[0])) <= WINDOWS // 2
    calc.slow.open.set()
    eventually(lambda: len(calc.results(OUTPUTS[0])) == WINDOWS, 60)
    assert calc.results(OUTPUTS[0]) == [(number * WIDTH, ROWS) for number in range(WINDOWS)]
    eventually(lambda: calc.catalog.held() == {})
    assert [one for one in calc.told() if isinstance(one, StreamFailure)] == []
    calc.stop()

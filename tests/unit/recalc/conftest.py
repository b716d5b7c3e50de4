"""trigger-svc's slots and calc-svc's store and answers together, without Kafka and Spark."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from calc_svc.jobs.answers import Answers
from calc_svc.store.catalog import CatalogView
from calc_svc.store.tables import TableStore
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.model.schema import Child, Database, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.recalc.cut import Cutter, in_order, with_openings
from millrace_core.recalc.sending import Work
from millrace_core.recalc.told import Told
from millrace_core.store.place import place_of
from millrace_core.trigger.stream import compiled, essence
from millrace_core.trigger.types.occurrences import CLOSE, ON_TIME, OPEN, Occurrences
from millrace_core.trigger.types.reach import Rows
from millrace_core.wire import recalc
from millrace_core.wire.events import TriggerBatch, TriggerEvent
from millrace_core.wire.operations import Delete
from millrace_core.wire.topics import HANDOVER, wal_topic

KIT = runpy.run_path(str(Path(__file__).parent.parent / "trigger" / "conftest.py"))["Kit"]


class Deployment:
    """A table ``d.meters`` (or another), its children, one stream."""

    def __init__(self, folder: Path, spec: StreamSpec, children: tuple[str, ...] = ("c1",)) -> None:
        assert spec.source is not None
        table: Table = spec.source.table
        self.spec, self.table, self.topic = spec, table, wal_topic(table.db, table.name)
        self.cluster: Any = KIT.Cluster(slots=2)
        self.catalog = CatalogView()
        records: list[Any] = [Database("d"), table, StreamEntry(spec, "Running", 0, 0)]
        records += [Child("d", table.name, name, (1, 2)) for name in children if table.kind == "super"]
        for offset, record in enumerate(records):
            self.catalog.apply(offset, key_of(record), encode(record))
        self.store = TableStore(self.catalog, folder, 1_000_000)
        self.stored = self.store.open(table)
        self.told = Told(self.catalog)
        self.answers = Answers(self.catalog, self.store, self.told, slice_rows=7)
        self.events: list[TriggerEvent] = []
        self.requests: list[recalc.Request] = []
        self._heard = 0
        self._answered = 0
        self.newest = 0
        self._asked: list[recalc.Request] = []

    def define(self) -> None:
        self.cluster.define(self.spec)

    def write(self, child: str, rows: list[Any]) -> None:
        self.cluster.write(child, rows, self.table)

    def read(self) -> None:
        """The store reads what was written; the slots are behind it."""
        for topic, partition, offset, _, key, value in self.cluster.waiting:
            if topic == self.topic and offset >= self.stored.positions.get(partition, 0):
                self.stored.take([key], [value], np.array([place_of(partition, offset)], dtype=np.int64))
                self.stored.advance({partition: offset + 1})

    def run(self) -> None:
        """A micro-batch; the store has read as far."""
        self.read()
        self.cluster.run()
        self._hear(self.cluster.triggers[self._heard :])
        self._heard = len(self.cluster.triggers)
        self.requests += self.cluster.asked
        self._asked += self.cluster.asked
        self.cluster.asked.clear()

    def _hear(self, batches: list[TriggerBatch]) -> None:
        for batch in batches:
            self.told.hear(batch, len(self.events))
            self.events += batch.events

    def answer(self) -> None:
        """Every request that waits, and what comes of it."""
        while self.requests:
            self.answer_oldest(1)
            self.run()

    def answer_oldest(self, number: int) -> None:
        """So many of the oldest requests that wait, if there are any: together."""
        if not self.requests or not number:
            return
        some, self.requests = self.requests[:number], self.requests[number:]
        self._answered += len(some)
        for output in self.answers.answer(some, (0, self._answered), Work(), self.behind(some[-1])):
            if isinstance(output, TriggerBatch):
                self._hear([output])
            else:
                self.cluster.send(
                    HANDOVER.name, recalc.key(output.stream, output.slot), recalc.encode(output)
                )

    def behind(self, request: recalc.Request) -> Callable[[], list[recalc.Request]]:
        """What is asked after a request, however often that is answered."""
        begin = next(place for place, one in enumerate(self._asked) if one is request)
        return lambda: self._asked[begin + 1 :]

    def hear(self, outputs: Iterable[Any]) -> None:
        """What is told of these answers."""
        self._hear([output for output in outputs if isinstance(output, TriggerBatch)])

    def drive(self, steps: Iterable[tuple[int, Any, int, bool, bool]]) -> dict[int, Any]:
        """Define the stream and do these steps, behind a first row: the rows as they are then.

        A step: how far behind (or before) the newest row it is, the value written or "delete", the length of
        what is deleted, whether a micro-batch ends there, and whether requests are answered then.
        """
        self.define()
        table: dict[int, Any] = {}
        newest = 0
        for forward, value, length, cut, answered in [(1, 1, 0, True, True), *steps]:
            ts = max(0, newest + forward)
            if value == "delete":
                self.cluster.operate("c1", Delete(ts, ts + length), self.table)
                table = {t: v for t, v in table.items() if not ts <= t <= ts + length}
            else:
                self.write("c1", [{"ts": ts, "v": value}])
                table[ts] = value
                newest = max(newest, ts)
            if cut:
                self.run()
            if cut and answered:
                self.answer()
        self.newest = newest
        return table

    def close_all(self, table: dict[int, Any]) -> int:
        """Write rows far behind everything, so that what is open closes; the time of the last."""
        for ts, value in ((40, 1), (41, 9), (42, 8), (43, 1), (90, 7)):
            self.write("c1", [{"ts": self.newest + ts, "v": value}])
            table[self.newest + ts] = value
        self.newest += 90
        self.run()
        self.answer()
        return self.newest

    def windows(self, child: str = "c1") -> dict[int, tuple[int, int]]:
        """Start -> (end, rows) of what was told of as closed and is not invalid."""
        found: dict[int, tuple[int, int]] = {}
        for event in self.events:
            if event.group.table not in (child, None):
                continue
            if event.kind == "INVALID":
                found.pop(event.start, None)
            elif event.kind in ("CLOSE", "ON_TIME"):
                found[event.start] = (event.end, event.rownum)
        return found


def closed_only(found: Occurrences) -> Occurrences:
    """Without the openings of windows that are still open: those belong to the live path."""
    closings = found.kind != OPEN
    ends = zip(found.group[closings].tolist(), found.start[closings].tolist(), strict=True)
    return with_openings(found, set(ends))


ALL = -(1 << 62)


def over(operator: str, limit: int, column: str = "v") -> dict[str, Any]:
    arguments = [{"node": "field", "name": column}, {"node": "constant", "value": limit}]
    expression = {"node": "call", "name": operator, "arguments": arguments}
    return {"sql": "", "columns": [column], "expression": expression}


def either(*conditions: dict[str, Any]) -> dict[str, Any]:
    arguments = [condition["expression"] for condition in conditions]
    columns = [name for condition in conditions for name in condition["columns"]]
    return {
        "sql": "",
        "columns": columns,
        "expression": {"node": "call", "name": "or", "arguments": arguments},
    }


TRIGGERS: dict[str, dict[str, Any]] = {
    "interval": {"Interval": {"interval": 10, "sliding": 10}},
    "overlapping": {"Interval": {"interval": 10, "sliding": 5}},
    "session": {"Session": {"gap": 5}},
    "state": {"State": {"column": "v"}},
    "state1": {"State": {"column": "v", "extend": 1}},
    "state2": {"State": {"column": "v", "extend": 2}},
    "event": {"Event": {"start": over("ge", 3), "end": over("lt", 2)}},
    "event2": {"Event": {"start": over("ge", 2), "end": over("lt", 2), "true_for": 3}},
    "count": {"Count": {"count": 3, "sliding": 3}},
    "sliding": {"Sliding": {"sliding": 10}},
}
CUT_AGAIN = [name for name in TRIGGERS if name not in ("count", "sliding")]
both = ("WINDOW_OPEN", "WINDOW_CLOSE")


def make(kit: Any, name: str, watermark: int = 0, **options: Any) -> Any:
    spec = kit.stream(trigger=TRIGGERS[name], kinds=both, notify=both, watermark=watermark)
    return msgspec.structs.replace(spec, options=msgspec.structs.replace(spec.options, **options))


def truth(spec: Any, table: dict[int, Any], until: int) -> dict[int, tuple[int, int]]:
    """Start -> (end, rows) of the windows of these rows, in order, that are closed at ``until``."""
    windower = compiled(essence(spec)).windower
    cells = sorted((ts, v) for ts, v in table.items() if ts <= until)
    values = [v for _, v in cells]
    columns: dict[str, Any] = {}
    for signal in windower.signals:
        if signal.name == "start":
            columns["start"] = [
                v is not None and v >= (3 if spec.trigger.true_for is None else 2) for v in values
            ]
        elif signal.name == "end":
            columns["end"] = [v is not None and v < 2 for v in values]
        else:
            columns[signal.name] = values
    arrays = {n: np.array(c, dtype=bool if n in ("start", "end") else object) for n, c in columns.items()}
    ts = np.array([ts for ts, _ in cells], dtype=np.int64)
    cutter = Cutter(windower, 1)
    parts = [cutter.feed(Rows(np.zeros(len(ts), dtype=np.int64), ts, arrays))]
    parts.append(cutter.advance(np.array([until], dtype=np.int64)))
    found = closed_only(in_order(parts))
    told = zip(*(a.tolist() for a in (found.kind, found.start, found.end, found.rownum)), strict=True)
    return {start: (end, rows) for kind, start, end, rows in told if kind in (CLOSE, ON_TIME)}


def same(told: dict[int, tuple[int, int]], true: dict[int, tuple[int, int]]) -> None:
    assert {start: end for start, (end, _) in told.items()} == {s: end for s, (end, _) in true.items()}
    for start, (_, rows) in told.items():
        assert rows in (-1, true[start][1]), start


def same_but_empty(name: str, told: dict[int, tuple[int, int]], true: dict[int, tuple[int, int]]) -> None:
    """The same but for empty windows of INTERVAL (by its ``name`` in TRIGGERS): which of them are told
    depends on the row that came first. One that was told of and is empty now has been told of again."""
    if name in ("interval", "overlapping"):
        true = {start: found for start, found in true.items() if found[1]}
        assert {rows for start, (_, rows) in told.items() if start not in true} <= {0, -1}
        told = {start: found for start, found in told.items() if start in true}
    same(told, true)


@pytest.fixture(scope="session")
def kit() -> Any:
    return KIT


@pytest.fixture(scope="session")
def deployment() -> type[Deployment]:
    return Deployment

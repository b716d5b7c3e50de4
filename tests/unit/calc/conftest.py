"""calc-svc without Kafka and Spark: a store over the in-memory log, or filled by hand; SQL run on DuckDB."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import sqlglot
import structlog

from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.job import StreamJobs
from calc_svc.loops import consumer
from calc_svc.loops import recalc as recalc_loop
from calc_svc.loops import triggers as loop
from calc_svc.loops.consumer import WalConsumer
from calc_svc.store.catalog import CatalogView
from calc_svc.store.tables import TableStore
from millrace_core.catalog import encode, key_of
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.timeline.precision import HIGHEST, LOWEST
from millrace_core.wire import dead, topics
from millrace_core.wire.operations import Operation, encode_operation
from millrace_core.wire.topics import wal_topic
from millrace_service import Life
from millrace_wal import Log, MemoryLog, Message, replay

from ..plan.conftest import database


@pytest.fixture(autouse=True)
def soon_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop waits for the polls under way; records end them at once, however long they may take."""
    for module in (consumer, loop, recalc_loop):
        monkeypatch.setattr(module, "POLL", 0.02)
    monkeypatch.setattr(consumer, "REST", 0.02)


class DuckLane:
    """A lane: relations in, a table out."""

    def __init__(self) -> None:
        self.jobs = 0

    def run(
        self, sql: str, relations: Mapping[str, pa.Table], timezone: str, limit: int | None = None
    ) -> pa.Table:
        self.jobs += 1
        with database().cursor() as connection:
            connection.execute("PRAGMA disable_optimizer")  # a cursor has its own
            for name, relation in relations.items():
                connection.register(name, relation)
            return connection.execute(as_duckdb(sql)).to_arrow_table()


@lru_cache(maxsize=4096)
def as_duckdb(sql: str) -> str:
    """Spark's SQL as DuckDB's; a stream's text is always the same."""
    return sqlglot.transpile(sql, read="spark", write="duckdb", identify=True)[0]


class DuckEngine:
    """An engine with one lane for everything."""

    def __init__(self) -> None:
        self.only = DuckLane()

    @contextmanager
    def lane(self, pool: str, timeout: float) -> Iterator[DuckLane]:
        yield self.only


@pytest.fixture
def duck() -> Any:
    return DuckEngine()


class StoredTables:
    """Jobs over these records, whose tables are stored and filled by hand; their SQL is run on DuckDB."""

    def __init__(self, folder: Path, duck: Any, *records: Any) -> None:
        self.catalog = CatalogView()
        self.records = 0
        self.learn(*records)
        self.store = TableStore(self.catalog, folder, 1_000_000)
        for record in records:
            if isinstance(record, Table):
                self.store.open(record)
        self.calculator = Calculator(duck, self.catalog, self.store, 1_000)
        self.jobs = StreamJobs(self.calculator, self.catalog, self.store)

    def learn(self, *records: Any) -> None:
        for record in records:
            self.catalog.apply(self.records, key_of(record), encode(record))
            self.records += 1


COLUMNS = (
    Column("ts", TIMESTAMP),
    Column("amps", DataType("INT")),
    Column("Note (raw)", DataType("VARCHAR", 8)),
)
METERS = Table("power", "meters", "super", 7, "ms", COLUMNS, (Column("site", DataType("INT")),))
PLAIN = Table("power", "log", "normal", 8, "ms", COLUMNS)
TOPIC = wal_topic("power", "meters")
Rows = dict[tuple[str, int], tuple[object, ...]]


class Running:
    """A store and its consumer over a log and a folder; ``restart`` forgets what is only in memory."""

    partitions = 2

    def __init__(self, folder: Path, memory_rows: int = 1_000_000, log: Log | None = None) -> None:
        self.log: Log = log or MemoryLog()
        self.log.ensure_topics(topics.TOPICS)
        self.folder, self.memory_rows = folder, memory_rows
        self.define(Database("power"))
        self.consumer: WalConsumer | None = None

    def define(self, *records: Database | Table | Child) -> None:
        for record in records:
            if isinstance(record, Table):
                self.log.ensure_topics([(wal_topic(record.db, record.name), self.partitions)])
        self.log.append([Message(topics.CATALOG.name, key_of(r), encode(r)) for r in records])

    def undefine(self, record: Table | Child) -> None:
        self.log.append([Message(topics.CATALOG.name, key_of(record), None)])

    def start(self) -> None:
        self.catalog = CatalogView()
        self.store = TableStore(self.catalog, self.folder, self.memory_rows)
        self.consumer = WalConsumer(self.log, self.catalog, self.store)
        self.begin(self.consumer)

    def begin(self, consumer: WalConsumer) -> None:
        self.life = Life(consumer, structlog.get_logger("test"), pause=0.01)
        self.life.start()
        assert consumer.loaded.wait(10)

    def stop(self) -> None:
        if self.consumer is not None:
            self.life.stop()

    def restart(self) -> None:
        self.stop()
        self.start()

    def send(self, name: str | None, value: object, table: Table = METERS) -> None:
        raw = encode_operation(value) if isinstance(value, Operation) else msgspec.json.encode(value)
        key = None if name is None else name.encode()
        self.log.append([Message(wal_topic(table.db, table.name), key, raw)])

    def wait(self) -> None:
        """Until everything in the log has been read."""
        wal = {topic: self.log.end_offsets(topic) for topic in self.log.topics(topics.WAL_PREFIX)}
        self.store.wait(self.log.end_offsets(topics.CATALOG.name)[0], wal, 10)

    def rows(self, table: Table = METERS, low: int = LOWEST, high: int = HIGHEST) -> Rows:
        self.wait()
        view = self.store.table(table).view(low, high)
        data, child = view.slices.within(low, high)
        names = view.described["tbname"].to_list()
        found = list(zip((names[number] for number in child.tolist()), data.iter_rows(), strict=True))
        rows: Rows = {(name, cells[0]): cells for name, cells in found}
        assert len(rows) == len(found), "a key is there twice"
        return rows

    def letters(self) -> list[dead.DeadLetter]:
        return [dead.decode(record.value or b"") for record in replay(self.log, topics.DEAD_LETTERS.name)]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    system = Running(tmp_path / "tables")
    system.define(METERS, PLAIN, Child("power", "meters", "m1", (1,)))
    system.start()
    yield system
    system.stop()


def eventually(check: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def row(ts: int, amps: int | None = 0) -> dict[str, object]:
    return {"ts": ts, "amps": amps, "Note (raw)": "x"}

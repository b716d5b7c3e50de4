"""calc-svc's own parts in this process, without a broker: catalog, table store, Spark, the jobs of streams.

Everything that calc-svc does between taking trigger events from the log and writing results to it runs here
by the same code, with the same settings; Kafka's part is left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import polars as pl

from bench.stage import DB, BenchError
from bench.workload import BASE
from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.job import StreamJobs
from calc_svc.spark.session import Engine
from calc_svc.spark.start import new_spark
from calc_svc.store.catalog import CatalogView
from calc_svc.store.table import StoredTable
from calc_svc.store.tables import TableStore
from millrace.java import find_java
from millrace.settings import project_root
from millrace_core.calc.product import Product
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.dialect.tdengine import lower, parse
from millrace_core.dialect.tdengine.output import complete
from millrace_core.language.statements import CreateStream
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.plan import plan_stream
from millrace_core.store.place import place_of
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent, trigger_id
from millrace_service import collect_seldom

INT = DataType("INT")
LANES = {"triggers": 2, "queries": 3}
RESULT_ROWS = 1_000_000
LOCALTIME = 5_000_000_000


@dataclass
class InProcess:
    """``engine`` is None where nothing is calculated."""

    catalog: CatalogView
    store: TableStore
    engine: Engine | None
    _known: int = 0
    _children: dict[str, list[Child]] = field(default_factory=dict)

    @property
    def calculator(self) -> Calculator:
        """One job for many triggers where that is possible."""
        return self._calculator(one_by_one=False)

    def _calculator(self, one_by_one: bool) -> Calculator:
        assert self.engine is not None
        return Calculator(self.engine, self.catalog, self.store, RESULT_ROWS, one_by_one)

    def jobs(self, one_by_one: bool = False) -> StreamJobs:
        """What answers trigger events; ``one_by_one``: each by a job of its own."""
        return StreamJobs(self._calculator(one_by_one), self.catalog, self.store)

    def know(self, *records: Database | Table | Child | StreamEntry) -> None:
        """The catalog tells of these."""
        for record in records:
            self.catalog.apply(self._known, key_of(record), encode(record))
            self._known += 1

    def table(self, name: str, columns: Sequence[str], children: int) -> StoredTable:
        """A super table of INT columns and the tag ``k`` with its children ``<name>_0``, …; 0: a normal
        table."""
        kind, tags = ("super", (Column("k", INT),)) if children else ("normal", ())
        every = (Column("ts", TIMESTAMP), *(Column(column, INT) for column in columns))
        table = Table(DB, name, kind, self._known + 1, "ms", every, tags)  # type: ignore[arg-type]
        self._children[name] = [Child(DB, name, f"{name}_{k}", (k,)) for k in range(children)]
        self.know(table, *self._children[name])
        return self.store.open(table)

    def groups(self, name: str) -> list[Group]:
        """The groups of a super table by ``tbname``."""
        return [Group(child.uid, (child.name,), child.name) for child in self._children[name]]

    def stream(self, sql: str) -> StreamSpec:
        """A stream as the gateway would make it, with its output table."""
        statement = parse(sql)
        assert isinstance(statement, CreateStream)
        spec = lower(statement, self.catalog.catalog, DB, "UTC")
        spec = msgspec.structs.replace(spec, uid=self._known + 1)
        result = plan_stream(spec, self.catalog.catalog).result if spec.query is not None else ()
        spec = complete(spec, statement, result, self.catalog.catalog)
        self.know(StreamEntry(spec, "Running", 0, 0))
        if (out := spec.output) is not None:
            tags = tuple(tag.column for tag in out.tags)
            table = Table(
                out.db, out.table, "super" if tags else "normal", self._known + 1, "ms", out.columns, tags
            )
            self.know(table)
            self.store.open(table)
        return spec


def fire(jobs: StreamJobs, spec: StreamSpec, events: Sequence[TriggerEvent], number: int) -> Product:
    """What calc-svc makes of a trigger batch: the messages to write."""
    return jobs.run(spec.uid, [TriggerBatch(spec.uid, 0, 0, number, {}, list(events))])


def answer(jobs: StreamJobs, spec: StreamSpec, events: Sequence[TriggerEvent]) -> Product:
    """As :func:`fire`; :raises BenchError: if a query failed."""
    product = fire(jobs, spec, events, 0)
    if product.status is not None:
        raise BenchError(f"{spec.full_name}: {product.status.message}")
    return product


def closings(
    spec: StreamSpec, group: Group, starts: Sequence[int], width: int, rows: int
) -> list[TriggerEvent]:
    """The closing events of windows of a group, ``width`` ticks wide with ``rows`` rows each."""
    return [
        TriggerEvent(
            trigger_id(spec.uid, group.id, start),
            "CLOSE",
            "LIVE",
            group,
            start,
            start + width,
            rows,
            LOCALTIME,
        )
        for start in starts
    ]


def append(
    stored: StoredTable, children: int, ts: np.ndarray, columns: dict[str, np.ndarray], offset: int
) -> None:
    """Rows of the first ``children`` tables: every one has a row at each time, with the cells of ``columns``
    (by table, then by time). As if one message at ``offset`` of partition 0 had brought them."""
    child = np.repeat(np.arange(children, dtype=np.int32), len(ts))
    frame = pl.DataFrame({"ts": np.tile(ts, children), **columns}).with_columns(
        pl.all().exclude("ts").cast(pl.Int32)
    )
    place = np.full(len(child), place_of(0, offset), dtype=np.int64)
    with stored.lock:
        stored.rows.append(child, frame, {}, place)
        stored.advance({0: offset + 1})


def store(one: InProcess, stored: StoredTable, children: int, seconds: int, at_once: int = 500) -> None:
    """A row a second of each of ``children`` tables, ``seconds`` of them from BASE on; ``v`` = place % 97 by
    second. They come, are flushed to Delta and leave the memory as calc-svc's flusher does it: ``at_once``
    seconds between two flushes."""
    for number, begin in enumerate(range(0, seconds, at_once)):
        second = np.arange(begin, min(begin + at_once, seconds), dtype=np.int64)
        append(stored, children, BASE + second * 1000, {"v": np.tile(second % 97, children)}, number)
        stored.flush()
        stored.maintain()
        shrink(one, stored)


def shrink(one: InProcess, stored: StoredTable) -> None:
    """Lets go of rows in memory until the store's budget is kept."""
    while one.store.rows() > one.store.memory_rows:
        stored.evict_half()


def where(stored: StoredTable) -> dict[str, int]:
    """Rows in memory; all rows, which are in ``files`` Parquet files."""
    files = stored.delta.statistics()
    return {
        "in_memory": stored.rows.count, "in_files": sum(rows for _, _, rows in files), "files": len(files),
    }  # fmt: skip


@contextmanager
def in_process(memory_rows: int, spark: bool = True, memory: str = "1g") -> Iterator[InProcess]:
    """An empty database; its files are removed in the end. ``memory_rows``: what the store may keep in
    memory; ``memory``: the heap of Spark (both as calc-svc's settings)."""
    os.environ.setdefault("JAVA_HOME", str(find_java().home))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    root = project_root() / ".millrace" / "bench"
    root.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=root) as folder:
        catalog = CatalogView()
        engine = Engine(LANES, new_spark(os.cpu_count() or 2, memory)) if spark else None
        one = InProcess(catalog, TableStore(catalog, Path(folder), memory_rows), engine)
        one.know(Database(DB))
        try:
            if engine is not None:
                engine.warm_up()
            collect_seldom()  # as calc-svc does when it begins to work
            yield one
        finally:
            if engine is not None:
                engine.stop()

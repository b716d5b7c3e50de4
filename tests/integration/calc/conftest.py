"""calc-svc as a process, on a real broker and real Spark, and what its tests write and fire."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec
import pyarrow as pa
import pytest
from bench.in_process import closings

from millrace.java import Java
from millrace.processes import free_port
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import Duration, Output, OutputTag, ResultColumn, Source, StreamSpec
from millrace_core.model.types import BIGINT, DOUBLE, TIMESTAMP, DataType
from millrace_core.trigger.types import Interval
from millrace_core.wire import events, notices, topics
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.topics import wal_topic
from millrace_wal import KafkaLog, Message, replay

MINUTE = 60_000
TOKEN = "a-token-of-these-tests"
INT, FLOAT = DataType("INT"), DataType("FLOAT")
METERS = Table(
    "power", "meters", "super", 11, "ms", (Column("ts", TIMESTAMP), Column("amps", FLOAT)),
    (Column("site", INT),),
)  # fmt: skip
TBNAME_TAG = OutputTag(Column("tag_tbname", DataType("VARCHAR", 270)), "tbname")
RESULT = (ResultColumn("_twstart", TIMESTAMP), ResultColumn("n", BIGINT), ResultColumn("a", DOUBLE))
OUT_COLUMNS = (Column("w", TIMESTAMP), Column("n", BIGINT), Column("a", DOUBLE))
CHILDREN = [Child("power", "meters", f"m{i}", (i % 3,)) for i in range(20)]
QUERY = "SELECT _twstart, count(*) n, avg(amps) a FROM %%trows"


class Calc:
    """The service's process, and the log that it reads and writes."""

    def __init__(self, broker: str, java: Java, data_dir: Path, **variables: str) -> None:
        self.log = KafkaLog(broker, "test-calc")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_file = data_dir / "calc.log"
        self._environment = os.environ | {
            "MILLRACE_BROKER": broker, "MILLRACE_CALC_PORT": str(self.port),
            "MILLRACE_DATA_DIR": str(data_dir),
            "MILLRACE_CALC_RESULT_ROWS": "1000", "MILLRACE_SERVICE_TOKEN": TOKEN,
            "JAVA_HOME": str(java.home), "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        } | variables  # fmt: skip
        self.catalog_end = 0
        self._numbers: dict[int, int] = {}

    def start(self) -> None:
        with self.log_file.open("ab") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "calc_svc"], env=self._environment, stdout=sink, stderr=sink
            )

        def ready() -> bool:
            assert self.process.poll() is None, self.log_file.read_text()[-4000:]
            try:
                return httpx.get(f"{self.url}/healthz").status_code == 200
            except httpx.TransportError:
                return False

        eventually(ready, 300)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)

    def define(self, *records: Database | Table | Child | StreamEntry) -> None:
        tables = [record for record in records if isinstance(record, Table)]
        self.log.ensure_topics([(wal_topic(table.db, table.name), 2) for table in tables])
        found = self.log.append([Message(topics.CATALOG.name, key_of(r), encode(r)) for r in records])
        self.catalog_end = max(offset for _, offset in found) + 1

    def write(self, table: Table, rows: dict[str, list[dict[str, object]]]) -> None:
        topic = wal_topic(table.db, table.name)
        self.log.append(
            [Message(topic, name.encode(), msgspec.json.encode(part)) for name, part in rows.items()]
        )

    def fire(self, spec: StreamSpec, fired: list[TriggerEvent]) -> None:
        """A batch of trigger events that have seen all rows written so far."""
        assert spec.source is not None
        table = spec.source.table
        number = self._numbers[spec.uid] = self._numbers.get(spec.uid, -1) + 1
        seen = self.log.end_offsets(wal_topic(table.db, table.name))
        batch = TriggerBatch(spec.uid, 0, 0, number, seen, fired)
        self.log.append([Message(topics.TRIGGERS.name, f"{spec.uid}/0".encode(), events.encode(batch))])

    def ask(self, path: str, asked: dict[str, object], token: str = TOKEN) -> httpx.Response:
        shown = {"Authorization": f"Bearer {token}"}
        return httpx.post(f"{self.url}{path}", content=msgspec.json.encode(asked), headers=shown, timeout=60)

    def metrics(self) -> str:
        return httpx.get(f"{self.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text

    def query(self, sql: str, **more: object) -> pa.Table:
        wal = {topic: self.log.end_offsets(topic) for topic in self.log.topics(topics.WAL_PREFIX)}
        asked = {"sql": sql, "db": "power", "timezone": "UTC", "catalog": self.catalog_end, "wal": wal} | more
        response = self.ask("/query", asked)
        if response.status_code != 200:
            raise AssertionError(response.text)
        return pa.ipc.open_stream(response.content).read_all()

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in self.query(sql).to_pylist()]

    def refused(self, path: str, asked: dict[str, object]) -> tuple[int, dict[str, object]]:
        response = self.ask(path, asked)
        return response.status_code, response.json()

    def notices(self, stream: str) -> list[notices.Notice]:
        return [
            notice
            for record in replay(self.log, topics.NOTIFICATIONS.name)
            for notice in notices.decode(record.value or b"").notices
            if notice.stream == stream
        ]


def eventually(check: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.1)


def stream(uid: int, query: str, partition: tuple[str, ...] = ("tbname",), **more: object) -> StreamSpec:
    """A one-minute INTERVAL stream over the meters, its output table named after it."""
    tags = tuple(TBNAME_TAG if name == "tbname" else OutputTag(Column(name, INT), name) for name in partition)
    every = Interval(Duration(1, "m"), Duration(1, "m"))
    spec = StreamSpec(
        uid, "power", f"s{uid}", query, every, Source(METERS), partition,
        output=Output("power", f"out{uid}", OUT_COLUMNS, tags), query=query, result=RESULT,
        database="power",
    )  # fmt: skip
    return msgspec.structs.replace(spec, **more)


def output_of(spec: StreamSpec) -> Table:
    assert spec.output is not None
    tags = tuple(tag.column for tag in spec.output.tags)
    return Table(
        "power", spec.output.table, "super" if tags else "normal", 100 + spec.uid, "ms",
        spec.output.columns, tags,
    )  # fmt: skip


def closes(spec: StreamSpec, group: Group, starts: list[int], **more: object) -> list[TriggerEvent]:
    """The closing events of windows of a minute with three rows each; ``more``: cells that differ."""
    return [msgspec.structs.replace(event, **more) for event in closings(spec, group, starts, MINUTE, 3)]


def own(child: Child) -> Group:
    return Group(child.uid, (child.name,), child.name)


def data(children: list[Child], minutes: int) -> dict[str, list[dict[str, object]]]:
    """Three rows a minute for each child: amps = child's number + minute + 0, 0.5, 1."""
    return {
        child.name: [
            {"ts": minute * MINUTE + part * 20_000, "amps": int(child.name[1:]) + minute + part / 2}
            for minute in range(minutes)
            for part in range(3)
        ]
        for child in children
    }


class Kit:
    """What the tests of this folder share, which cannot import this module."""

    Calc = Calc
    METERS = METERS
    CHILDREN = CHILDREN
    QUERY = QUERY
    eventually = staticmethod(eventually)
    stream = staticmethod(stream)
    output_of = staticmethod(output_of)
    closes = staticmethod(closes)
    own = staticmethod(own)
    data = staticmethod(data)


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    return Kit

"""calc-svc as a process, on a real broker and real Spark: rows and triggers in, results and notices out."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import msgspec
import pyarrow as pa
import pytest

from calc_svc.catalog import CatalogView
from calc_svc.compute import Calculator
from calc_svc.session import Engine, Parquet
from calc_svc.sources import one_relation
from calc_svc.store import TableStore
from millrace.java import Java
from millrace.processes import free_port
from millrace_core.catalog import StreamEntry, encode, key_of
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import (
    Duration,
    Interval,
    Notify,
    Options,
    Output,
    OutputTag,
    ResultColumn,
    Source,
    StreamSpec,
)
from millrace_core.model.types import BIGINT, DOUBLE, TIMESTAMP, DataType
from millrace_core.wire import events, notices, status, topics
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent, trigger_id
from millrace_core.wire.topics import wal_topic
from millrace_wal import KafkaLog, Message, replay

pytestmark = pytest.mark.java

MINUTE = 60_000
INT, FLOAT = DataType("INT"), DataType("FLOAT")
METERS = Table(
    "power", "meters", "super", 11, "ms", (Column("ts", TIMESTAMP), Column("amps", FLOAT)),
    (Column("site", INT),),
)  # fmt: skip
TBNAME_TAG = OutputTag(Column("tag_tbname", DataType("VARCHAR", 270)), "tbname")
RESULT = (ResultColumn("_twstart", TIMESTAMP), ResultColumn("n", BIGINT), ResultColumn("a", DOUBLE))
OUT_COLUMNS = (Column("w", TIMESTAMP), Column("n", BIGINT), Column("a", DOUBLE))
CHILDREN = [Child("power", "meters", f"m{i}", (i % 3,)) for i in range(20)]


class Calc:
    """The service's process, and the log that it reads and writes."""

    def __init__(self, broker: str, java: Java, data_dir: Path) -> None:
        self.log = KafkaLog(broker, "test-calc")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log_file = data_dir / "calc.log"
        self._environment = os.environ | {
            "MILLRACE_BROKER": broker, "MILLRACE_CALC_PORT": str(self.port),
            "MILLRACE_DATA_DIR": str(data_dir),
            "MILLRACE_CALC_RESULT_ROWS": "1000", "JAVA_HOME": str(java.home), "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }  # fmt: skip
        self.catalog_end = 0
        self._numbers: dict[int, int] = {}

    def start(self) -> None:
        with self._log_file.open("ab") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "calc_svc"], env=self._environment, stdout=sink, stderr=sink
            )

        def ready() -> bool:
            assert self.process.poll() is None, self._log_file.read_text()[-4000:]
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

    def query(self, sql: str, **more: object) -> pa.Table:
        wal = {topic: self.log.end_offsets(topic) for topic in self.log.topics(topics.WAL_PREFIX)}
        asked = {"sql": sql, "db": "power", "timezone": "UTC", "catalog": self.catalog_end, "wal": wal} | more
        response = httpx.post(f"{self.url}/query", content=msgspec.json.encode(asked), timeout=60)
        if response.status_code != 200:
            raise AssertionError(response.text)
        return pa.ipc.open_stream(response.content).read_all()

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in self.query(sql).to_pylist()]

    def refused(self, path: str, asked: dict[str, object]) -> tuple[int, dict[str, object]]:
        response = httpx.post(f"{self.url}{path}", content=msgspec.json.encode(asked), timeout=60)
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
    kind = "super" if tags else "normal"
    return Table("power", spec.output.table, kind, 100 + spec.uid, "ms", spec.output.columns, tags)


def closes(spec: StreamSpec, group: Group, starts: list[int], **more: object) -> list[TriggerEvent]:
    return [
        msgspec.structs.replace(
            TriggerEvent(
                trigger_id(spec.uid, group.id, start),
                "CLOSE",
                "LIVE",
                group,
                start,
                start + MINUTE,
                3,
                5_000_000_000,
            ),
            **more,
        )
        for start in starts
    ]


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


QUERY = "SELECT _twstart, count(*) n, avg(amps) a FROM %%trows"


@pytest.fixture(scope="module")
def calc(broker: str, java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calc]:
    service = Calc(broker, java, tmp_path_factory.mktemp("calc"))
    service.log.ensure_topics(topics.TOPICS)
    service.define(Database("power"), METERS, *CHILDREN)
    service.write(METERS, data(CHILDREN, 10))
    service.start()
    yield service
    assert service.stop() == 0
    service.log.close()


def expected(children: list[Child], minutes: int) -> list[tuple[object, ...]]:
    return [
        (child.name, minute * MINUTE, 3, int(child.name[1:]) + minute + 0.5)
        for child in sorted(children, key=lambda c: c.name)
        for minute in range(minutes)
    ]


QUERIES = [
    QUERY,
    "SELECT _twstart, first(ts) - _twstart n, last(amps) a FROM %%trows",
    "SELECT ts, site n, amps a FROM power.meters"
    " WHERE tbname = %%tbname AND ts >= _twstart AND ts < _twend LIMIT 2",
    "SELECT _twstart, count(*) n, max(amps) a FROM power.meters WHERE ts < _twend",
    "SELECT cast(_twend AS TIMESTAMP), 1 n, min(amps) a FROM power.meters WHERE tbname = 'm7'",
    "SELECT _wstart, count(*) n, sum(amps) a FROM %%trows INTERVAL(20s)",
]


@pytest.fixture
def calculator(tmp_path: Path, java: Java) -> Iterator[Calculator]:
    """A calculator in this process, over a store that was filled without a log."""
    catalog = CatalogView()
    for offset, record in enumerate([Database("power"), METERS, *CHILDREN]):
        catalog.apply(offset, key_of(record), encode(record))
    store = TableStore(catalog, tmp_path, 1_000_000)
    stored = store.open(METERS)
    rows = data(CHILDREN, 10)
    stored.take([name.encode() for name in rows], [msgspec.json.encode(part) for part in rows.values()])
    engine = Engine({"triggers": 1, "queries": 1})
    yield Calculator(engine, catalog, store, 1000)
    engine.stop()


def test_plans_for_many_triggers_and_for_one_give_the_same(calculator: Calculator) -> None:
    with calculator.engine.lane("triggers", 1) as lane:
        for query in QUERIES:
            spec = stream(1, query)
            fired = [e for child in CHILDREN[5:9] for e in closes(spec, own(child), [0, MINUTE, 77 * MINUTE])]
            plan = calculator.plan(spec)
            assert plan.set_sql is not None, query
            many = calculator.calculate(spec, plan, fired, lane)
            one = calculator.one_by_one(spec, plan, fired, lane)
            assert [outcome.error for outcome in many + one] == [None] * 24
            assert [outcome.rows.rows() for outcome in many] == [outcome.rows.rows() for outcome in one], (
                query
            )
            assert any(len(outcome.rows) for outcome in many), query


def test_spark_reads_the_files_of_rows_not_in_memory(calculator: Calculator) -> None:
    stored = calculator.store.table(METERS)
    sql = "SELECT tbname, site, ts, amps FROM meters WHERE ts >= 120000 AND ts < 420000 ORDER BY tbname, ts"
    plan, before = calculator.query(sql, "power", "UTC", 0, 1)
    assert before.num_rows == 300
    stored.evict_half()
    stored.take([b"m3", b"m3"], [b'{"ts": 120000, "amps": -1}', b'{"ts": 400001, "amps": -2}'])
    (source,) = plan.sources
    found = one_relation(source, calculator.store, files_from=0)
    assert isinstance(found, Parquet)
    with calculator.engine.lane("queries", 1) as lane:
        from_files = lane.run(plan.one_sql({}), {source.relation: found}, "UTC")
    _, from_memory = calculator.query(sql, "power", "UTC", 0, 1)
    assert from_files.to_pylist() == from_memory.to_pylist()
    old = [row for row in before.to_pylist() if (row["tbname"], row["ts"]) != ("m3", 120_000)]
    new = [("m3", 0, 120_000, -1.0), ("m3", 0, 400_001, -2.0)]
    assert [tuple(row.values()) for row in from_files.to_pylist()] == sorted(
        [tuple(r.values()) for r in old] + new
    )


def test_triggers_become_rows_and_notices(calc: Calc) -> None:
    spec = stream(1, QUERY, notify=Notify(("ws://a",), ("WINDOW_CLOSE",)))
    calc.define(output_of(spec), StreamEntry(spec, "Running", 0, 0))
    calc.fire(
        spec, [e for child in CHILDREN for e in closes(spec, own(child), [m * MINUTE for m in range(10)])]
    )
    eventually(lambda: len(calc.notices("power.s1")) == 200)
    rows = calc.rows("SELECT tag_tbname, w, n, a FROM out1 ORDER BY tag_tbname, w")
    assert rows == expected(CHILDREN, 10)
    notice = next(n for n in calc.notices("power.s1") if n.group == str(CHILDREN[4].uid))
    assert notice.urls == ("ws://a",)
    assert notice.event["result"] == {"_twstart": 0, "n": 3, "a": 4.5}
    assert notice.event["triggerId"] == trigger_id(1, CHILDREN[4].uid, 0)
    assert str(notice.event["tableName"]).startswith("t_")


def test_one_by_one_gives_the_same_rows(calc: Calc) -> None:
    spec = stream(2, QUERY)
    calc.define(output_of(spec), StreamEntry(spec, "Running", 0, 0))
    told = 0
    for child in CHILDREN[:3]:
        for event in closes(spec, own(child), [0, MINUTE]):
            calc.fire(spec, [event])
            told += 1
            eventually(lambda: len(calc.notices("power.s2")) == told)  # noqa: B023
    rows = calc.rows("SELECT tag_tbname, w, n, a FROM out2 ORDER BY tag_tbname, w")
    assert rows == expected(CHILDREN[:3], 2)


def test_tag_groups_and_no_groups(calc: Calc) -> None:
    by_site, whole = stream(3, QUERY, ("site",)), stream(4, QUERY, ())
    named = msgspec.structs.replace(by_site.output, subtable="concat('site_', cast(site AS VARCHAR(8)))")
    by_site = msgspec.structs.replace(by_site, output=named)
    for spec in (by_site, whole):
        calc.define(output_of(spec), StreamEntry(spec, "Running", 0, 0))
    calc.fire(by_site, [e for s in range(3) for e in closes(by_site, Group(s + 50, (s,), None), [0, MINUTE])])
    calc.fire(whole, closes(whole, Group(0, (), None), [0, MINUTE, 99 * MINUTE]))
    eventually(lambda: len(calc.notices("power.s3")) == 6 and len(calc.notices("power.s4")) == 3)
    rows = calc.rows("SELECT tbname, site, w, n FROM out3 ORDER BY site, w")
    assert rows == [(f"site_{s}", s, m * MINUTE, 18 if s == 2 else 21) for s in range(3) for m in range(2)]
    # over no rows count is 0 and avg is NULL
    assert calc.rows("SELECT w, n, a FROM out4 ORDER BY w") == [
        (0, 60, 10.0), (MINUTE, 60, 11.0), (99 * MINUTE, 0, None),
    ]  # fmt: skip


def test_a_stream_reads_its_rows_from_other_tables_and_own_count(calc: Calc) -> None:
    query = (
        "SELECT _twstart, _twrownum n, max(amps) a FROM power.meters"
        " WHERE tbname = %%tbname AND ts >= _twstart AND ts < _twend"
    )
    spec = stream(5, query)
    calc.define(output_of(spec), StreamEntry(spec, "Running", 0, 0))
    calc.fire(spec, [e for c in CHILDREN[:2] for e in closes(spec, own(c), [0, MINUTE], rownum=-1)])
    eventually(lambda: len(calc.notices("power.s5")) == 4)
    rows = calc.rows("SELECT tag_tbname, w, n, a FROM out5 ORDER BY tag_tbname, w")
    assert rows == [(c, m * MINUTE, 3, float(int(c[1:]) + m + 1)) for c in ("m0", "m1") for m in range(2)]


def test_openings_notify_and_only_calculate_when_asked(calc: Calc) -> None:
    spec = stream(6, "SELECT _twstart, 1 n, 2.0 a", notify=Notify(("ws://a",), ("WINDOW_OPEN",)))
    asked = msgspec.structs.replace(
        stream(7, "SELECT _twstart, 1 n, 2.0 a"), options=Options(event_types=("WINDOW_OPEN",))
    )
    for one in (spec, asked):
        calc.define(output_of(one), StreamEntry(one, "Running", 0, 0))
        calc.fire(one, closes(one, own(CHILDREN[0]), [0], kind="OPEN"))
    eventually(lambda: len(calc.notices("power.s6")) == len(calc.notices("power.s7")) == 1)
    assert "result" not in calc.notices("power.s6")[0].event
    assert calc.notices("power.s7")[0].event["result"] == {"_twstart": 0, "n": 1, "a": 2.0}
    assert calc.rows("SELECT count(*) FROM out6") == [(0,)]
    assert calc.rows("SELECT n FROM out7") == [(1,)]


def test_a_failing_stream_says_why_and_stops_no_other(calc: Calc) -> None:
    bad, good = stream(8, "SELECT _twstart, count(*) n, 1.0 a FROM power.nowhere"), stream(9, QUERY)
    for spec in (bad, good):
        calc.define(output_of(spec), StreamEntry(spec, "Running", 0, 0))
    calc.fire(bad, closes(bad, own(CHILDREN[0]), [0]))
    calc.fire(good, closes(good, own(CHILDREN[0]), [0]))
    calc.fire(stream(999, QUERY), closes(good, own(CHILDREN[0]), [0]))
    gone = Child("power", "meters", "gone", (1,))
    calc.fire(good, closes(good, own(gone), [0]))
    calc.fire(good, closes(good, own(CHILDREN[1]), [0]))
    eventually(lambda: len(calc.notices("power.s9")) == 2)
    failures = {
        found.stream: found.message
        for record in replay(calc.log, topics.STATUS.name)
        if isinstance(found := status.decode(record.value or b""), status.StreamFailure)
    }
    assert set(failures) == {8}
    assert "nowhere" in failures[8]
    measured = httpx.get(f"{calc.url}/metrics").text
    assert 'millrace_events_dropped_total{cause="no such stream"} 1.0' in measured
    assert 'millrace_events_dropped_total{cause="no such table"} 1.0' in measured


def test_queries_carry_types_and_refuse_clearly(calc: Calc) -> None:
    found = calc.query("SELECT ts, amps, site, tbname FROM meters WHERE tbname = 'm4' ORDER BY ts LIMIT 2")
    types = [(field.metadata or {}).get(b"millrace.type") for field in found.schema]
    assert types[:3] == [b"TIMESTAMP", b"FLOAT", b"INT"]
    assert (found.schema.field(0).metadata or {})[b"millrace.precision"] == b"ms"
    assert found.to_pylist()[1] == {"ts": 20_000, "amps": 4.5, "site": 1, "tbname": "m4"}
    asked: dict[str, object] = {"sql": "SELECT nope FROM meters", "db": "power"}
    code, error = calc.refused("/query", asked)
    assert (code, error["code"], error["line"], error["column"]) == (400, "UNKNOWN_COLUMN", 1, 8)
    assert calc.refused("/query", {"query": 1})[0] == 400
    calc.write(METERS, {"m0": [{"ts": 10**9 + i, "amps": 1.0} for i in range(1001)]})
    topic = wal_topic("power", "meters")
    asked |= {
        "sql": "SELECT * FROM meters WHERE ts >= 1000000000",
        "wal": {topic: calc.log.end_offsets(topic)},
    }
    code, error = calc.refused("/query", asked)
    assert (code, error["code"]) == (413, "TOO_LARGE")


def test_describe_gives_the_result_columns(calc: Calc) -> None:
    asked = {"spec": stream(10, QUERY), "catalog": calc.catalog_end}
    code, found = calc.refused("/describe", asked)
    assert code == 200
    assert found == {"columns": [
        {"name": "_twstart", "type": {"name": "TIMESTAMP", "length": None}},
        {"name": "n", "type": {"name": "BIGINT", "length": None}},
        {"name": "a", "type": {"name": "DOUBLE", "length": None}},
    ]}  # fmt: skip


def test_kill_and_restart_lose_and_double_nothing(calc: Calc) -> None:
    spec = stream(20, QUERY)
    calc.define(output_of(spec), StreamEntry(spec, "Running", 0, 0))
    for minute in range(10):
        calc.fire(spec, [e for child in CHILDREN for e in closes(spec, own(child), [minute * MINUTE])])
        if minute in (2, 6):
            calc.kill()
            calc.start()
    ids = {trigger_id(20, child.uid, m * MINUTE) for child in CHILDREN for m in range(10)}
    eventually(lambda: {str(n.event["triggerId"]) for n in calc.notices("power.s20")} == ids)
    rows = calc.rows("SELECT tag_tbname, w, n, a FROM out20 ORDER BY tag_tbname, w")
    assert rows == expected(CHILDREN, 10)

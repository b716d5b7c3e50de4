"""Queries that are kept planned, on real Spark: they give what the same query gives when it is planned again.

Where a new version of Spark changes what ``calc_svc.spark.prepared`` relies on, these tests fail: a query
would not be prepared any more, or it would give the rows of an earlier run.
"""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark import SparkContext
from structlog.testing import capture_logs

from calc_svc.spark.jvm import Jvm
from calc_svc.spark.prepared import MOST_BYTES
from calc_svc.spark.session import Engine, Lane
from calc_svc.store.columns import plain_arrow
from millrace.java import Java
from millrace_core.errors import ErrorCode, PlanError

from ...unit.plan import conftest as worlds
from ...unit.plan import test_golden as golden

pytestmark = pytest.mark.java

FIRST, OTHER = (0, 25, 70), (10, 40, 55)
"""Seconds at which windows begin."""
SUM = "SELECT _tid, sum(v) AS s FROM src GROUP BY _tid"
LANES = 8
SCHEMA = pa.schema([("_tid", pa.int32()), ("v", pa.int64())])


@pytest.fixture(scope="module")
def engine(java: Java) -> Iterator[Engine]:
    engine = Engine({"triggers": 1}, lanes={"triggers": LANES})
    yield engine
    engine.stop()


@pytest.fixture
def lane(engine: Engine) -> Iterator[Lane]:
    with engine.lane("triggers", 1) as lane:
        yield lane


def rows(lane: Lane, sql: str, relation: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in lane.run(sql, {"src": relation}, "UTC").to_pylist()]


def used() -> int:
    """Bytes of Spark's heap in use, behind a collection."""
    context = SparkContext._active_spark_context
    assert context is not None and context._jvm is not None
    runtime = context._jvm.java.lang.Runtime.getRuntime()
    runtime.gc()
    return int(runtime.totalMemory()) - int(runtime.freeMemory())


def prepared(lane: Lane) -> list[str]:
    """The texts that are kept planned."""
    return [key[1] for key, found in lane.prepared._free.items() for _ in found]


def refused(lane: Lane) -> list[str]:
    return [key[1] for key in lane.prepared._refused]


def test_the_second_time_it_is_prepared_and_gives_the_rows_of_each_run(lane: Lane) -> None:
    given = pa.table({"_tid": pa.array([0, 0, 1], pa.int32()), "v": [1, 2, 3]})
    other = pa.table({"_tid": pa.array([5, 5], pa.int32()), "v": [10, 20]})
    assert sorted(rows(lane, SUM, given)) == [(0, 3), (1, 3)]
    assert SUM not in prepared(lane)
    assert rows(lane, SUM, other) == [(5, 30)]
    assert SUM in prepared(lane)
    assert sorted(rows(lane, SUM, given)) == [(0, 3), (1, 3)]
    assert rows(lane, SUM, given.slice(0, 0)) == []
    assert rows(lane, SUM, other) == [(5, 30)]


def test_another_context_of_the_same_jvm_prepares_too(engine: Engine) -> None:
    """It had a class of its own of the same name, which was called by the methods of the first."""
    known = Jvm(engine._root.sparkContext)
    assert known._tasks.getClass().equals(Jvm(engine._root.sparkContext)._tasks.getClass())


def test_the_jvm_sends_what_it_answers_at_once(engine: Engine, lane: Lane) -> None:
    """A long answer is written in parts. While no part was sent before the one ahead had been acknowledged,
    a job that followed another one closely took 40 ms longer."""
    here, there = threading.Event(), threading.Event()

    def another_connection() -> None:
        for _ in range(2):
            rows(lane, SUM, pa.table({"_tid": pa.array([0], pa.int32()), "v": [1]}))
        here.set()
        there.wait(10)

    thread = threading.Thread(target=another_connection)
    thread.start()
    assert here.wait(60)
    jvm, gateway = engine._root.sparkContext._jvm, engine._root.sparkContext._gateway
    assert jvm is not None and gateway is not None
    field = jvm.java.lang.Class.forName("py4j.GatewayServer").getDeclaredField("connections")
    field.setAccessible(True)
    delays = [one.getSocket().getTcpNoDelay() for one in field.get(gateway.java_gateway_server)]
    there.set()
    thread.join()
    assert len(delays) > 1 and all(delays)


def test_few_rows_that_are_sorted_for_a_join_need_no_hash_table(lane: Lane) -> None:
    joined = "src s JOIN src t ON s._tid = t._tid AND s.v >= t.v"
    sql = f"EXPLAIN SELECT s._tid, sum(s.v) FROM {joined} GROUP BY s._tid"
    given = pa.table({"_tid": pa.array([0, 1], pa.int32()), "v": [1, 2]})
    ((plan,),) = rows(lane, sql, given)
    assert "SortAggregate" in plan and "HashAggregate" not in plan


def test_rows_that_go_through_a_file(lane: Lane) -> None:
    sql = "SELECT count(*), sum(v), max(w) FROM src"
    many = pa.table({"v": list(range(4_000)), "w": ["x" * 40] * 4_000})
    few = pa.table({"v": [1], "w": ["y"]})
    for _ in range(2):
        assert rows(lane, sql, few) == [(1, 1, "y")]
        assert rows(lane, sql, many) == [(4_000, 7_998_000, "x" * 40)]
    assert sql in prepared(lane)


def test_many_rows_are_prepared_apart_from_few(lane: Lane) -> None:
    sql = "SELECT count(*), max(v) FROM src"
    for size in (6_000, 3, 7_000, 4, 8_000, 5):
        assert rows(lane, sql, pa.table({"v": list(range(size))})) == [(size, size - 1)]
    assert prepared(lane).count(sql) == 2


def test_a_column_of_another_type_is_another_query(lane: Lane) -> None:
    sql = "SELECT max(v) FROM src"
    for _ in range(3):
        assert rows(lane, sql, pa.table({"v": [1, 2]})) == [(2,)]
        assert rows(lane, sql, pa.table({"v": ["a", "b"]})) == [("b",)]


def test_the_time_zone_is_the_one_asked_for(lane: Lane) -> None:
    sql = "SELECT date_format(timestamp_millis(v), 'HH:mm') FROM src"
    relation = pa.table({"v": [0]})
    for _ in range(3):
        for zone, wanted in (("UTC", "00:00"), ("Asia/Shanghai", "08:00")):
            assert lane.run(sql, {"src": relation}, zone).column(0).to_pylist() == [wanted]


def test_where_spark_exchanges_rows_it_is_prepared_too(lane: Lane) -> None:
    sql = (
        "SELECT a._tid, a.n, b.m FROM (SELECT s._tid, count(*) AS n FROM src s"
        " JOIN trig t ON t._tid = s._tid WHERE s.v < t.below GROUP BY s._tid) a"
        " FULL JOIN (SELECT _tid, max(v) AS m FROM src GROUP BY _tid HAVING max(v) > 5) b"
        " ON a._tid = b._tid ORDER BY 1"
    )
    src = pa.table({"_tid": [0, 0, 1], "v": [1, 9, 1]})
    for below, wanted in ((5, [(0, 1, 9), (1, 1, None)]), (10, [(0, 2, 9), (1, 1, None)])) * 2:
        trig = pa.table({"_tid": [0, 1], "below": [below, below]})
        found = lane.run(sql, {"src": src, "trig": trig}, "UTC").to_pylist()
        assert [tuple(row.values()) for row in found] == wanted
    assert sql in prepared(lane)


@pytest.mark.parametrize(
    "sql, wanted",
    [
        ("SELECT v FROM src WHERE v > 1 UNION ALL SELECT -v FROM src", [2, 3, -1, -2, -3]),
        ("SELECT sum(v) FROM (SELECT v FROM src WHERE v > 1 UNION ALL SELECT -v FROM src)", [-1]),
        ("SELECT v FROM src LIMIT 0", []),
        ("SELECT count(*) FROM (SELECT v FROM src LIMIT 0)", [0]),
        ("SELECT v FROM src ORDER BY v DESC", [3, 2, 1]),
        ("SELECT DISTINCT v % 1 FROM src", [0]),
    ],
)
def test_results_of_several_partitions_or_none(lane: Lane, sql: str, wanted: list[int]) -> None:
    for _ in range(3):
        found = lane.run(sql, {"src": pa.table({"v": [1, 2, 3]})}, "UTC")
        assert found.column(0).to_pylist() == wanted
    assert sql in prepared(lane)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT v FROM src WHERE v > (SELECT avg(v) FROM src)",
        "SELECT a.v FROM src a LEFT JOIN src b ON a.v < b.v WHERE b.v IS NULL",
        "SELECT v, rand() AS r FROM src",
    ],
)
def test_what_keeps_something_is_planned_each_time(lane: Lane, sql: str) -> None:
    with capture_logs() as logs:
        for values in ([1, 2, 3, 4], [10, 30], [10, 30], [7]):
            found = lane.run(sql, {"src": pa.table({"v": values})}, "UTC").column(0).to_pylist()
            assert set(found) <= set(values) and max(found, default=0) in (max(values), 0)
    assert sql in refused(lane) and sql not in prepared(lane)
    assert [log["sql"] for log in logs if log["reason"]] == [sql], "told once, with the reason"


def test_a_query_that_fails_says_so_and_works_again(lane: Lane) -> None:
    sql = "SELECT raise_error(w) FROM src WHERE v > 1"
    fine, bad = pa.table({"v": [1], "w": ["fault"]}), pa.table({"v": [2], "w": ["fault"]})
    for _ in range(2):
        assert rows(lane, sql, fine) == []
    for _ in range(2):
        with pytest.raises(PlanError, match="fault"):
            rows(lane, sql, bad)
        assert rows(lane, sql, fine) == []


def test_every_golden_plan_gives_the_same_prepared(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    not_prepared = []
    for path in golden.GOLDEN:
        world = worlds.World()
        world.fill(seed=1)
        plan = golden.plan_of(world, worlds.Kit, golden.read(path))

        def on_spark(tree: Any, relations: Mapping[str, pl.DataFrame], text: str = plan.set_sql) -> Any:
            tables = {name: plain_arrow(frame) for name, frame in relations.items()}
            columns = [column.to_pylist() for column in lane.run(text, tables, "UTC").columns]
            return list(zip(*columns, strict=True))

        def found(starts: tuple[int, ...], world: Any = world, plan: Any = plan) -> list[Any]:
            windows = [(worlds.T0 + 1_000 * a, worlds.T0 + 1_000 * (a + 10)) for a in starts]
            trig = worlds.trigger_relation(world.spec, worlds.window_events(world.spec, windows))
            return sorted(world.set_rows(plan, trig), key=repr)

        monkeypatch.setattr(worlds, "run", on_spark)
        planned, _, again = found(FIRST), found(OTHER), found(FIRST)
        assert again == planned, path.stem
        if plan.set_sql not in prepared(lane):
            not_prepared.append(path.stem)
    assert len(not_prepared) <= len(golden.GOLDEN) // 4, not_prepared


def test_what_is_kept_planned_needs_no_place(lane: Lane) -> None:
    given = pa.table({"_tid": pa.array([0], pa.int32()), "v": [7]})
    for _ in range(2):
        rows(lane, SUM, given)
    with lane._place():
        assert rows(lane, SUM, given) == [(0, 7)]


def test_many_threads_at_once_each_have_their_own_rows(engine: Engine) -> None:
    texts = [f"SELECT _tid, max(v) + {n} AS m FROM src GROUP BY _tid ORDER BY 1" for n in range(4)]
    fails = "SELECT v, CASE WHEN v > 5 THEN raise_error('too much') END AS w FROM src"
    start = threading.Barrier(LANES)

    def one(thread: int) -> int:
        chance = random.Random(thread)
        start.wait(60)
        for _ in range(25):
            n = chance.randrange(len(texts))
            values = [chance.randrange(6) for _ in range(chance.randrange(5))]
            with engine.lane("triggers", 60) as lane:
                if n == thread:
                    with pytest.raises(PlanError, match="too much"):
                        rows(lane, fails, pa.table({"v": [*values, 6]}))
                given = pa.table({"_tid": [v % 2 for v in values], "v": values}, SCHEMA)
                wanted = [(r, max(of) + n) for r in (0, 1) if (of := [v for v in values if v % 2 == r])]
                assert rows(lane, texts[n], given) == wanted
        return thread

    with ThreadPoolExecutor(LANES) as threads:
        assert list(threads.map(one, range(LANES))) == list(range(LANES))


def test_the_memory_of_what_has_run_is_free_again(lane: Lane) -> None:
    given = pa.table({"_tid": [0, 1, 0], "v": [3, 2, 1]}, SCHEMA)
    sql = "SELECT _tid, sum(v) AS s FROM src GROUP BY _tid ORDER BY s"
    for _ in range(3):
        assert rows(lane, sql, given) == [(1, 2), (0, 4)]
    manager = SparkContext._active_spark_context._jvm.org.apache.spark.SparkEnv.get().memoryManager()
    assert manager.executionMemoryUsed() == 0


class Told:
    """A query that ends with an error once it is ``told`` to."""

    def __init__(self, name: str, most_bytes: int = MOST_BYTES) -> None:
        self.name, self.most_bytes = name, most_bytes
        self.begun, self.told = threading.Event(), threading.Event()

    def begin(self) -> None:
        self.begun.set()

    def check(self) -> None:
        if self.told.is_set():
            raise PlanError(ErrorCode.QUERY_TIMEOUT, "told")


def test_a_task_is_cancelled_by_its_name_and_the_next_one_runs(engine: Engine, lane: Lane) -> None:
    sql = "SELECT count(*) AS n FROM src a, src b, src c WHERE a.v + b.v + c.v = -1"
    many = pa.table({"_tid": pa.array(range(5_000), pa.int32()), "v": range(5_000)})
    for _ in range(2):
        assert rows(lane, sql, many.slice(0, 2)) == [(0,)]
    assert sql in prepared(lane)
    asked = Told("one")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lane.run, sql, {"src": many}, "UTC", None, asked)
        assert asked.begun.wait(60)
        asked.told.set()
        for _ in range(200):
            engine.cancel("one")
            if wait([running], 0.3).done:
                break
        with pytest.raises(PlanError, match="told"):
            running.result(0)
        # in the same thread of the JVM: nothing of the interrupt is left
        for _ in range(3):
            assert pool.submit(rows, lane, SUM, many.slice(0, 2)).result(60) == [(0, 0), (1, 1)]


def test_a_task_gives_only_so_many_bytes(lane: Lane) -> None:
    sql = "SELECT _tid, repeat('x', 1000) AS s FROM src"
    given = pa.table({"_tid": pa.array(range(50), pa.int32()), "v": range(50)})
    for _ in range(2):
        assert len(rows(lane, sql, given)) == 50
    assert lane.prepared is not None
    few, enough = Told("two", 10_000), Told("three", 100_000)
    with lane._small() as session:
        found = [
            lane.prepared.run("small", lambda: nullcontext(session), sql, {"src": given}, "UTC", asked)
            for asked in (enough, few)
        ]
    assert found[0] is not None and found[0].num_rows == 50
    assert found[1] is None, "it is run as a job, which says what is wrong"


@pytest.mark.parametrize(("count", "runs"), [(60_000, 12), (600_000, 3)])
def test_rows_of_queries_that_have_ended_are_not_kept(lane: Lane, count: int, runs: int) -> None:
    """Though Python does not look for garbage meanwhile: each of these queries would keep some 130 bytes a
    row (decision 0083)."""
    many = pa.table({"_tid": pa.array(range(count), pa.int32()), "v": pa.array(range(count), pa.int64())})
    gc.collect()
    gc.disable()
    try:
        rows(lane, "SELECT count(*) AS n FROM src", many)
        before = used()
        for number in range(runs):
            assert rows(lane, f"SELECT count(*) + {number} AS n FROM src", many) == [(count + number,)]
        until = time.monotonic() + 30
        while used() > before + 60_000_000:
            assert time.monotonic() < until, used() - before
            time.sleep(0.2)
    finally:
        gc.enable()

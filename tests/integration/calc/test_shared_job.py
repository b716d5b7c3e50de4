"""Queries of several streams in one job, on real Spark: each gives what it gives alone.

Where a new version of Spark changes what ``calc_svc.spark.shared_job`` relies on, these tests fail.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from calc_svc.spark.session import Engine, Lane
from calc_svc.spark.shared_job import SharedJobs
from millrace.java import Java
from millrace_core.errors import PlanError

pytestmark = pytest.mark.java

LANES = 12
Rows = list[tuple[Any, ...]]
SUM = "SELECT _tid, sum(v) AS s FROM src GROUP BY _tid ORDER BY 1"
TEXT = "SELECT concat('<', v, '>') AS t, v > 2 AS more FROM src WHERE v > 0"
JOINED = (
    "SELECT t._tid, a.n FROM (SELECT s._tid, count(*) AS n FROM src s GROUP BY s._tid) a"
    " JOIN (SELECT DISTINCT _tid FROM src) t ON t._tid = a._tid ORDER BY 1"
)
BOTH = "SELECT v FROM src WHERE v > 1 UNION ALL SELECT -v FROM src"
NOTHING = "SELECT v FROM src LIMIT 0"
FAILS = "SELECT v, CASE WHEN v > 5 THEN raise_error('too much') END AS w FROM src"
SLEEPS = "SELECT java_method('java.lang.Thread', 'sleep', v) AS s FROM src"


def given(*values: int) -> pa.Table:
    tids = pa.array([v % 2 for v in values], pa.int32())
    return pa.table({"_tid": tids, "v": pa.array(values, pa.int64())})


class Noted(SharedJobs):
    """Notes how many queries each job has."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.sizes: list[int] = []

    def _run(self, job: list[Any]) -> None:
        self.sizes.append(len(job))
        super()._run(job)


class Streams:
    """Several threads, each with a lane, and the jobs that they share: one at a time."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        with engine.lane("triggers", 1) as lane:
            self.lane: Lane = lane
        self.jobs = Noted(engine._jvm, 1)
        lane.prepared._jobs = self.jobs
        self.threads = ThreadPoolExecutor(LANES)

    def rows(self, sql: str, relation: pa.Table, timezone: str = "UTC") -> Rows:
        with self.engine.lane("triggers", 10) as lane:
            found = lane.run(sql, {"src": relation}, timezone)
        return [tuple(row.values()) for row in found.to_pylist()]

    def prepare(self, *queries: str, copies: int = 1, timezone: str = "UTC") -> None:
        """So that they are kept planned, ``copies`` of each."""
        kept = self.lane.prepared
        for sql in queries:
            self.rows(sql, given(1), timezone)
            self.rows(sql, given(1), timezone)
            taken = []
            for _ in range(copies):
                (key,) = {key for key in kept._free if key[1:3] == (sql, timezone)}
                taken.append(kept._take(key)[0])
                self.rows(sql, given(1), timezone)
            for one in taken:
                assert one is not None
                kept._keep(key, one)
        self.jobs.sizes.clear()

    def wait(self, waiting: int) -> None:
        end = time.monotonic() + 60
        while len(self.jobs._waiting) < waiting or not self.jobs._running:
            assert time.monotonic() < end
            time.sleep(0.001)

    def together(self, *calls: Callable[[], Rows]) -> list[Future[Rows]]:
        """They wait while another query's job runs; what they give. It ends when the last one is there."""
        self.prepare(SLEEPS)
        slow = self.threads.submit(self.rows, SLEEPS, given(1_500))
        self.wait(0)
        found = []
        for place, call in enumerate(calls):
            found.append(self.threads.submit(call))
            self.wait(place + 1)
        slow.result(60)
        return found


@pytest.fixture(scope="module")
def engine(java: Java) -> Iterator[Engine]:
    engine = Engine({"triggers": 1}, lanes={"triggers": LANES})
    yield engine
    engine.stop()


@pytest.fixture
def streams(engine: Engine) -> Iterator[Streams]:
    streams = Streams(engine)
    yield streams
    streams.threads.shutdown()


def results(found: Sequence[Future[Rows]]) -> list[Rows]:
    return [one.result(60) for one in found]


def test_a_query_that_comes_alone_has_a_job_of_its_own(streams: Streams) -> None:
    streams.prepare(SUM)
    for _ in range(3):
        assert streams.rows(SUM, given(1, 2, 4)) == [(0, 6), (1, 1)]
    assert streams.jobs.sizes == [1, 1, 1]


def test_queries_that_wait_share_one_job_and_each_has_its_own_rows(streams: Streams) -> None:
    streams.prepare(SUM, copies=3)
    streams.prepare(TEXT, JOINED, NOTHING)
    found = streams.together(
        lambda: streams.rows(SUM, given(1, 2, 4)),
        lambda: streams.rows(TEXT, given(3, 0, 1)),
        lambda: streams.rows(SUM, given()),
        lambda: streams.rows(JOINED, given(1, 3, 5, 6)),
        lambda: streams.rows(SUM, given(10, 20)),
        lambda: streams.rows(NOTHING, given(1)),
    )
    assert results(found) == [
        [(0, 6), (1, 1)], [("<3>", True), ("<1>", False)], [], [(0, 1), (1, 3)], [(0, 30)], [],
    ]  # fmt: skip
    assert streams.jobs.sizes == [1, 5, 1]


def test_a_result_of_several_partitions_is_one_query_too(streams: Streams) -> None:
    streams.prepare(BOTH, SUM)
    found = streams.together(
        lambda: streams.rows(BOTH, given(1, 2)),
        lambda: streams.rows(SUM, given(3)),
    )
    assert results(found) == [[(2,), (-1,), (-2,)], [(1, 3)]]
    assert streams.jobs.sizes == [1, 2]


def test_only_the_one_that_fails_fails_and_it_shares_no_more(streams: Streams) -> None:
    streams.prepare(SUM, TEXT, FAILS)
    found = streams.together(
        lambda: streams.rows(SUM, given(1, 2, 4)),
        lambda: streams.rows(FAILS, given(1, 6, 2)),
        lambda: streams.rows(TEXT, given(3)),
    )
    assert results([found[0], found[2]]) == [[(0, 6), (1, 1)], [("<3>", True)]]
    with pytest.raises(PlanError, match="too much"):
        found[1].result(60)
    assert sorted(streams.jobs.sizes) == [1, 1, 1, 1, 3]
    streams.prepare(FAILS)
    found = streams.together(
        lambda: streams.rows(SUM, given(1)),
        lambda: streams.rows(FAILS, given(5)),
        lambda: streams.rows(TEXT, given(4)),
    )
    assert results(found) == [[(1, 1)], [(5, None)], [("<4>", True)]]
    assert sorted(streams.jobs.sizes) == [1, 1, 2]


def test_time_zones_do_not_share(streams: Streams) -> None:
    hour = "SELECT date_format(timestamp_millis(v), 'HH:mm') AS h FROM src"
    zones = ("UTC", "Asia/Shanghai")
    for zone in zones:
        streams.prepare(hour, copies=2, timezone=zone)
    calls = [lambda zone=zone: streams.rows(hour, given(0), zone) for zone in zones * 2]
    assert results(streams.together(*calls)) == [[("00:00",)], [("08:00",)]] * 2
    assert streams.jobs.sizes == [1, 2, 2]


def test_single_queries_run_side_by_side_but_not_beside_a_shared_job(streams: Streams) -> None:
    streams.prepare(SLEEPS, copies=5)
    streams.jobs._at_once = 2

    def slow(milliseconds: int) -> Future[Rows]:
        before = len(streams.jobs._waiting) + streams.jobs._running
        found = streams.threads.submit(streams.rows, SLEEPS, given(milliseconds))
        while len(streams.jobs._waiting) + streams.jobs._running == before:
            time.sleep(0.001)
        return found

    first, second = slow(2_000), slow(3_000)
    assert streams.jobs._running == 2
    third, fourth = slow(5_000), slow(1)
    first.result(60)
    fifth = slow(1)
    second.result(60)
    assert not fifth.done()
    assert results([third, fourth, fifth]) == [[("null",)]] * 3
    assert streams.jobs.sizes == [1, 1, 2, 1]


def test_what_is_kept_planned_needs_no_place(streams: Streams) -> None:
    streams.prepare(SUM)
    with streams.lane._place():
        assert streams.rows(SUM, given(7)) == [(1, 7)]
        other = streams.threads.submit(streams.rows, "SELECT max(v) FROM src", given(7))
        with pytest.raises(TimeoutError):
            other.result(0.3)
    assert other.result(60) == [(7,)]


def test_many_threads_at_once_for_a_while(streams: Streams) -> None:
    shifted = [f"SELECT _tid, max(v) + {n} AS m FROM src GROUP BY _tid ORDER BY 1" for n in range(6)]
    streams.prepare(*shifted)
    start = threading.Barrier(LANES)

    def one(thread: int) -> int:
        chance = random.Random(thread)
        start.wait(60)
        for _ in range(25):
            n = chance.randrange(6)
            values = [chance.randrange(6) for _ in range(chance.randrange(5))]
            if n == thread:
                with pytest.raises(PlanError, match="too much"):
                    streams.rows(FAILS, given(*values, 6))
            wanted = [(r, max(of) + n) for r in (0, 1) if (of := [v for v in values if v % 2 == r])]
            assert streams.rows(shifted[n], given(*values)) == wanted
        return thread

    assert list(streams.threads.map(one, range(LANES))) == list(range(LANES))
    assert max(streams.jobs.sizes) > 1
    assert not streams.jobs._running and not streams.jobs._waiting

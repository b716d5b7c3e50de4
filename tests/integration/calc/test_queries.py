"""Users' queries in their process: what would take it from the others ends, the next query is answered."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
import structlog

from calc_svc.queries.__main__ import NICE
from calc_svc.queries.lane import QueryLane
from calc_svc.queries.process import QueryProcess
from calc_svc.queries.running import Query
from millrace.java import Java
from millrace_core.admission import Admission
from millrace_core.errors import ErrorCode, Fault, MillraceError, PlanError
from millrace_service import Life

pytestmark = pytest.mark.java

ROWS = {"t": pa.table({"v": range(5_000), "s": ["a" * 40] * 5_000})}
FOREVER = "SELECT count(*) FROM t a, t b, t c, t d WHERE a.v + b.v + c.v + d.v = -1"
MANY = "sequence(1L, 100000L)"
LONG = f"aggregate({MANY}, {{}}, (a, x) -> a + aggregate({MANY}, 0L, (b, y) -> b + x * y))"
"""One expression of 10 billion steps, in which nobody looks whether it is to end."""
LANES = 2
NUMBERS = count()


@pytest.fixture(scope="module")
def process(java: Java) -> Iterator[QueryProcess]:
    """With a small heap, and few bytes of a result."""
    environment = os.environ | {
        "JAVA_HOME": str(java.home), "MILLRACE_CALC_QUERY_MEMORY": "600m",
        "MILLRACE_CALC_RESULT_BYTES": "1000000",
    }  # fmt: skip
    work = QueryProcess(LANES, Admission(LANES, 3, 600.0), environment, spare=True)
    life = Life(work, structlog.get_logger())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("calc_svc.queries.process.SPARE_AFTER", 0.0)
        life.start()
        assert rows(work, "SELECT 1") == [(1,)], "what is short below does not wait for its start"
    yield work
    life.stop(30)
    assert not life.failed


def rows(
    process: QueryProcess, sql: str, seconds: float = 120.0, limit: int | None = None, user: str = "ann"
) -> list[object]:
    found = QueryLane(process, Query(sql, seconds, user=user)).run(sql, ROWS, "UTC", limit)
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def refused(
    process: QueryProcess, sql: str, seconds: float = 120.0, limit: int | None = None
) -> MillraceError:
    """The error of a query of somebody who has sent none before: nobody is told to pause."""
    with pytest.raises(PlanError) as caught:
        rows(process, sql, seconds, limit, f"hostile-{next(NUMBERS)}")
    return caught.value


@pytest.fixture(autouse=True)
def all_lanes_are_free_afterwards(process: QueryProcess) -> Iterator[None]:
    yield
    together = threading.Barrier(LANES, timeout=120)

    def take(user: str) -> None:
        lane = QueryLane(process, Query("", 120.0, user=user))
        together.wait()
        lane.run("SELECT count(*) FROM t", ROWS, "UTC", 10)

    threads = [threading.Thread(target=take, args=(f"user-{number}",)) for number in range(LANES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert rows(process, "SELECT count(*), max(v) FROM t") == [(5_000, 4_999)]


def test_rows_and_errors_are_those_of_spark(process: QueryProcess) -> None:
    assert rows(process, "SELECT v FROM t WHERE v < 2 ORDER BY v") == [(0,), (1,)]
    assert refused(process, "SELECT nothing FROM t").code is ErrorCode.INVALID_VALUE
    assert refused(process, "SELECT v FROM t", limit=3).code is ErrorCode.TOO_LARGE


def test_a_result_has_only_so_many_bytes(process: QueryProcess) -> None:
    error = refused(process, "SELECT repeat(s, 10) FROM t", limit=1_000_000)
    assert error.code is ErrorCode.TOO_LARGE
    assert "MILLRACE_CALC_RESULT_BYTES" in error.message


def test_a_query_that_takes_too_long_is_cancelled(process: QueryProcess, kit: Any) -> None:
    begun = process.look()[0]
    error = refused(process, FOREVER, seconds=3)
    assert error.code is ErrorCode.QUERY_TIMEOUT
    assert error.code.value.fault is Fault.USER
    kit.eventually(lambda: len(process._free) == LANES, 120)
    assert process.look()[0] == begun, "its job could be cancelled: the process need not end"


def test_a_query_that_is_killed_ends(process: QueryProcess) -> None:
    query = Query(FOREVER, 120.0)
    threading.Timer(2, query.end, (PlanError(ErrorCode.QUERY_KILLED, "killed"),)).start()
    with pytest.raises(PlanError, match="killed"):
        QueryLane(process, query).run(FOREVER, ROWS, "UTC", 10)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {LONG.format('v')} FROM t",  # while it runs
        f"SELECT {LONG.format('1L')}",  # while it is planned: constants are folded then
        r"SELECT count(*) FROM t WHERE concat(s, s, '!') RLIKE '(a|aa)+\\1b'",
    ],
)
def test_what_cannot_be_cancelled_takes_no_more_than_its_process(
    process: QueryProcess, kit: Any, sql: str
) -> None:
    begun = process.look()[0]
    assert refused(process, sql, seconds=2).code is ErrorCode.QUERY_TIMEOUT
    assert rows(process, "SELECT 1") == [(1,)], "others are answered before it has ended"
    kit.eventually(lambda: process.look()[0] != begun, 120)
    assert rows(process, "SELECT 1") == [(1,)]


def test_a_query_beside_one_that_cannot_be_cancelled_is_answered(process: QueryProcess) -> None:
    """It is begun again in the next process."""
    found: list[object] = []
    beside = threading.Thread(
        target=lambda: found.extend(rows(process, "SELECT count(*) FROM t a, t b WHERE a.v * b.v % 7919 = 1"))
    )
    hostile = threading.Thread(target=refused, args=(process, f"SELECT {LONG.format('v')} FROM t", 2))
    hostile.start()
    beside.start()
    hostile.join(120)
    beside.join(120)
    assert len(found) == 1


def test_a_query_that_takes_all_memory_is_told_so(process: QueryProcess) -> None:
    error = refused(process, "SELECT length(array_join(collect_list(repeat(a.s, 99)), '')) FROM t a, t b")
    assert error.code is ErrorCode.TOO_LARGE
    assert "memory" in error.message


def test_a_process_that_is_killed_is_followed_by_another(process: QueryProcess) -> None:
    assert rows(process, "SELECT 1") == [(1,)]
    child = process._child
    assert child is not None
    psutil.Process(child.process.pid).kill()
    assert rows(process, "SELECT 2") == [(2,)]


def test_nothing_of_it_outlives_its_owner(java: Java) -> None:
    """Where calc-svc is killed, its end of the pipes closes."""
    work = QueryProcess(1, Admission(1, 3, 600.0), os.environ | {"JAVA_HOME": str(java.home)})
    work.begin()
    child = work._child
    assert child is not None
    others = [psutil.Process(child.process.pid), *psutil.Process(child.process.pid).children(recursive=True)]
    assert any("java" in one.name() for one in others)
    threads = [stat for one in others for stat in Path(f"/proc/{one.pid}/task").glob("*/stat")]
    assert {stat.read_text().rpartition(")")[2].split()[16] for stat in threads} == {str(NICE)}
    child.control.close()
    _, alive = psutil.wait_procs(others, timeout=60)
    work.end()
    assert not alive

"""Statements of users planned in a process of their own: the plans and the errors are those of this one."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import NamedTuple

import psutil
import pytest
import structlog

from calc_svc.planning.__main__ import NICE
from calc_svc.planning.interruptible import THREAD, Interrupted, Interruptible
from calc_svc.planning.messages import AskedQuery, PlannedQuery, Refused, Wanted
from calc_svc.planning.planner import Planner
from calc_svc.planning.serving import Planning
from calc_svc.queries.answering import Answering
from calc_svc.queries.control import Cancel, Said
from calc_svc.queries.process import PLANS, QueryProcess
from calc_svc.queries.running import Query
from millrace_core.admission import Admission
from millrace_core.catalog import Definitions
from millrace_core.errors import ErrorCode, MillraceError, PlanError
from millrace_service import Life

from ..plan.conftest import make_catalog, make_spec

LANES = 2
QUERIES = [
    "SELECT 1",
    "SELECT v, w + 1s FROM nt WHERE ts >= '2026-01-01' AND ts < now",
    "SELECT _wstart, count(*), avg(v) FROM meters PARTITION BY tbname INTERVAL(1m)",
    "SELECT TAGS tbname, site FROM meters",
    "SELECT a.v FROM nt a JOIN (SELECT ts, v FROM d.meters) b ON a.ts = b.ts",
    "SELECT current_user(), stream_name FROM information_schema.ins_streams",
    "SELECT forecast(v, 'trend=add, rows=2') FROM nt",
    "EXPLAIN SELECT v FROM d1",
]
REFUSED = [
    "SELECT v FROM metre",
    "SELECT v,\n  nothing FROM nt",
    "SELECT v FROM nowhere.t",
    "SELECT v FROM nt WHERE (",
    "SELECT repeat('x', 2000000000) FROM nt",
]


@pytest.fixture(scope="module")
def process() -> Iterator[QueryProcess]:
    work = QueryProcess(LANES, Admission(LANES, 3, 600.0), kind=PLANS)
    life = Life(work, structlog.get_logger())
    life.start()
    yield work
    life.stop(30)
    assert not life.failed


def both(process: QueryProcess) -> tuple[Planner, Planner]:
    """Here, and in the process."""
    catalog = make_catalog()
    return Planner(catalog), Planner(catalog, process)


def asked(sql: str) -> Query:
    return Query(sql, 60.0, user="ann")


@pytest.mark.parametrize("sql", QUERIES)
def test_a_plan_is_that_of_this_process(process: QueryProcess, sql: str) -> None:
    here, there = (planner.query(asked(sql), "d", "Asia/Tokyo", 7) for planner in both(process))
    assert here == there
    assert here.sql


@pytest.mark.parametrize("sql", REFUSED)
def test_an_error_is_that_of_this_process(process: QueryProcess, sql: str) -> None:
    errors = []
    for planner in both(process):
        with pytest.raises(MillraceError) as caught:
            planner.query(asked(sql), "d", "UTC", 0)
        errors.append(caught.value)
    here, there = errors
    assert here.code is there.code is not ErrorCode.INTERNAL
    assert (here.message, here.position) == (there.message, there.position)


def test_the_columns_of_a_stream_are_those_of_this_process(process: QueryProcess) -> None:
    here, there = both(process)
    spec = make_spec("SELECT _twstart, count(*), avg(v) FROM %%trows")
    assert there.columns(asked(""), spec) == here.columns(asked(""), spec) != ()
    with pytest.raises(MillraceError) as caught:
        there.columns(asked(""), make_spec("SELECT nothing FROM %%trows"))
    assert caught.value.code is ErrorCode.UNKNOWN_COLUMN
    assert caught.value.position is not None


def test_it_gives_way_to_streams_and_another_follows_it(process: QueryProcess) -> None:
    _, there = both(process)
    there.query(asked("SELECT 1"), "d", "UTC", 0)
    child = process._child
    assert child is not None
    one = psutil.Process(child.process.pid)
    assert one.nice() == min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICE)
    one.kill()
    assert there.query(asked("SELECT 1"), "d", "UTC", 0).sql


def test_a_query_that_is_over_is_told_so(process: QueryProcess) -> None:
    _, there = both(process)
    over = asked("SELECT 1")
    over.end(PlanError(ErrorCode.QUERY_KILLED, "killed"))
    with pytest.raises(PlanError, match="killed"):
        there.query(over, "d", "UTC", 0)
    assert there.query(asked("SELECT 1"), "d", "UTC", 0).sql


class Endless(NamedTuple):
    """A statement that is never planned, whatever comes in between."""

    def answer(self, definitions: Definitions) -> PlannedQuery:
        while True:
            with suppress(Exception):
                sorted(range(9), key=lambda number: -number)


class Threads(NamedTuple):
    """Not a statement: it asks for the names of the threads beside it."""

    def answer(self, definitions: Definitions) -> list[str]:
        return [one.name for one in threading.enumerate()]


def test_what_nobody_waits_for_ends_in_the_midst(process: QueryProcess) -> None:
    """A statement that took too long went on to its end beside the next tries, each slower than the last."""
    _, there = both(process)
    there.query(asked("SELECT 1"), "d", "UTC", 0)
    child = process._child
    assert child is not None
    for _ in range(2 * LANES):
        with pytest.raises(PlanError) as caught:
            there._ask(process, Query("", 0.3, user="ann", waits=60.0), Endless())  # type: ignore[arg-type]
        assert caught.value.code is ErrorCode.QUERY_TIMEOUT
        with process._changed:
            assert process._changed.wait_for(lambda: len(process._free) == LANES, 60)
        names = there._ask(process, asked(""), Threads())  # type: ignore[arg-type]
        assert names.count(THREAD) == 1, "none goes on but the one that is asked"
    assert process._child is child, "nothing had to be killed"


def test_what_ends_in_the_midst_leaves_nothing_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it ends: what is planned after it is planned as before."""
    # pytest's own hooks would be interrupted, too, and call that a failure
    monkeypatch.setattr(sys, "unraisablehook", bool)
    monkeypatch.setattr(threading, "excepthook", bool)
    catalog, ends, before = make_catalog(), random.Random(1), sys.getswitchinterval()
    questions = [AskedQuery(sql, "d", "Asia/Tokyo", 7, "ann") for sql in QUERIES]
    plans = [question.answer(catalog) for question in questions]
    ended = 0
    sys.setswitchinterval(1e-5)  # so that an end may be anywhere
    try:
        for question in 10 * questions:
            one = Interruptible(partial(question.answer, catalog), lambda: None)
            one.start()
            time.sleep(ends.random() ** 2 * 0.006)
            while one.alive:
                one.interrupt()
                time.sleep(0.0003)
            try:
                one.result()
            except Interrupted:
                ended += 1
    finally:
        sys.setswitchinterval(before)
    assert ended
    assert [question.answer(catalog) for question in questions] == plans


class Broken(NamedTuple):
    """A statement that finds a fault of the planner."""

    def answer(self, definitions: Definitions) -> PlannedQuery:
        raise ValueError("a fault")


@pytest.fixture
def planning() -> Planning:
    return Planning()


@pytest.fixture
def lane(planning: Planning) -> Iterator[Connection]:
    """The other end of its lane."""
    ours, theirs = Pipe()
    life = Life(Answering(0, theirs, planning), structlog.get_logger())
    life.start()
    yield ours
    ours.close()
    life.join(30)
    assert not life.alive and not life.failed


@pytest.mark.parametrize("late", [False, True])
def test_what_nobody_waits_for_ends_while_it_asks(planning: Planning, lane: Connection, late: bool) -> None:
    """A query may be over while the process waits for the part of the catalog that it needs; the part may be
    under way then."""
    lane.send(Said(1, AskedQuery("SELECT v FROM nt", "d", "UTC", 0, "ann")))
    assert lane.recv() == Said(1, Wanted((("d", "nt"),), families=False))
    planning.cancel(Cancel(0, 1))
    ended = lane.recv()
    assert isinstance(ended.message, Refused) and (ended.number, ended.last) == (1, True)
    if late:
        lane.send(Said(1, make_catalog()))
    lane.send(Said(2, AskedQuery("SELECT v FROM d1", "d", "UTC", 0, "ann")))
    assert lane.recv() == Said(2, Wanted((("d", "d1"),), families=False))
    planning.cancel(Cancel(0, 1))  # this is not the one
    lane.send(Said(2, make_catalog()))
    number, planned, last = lane.recv()
    assert isinstance(planned, PlannedQuery) and (number, last) == (2, True)
    assert [source.child for source in planned.sources] == ["d1"]


def test_a_fault_is_an_answer_too(lane: Connection) -> None:
    lane.send(Said(1, Broken()))
    refused = lane.recv().message
    assert isinstance(refused, Refused)
    assert refused.error == {"code": "INTERNAL", "message": "ValueError: a fault"}
    lane.send(Said(2, AskedQuery("SELECT 1", None, "UTC", 0, None)))
    lane.recv()
    lane.send(Said(2, make_catalog()))
    assert isinstance(lane.recv().message, PlannedQuery)

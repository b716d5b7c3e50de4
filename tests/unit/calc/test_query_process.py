"""The process for users' queries and the one that waits to follow it, with a program of a moment's start in
place of Spark's: who ends it keeps nobody waiting."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import structlog

from calc_svc.queries import child, process
from calc_svc.queries.lane import QueryLane
from calc_svc.queries.process import Kind, QueryProcess
from calc_svc.queries.running import Query
from millrace_core.admission import Admission
from millrace_core.errors import ErrorCode, MillraceError, PlanError
from millrace_service import Life

LANES, MOST = 2, 3
KIND = Kind(
    "queries", "the process", (sys.executable, str(Path(__file__).with_name("stand_in.py"))), stop=0.2
)
Begin = Callable[..., QueryProcess]


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A file without which no process that follows another is ready."""
    return tmp_path / "gate"


@pytest.fixture
def begun(gate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    monkeypatch.setattr(child, "GRACE", 0.2)
    monkeypatch.setattr(process, "SPARE_PAUSE", 0.0)
    monkeypatch.setattr(process, "SPARE_AFTER", 0.0)
    lives: list[Life] = []

    def begin(
        *, spare: bool = True, seconds: float = 600.0, stop: float = KIND.stop, warm: Path | None = None
    ) -> QueryProcess:
        environment = os.environ | {"READY_AFTER": str(gate), "WARM_AFTER": str(warm or gate)}
        kind = replace(KIND, stop=stop)
        work = QueryProcess(LANES, Admission(LANES, MOST, seconds), environment, spare=spare, kind=kind)
        lives.append(Life(work, structlog.get_logger()))
        lives[-1].start()
        return work

    yield begin
    gate.touch()
    for life in lives:
        life.stop(30)
        assert not life.failed


def run(work: QueryProcess, sql: str, user: str, seconds: float = 60.0) -> int:
    """The number of the process that answers."""
    found = QueryLane(work, Query(sql, seconds, user=user)).run(sql, {}, "UTC")
    return int(found["pid"][0].as_py())


def refused(work: QueryProcess, sql: str, user: str, seconds: float = 60.0) -> MillraceError:
    with pytest.raises(PlanError) as caught:
        run(work, sql, user, seconds)
    return caught.value


def until_gone(pid: int) -> None:
    while psutil.pid_exists(pid):
        time.sleep(0.01)


def until_ready(work: QueryProcess) -> None:
    """Another one stands by, warm or not."""
    while (spare := work._spare) is None or not spare.ready:
        time.sleep(0.01)


def until_spared(work: QueryProcess) -> None:
    with work._changed:
        assert work._changed.wait_for(lambda: work.spared, 60)


@pytest.mark.parametrize(
    ("sql", "code"), [("memory", ErrorCode.TOO_LARGE), ("hang", ErrorCode.QUERY_TIMEOUT)]
)
def test_one_that_waits_takes_its_place(begun: Begin, gate: Path, sql: str, code: ErrorCode) -> None:
    work = begun()
    gate.touch()
    first = run(work, "SELECT 1", "bob")
    until_spared(work)
    gate.unlink()  # no other one would be ready
    assert refused(work, sql, "ann", 2).code is code
    until_gone(first)
    second = run(work, "SELECT 1", "bob")
    assert second != first
    gate.touch()
    until_spared(work)
    assert run(work, "SELECT 1", "ann") == second


def test_one_that_is_not_warm_yet_takes_its_place(begun: Begin, gate: Path, tmp_path: Path) -> None:
    """On a machine that had much to do nobody was answered for the minutes that it took to be warm."""
    warm = tmp_path / "warm"
    work = begun(warm=warm)
    gate.touch()
    first = run(work, "SELECT 1", "bob")
    until_ready(work)
    assert not work.spared, "whoever ends the process would wait"
    refused(work, "memory", "ann")
    second = run(work, "SELECT 1", "bob")
    assert second != first
    assert refused(work, "SELECT 1", "ann", 0.3).code is ErrorCode.TIMEOUT
    warm.touch()
    until_spared(work)
    assert run(work, "SELECT 1", "ann") == second


def test_who_has_ended_it_waits_for_the_next_and_nobody_else_does(begun: Begin, gate: Path) -> None:
    work = begun()
    gate.touch()
    run(work, "SELECT 1", "bob")
    until_spared(work)
    gate.unlink()
    refused(work, "memory", "ann")
    error = refused(work, "memory", "ann", 0.5)
    assert error.code is ErrorCode.TIMEOUT
    assert (
        "other queries of ann were running" in error.message and "or had been running when" in error.message
    )
    second = run(work, "SELECT 1", "bob")
    gate.touch()
    until_spared(work)
    assert run(work, "SELECT 1", "ann") == second


def test_who_ends_it_again_and_again_is_refused_and_nobody_else_is(begun: Begin, gate: Path) -> None:
    work = begun()
    gate.touch()
    for _ in range(MOST):
        assert refused(work, "memory", "ann").code is ErrorCode.TOO_LARGE
    run(work, "SELECT 1", "bob")
    error = refused(work, "SELECT 1", "ann")
    assert error.code is ErrorCode.TOO_MANY
    assert "queries of ann are refused until 20" in error.message
    assert "3 of them brought down the process" in error.message
    assert list(work.refused()) == ["ann"]
    assert work.look()[0] == 1 + MOST


def test_without_one_that_waits_the_next_is_begun(begun: Begin, gate: Path) -> None:
    work = begun(spare=False)
    gate.touch()
    first = run(work, "SELECT 1", "bob")
    refused(work, "memory", "ann")
    assert run(work, "SELECT 1", "ann") != first
    assert not work.spared


def test_none_is_started_while_streams_begin(
    begun: Begin, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "SPARE_AFTER", 600.0)
    work = begun()
    gate.touch()
    first = run(work, "SELECT 1", "ann")
    work._keep_spare()
    assert work._spare is None
    monkeypatch.setattr(process, "SPARE_AFTER", 0.0)
    psutil.Process(first).kill()
    assert run(work, "SELECT 1", "ann") != first


def test_none_is_started_before_there_was_a_query(begun: Begin, gate: Path) -> None:
    """It takes 15 s of processor time and 700 MB: nobody who only has streams should pay for it."""
    work = begun()
    gate.touch()
    while not work.look()[0]:
        time.sleep(0.01)
    work._keep_spare()
    assert work._spare is None
    run(work, "SELECT 1", "bob")
    until_spared(work)


def test_a_spare_that_ends_is_followed_by_another(begun: Begin, gate: Path) -> None:
    work = begun()
    gate.touch()
    first = run(work, "SELECT 1", "bob")
    until_spared(work)
    spare = work._spare
    assert spare is not None
    psutil.Process(spare.process.pid).kill()
    spare.process.wait()
    refused(work, "crash", "ann")
    assert run(work, "SELECT 1", "bob") not in (first, spare.process.pid)


def test_a_user_leaves_a_lane_to_the_others(begun: Begin) -> None:
    work, begins = begun(spare=False), threading.Event()
    run(work, "SELECT 1", "bob")

    class Long(Query):
        def runs(self) -> None:
            begins.set()

    def hold() -> None:
        with pytest.raises(PlanError, match="killed"):
            QueryLane(work, long).run("hang", {}, "UTC")

    long = Long("hang", 60.0, user="ann")
    held = threading.Thread(target=hold)
    held.start()
    assert begins.wait(30)
    error = refused(work, "SELECT 1", "ann", 0.3)
    assert error.code is ErrorCode.TIMEOUT
    assert "other queries of ann were running, as many as one user may have" in error.message
    assert run(work, "SELECT 1", "bob")
    long.end(PlanError(ErrorCode.QUERY_KILLED, "killed"))
    held.join(60)
    assert not held.is_alive()


def test_who_is_over_is_told_so_before_the_query_has_ended(begun: Begin, gate: Path) -> None:
    work = begun(spare=False, stop=600.0)
    gate.touch()
    first = run(work, "SELECT 1", "bob")
    assert refused(work, "hang", "ann", 0.5).code is ErrorCode.QUERY_TIMEOUT
    assert len(work._free) == LANES - 1, "it runs on, and others beside it"
    assert run(work, "SELECT 1", "bob") == first
    psutil.Process(first).kill()
    until_gone(first)
    assert run(work, "SELECT 1", "bob") != first
    assert len(work._free) == LANES, "none comes back that the next process does not have"


def test_nothing_is_left_when_it_stops(begun: Begin, gate: Path) -> None:
    work = begun()
    gate.touch()
    run(work, "SELECT 1", "bob")
    until_spared(work)
    first, spare = work._child, work._spare
    assert first is not None and spare is not None
    work.stopping.set()
    with work._changed:
        assert work._changed.wait_for(lambda: work._child is None and work._spare is None, 30)
    assert first.process.wait(30) is not None
    assert spare.process.wait(30) is not None


def test_what_waits_for_the_process_is_told_when_it_stops(begun: Begin) -> None:
    """A service that stops waited two minutes for a stream's query that waited for the process."""
    work = begun(spare=False)
    first = run(work, "SELECT 1", "bob")
    psutil.Process(first).kill()
    with work._changed:
        assert work._changed.wait_for(lambda: work._child is None, 30)
    told: list[MillraceError] = []
    waits = threading.Thread(target=lambda: told.append(refused(work, "SELECT 1", "ann", 600.0)))
    waits.start()
    while not work._waiting:
        assert waits.is_alive()
        waits.join(0.01)
    work.stopping.set()
    waits.join(30)
    assert [one.code for one in told] == [ErrorCode.UNAVAILABLE]

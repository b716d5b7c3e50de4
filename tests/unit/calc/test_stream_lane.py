"""Where a stream's queries run: in calc-svc's own Spark while they behave, else apart. Programs of a moment's
start stand in for both."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa
import pytest
import structlog

from calc_svc.limits import lane as limited
from calc_svc.limits import watch as watching
from calc_svc.limits.lane import Limits, StreamLane
from calc_svc.limits.note import Note
from calc_svc.limits.watch import Watch, Watched
from calc_svc.queries import child
from calc_svc.queries.process import QueryProcess
from calc_svc.spark.jvm import JVM_OUT_OF_MEMORY
from millrace_core.admission import Admission
from millrace_core.errors import ErrorCode, PlanError
from millrace_core.model.stream import Duration, StreamSpec
from millrace_core.trigger.types import Period
from millrace_service import Life

from .test_query_process import KIND, LANES, MOST

SPEC = StreamSpec(7, "db", "s", "", Period(Duration(1, "s")))
OTHER = msgspec.structs.replace(SPEC, uid=8)


class Own:
    """A Spark and its lane. "long" is over when it is cancelled, "ends" ends Spark."""

    pool = "triggers"

    def __init__(self) -> None:
        self.cancelled, self.begun = threading.Event(), threading.Event()
        self.code: int | None = None

    def run(
        self, sql: str, relations: Mapping[str, Any], timezone: str, limit: int | None, asked: Watched
    ) -> pa.Table:
        asked.begin()
        self.begun.set()
        if sql == "long":
            assert self.cancelled.wait(60)
            asked.check()
        if sql == "ends":
            self.code = JVM_OUT_OF_MEMORY
            raise PlanError(ErrorCode.UNAVAILABLE, "Spark has ended")
        return pa.table({"own": range(3)})

    def cancel(self, name: str) -> None:
        self.cancelled.set()

    def kill(self) -> None:
        self.code = -9

    def ended(self, seconds: float) -> int | None:
        return self.code


@pytest.fixture
def own() -> Own:
    return Own()


@pytest.fixture
def limits(tmp_path: Path, own: Own, monkeypatch: pytest.MonkeyPatch) -> Iterator[Limits]:
    monkeypatch.setattr(child, "GRACE", 0.2)
    monkeypatch.setattr(limited, "WAIT", 30.0)
    monkeypatch.setattr(watching, "TICK", 0.01)
    users = QueryProcess(LANES, Admission(LANES, MOST, 600.0), kind=KIND)
    note = Note(tmp_path)
    watch = Watch(own, note, 3.0, 1_000, users.has_room)
    lives = [Life(work, structlog.get_logger()) for work in (users, watch)]
    for life in lives:
        life.start()
    yield Limits(1.0, 5, note, watch, own.ended, users)
    for life in lives:
        life.stop(30)


def run(limits: Limits, own: Own, sql: str, spec: StreamSpec = SPEC) -> list[str]:
    """The columns of what comes."""
    return list(StreamLane(limits, spec, cast(Any, own)).run(sql, {}, "UTC").column_names)


def test_what_takes_too_long_is_cancelled_and_what_follows_of_the_stream_runs_apart(
    limits: Limits, own: Own
) -> None:
    assert run(limits, own, "short") == ["own"]
    for sql in ("long", "hang"):
        with pytest.raises(PlanError) as caught:
            run(limits, own, sql)
        assert caught.value.code is ErrorCode.QUERY_TIMEOUT
        assert "MILLRACE_CALC_STREAM_SECONDS" in caught.value.message
        assert limits.note.is_apart(SPEC.uid)
    patient = Limits(60.0, 5, limits.note, limits.watch, own.ended, limits.process)
    assert run(patient, own, "short") == ["pid"], "it waits until that process has been followed by another"
    assert run(limits, own, "short", OTHER) == ["own"]


def test_one_that_others_wait_for_goes_on_apart(
    limits: Limits, own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "SHARE", 0.0)
    monkeypatch.setattr(watching, "WAITING", 0.0)
    patient = Limits(60.0, 5, limits.note, limits.watch, own.ended, limits.process)
    with limits.watch.watched(OTHER.uid, own.pool):
        assert run(patient, own, "long") == ["pid"]


def test_a_result_has_only_so_many_rows(limits: Limits, own: Own) -> None:
    few = Limits(1.0, 2, limits.note, limits.watch, own.ended, limits.process)
    with pytest.raises(PlanError) as caught:
        run(few, own, "short")
    assert caught.value.code is ErrorCode.TOO_LARGE


def test_one_that_was_alone_when_spark_had_no_memory_runs_apart(limits: Limits, own: Own) -> None:
    with pytest.raises(PlanError) as caught:
        run(limits, own, "ends")
    assert caught.value.code.value.retry
    assert limits.note.is_apart(SPEC.uid)
    with pytest.raises(PlanError, match="Spark has ended"):
        run(limits, own, "short", OTHER)
    assert not limits.note.is_apart(OTHER.uid)

"""What the trigger query's life makes of its failures, and where it stands; without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from pyspark.errors import StreamingQueryException

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire.topics import TOPICS
from millrace_service import Lives
from millrace_wal import MemoryLog, Message
from trigger_svc.engine import Engine
from trigger_svc.settings import TriggerSettings

AWAY = (
    "[STREAM_FAILED] Query terminated with exception: java.util.concurrent.ExecutionException: "
    "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment"
)
TOO_LARGE = "Caused by: org.apache.kafka.common.errors.RecordTooLargeException: The message is 9437185 bytes"


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.ensure_topics([*TOPICS, ("wal.d.t", 2)])
    return log


@pytest.fixture
def engine(log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    logger = structlog.get_logger("test")
    found = Engine(TriggerSettings(data_dir=tmp_path, trigger_restarts=2), log, logger, Lives(logger, 30))
    monkeypatch.setattr(found.stopping, "wait", lambda _: False)
    yield found
    found.evaluator.close()


def failing(engine: Engine, text: str) -> Callable[[], None]:
    return lambda: engine._failed(StreamingQueryException(text))


def test_a_broker_that_is_away_is_no_failure_of_the_query_however_often(engine: Engine) -> None:
    for _ in range(9):
        with pytest.raises(MillraceError) as caught:
            failing(engine, AWAY)()
        assert caught.value.code is ErrorCode.UNAVAILABLE


def test_what_the_log_refused_in_a_batch_is_the_cause(engine: Engine) -> None:
    for _ in range(9):
        engine.batches.failure = MillraceError(ErrorCode.TIMEOUT, "append: not confirmed")
        with pytest.raises(MillraceError) as caught:
            failing(engine, "An error occurred in the user provided function in foreach batch sink")()
        assert caught.value is engine.batches.failure


@pytest.mark.parametrize("text", [TOO_LARGE, "a bug"])
def test_a_query_that_fails_by_itself_once_too_often_ends_the_process(engine: Engine, text: str) -> None:
    failing(engine, text)()
    failing(engine, text)()
    with pytest.raises(MillraceError, match="failed 3 times") as caught:
        failing(engine, text)()
    assert not caught.value.code.value.retry


def test_what_lies_behind_what_was_sealed_waits_for_the_query(engine: Engine, log: MemoryLog) -> None:
    position, waits = engine._look()
    assert waits == ""
    engine.evaluator.sealed, engine.batches.done = {"wal.d.t": {0: 0, 1: 0}}, 4
    log.append([Message("wal.d.t", b"c", b"{}")] * 3)
    before, waits = engine._look()
    assert before != position and waits.startswith("3 records of topic wal.d.t are waiting, from offset 0")
    assert engine._look()[0] == before
    engine.evaluator.sealed, engine.batches.done = {"wal.d.t": log.end_offsets("wal.d.t")}, 5
    after, waits = engine._look()
    assert after != before and waits == ""


def test_rows_that_wait_while_spark_starts_have_not_stalled_until_that_takes_too_long(
    engine: Engine, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark is started up to 20 s after the reader; with a slow start behind that, trigger-svc was not ready
    for a while although rows were evaluated all the time."""
    clock = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    engine._began = clock[0]
    engine.evaluator.sealed = {"wal.d.t": {0: 0, 1: 0}}
    log.append([Message("wal.d.t", b"c", b"{}")] * 3)
    seen = []
    for clock[0] in (1_001.0, 1_031.0, 1_179.0, 1_200.0, 1_231.0):
        position, waits = engine._look()
        assert waits
        seen.append(position)
    assert len(set(seen[:4])) == 4, "it starts"
    assert seen[3] == seen[4], "it has taken too long"


def test_it_is_ready_once_the_reader_reads(engine: Engine) -> None:
    """No session is waited for: rows are evaluated before there is one."""
    assert engine._ahead is not None and not engine.health().ready
    engine.evaluator.ready()
    engine._ahead.begin()
    assert engine._running
    engine._ahead.end()

"""A job that takes too much is calculated in parts; what takes too much alone is given up, and told of."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from calc_svc.limits import watch as watching
from calc_svc.limits.note import Note
from calc_svc.limits.watch import Watch, Watched
from millrace_core.calc.parts import ALIKE
from millrace_core.errors import ErrorCode, PlanError
from millrace_core.wire.events import TriggerEvent

from .conftest import DuckLane
from .test_patience import EVENT, Desk

MINUTE = 60_000
TOO_LONG = PlanError(ErrorCode.QUERY_TIMEOUT, "the query took too long")


class Impatient:
    """An engine that has no time for windows with these starts."""

    def __init__(self, hostile: Collection[int]) -> None:
        self._hostile, self._lane = hostile, DuckLane()
        self.failed = 0

    @contextmanager
    def lane(self, pool: str, timeout: float) -> Iterator[Any]:
        yield self

    def run(
        self, sql: str, relations: Mapping[str, pa.Table], timezone: str, limit: int | None = None
    ) -> pa.Table:
        if "_trig" in relations and not self._hostile.isdisjoint(
            relations["_trig"].column("_twstart").to_pylist()
        ):
            self.failed += 1
            raise TOO_LONG
        return self._lane.run(sql, relations, timezone, limit)


def events(count: int) -> list[TriggerEvent]:
    return [
        msgspec.structs.replace(EVENT, id=str(i), start=i * MINUTE, end=(i + 1) * MINUTE)
        for i in range(count)
    ]


def test_one_trigger_of_many_is_given_up_and_the_others_are_calculated(tmp_path: Path) -> None:
    engine = Impatient({33 * MINUTE})
    desk = Desk(tmp_path, engine)
    desk.define(1, "SELECT _twstart AS ts, count(*) AS n FROM %%trows")
    product = desk.run(1, *events(100))
    assert product.status is not None and product.status.message == TOO_LONG.message
    assert [product.counts[name] for name in ("failures", "calculations", "result_rows")] == [1, 99, 99]
    assert engine.failed == 4, "all, thirteen, two, one"


def test_where_each_one_takes_too_much_few_are_tried(tmp_path: Path) -> None:
    engine = Impatient(range(0, 100 * MINUTE, MINUTE))
    desk = Desk(tmp_path, engine)
    desk.define(1, "SELECT _twstart AS ts, count(*) AS n FROM %%trows")
    product = desk.run(1, *events(100))
    assert product.status is not None and not product.messages
    assert product.counts["failures"] == 100
    assert engine.failed <= 4 + ALIKE


class Spark:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.killed = threading.Event()

    def cancel(self, name: str) -> None:
        self.cancelled.append(name)

    def kill(self) -> None:
        self.killed.set()


@pytest.fixture
def spark() -> Spark:
    return Spark()


def ago(one: Watched, seconds: float) -> None:
    one.begin()
    assert one.begun is not None
    one.begun -= seconds


def test_what_takes_too_long_is_cancelled_and_spark_ended_where_that_does_not_help(
    tmp_path: Path, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "AGAIN", 0.0)
    note = Note(tmp_path)
    watch = Watch(spark, note, 60.0, 1_000, lambda: True)
    with watch.watched(7, "triggers") as one, watch.watched(8, "triggers") as other:
        ago(one, 59.0)
        ago(other, 1.0)
        watch.step()
        one.check()
        assert not spark.cancelled
        ago(one, 61.0)
        for _ in range(2):
            watch.step()
        assert spark.cancelled == [one.name] * 2 and not one.moves
        with pytest.raises(PlanError, match=r"more than 60 s \(MILLRACE_CALC_STREAM_SECONDS"):
            one.check()
        other.check()
        assert note.is_apart(7) and not note.is_apart(8)
        assert not spark.killed.is_set()
        one.told_first -= watching.GRACE + 1
        watch.step()
        assert spark.killed.is_set()


def test_one_that_others_wait_for_moves_soon(tmp_path: Path, spark: Spark) -> None:
    watch = Watch(spark, Note(tmp_path), 60.0, 1_000, lambda: True)
    with watch.watched(7, "triggers") as one:
        ago(one, 60.0 * watching.SHARE + 1)
        with watch.watched(8, "again") as elsewhere:
            elsewhere.came -= watching.WAITING
            watch.step()
            assert not spark.cancelled, "that one waits for another pool"
        with watch.watched(8, "triggers") as other:
            watch.step()
            assert not spark.cancelled, "it has only just come"
            other.came -= watching.WAITING
            watch.step()
            assert spark.cancelled == [one.name] and one.moves and not other.moves


def test_nothing_moves_where_it_would_have_to_wait(tmp_path: Path, spark: Spark) -> None:
    watch = Watch(spark, Note(tmp_path), 60.0, 1_000, lambda: False)
    with watch.watched(7, "triggers") as one, watch.watched(8, "triggers") as other:
        ago(one, 59.0)
        other.came -= watching.WAITING
        watch.step()
        one.check()
        assert not spark.cancelled


def test_one_that_moves_ends_spark_only_when_its_time_is_over(tmp_path: Path, spark: Spark) -> None:
    """What is planned does not hear that it is cancelled, and takes long on a busy machine."""
    note = Note(tmp_path)
    watch = Watch(spark, note, 60.0, 1_000, lambda: True)
    with watch.watched(7, "triggers") as one, watch.watched(8, "triggers") as other:
        ago(one, 60.0 * watching.SHARE + 1)
        other.came -= watching.WAITING
        watch.step()
        one.told_first -= watching.GRACE + 1
        watch.step()
        assert one.moves and not spark.killed.is_set() and not note.is_apart(7)
        ago(one, 61.0)
        watch.step()
        assert not one.moves and note.is_apart(7) and not spark.killed.is_set()
        with pytest.raises(PlanError, match=r"more than 60 s"):
            one.check()
        one.told_first -= watching.GRACE + 1
        watch.step()
        assert spark.killed.is_set()


def test_a_stop_does_not_wait_for_what_moves(tmp_path: Path, spark: Spark) -> None:
    note = Note(tmp_path)
    watch = Watch(spark, note, 60.0, 1_000, lambda: True)
    with watch.watched(7, "triggers") as one, watch.watched(8, "triggers") as other:
        ago(one, 59.0)
        other.came -= watching.WAITING
        watch.step()
        assert one.moves
        watch.end_all()
        watch.step()
        one.told_first -= watching.GRACE + 1
        watch.step()
        assert spark.killed.is_set() and not note.is_apart(7)


def test_a_stop_ends_what_runs_and_blames_nobody(tmp_path: Path, spark: Spark) -> None:
    note = Note(tmp_path)
    watch = Watch(spark, note, 60.0, 1_000, lambda: True)
    with watch.watched(7, "triggers") as one:
        one.begin()
        watch.end_all()
        watch.step()
        assert spark.cancelled == [one.name] and not note.is_apart(7)
        with pytest.raises(PlanError) as caught:
            one.check()
        assert caught.value.code.value.retry

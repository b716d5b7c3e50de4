"""What is done with a micro-batch: it waits for the reader, seals, and rests; or it is evaluated here, or by
workers. Frames are made of the log, as Spark makes them of Kafka."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire import control
from millrace_core.wire.topics import CLOCK
from millrace_wal.flaky import InjectedFault
from trigger_svc.batches import SMALL_BYTES, Batches, BeginAgain, Lengths
from trigger_svc.ledger.states import Positions
from trigger_svc.positions import Ends, between, fetch
from trigger_svc.spark.checkpoint import forget

from .deployment import METERS, Deployment

NAMES = ("topic", "partition", "offset", "timestamp", "key", "value")


class Frame:
    """Messages as Spark's driver gets them; ``too_large``: as often it refuses to collect them."""

    def __init__(self, records: list[Any]) -> None:
        self.sparkSession = None
        self.records = records

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's own name
        kinds = {"key": pa.binary(), "value": pa.binary(), "topic": pa.string()}
        columns = {
            name: pa.array([one[place] for one in self.records], kinds.get(name, pa.int64()))
            for place, name in enumerate(NAMES)
        }
        return pa.table(columns)


class Plan(Batches):
    """Batches over a log in memory: workers are called as functions."""

    def __init__(self, one: Deployment, **more: Any) -> None:
        super().__init__(one.settings, one.evaluator, **more)
        self.one = one
        self.large: list[Positions] = []
        self.next = 0
        shutil.rmtree(one.settings.checkpoint, ignore_errors=True)
        forget()

    def plan(self) -> int:
        """The number of a batch of all that there is."""
        folder = self.one.settings.checkpoint / "offsets"
        folder.mkdir(parents=True, exist_ok=True)
        ends = msgspec.json.encode(self.one.ends()).decode()
        (folder / str(self.next)).write_text(f"v1\n{{}}\n{ends}")
        self.next += 1
        return self.next - 1

    def run(self) -> None:
        frame: Any = Frame([])
        self(frame, self.plan())

    def _unread(self, frame: Any, batch: int, ends: Ends) -> Any:
        positions = self.one.evaluator.positions
        return Frame(fetch(self.one.log, *between(positions, ends, list(positions))))

    def _in_workers(self, session: Any, unread: Any, ends: Positions) -> None:
        self.large.append({topic: dict(offsets) for topic, offsets in ends.items()})
        self.one.evaluator.evaluate_large(ends, lambda *told: self.one.work(ends, *told))


def until(condition: Callable[[], object], within: float = 20) -> None:
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@contextmanager
def running(batches: Plan) -> Iterator[threading.Thread]:
    """A batch of all that there is, in a thread of its own."""
    batch, frame = batches.plan(), Frame([])
    thread = threading.Thread(target=batches, args=(frame, batch), daemon=True)
    thread.start()
    yield thread
    batches.leave()
    thread.join(20)
    assert not thread.is_alive()


@pytest.fixture(autouse=True)
def nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trigger_svc.ahead.WAIT", 0.0)
    monkeypatch.setattr("trigger_svc.batches.LOOK", 0.01)


@pytest.fixture
def one(tmp_path: Path, kit: Any) -> Deployment:
    return Deployment(tmp_path, kit)


def without_reader(one: Deployment, small: int = 30_000) -> Plan:
    more = {"judge_ahead": False, "trigger_small_batch": small}
    one.settings = one.settings.model_copy(update=more)
    return Plan(one)


# -- the reader is ahead -------------------------------------------------------------------------------------


def test_it_waits_for_the_reader_and_seals_what_that_has_evaluated(one: Deployment) -> None:
    one.define(1)
    batches = Plan(one)
    one.evaluator.ready()
    with running(batches) as thread:
        thread.join(0.1)
        assert batches.done == -1, "nobody has evaluated the record"
        one.read_ahead()
        until(lambda: batches.done == 0)
        assert one.evaluator.sealed == one.evaluator.positions
        assert thread.is_alive(), "it rests while there is nothing to seal"
        one.write("a", 1)
        one.read_ahead()
        thread.join(20)
        assert not thread.is_alive()
    assert batches.large == []


def test_what_was_evaluated_while_it_sealed_ends_its_rest(
    one: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.define(1)
    batches = Plan(one)
    one.read_ahead()
    seal = one.evaluator.states.seal

    def meanwhile(*told: Any) -> Any:
        one.write("a", 1)
        one.read_ahead()
        return seal(*told)

    monkeypatch.setattr(one.evaluator.states, "seal", meanwhile)
    with running(batches) as thread:
        thread.join(20)
        assert not thread.is_alive() and batches.done == 0
    assert one.evaluator.sealed != one.evaluator.positions


def test_offsets_without_a_message_end_its_rest(one: Deployment) -> None:
    one.define(1)
    batches = Plan(one)
    one.read_ahead()
    with running(batches) as thread:
        until(lambda: batches.done == 0)
        one.evaluator.pass_over({METERS: {0: 5}})
        thread.join(20)
        assert not thread.is_alive()


def test_a_reader_that_waits_for_a_seal_gets_one(one: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trigger_svc.evaluator.MOST_UNSEALED", 3)
    one.define(1)
    batches = Plan(one)
    for ts in range(3):
        one.write("a", ts)
        one.read_ahead()
    one.read_ahead()
    assert one.evaluator.far_ahead
    one.write("a", 12)
    one.read_ahead()
    assert METERS not in one.evaluator.sealed
    with running(batches):
        until(lambda: one.read_ahead() or batches.done == 0)
    assert one.evaluator.sealed[METERS] == one.log.end_offsets(METERS)


def test_much_is_sealed_before_the_reader_has_to_wait(
    one: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a backlog is read with a pause of up to LOOK behind each MOST_UNSEALED messages."""
    monkeypatch.setattr("trigger_svc.evaluator.MOST_UNSEALED", 6)
    monkeypatch.setattr("trigger_svc.batches.LOOK", 60)
    monkeypatch.setattr("trigger_svc.ahead.MOST", 2)
    one.define(1)
    batches = Plan(one)
    one.read_ahead()
    for ts in range(8):
        one.write("a", ts)
    with running(batches):
        while one.evaluator.evaluated < 5:
            one.read_ahead()
        until(lambda: METERS in one.evaluator.sealed)
        assert not one.evaluator.far_ahead and batches.done == -1
        until(lambda: one.read_ahead() or batches.done == 0)
    assert one.evaluator.sealed[METERS] == one.log.end_offsets(METERS)


def test_what_lies_far_behind_goes_to_workers_and_the_reader_goes_on_after_that(one: Deployment) -> None:
    one.settings = one.settings.model_copy(update={"trigger_backlog": 2})
    one.define(1)
    one.read_ahead()
    for ts in (1, 2, 3, 12):
        one.write("a", ts)
    batches = Plan(one)
    with running(batches):
        until(lambda: batches.large)
        until(lambda: one.read_ahead() or batches.done == 0)
        assert not one.evaluator.stands_back
        one.write("a", 23)
        until(lambda: one.read_ahead() or len(one.events()) == 2)
    assert [list(ends) for ends in batches.large] == [[METERS]]


def test_the_next_batch_ends_the_query_when_it_is_told(one: Deployment) -> None:
    others = [False]
    batches = Plan(one, needs_others=lambda: others[0])
    one.evaluator.ready()
    with running(batches) as thread:
        until(lambda: batches.done == 0)
        assert thread.is_alive()
    with pytest.raises(BeginAgain):
        batches.run()
    assert batches.done == 0 and batches.failure is None
    others[0] = True
    again = Plan(one, needs_others=lambda: others[0])
    with pytest.raises(BeginAgain):
        again.run()
    assert again.leaves and again.done == -1


def test_what_the_log_refuses_is_known(one: Deployment) -> None:
    batches = without_reader(one)
    one.define(1)
    one.evaluator.ready()
    one.flaky.give([InjectedFault.BEFORE])
    with pytest.raises(MillraceError) as caught:
        batches.run()
    assert batches.failure is caught.value and caught.value.code is ErrorCode.UNAVAILABLE


# -- nobody is ahead -----------------------------------------------------------------------------------------


def test_a_small_batch_is_evaluated_in_the_driver(one: Deployment) -> None:
    batches = without_reader(one)
    one.define(1)
    batches.run()
    one.write("a", 1)
    one.write("a", 12)
    batches.run()
    assert len(one.events()) == 1 and batches.large == []
    assert one.evaluator.sealed == one.evaluator.positions, "and it does not rest"


def test_a_stream_that_begins_in_a_batch_has_its_rows_of_it(one: Deployment) -> None:
    batches = without_reader(one)
    one.define(1)
    one.write("a", 1)
    one.write("a", 12)
    batches.run()
    assert len(one.events()) == 1


def test_workers_take_rows_alone(one: Deployment) -> None:
    batches = without_reader(one, small=0)
    one.define(1)
    batches.run()
    assert batches.large == []
    one.write("a", 1)
    one.tick()
    one.write("a", 12)
    batches.run()
    assert [list(ends) for ends in batches.large] == [[METERS]]
    assert len(one.events()) == 1
    assert one.evaluator.sealed[CLOCK.name] == one.log.end_offsets(CLOCK.name)


def test_what_goes_to_all_slots_waits_for_the_last_part_of_a_very_large_batch(
    one: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trigger_svc.batches.LARGE", 3)
    batches = without_reader(one, small=0)
    one.define(1)
    batches.run()
    for ts in range(0, 50, 5):
        one.write("a", ts)
    one.control(control.StopStream(1))
    batches.run()
    assert len(batches.large) > 2
    assert len(one.events()) == 4, "the rows before the STOP were evaluated"


def test_one_that_did_not_end_goes_first(one: Deployment) -> None:
    batches = without_reader(one, small=0)
    one.define(1)
    batches.run()
    one.write("a", 1)
    one.write("a", 12)
    work, one.work = one.work, _fails  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        batches.run()
    one.work = work  # type: ignore[method-assign]
    one.write("a", 23)
    again = without_reader(one, small=0)
    again.run()
    first, second = again.large
    assert first == batches.large[-1] and first[METERS] != second[METERS]
    assert len(one.events()) == 2


def _fails(*_: Any) -> None:
    raise ZeroDivisionError


# -- how long messages are -----------------------------------------------------------------------------------


def test_what_is_small_follows_the_messages_at_once_upwards_and_slowly_downwards() -> None:
    lengths = Lengths()
    assert lengths.small(1_000) and not lengths.small(100_000)
    lengths.learn(2_000 * 12_000, 2_000)
    assert lengths.small(SMALL_BYTES // 12_000) and not lengths.small(SMALL_BYTES // 12_000 + 1)
    lengths.learn(100 * 100, 100)
    assert not lengths.small(SMALL_BYTES // 1_000)
    for _ in range(100):
        lengths.learn(100 * 100, 100)
    assert lengths.small(SMALL_BYTES // 101)
    lengths.learn_too_long()
    assert lengths.small(1) and not lengths.small(2)


def test_a_batch_that_is_too_long_for_the_driver_goes_to_workers(
    one: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = without_reader(one)
    one.define(1)
    batches.run()
    for ts in (1, 2, 12):
        one.write("a", ts)
    monkeypatch.setattr(Frame, "toArrow", _too_large)
    batches.run()
    assert [list(ends) for ends in batches.large] == [[METERS]]
    assert len(one.events()) == 1


def _too_large(frame: Frame) -> pa.Table:
    from pyspark.errors import PySparkException

    raise PySparkException("results are bigger than spark.driver.maxResultSize")

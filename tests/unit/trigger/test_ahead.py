"""The reader that is ahead of the micro-batches: what takes effect behind which rows, and whom it follows."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millrace_core.wire import control, recalc
from millrace_core.wire.topics import CLOCK, CONTROL, HANDOVER, wal_topic
from millrace_wal import Message, Record
from millrace_wal.flaky import InjectedFault
from trigger_svc.ahead import PATIENCE, Waiting
from trigger_svc.metrics import IMPATIENT
from trigger_svc.positions import behind

from ...works import Steps
from .deployment import METERS, Deployment


@pytest.fixture(autouse=True)
def message_by_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log in memory gives topics in the order in which they were assigned: inner ones before rows."""
    monkeypatch.setattr("trigger_svc.ahead.WAIT", 0.0)
    monkeypatch.setattr("trigger_svc.ahead.MOST", 1)


@pytest.fixture
def one(tmp_path: Path, kit: Any) -> Deployment:
    found = Deployment(tmp_path, kit)
    found.define(1)
    read_all(found)
    return found


def read_all(one: Deployment, most: int = 200) -> None:
    for _ in range(most):
        one.read_ahead()
        if not behind(one.evaluator.positions, one.ends()):
            return
    raise AssertionError("the reader does not come to the end")


def rows_evaluated(one: Deployment) -> bool:
    return one.evaluator.positions[METERS] == one.log.end_offsets(METERS)


def watched(one: Deployment, topic: str) -> list[bool]:
    """Whether all rows that there were had been evaluated when each message of a topic was."""
    found: list[bool] = []
    evaluate = one.evaluator.evaluate

    def evaluates(messages: Any, traced: Any = None) -> None:
        if topic in messages.named():
            found.append(rows_evaluated(one))
        evaluate(messages, traced)

    one.evaluator.evaluate = evaluates  # type: ignore[method-assign]
    return found


# -- what waits for which rows -------------------------------------------------------------------------------


def test_a_stop_takes_effect_behind_the_rows_before_it(one: Deployment) -> None:
    for ts in (1, 12, 23):
        one.write("a", ts)
    one.control(control.StopStream(1))
    seen = watched(one, CONTROL.name)
    read_all(one)
    assert seen == [True]
    one.write("a", 34)
    read_all(one)
    assert len(one.events()) == 2, "and no row behind it was evaluated"


def test_a_tick_takes_effect_behind_the_rows_that_it_names(one: Deployment) -> None:
    for ts in (1, 2, 3):
        one.write("a", ts)
    one.tick()
    seen = watched(one, CLOCK.name)
    read_all(one)
    assert seen == [True]


def test_a_tick_that_names_none_does_not_wait(one: Deployment) -> None:
    for ts in (1, 2, 3):
        one.write("a", ts)
    one.log.append([Message(CLOCK.name, None, control.encode(control.Tick(7)))])
    seen = watched(one, CLOCK.name)
    read_all(one)
    assert seen == [False]


def test_a_handover_takes_effect_behind_the_rows_that_are_there(one: Deployment) -> None:
    for ts in (1, 2, 3):
        one.write("a", ts)
    told = recalc.Handover(1, 0, 0, done=True)
    one.log.append([Message(HANDOVER.name, b"1/0", recalc.encode(told))])
    seen = watched(one, HANDOVER.name)
    read_all(one)
    assert seen == [True]


def test_a_stream_begins_behind_the_rows_before_it(one: Deployment) -> None:
    """It names them itself: rows that were written since then it does not wait for."""
    for ts in (1, 2, 3):
        one.write("a", ts)
    record = one.definition(2)
    for ts in (4, 12):
        one.write("a", ts)
    one.control(record)
    seen = watched(one, CONTROL.name)
    read_all(one)
    assert seen == [False]
    assert {(uid, rows) for uid, *_, rows in one.events()} == {(1, 4), (2, 1)}


@pytest.mark.parametrize("value", [None, b"nonsense"])
def test_what_says_nothing_waits_for_nothing(one: Deployment, value: bytes | None) -> None:
    one.write("a", 1)
    one.log.append([Message(CONTROL.name, b"x", value), Message(CLOCK.name, None, b"nonsense")])
    read_all(one)
    one.write("a", 12)
    read_all(one)
    assert len(one.events()) == 1


def test_rows_that_never_come_are_not_waited_for_for_ever(
    one: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trigger_svc.ahead.PATIENCE", 0.0)
    far = {METERS: {0: 1_000}}
    one.log.append([Message(CLOCK.name, None, control.encode(control.Tick(7, 0, far)))])
    read_all(one)


def record(topic: str, offset: int) -> Record:
    return Record(topic, 0, offset, 0, None, b"{}")


def test_each_topic_keeps_its_order_and_control_records_go_first() -> None:
    waiting = Waiting()
    ticks, control_records = [record(CLOCK.name, at) for at in range(2)], [record(CONTROL.name, 0)]
    waiting.put([*ticks, *control_records], [{METERS: {0: 5}}, {}, {METERS: {0: 4}}], 0.0)
    assert waiting and waiting.topics == {CLOCK.name, CONTROL.name}
    assert waiting.take({METERS: {0: 3}}, 0.0) == []
    assert waiting.take({METERS: {0: 4}}, 0.0) == control_records, "a tick waits for the one before it"
    assert waiting.topics == {CLOCK.name}
    waiting.put([record(CONTROL.name, 1)], [{}], 0.0)
    found = waiting.take({METERS: {0: 5}}, 0.0)
    assert [(one.topic, one.offset) for one in found] == [(CONTROL.name, 1), (CLOCK.name, 0), (CLOCK.name, 1)]
    assert not waiting and waiting.topics == set()


def test_a_topic_that_is_not_read_is_not_waited_for() -> None:
    waiting = Waiting()
    waiting.put([record(CLOCK.name, 0)], [{"wal.d.gone": {0: 5}}], 0.0)
    assert len(waiting.take({METERS: {0: 0}}, 0.0)) == 1


def test_patience_has_an_end_and_that_is_told(caplog: pytest.LogCaptureFixture) -> None:
    waiting, before = Waiting(), IMPATIENT._value.get()
    waiting.put([record(CLOCK.name, 0)], [{METERS: {0: 5}}], 100.0)
    assert waiting.take({METERS: {0: 0}}, 100.0 + PATIENCE - 0.1) == []
    assert (IMPATIENT._value.get(), caplog.messages) == (before, [])
    assert len(waiting.take({METERS: {0: 0}}, 100.0 + PATIENCE)) == 1
    assert IMPATIENT._value.get() == before + 1
    (said,) = caplog.messages
    assert f"{METERS}/0 up to 5 (at 0)" in said


# -- whom it follows -----------------------------------------------------------------------------------------


def test_it_reads_on_where_a_micro_batch_has_brought_the_slots(one: Deployment) -> None:
    one.write("a", 1)
    one.write("a", 12)
    one.ahead.step()  # it has nothing in hand yet, or a row
    one.in_workers()
    one.evaluator.stands_back = False
    one.write("a", 23)
    read_all(one)
    assert len(one.events()) == 2


def test_what_is_in_hand_comes_again_when_the_positions_were_moved(one: Deployment) -> None:
    one.write("a", 1)
    one.control(control.StopStream(1))
    while one.ahead._waiting or not rows_evaluated(one):
        one.ahead.step()
        if one.ahead._waiting:
            break
    assert one.ahead._waiting
    one.in_workers()
    one.evaluator.stands_back = False
    read_all(one)
    one.write("a", 12)
    read_all(one)
    assert one.events() == set()


def test_it_stands_back_while_it_is_told(one: Deployment) -> None:
    one.evaluator.stands_back = True
    one.write("a", 1)
    one.read_ahead()
    assert not rows_evaluated(one)
    one.evaluator.stands_back = False
    read_all(one)


def test_micro_batches_begin_at_once_when_the_reader_stands_back(one: Deployment) -> None:
    waits = threading.Thread(target=one.ahead.wait_until_it_stands_back, args=(600, threading.Event()))
    waits.start()
    one.write("a", 1)
    read_all(one)
    assert waits.is_alive()
    one.evaluator.stands_back = True
    waits.join(60)
    assert not waits.is_alive()


def test_micro_batches_do_not_wait_for_longer_nor_for_a_stop(one: Deployment) -> None:
    one.ahead.wait_until_it_stands_back(0.1, threading.Event())
    stopped = threading.Event()
    stopped.set()
    one.ahead.wait_until_it_stands_back(600, stopped)


def test_a_topic_that_is_made_later_is_read(one: Deployment, kit: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("trigger_svc.ahead.LOOK_AGAIN", 0.0)
    other = msgspec.structs.replace(kit.METERS, name="other", uid=77)
    topic = wal_topic("d", "other")
    one.control(control.DefineStream(kit.stream(2, table=other), {}))
    read_all(one)
    one.log.ensure_topics([(topic, 1)])
    for ts in (1, 12):
        one.write("a", ts, topic=topic)
    for _ in range(20):
        one.read_ahead()
    assert {uid for uid, *_ in one.events()} == {2}
    one.control(control.DropStream(2))
    read_all(one)
    assert topic not in one.evaluator.positions


@pytest.mark.parametrize("fails", range(12))
@pytest.mark.parametrize("fault", [InjectedFault.BEFORE, InjectedFault.AFTER, InjectedFault.HALF])
def test_wherever_the_broker_fails_it_begins_anew_and_nothing_is_lost(
    tmp_path: Path, kit: Any, fails: int, fault: InjectedFault
) -> None:
    one = Deployment(tmp_path, kit)
    one.define(1)
    one.define(2, partition=(), trigger={"Session": {"gap": 5}})
    for ts in (1, 2, 12, 30):
        one.write("a", ts)
    one.tick()
    life = Steps(lambda: one.ahead)
    one.flaky.give([*[InjectedFault.NONE] * (3 * fails), fault, InjectedFault.NONE, fault])
    for _ in range(200):
        life.step()
    one.flaky.give([])
    while behind(one.evaluator.positions, one.ends()):
        life.step()
    one.regrouped()
    found = {(uid, start, rows) for uid, _, _, start, _, _, _, rows in one.events()}
    assert found == {(1, 0, 2), (1, 10, 1), (1, 20, 0), (2, 1, 2), (2, 12, 1)}
    life.end()

"""The evaluator when the broker, the disk or the process fails in between: nothing is lost, and nothing that
was sent is cut in another way."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire import control, events, status
from millrace_core.wire.topics import REGROUP, STATUS, wal_topic
from millrace_wal import replay
from millrace_wal.flaky import InjectedFault

from .deployment import METERS, Deployment, Died

SESSION = {"Session": {"gap": 5}}
MS = 1_000_000


@pytest.fixture(autouse=True)
def nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trigger_svc.ahead.WAIT", 0.0)


@pytest.fixture
def one(tmp_path: Path, kit: Any) -> Deployment:
    found = Deployment(tmp_path / "data", kit)
    found.define(1)
    found.define(2, partition=(), trigger=SESSION)
    found.in_driver()
    found.seal()
    return found


def closed(one: Deployment, uid: int = 1) -> set[tuple[str, int]]:
    return {(table, start) for stream, _, _, start, _, table, *_ in one.events() if stream == uid}


@pytest.mark.parametrize("fault", [InjectedFault.BEFORE, InjectedFault.HALF])
def test_what_could_not_be_sent_is_not_sealed(one: Deployment, fault: InjectedFault) -> None:
    one.write("a", 1)
    one.write("a", 12)
    one.read_ahead()
    one.seal()
    one.write("a", 25)
    one.flaky.give([InjectedFault.NONE, fault])
    with pytest.raises(MillraceError):
        one.read_ahead()
    assert one.flaky.calls[-1] == ("append", fault)
    one.flaky.give([])
    one.evaluator.seal()  # a micro-batch that waited for the reader
    one.kill()
    one.finish()
    assert closed(one) == {("a", 0), ("a", 10)}


def test_after_a_seal_that_did_not_end_batches_are_cut_as_they_were(
    one: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who seals does not hold up the reader: what it has evaluated meanwhile comes behind what was before."""
    one.write("a", 1)
    one.read_ahead()

    def dies(*_: Any) -> None:
        one.write("a", 2)
        one.read_ahead()
        raise Died

    monkeypatch.setattr(one.evaluator.states, "seal", dies)
    with suppress(Died):
        one.evaluator.seal()
    one.kill()
    one.evaluator.ready()
    one.write("a", 3)
    one.read_ahead()
    one.kill()
    one.evaluator.ready()
    one.regrouped()
    values = {record.value for record in replay(one.log, REGROUP.name)}
    assert len(values) == 3, "each row was in a batch of its own"


def test_the_next_delay_is_known_from_the_start_on_and_behind_a_large_batch(one: Deployment) -> None:
    one.define(3, max_delay=1_000)
    one.in_driver()
    one.write("a", 1)
    one.in_driver()
    (due,) = one.evaluator.delays_due
    one.seal()
    one.kill()
    one.evaluator.ready()
    assert list(one.evaluator.delays_due) == [due]
    one.now += 100
    one.write("b", 1)
    one.in_workers()
    assert list(one.evaluator.delays_due) == [due, due + 101 * MS]


def test_a_topic_that_was_not_there_when_it_was_sealed_is_cut_again_as_it_was(
    one: Deployment, kit: Any
) -> None:
    other = wal_topic("d", "other")
    table = msgspec.structs.replace(kit.METERS, name="other", uid=77)
    spec = kit.stream(3, table=table, partition=(), trigger=SESSION)
    one.control(control.DefineStream(spec, {}))
    one.in_driver()
    one.seal()
    assert other not in one.evaluator.sealed
    one.log.ensure_topics([(other, 1)])
    one.evaluator.follow_topics()
    for ts in (1, 2):
        one.write("c", ts, topic=other)
        one.in_driver()
    one.kill()
    one.evaluator.ready()
    one.regrouped()
    values = {record.value for record in replay(one.log, REGROUP.name)}
    assert len(values) == 2


def test_what_is_gone_when_it_should_be_evaluated_again_is_told(one: Deployment) -> None:
    for ts in (1, 2, 3):
        one.write("a", ts)
        one.read_ahead()
    ends = one.log.end_offsets(METERS)
    one.log.trim({METERS: ends})
    one.kill()
    one.evaluator.ready()
    found = [status.decode(record.value) for record in replay(one.log, STATUS.name) if record.value]
    gaps = [problem for problem in found if isinstance(problem, status.Problem)]
    assert gaps and set(gaps[-1].streams) == {1, 2}


def test_the_log_that_is_away_is_asked_again(one: Deployment) -> None:
    one.write("a", 1)
    one.read_ahead()
    one.kill()
    one.flaky.give([InjectedFault.BEFORE])
    with pytest.raises(MillraceError) as caught:
        one.evaluator.ready()
    assert caught.value.code is ErrorCode.UNAVAILABLE
    one.write("a", 12)
    one.finish()
    assert closed(one) == {("a", 0)}


def test_rows_whose_ends_are_not_told_are_not_taken_for_gone(
    one: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a broker that has just come back, whose partitions have no leaders yet."""
    one.write("a", 1, 2)
    one.read_ahead()
    one.kill()
    asked = one.flaky.ends_of
    with monkeypatch.context() as away:
        away.setattr(one.flaky, "ends_of", lambda topics: asked([t for t in topics if t != METERS]))
        with pytest.raises(MillraceError) as caught:
            one.evaluator.ready()
    assert caught.value.code.value.retry and METERS in str(caught.value)
    one.write("a", 12)
    one.finish()
    batches = [events.decode(value) for value in one.told().values()]
    found = [(event.start, event.rownum) for batch in batches if batch.stream == 1 for event in batch.events]
    assert found == [(0, 2)]

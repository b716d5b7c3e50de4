"""What one stream raises must not stop the others of its slot, nor change what they give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.model.expression import Call, Constant, Field
from millrace_core.model.stream import Condition, Duration, Options
from millrace_core.trigger.rows import Messages, signals
from millrace_core.trigger.slot import Slot, evaluate_batch
from millrace_core.trigger.slot.control import ControlRecords
from millrace_core.trigger.stream import Stream
from millrace_core.trigger.stream.period import PeriodStream
from millrace_core.trigger.types import Session, registry, type_of
from millrace_core.trigger.types.session.windower import SessionWindower
from millrace_core.wire import control, events, status
from millrace_core.wire.operations import Register
from millrace_core.wire.topics import CLOCK, CONTROL, HANDOVER, REGROUP, TRIGGERS

from ...conftest import examples

THIRTEEN, SPOILED = 13, "spoiled"
BAD, GOOD = 90, 1


class Superstitious(SessionWindower):
    """Raises at a row of the time 13, when it has told of what came before."""

    def on_rows(self, memory: Any, judged: Any) -> Any:
        found = super().on_rows(memory, judged)
        if (judged.ts == THIRTEEN).any():
            raise ZeroDivisionError("thirteen")
        return found


class Spoiling(SessionWindower):
    """Leaves at that row a memory that cannot be kept."""

    def on_rows(self, memory: Any, judged: Any) -> Any:
        found = super().on_rows(memory, judged)
        if (judged.ts == THIRTEEN).any():
            memory.singles["start"] = np.array([object()] * memory.count, dtype=object)
        return found


KINDS = {101: Superstitious, 102: Spoiling}
"""The gap (ms) of a session that is judged by such a windower."""


@pytest.fixture(scope="module", autouse=True)
def windowers() -> Iterator[None]:
    known = type_of(Session(Duration(1, "s")))

    def make(trigger: Session, setting: Any) -> Any:
        kind = KINDS.get(trigger.gap.value)
        return known.windower(trigger, setting) if kind is None else kind(trigger.gap.value)

    patch = pytest.MonkeyPatch()
    patch.setitem(registry._types, Session, replace(known, windower=make))
    yield
    patch.undo()


class Deployment:
    """Slots as the service runs them: state as bytes, batches by evaluate_batch."""

    def __init__(self, kit: Any, slots: int = 1) -> None:
        self.remarks: list[str] = []
        remarks = self.remarks

        class Isolated(kit.Cluster):  # type: ignore[misc, name-defined]
            def send(self, topic: str, key: bytes | None, value: bytes | None) -> None:
                super().send(topic, key, value)
                if topic == REGROUP.name and (key or b"").startswith(f"{BAD}/".encode()):
                    self.now -= 1  # what the stream sends does not take the others' time

            def on_batch(self, number: int, records: list[Any]) -> list[tuple[str, bytes, bytes]]:
                messages, blob = Messages.of(records), self.blobs.get(number)
                if not Slot.heeds(blob, messages):
                    return []
                judged = evaluate_batch(blob, number, self.slots, messages)
                self.blobs[number] = judged.state
                remarks.extend(judged.remarks)
                self.sent += [(t, k, v) for t, k, v in judged.sent]
                return judged.sent

        self.cluster = Isolated(slots)
        self.cluster.sent = []

    def failures(self) -> dict[int, str]:
        """Streams that failed by what was told last (in any slot)."""
        last: dict[bytes, status.StreamFailure] = {}
        for news in self.cluster.status:
            if isinstance(news, status.StreamFailure):
                last[status.key(news)] = news
        return {one.stream: one.message for one in last.values() if one.message}

    def told(self, uid: int) -> list[events.TriggerBatch]:
        return [batch for batch in self.cluster.triggers if batch.stream == uid]


def bad(kit: Any, gap: int = 101, uid: int = BAD, **more: Any) -> Any:
    return kit.stream(uid, trigger={"Session": {"gap": gap}}, **more)


def test_a_stream_that_raises_is_set_aside_with_its_cause(kit: Any) -> None:
    here = Deployment(kit)
    cluster = here.cluster
    cluster.define(bad(kit))
    cluster.define(kit.stream(GOOD))
    cluster.write("c1", [1])
    cluster.run()
    assert here.failures() == {}
    cluster.write("c1", [5, THIRTEEN, 20])
    cluster.run()
    (cause,) = here.failures().values()
    assert cause.startswith("ZeroDivisionError: thirteen (test_isolation.py:")
    assert cause.endswith(", on_rows)")
    assert cluster.live(GOOD) == {"c1": ["CLOSE 0-10 x2", "CLOSE 10-20 x1"]}
    assert here.told(BAD) == []
    assert here.remarks == [f"stream {BAD} failed: {cause}"]
    # from here on its rows are ignored, over restarts, and nothing is said again
    cluster.write("c1", [THIRTEEN, 500])
    cluster.tick(1000)
    cluster.control(control.RecalculateStream(BAD, 0), control.StopStream(BAD))
    cluster.run()
    assert here.told(BAD) == [] and cluster.asked == [] and len(here.remarks) == 1
    assert here.failures() == {BAD: cause}


@pytest.mark.parametrize("gap", list(KINDS))
def test_its_state_is_the_one_before_the_batch(kit: Any, gap: int) -> None:
    here = Deployment(kit)
    cluster = here.cluster
    cluster.define(bad(kit, gap))
    cluster.write("c1", [1, 2])
    cluster.run()
    cluster.write("c1", [400])  # closes the first session, in the batch that fails
    cluster.write("c2", [THIRTEEN])
    cluster.run()
    assert list(here.failures()) == [BAD]
    assert here.told(BAD) == []
    end = cluster.ends["wal.d.meters"]
    cluster.control(control.StartStream(BAD, {0: end}, epoch=5))
    cluster.write("c1", [600, 800])
    cluster.run()
    assert here.failures() == {}
    # the session that was open goes on; what was written in between is not treated
    assert cluster.live(BAD) == {"c1": ["CLOSE 1-2 x2", "CLOSE 600-600 x1"]}
    assert {batch.epoch for batch in here.told(BAD)} == {5}
    assert [batch.number for batch in here.told(BAD)] == [1]


def test_what_it_missed_is_history_to_a_stream_that_fills_it(kit: Any) -> None:
    here = Deployment(kit)
    cluster = here.cluster
    spec = bad(kit)
    options = msgspec.structs.replace(spec.options, fill_history=0)
    cluster.define(msgspec.structs.replace(spec, options=options))
    cluster.write("c1", [1])
    cluster.run()
    cluster.write("c1", [THIRTEEN])
    cluster.run()
    cluster.write("c1", [20])
    cluster.run()
    cluster.control(control.StartStream(BAD, {0: 3}, epoch=1, untreated=True))
    cluster.run()
    asked = cluster.asked[-1]
    assert (asked.why, asked.epoch, asked.written) == ("UNTREATED", 1, {0: (1, 3)})


def test_a_stream_that_fails_at_once_again_is_set_aside_again(kit: Any) -> None:
    here = Deployment(kit)
    cluster = here.cluster
    for epoch in range(3):
        if epoch == 0:
            cluster.define(bad(kit))
        else:
            cluster.control(control.StartStream(BAD, {0: cluster.ends["wal.d.meters"]}, epoch))
        cluster.write("c1", [THIRTEEN])
        cluster.run()
        assert list(here.failures()) == [BAD]
    assert len(here.remarks) == 3
    cluster.control(control.DropStream(BAD))
    cluster.write("c1", [THIRTEEN])
    cluster.run()
    assert here.failures() == {}


def test_where_a_stream_did_not_fail_a_start_loses_nothing(kit: Any) -> None:
    here = Deployment(kit, slots=3)
    cluster = here.cluster
    cluster.define(bad(kit))
    names = [f"c{i}" for i in range(9)]
    for name in names:
        cluster.write(name, [THIRTEEN if name == "c0" else 1])
    cluster.run()
    assert list(here.failures()) == [BAD]
    slot = next(news.slot for news in cluster.status if isinstance(news, status.StreamFailure))
    for name in names:
        cluster.write(name, [2])
    cluster.control(control.StartStream(BAD, {0: cluster.ends["wal.d.meters"]}, epoch=1))
    for name in names:
        cluster.write(name, [300])
    cluster.run()
    closed = {name: found for name, found in cluster.live(BAD).items() if found}
    healthy = {name for name in names if cluster._slot(("wal.d.meters", 0, 0, 0, name.encode())) != slot}
    assert healthy and closed.keys() == healthy
    assert {tuple(found) for found in closed.values()} == {("CLOSE 1-2 x2",)}
    assert {batch.epoch for batch in here.told(BAD)} == {1}


TIMES = st.integers(0, 60) | st.just(THIRTEEN)
ROWS = st.lists(st.lists(TIMES, min_size=1, max_size=3), min_size=1, max_size=4)


@settings(max_examples=examples(25))
@given(st.lists(ROWS, min_size=1, max_size=4), st.sampled_from(sorted(KINDS)), st.booleans())
def test_the_others_give_what_they_give_without_it(
    kit: Any, batches: list[list[list[int]]], gap: int, regrouped: bool
) -> None:
    outputs = []
    partition = ("site",) if regrouped else ("tbname",)
    for with_bad in (False, True):
        here = Deployment(kit, slots=2)
        cluster = here.cluster
        cluster.operate("c0", _registered(), kit.METERS)
        cluster.operate("c1", _registered(), kit.METERS)
        if with_bad:
            cluster.define(bad(kit, gap, partition=partition))
        else:
            cluster.control(control.StopStream(BAD))  # so that control records have the same numbers
        cluster.define(kit.stream(1, 10))
        cluster.define(kit.stream(2, 10, partition=partition))
        cluster.define(kit.stream(3, 10, max_delay=5))
        for rows in batches:
            for place, part in enumerate(rows):
                cluster.write(f"c{place % 2}", part)
            cluster.tick(cluster.now + 10)
            cluster.run()
        outputs.append([sent for sent in cluster.sent if not _is_of(BAD, *sent)])
    assert outputs[0] == outputs[1]


def _registered() -> Any:
    return Register({"site": 1, "room": 1})


def _is_of(uid: int, topic: str, key: bytes, value: bytes) -> bool:
    text = key.decode()
    if topic in (TRIGGERS.name, REGROUP.name):
        return text.startswith(f"{uid}/")
    return f"/{uid}/" in f"{text}/"


def test_a_condition_that_raises_is_its_streams_own(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Deployment(kit)
    cluster = here.cluster
    above = Call("gt", (Field("v"), Constant(0)))
    strange = Call("gt", (Field("v"), Constant(77)))
    for uid, tree in ((1, above), (2, strange), (3, above)):
        options = Options(pre_filter=Condition("v > …", ("v",), tree))
        cluster.define(msgspec.structs.replace(kit.stream(uid), options=options))
    original = signals.evaluate

    def evaluate(wanted: Any, frame: Any) -> Any:
        if any("77" in repr(signal.expression) for signal in wanted):
            raise OverflowError("77 is too much")
        return original(wanted, frame)

    monkeypatch.setattr("millrace_core.trigger.rows.intake.evaluate", evaluate)
    cluster.write("c1", [1, 10])
    cluster.run()
    assert list(here.failures()) == [2]
    assert "OverflowError: 77 is too much" in here.failures()[2]
    assert cluster.live(1) == cluster.live(3) == {"c1": ["CLOSE 0-10 x1"]}


@pytest.mark.parametrize("method", ["on_tick", "sweep", "resume", "begin", "dump", "wants", "place", "news"])
def test_wherever_it_raises(kit: Any, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    here = Deployment(kit)
    cluster = here.cluster
    cluster.define(kit.stream(GOOD))
    if method != "begin":
        cluster.define(bad(kit, 50, max_delay=20 if method == "on_tick" else None))
        cluster.run()
    for owner in dict.fromkeys((*Stream.__mro__, *PeriodStream.__mro__)):
        if method in owner.__dict__:
            monkeypatch.setattr(owner, method, _raising(owner.__dict__[method]))
    if method == "begin":
        cluster.define(bad(kit, 50))
    cluster.write("c1", [1, 10])
    cluster.run()
    cluster.control(control.StopStream(BAD))
    cluster.run()
    cluster.control(control.StartStream(BAD, {0: cluster.ends["wal.d.meters"]}, 1))
    cluster.tick(500)
    cluster.run()
    cluster.write("c1", [500])
    cluster.run()
    assert "RuntimeError: it does not work" in here.failures()[BAD]
    assert cluster.live(GOOD)["c1"][:1] == ["CLOSE 0-10 x1"]
    assert here.failures().keys() == {BAD}
    monkeypatch.undo()
    if method != "begin":  # what was never made is made by a new CREATE STREAM
        cluster.control(control.StartStream(BAD, {0: cluster.ends["wal.d.meters"]}, 2))
        cluster.write("c1", [1000, 1100])
        cluster.run()
        assert here.failures() == {}
        assert cluster.live(BAD)["c1"][-1] == "CLOSE 1000-1000 x1"


def _raising(original: Any) -> Any:
    def method(self: Any, *arguments: Any) -> Any:
        if self.uid == BAD:
            raise RuntimeError("it does not work")
        return original(self, *arguments)

    return method


def test_a_state_that_cannot_be_read_stays_as_it_is(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Deployment(kit)
    cluster = here.cluster
    cluster.define(bad(kit, 50))
    cluster.define(kit.stream(GOOD))
    cluster.write("c1", [1])
    cluster.run()
    with monkeypatch.context() as patch:
        for owner in (Stream, PeriodStream):
            patch.setattr(owner, "_load_more", _raising(owner._load_more))
        for ts in (10, 20):
            cluster.write("c1", [ts])
            cluster.run()
    assert list(here.failures()) == [BAD] and len(here.remarks) == 1
    assert cluster.live(GOOD) == {"c1": ["CLOSE 0-10 x1", "CLOSE 10-20 x1"]}
    cluster.control(control.StartStream(BAD, {0: cluster.ends["wal.d.meters"]}, 1))
    cluster.write("c1", [100])
    cluster.run()
    assert here.failures() == {}
    assert cluster.live(BAD) == {"c1": ["CLOSE 1-1 x1"]}


def test_what_no_stream_raises_is_raised(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Deployment(kit)
    here.cluster.define(kit.stream(GOOD))
    here.cluster.run()

    def out_of_memory(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(Stream, "wants", out_of_memory)
    here.cluster.write("c1", [1])
    with pytest.raises(MemoryError):
        here.cluster.run()


HOSTILE = [b"", b"\xff\xfe", b"null", b"{}", b'{"op":"no such"}', b'{"op":"stop","uid":"x"}', b"[" * 5000]


@pytest.mark.parametrize("topic", [CONTROL.name, CLOCK.name, REGROUP.name, HANDOVER.name])
def test_a_message_that_means_nothing_is_counted_and_passed_over(kit: Any, topic: str) -> None:
    here = Deployment(kit, slots=2)
    cluster = here.cluster
    cluster.define(kit.stream(GOOD))
    for value in HOSTILE:
        cluster.send(topic, b"k", value)
    cluster.define(kit.stream(2))
    cluster.write("c1", [1, 10])
    cluster.run()
    assert cluster.live(GOOD) == cluster.live(2) == {"c1": ["CLOSE 0-10 x1"]}
    assert _refused(cluster) == {f"undecodable_{topic}": len(HOSTILE)}
    assert len(here.remarks) == len(HOSTILE)
    for value in HOSTILE:  # alone, and after a restart
        cluster.send(topic, b"k", value)
    cluster.run()
    assert _refused(cluster) == {f"undecodable_{topic}": 2 * len(HOSTILE)}


def _refused(cluster: Any) -> dict[str, int]:
    found = [news.totals for news in cluster.status if isinstance(news, status.Counters) and news.stream == 0]
    return dict(found[-1])


def test_a_record_without_effect_is_passed_over(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Deployment(kit)
    monkeypatch.setattr(ControlRecords, "_change", lambda *_: 1 // 0)
    here.cluster.control(control.ChangeTable(kit.METERS))
    here.cluster.define(kit.stream(GOOD))
    here.cluster.run()
    assert _refused(here.cluster) == {"refused_control": 1}
    assert status.Applied(1) in here.cluster.status

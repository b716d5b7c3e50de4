"""A slot that stays in memory says what one says that is read from its bytes for each batch, whatever streams
do in it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace_core.trigger.rows import Messages
from millrace_core.trigger.slot import Slot, evaluate_batch
from millrace_core.trigger.slot.isolation import RunningSlot
from millrace_core.wire import control, events, regroup
from millrace_core.wire.operations import Register
from millrace_core.wire.topics import REGROUP, STATUS, TRIGGERS

from ...conftest import examples
from .test_isolation import BAD, GOOD, KINDS, THIRTEEN, bad, windowers

__all__ = ["windowers"]  # a fixture of this module as well
Output = tuple[str, bytes, bytes]


class Kept:
    """The slots of a cluster, each in memory and, batch by batch, from its bytes: they are compared."""

    def __init__(self, kit: Any, slots: int = 2) -> None:
        kept = self
        self.running = [RunningSlot(None, number, slots) for number in range(slots)]
        self.blobs: dict[int, bytes | None] = {}
        self.sent: dict[int, list[Output]] = {number: [] for number in range(slots)}
        self.plain: dict[int, list[Output]] = {number: [] for number in range(slots)}

        class Both(kit.Cluster):  # type: ignore[misc, name-defined]
            def on_batch(self, number: int, records: list[Any]) -> list[Output]:
                messages, blob = Messages.of(records), kept.blobs.get(number)
                found: list[Output] = []
                if Slot.heeds(blob, messages):
                    judged = evaluate_batch(blob, number, slots, messages)
                    kept.blobs[number], found = judged.state, judged.sent
                kept.plain[number] += found
                kept.sent[number] += kept.running[number].evaluate(messages)
                return found

        self.cluster = Both(slots)

    def snapshot(self) -> None:
        for number, slot in enumerate(self.running):
            state, sent = slot.snapshot()
            self.sent[number] += sent
            assert not slot.changed
            # a state that is kept goes on as the slot does
            self.running[number] = RunningSlot(state, number, len(self.running))

    def compare(self) -> None:
        """What they told, each number once; counters may be told at other times."""
        for number, slot in enumerate(self.running):
            assert once(self.sent[number]) == once(self.plain[number])
            blob = self.blobs.get(number)
            assert slot.delays_due == ([] if blob is None else Slot.delays_due(blob))


def once(sent: list[Output]) -> list[Output]:
    """What is numbered, and failures; what comes again with the same number must be the same."""
    known: dict[Any, Output] = {}
    for message in sent:
        topic, _, value = message
        if topic == STATUS.name and not message[1].startswith(b"failures/"):
            continue
        key: Any = message
        if topic == TRIGGERS.name:
            batch = events.decode(value)
            key = (topic, batch.stream, batch.epoch, batch.number)
        elif topic == REGROUP.name:
            row = regroup.decode(value)
            key = (topic, row.stream, row.number)
        assert known.setdefault(key, message) == message
    return list(known.values())


TIMES = st.integers(0, 60)
WRITE = st.tuples(st.sampled_from(["c0", "c1", "c2"]), st.lists(TIMES, min_size=1, max_size=3))
STEPS = st.one_of(WRITE, WRITE, WRITE, st.sampled_from(["run", "run", "keep", "tick"]))


def streams(kit: Any, cluster: Any) -> None:
    for name in ("c0", "c1", "c2"):
        cluster.operate(name, Register({"site": int(name[1]) % 2, "room": 1}))
    cluster.define(kit.stream(1))
    cluster.define(kit.stream(2, partition=("site",)))
    cluster.define(kit.stream(3, max_delay=5))
    cluster.define(kit.stream(4, partition=(), trigger={"Session": {"gap": 5}}, watermark=3))
    cluster.define(kit.stream(5, trigger={"Period": {"every": 7}}))
    cluster.run()


def play(kit: Any, steps: list[Any], first: Any = streams) -> Kept:
    """Rows are bundled as ``run`` says; ``keep``: states are kept there."""
    kept = Kept(kit)
    first(kit, kept.cluster)
    for step in steps:
        match step:
            case "run":
                kept.cluster.run()
            case "keep":
                kept.cluster.run()
                kept.snapshot()
            case "tick":
                kept.cluster.tick(kept.cluster.now + 10)
            case (child, times):
                kept.cluster.write(child, times)
    kept.cluster.run()
    return kept


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, max_size=25))
def test_however_messages_are_bundled(kit: Any, steps: list[Any]) -> None:
    play(kit, steps).compare()


def with_bad(gap: int, partition: tuple[str, ...]) -> Any:
    def define(kit: Any, cluster: Any) -> None:
        streams(kit, cluster)
        cluster.define(bad(kit, gap, partition=partition))
        cluster.run()

    return define


HOSTILE = st.one_of(STEPS, st.just(("c0", [THIRTEEN])))


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(HOSTILE, max_size=20), st.sampled_from([("tbname",), ("site",)]))
def test_a_stream_that_raises_is_set_aside_as_batch_by_batch(
    kit: Any, steps: list[Any], partition: tuple[str, ...]
) -> None:
    play(kit, steps, with_bad(101, partition)).compare()


def of(uid: int, sent: list[Output]) -> list[Output]:
    prefix = f"{uid}/".encode()
    return [one for one in sent if one[0] in (TRIGGERS.name, REGROUP.name) and one[1].startswith(prefix)]


@pytest.mark.parametrize("gap", list(KINDS))
def test_what_was_sent_before_it_raises_comes_again_under_its_numbers(kit: Any, gap: int) -> None:
    kept = Kept(kit, slots=1)
    cluster, (slot,) = kept.cluster, kept.running
    cluster.define(bad(kit, gap))
    cluster.define(kit.stream(GOOD))
    cluster.run()
    cluster.write("c1", [1, 200])
    cluster.run()
    first = of(BAD, kept.sent[0])
    assert len(first) == 1
    cluster.write("c1", [210])
    cluster.run()
    cluster.write("c2", [THIRTEEN])
    cluster.run()
    state, again = slot.snapshot()
    kept.sent[0] += again
    assert of(BAD, kept.sent[0]) == [*first, *first], "it was set aside behind them"
    assert state == kept.blobs[0]
    kept.compare()
    assert [remark for remark in slot.remarks if f"stream {BAD} failed" in remark]
    assert slot.snapshot() == (state, [])


def test_one_that_is_started_again_after_its_memory_could_not_be_kept_counts_on(kit: Any) -> None:
    """What it has sent meanwhile is out, under numbers that its memory of before does not know."""
    kept = Kept(kit, slots=1)
    cluster, (slot,) = kept.cluster, kept.running
    cluster.define(bad(kit, 102, partition=(), uid=BAD))
    cluster.run()
    cluster.write("c1", [1])
    cluster.run()
    slot.snapshot()
    cluster.write("c1", [THIRTEEN])  # is sent on, then its group's memory cannot be kept
    cluster.run()
    cluster.write("c1", [20])
    cluster.run()
    slot.snapshot()
    sent = {regroup.decode(value).number for topic, _, value in kept.sent[0] if topic == REGROUP.name}
    kept.sent[0].clear()
    cluster.control(control.StartStream(BAD, {0: cluster.ends["wal.d.meters"]}, 1))
    cluster.run()
    cluster.write("c1", [300])
    cluster.run()
    again = {regroup.decode(value).number for topic, _, value in kept.sent[0] if topic == REGROUP.name}
    assert again and min(again) > max(sent)


def test_much_that_is_remembered_is_kept_in_memory(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace_core.trigger.slot.isolation.MOST_REMEMBERED", 5)
    kept = Kept(kit, slots=1)
    (slot,) = kept.running
    streams(kit, kept.cluster)
    for ts in range(20):
        kept.cluster.write("c0", [ts])
        kept.cluster.run()
        assert slot.spare() == [] and slot.changed
        assert sum(len(messages) for messages, _ in slot._since) <= 5
    kept.compare()
    assert slot.snapshot()[0] == kept.blobs[0]


def test_what_means_nothing_to_a_slot_changes_nothing(kit: Any) -> None:
    kept = Kept(kit, slots=1)
    (slot,) = kept.running
    kept.cluster.tick(100)
    kept.cluster.run()
    assert not slot.changed and slot.snapshot() == (None, [])
    kept.cluster.define(kit.stream(1))
    kept.cluster.run()
    assert slot.changed


def test_of_a_stream_that_is_stopped_nothing_is_due(kit: Any) -> None:
    """A window of it stays open: the clock need not tick for it."""
    kept = Kept(kit, slots=1)
    cluster, (slot,) = kept.cluster, kept.running
    cluster.define(kit.stream(1, max_delay=5))
    cluster.write("c1", [1])
    cluster.run()
    assert len(slot.delays_due) == 1
    cluster.control(control.StopStream(1))
    cluster.run()
    assert slot.delays_due == []
    kept.compare()

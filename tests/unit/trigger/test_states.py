"""The files that hold the slots' states, and how a batch is divided among the slots."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.trigger.intake import Messages
from millrace_core.wire import control
from millrace_core.wire.topics import CLOCK, CONTROL, REGROUP, slot_of, wal_topic
from millrace_wal import MemoryLog, Message
from trigger_svc.batches import SMALL_BYTES, Batches, Lengths, by_slot
from trigger_svc.checkpoint import messages_in
from trigger_svc.rest import Rest
from trigger_svc.settings import TriggerSettings
from trigger_svc.states import SlotStates


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_batch_finds_what_the_last_one_before_it_left(tmp_path: Path) -> None:
    states = SlotStates(tmp_path)
    assert states.read(3, 0) is None
    states.write(3, 4, b"four")
    states.write(3, 9, b"nine")
    assert [states.read(3, batch) for batch in (4, 5, 9, 10)] == [None, b"four", b"four", b"nine"]
    assert states.read(2, 10) is None


def test_a_batch_that_runs_again_finds_what_it_found_before(tmp_path: Path) -> None:
    states = SlotStates(tmp_path)
    states.write(0, 1, b"one")
    states.write(0, 2, b"torn")
    again = SlotStates(tmp_path)
    assert again.read(0, 2) == b"one"
    again.write(0, 2, b"two")
    assert (again.read(0, 2), again.read(0, 3)) == (b"one", b"two")


def test_what_no_batch_can_find_any_more_is_removed(tmp_path: Path) -> None:
    states = SlotStates(tmp_path)
    for batch in range(10):
        states.write(0, batch, b"")
    assert files(tmp_path) == ["0/8.state", "0/9.state"]


def test_a_write_that_did_not_end_is_no_state(tmp_path: Path) -> None:
    states = SlotStates(tmp_path)
    states.write(0, 1, b"one")
    (tmp_path / "0" / "2.4711").write_bytes(b"tw")
    assert states.read(0, 3) == b"one"


TOPICS = st.sampled_from(
    [CONTROL.name, CLOCK.name, REGROUP.name, wal_topic("d", "meters"), wal_topic("d", "ä")]
)


@given(st.lists(st.tuples(TOPICS, st.none() | st.binary(max_size=3))), st.integers(1, 5))
def test_each_message_goes_to_its_slot(keyed: list[tuple[str, bytes | None]], slots: int) -> None:
    messages = Messages.of([(topic, 0, place, 0, key, b"") for place, (topic, key) in enumerate(keyed)])
    found = {slot: sorted(mine.offset.tolist()) for slot, mine in by_slot(messages, slots)}
    wanted: dict[int, list[int]] = {}
    for place, (topic, key) in enumerate(keyed):
        name = {wal_topic("d", "meters"): b"meters", wal_topic("d", "ä"): "ä".encode()}.get(topic, b"")
        one = [slot_of(topic, name if key is None else key, slots)]
        for slot in range(slots) if topic in (CONTROL.name, CLOCK.name) else one:
            wanted.setdefault(slot, []).append(place)
    assert found == wanted


def test_how_many_messages_a_batch_spans(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    folder.mkdir()
    ends = {0: {"clock": {"0": 4}}, 1: {"clock": {"0": 6}, "wal.d.t": {"0": 5, "1": 0}}}
    for batch, offsets in ends.items():
        (folder / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offsets)}")
    assert [messages_in(tmp_path, batch) for batch in (0, 1)] == [4, 7]
    with pytest.raises(FileNotFoundError):
        messages_in(tmp_path, 2)


def test_messages_keep_their_columns() -> None:
    messages = Messages.of([(CLOCK.name, 1, 7, 99, None, b"x")])
    ((_, mine),) = by_slot(messages, 1)
    assert (mine.topic_of(0), mine.key_of(0), mine.value) == (CLOCK.name, None, [b"x"])
    assert np.concatenate((mine.partition, mine.offset, mine.timestamp)).tolist() == [1, 7, 99]


@pytest.mark.parametrize("long", [0.1, 60.0])
def test_a_rest_ends_with_news_or_when_it_is_told(long: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trigger_svc.rest.LONG", long)
    log = MemoryLog()
    log.ensure_topics([CONTROL, CLOCK])
    log.append([Message(CLOCK.name, None, b"{}")])
    rest = Rest(log)
    ended: list[int] = []

    def resting(number: int, clock: int) -> threading.Thread:
        def run() -> None:
            rest.until_news({CONTROL.name: {0: 0}, CLOCK.name: {0: clock}})
            ended.append(number)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    resting(1, 0).join(10)
    assert ended == [1], "there was news already"
    second = resting(2, 1)
    second.join(0.5)
    assert second.is_alive()
    log.append([Message(CONTROL.name, None, b"{}")])
    second.join(10)
    assert ended == [1, 2]
    rest.end()
    resting(3, 1).join(10)
    assert ended == [1, 2, 3]
    rest.close()


def test_the_query_does_not_rest_when_the_clock_has_ticked(tmp_path: Path) -> None:
    log = MemoryLog()
    log.ensure_topics([CONTROL, CLOCK])
    rest = Rest(log)
    ticked = [6]
    settings = TriggerSettings(data_dir=tmp_path, slots=2)
    (settings.checkpoint / "offsets").mkdir(parents=True)
    for batch in range(2):
        offsets = json.dumps({CONTROL.name: {"0": 0}, CLOCK.name: {"0": 5 + batch}})
        (settings.checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offsets}")
    batches = Batches(settings, log, rest, lambda: ticked[0])
    batches.rests = True
    frame: Any = Frame()
    batches(frame, 0)
    assert not batches.rested
    ticked[0] = 5
    rest.end()
    batches(frame, 1)
    assert list(batches.rested) == [1]
    rest.close()


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


class Frame:
    """A micro-batch of one tick, as Spark gives it."""

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's own name
        tick = control.encode(control.Tick(1))
        return pa.table(
            {"topic": [CLOCK.name], "partition": [0], "offset": [4], "timestamp": [1]}
            | {"key": pa.array([None], pa.binary()), "value": [tick]}
        )

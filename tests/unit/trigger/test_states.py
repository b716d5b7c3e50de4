"""The files that hold the slots' states, and how a batch is divided among the slots."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.trigger.rows import Messages
from millrace_core.trigger.slot import Slot
from millrace_core.wire import control, status
from millrace_core.wire.topics import CLOCK, CONTROL, REGROUP, STATUS, slot_of, wal_topic
from millrace_wal import MemoryLog, Message, replay
from trigger_svc.batches import SMALL_BYTES, Batches, Lengths, by_slot
from trigger_svc.rest import Rest
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.checkpoint import mend, messages_in, next_batch
from trigger_svc.states import SlotStates, StateError
from trigger_svc.usable import Usable


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def blob(slot: int, slots: int = 4, text: str = "") -> bytes:
    """The state of a slot that has seen a control record; ``text``: something that tells it from others."""
    found = Slot(slot, slots)
    found.contents.failed = {1: text}
    return found.snapshot()


def begun(folder: Path) -> SlotStates:
    """Behind the first batch, which has changed nothing."""
    states = SlotStates(folder, 4)
    states.seal(0)
    return states


def done(states: SlotStates, batch: int, *slots: int, text: str = "") -> None:
    """A batch that changes these slots."""
    for slot in slots:
        states.write(slot, batch, blob(slot, text=text or f"of batch {batch}"))
    states.seal(batch)


def text_of(state: bytes | None) -> str | None:
    return None if state is None else Slot.restore(state).contents.failed[1]


def test_a_batch_finds_what_the_last_one_before_it_left(tmp_path: Path) -> None:
    states = begun(tmp_path)
    assert states.read(3, 0) is None
    done(states, 4, 3)
    assert text_of(states.read(3, 5)) == "of batch 4"
    done(states, 9, 3)
    assert [text_of(states.read(3, batch)) for batch in (9, 10)] == ["of batch 4", "of batch 9"]
    assert states.read(2, 10) is None


def test_a_batch_that_runs_again_finds_what_it_found_before(tmp_path: Path) -> None:
    states = begun(tmp_path)
    done(states, 1, 0, 1)
    states.write(0, 2, blob(0, text="left by a run that did not end"))
    again = SlotStates(tmp_path, 4)
    again.check(2)
    assert text_of(again.read(0, 2)) == "of batch 1"
    done(again, 2, 1)
    assert [text_of(again.read(slot, 3)) for slot in (0, 1)] == ["of batch 1", "of batch 2"]
    done(again, 2, 0, 1, text="once more")
    assert [text_of(again.read(slot, 3)) for slot in (0, 1)] == ["once more", "once more"]


def test_what_no_batch_can_find_any_more_is_removed(tmp_path: Path) -> None:
    states = SlotStates(tmp_path, 4)
    for batch in range(10):
        done(states, batch, 0, *([1] if batch == 3 else []))
    assert files(tmp_path) == ["0/8.state", "0/9.state", "1/3.state", "8.slots", "9.slots"]
    assert text_of(states.read(1, 10)) == "of batch 3"


def test_a_write_that_did_not_end_is_no_state(tmp_path: Path) -> None:
    states = begun(tmp_path)
    done(states, 1, 0)
    (tmp_path / "0" / "2.4711").write_bytes(b"tw")
    states.check(2)
    assert text_of(states.read(0, 3)) == "of batch 1"
    assert files(tmp_path) == ["0.slots", "0/1.state", "1.slots"]


def test_a_batch_that_changes_nothing_leaves_no_list_but_the_first(tmp_path: Path) -> None:
    states = SlotStates(tmp_path, 4)
    for batch in range(3):
        states.seal(batch)
    assert files(tmp_path) == ["0.slots"]
    assert states.before(3).batches == [None] * 4


def damaged(folder: Path, wound: str) -> None:
    newest = folder / "2" / "8.state"
    match wound:
        case "missing":
            newest.unlink()
        case "the folder":
            shutil.rmtree(folder / "2")
        case "empty":
            newest.write_bytes(b"")
        case "truncated":
            newest.write_bytes(newest.read_bytes()[:-1])
        case "head":
            newest.write_bytes(newest.read_bytes()[:5])
        case "a bit":
            content = bytearray(newest.read_bytes())
            content[-3] ^= 4
            newest.write_bytes(content)
        case "another slot's":
            shutil.copy(folder / "1" / "8.state", newest)
        case "an older one":
            shutil.copy(folder / "2" / "7.state", newest)
        case "a newer head":
            content = bytearray(newest.read_bytes())
            content[4] = 99
            newest.write_bytes(content)


WOUNDS = {
    "missing": "8.state, the state of slot 2, is missing", "the folder": "the state of slot 2, is missing",
    "empty": "is damaged: ", "truncated": "is damaged: ", "head": "is damaged: 5 bytes",
    "a bit": "is damaged: ", "another slot's": "is damaged: ", "an older one": "is damaged: ",
    "a newer head": "has version 99, this Millrace reads version 1",
}  # fmt: skip


@pytest.mark.parametrize("wound", WOUNDS)
def test_a_damaged_state_is_an_error_that_says_what_to_do(tmp_path: Path, wound: str) -> None:
    states = begun(tmp_path / "slots")
    for batch in (7, 8):
        done(states, batch, 0, 1, 2, 3)
    damaged(tmp_path / "slots", wound)
    for look in (lambda: states.check(9), lambda: states.read(2, 9)):
        with pytest.raises(StateError, match="let trigger-svc begin anew") as caught:
            look()
        assert WOUNDS[wound] in str(caught.value) and str(tmp_path) in str(caught.value)
    assert text_of(states.read(1, 9)) == "of batch 8", "the others are as they were"


@pytest.mark.parametrize("slots", [2, 8])
def test_another_number_of_slots_is_an_error_that_names_both(tmp_path: Path, slots: int) -> None:
    done(begun(tmp_path), 3, 0, 3)
    with pytest.raises(StateError, match=f"MILLRACE_SLOTS is {slots}, but the states .* are of 4 slots"):
        SlotStates(tmp_path, slots).check(4)


def test_states_of_another_time_than_the_checkpoint_are_an_error(tmp_path: Path) -> None:
    states = SlotStates(tmp_path / "slots", 4)
    with pytest.raises(StateError, match="the query's checkpoint is at micro-batch 5, but there are no"):
        states.check(5)
    states.seal(0)
    done(states, 6, 0)
    with pytest.raises(StateError, match="of micro-batch 6, the query's checkpoint is at 5"):
        states.check(5)
    states.check(6)
    assert states.before(6).batches == [None] * 4


def test_a_damaged_list_is_an_error(tmp_path: Path) -> None:
    states = begun(tmp_path)
    done(states, 6, 0)
    (tmp_path / "6.slots").write_text((tmp_path / "6.slots").read_text().replace("null", "6"))
    with pytest.raises(StateError, match=r"6\.slots is damaged"):
        states.check(7)


@pytest.mark.parametrize("content", [b"", b"\x06", b"\x05" * 40, b"{}" * 20])
def test_a_state_without_a_head_must_be_readable(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "3.state").write_bytes(content)
    with pytest.raises(StateError, match=r"3\.state is damaged"):
        SlotStates(tmp_path, 4).check(4)


def test_states_from_before_heads_and_lists_are_taken_over(tmp_path: Path) -> None:
    for slot, batches in ((0, (2, 5)), (3, (4,))):
        (tmp_path / str(slot)).mkdir()
        for batch in batches:
            (tmp_path / str(slot) / f"{batch}.state").write_bytes(blob(slot, text=f"of batch {batch}"))
    with pytest.raises(StateError, match=r"MILLRACE_SLOTS is 3, but the states .* are of more than 3 slots"):
        SlotStates(tmp_path, 3).check(6)
    with pytest.raises(StateError, match=r"MILLRACE_SLOTS is 8, but the states .* are of 4 slots"):
        SlotStates(tmp_path, 8).check(6)
    states = SlotStates(tmp_path, 4)
    assert text_of(states.read(0, 5)) == "of batch 2", "batch 5 runs again"
    done(states, 6, 0)
    found = [text_of(states.read(slot, 7)) for slot in range(4)]
    assert found == ["of batch 6", None, None, "of batch 4"]


def test_what_is_promised_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file before it gets its name, and the folder behind."""
    told: list[str] = []

    def synced(handle: int) -> None:
        told.append(Path(f"/proc/self/fd/{handle}").readlink().name.split(".")[0])

    states = begun(tmp_path / "slots")
    monkeypatch.setattr(os, "fsync", synced)
    states.write(1, 7, blob(1))
    assert told == ["7", "1", "slots"], "the folder was made"
    del told[:]
    states.seal(7)
    assert told == ["7", "slots"]


# ---------------------------------------------------------------------------------------- the checkpoint


def planned(checkpoint: Path, batches: int, committed: int) -> None:
    plan, commit = 'v1\n{}\n{"clock":{"0":7}}', "v1\n{}"
    for what, count, text in (("offsets", batches, plan), ("commits", committed, commit)):
        (checkpoint / what).mkdir(parents=True)
        for batch in range(count):
            (checkpoint / what / str(batch)).write_text(text)


@pytest.mark.parametrize(("batches", "committed", "follows"), [(0, 0, 0), (3, 3, 3), (3, 2, 2), (1, 0, 0)])
def test_which_batch_runs_next(tmp_path: Path, batches: int, committed: int, follows: int) -> None:
    planned(tmp_path, batches, committed)
    assert next_batch(tmp_path) == follows


def test_what_a_power_failure_left_half_written_runs_again(tmp_path: Path) -> None:
    planned(tmp_path, 5, 4)
    (tmp_path / "offsets" / "4").write_text("")
    (tmp_path / "commits" / "3").write_text("v1")
    assert [path.name for path in mend(tmp_path)] == ["3", "4"]
    assert (next_batch(tmp_path), mend(tmp_path)) == (3, [])


def test_damaged_offsets_are_an_error(tmp_path: Path) -> None:
    planned(tmp_path, 5, 5)
    for text in ("", 'v1\n{}\n{"clock":{"0":'):
        (tmp_path / "offsets" / "3").write_text(text)
        assert not mend(tmp_path)
        with pytest.raises(StateError, match="offsets/3 is damaged"):
            next_batch(tmp_path)


def test_a_query_that_cannot_start_says_why_until_it_can(tmp_path: Path) -> None:
    settings = TriggerSettings(data_dir=tmp_path, slots=4)
    planned(settings.checkpoint, 3, 3)
    log = MemoryLog()
    log.ensure_topics([STATUS])
    stopping = threading.Event()
    usable = Usable(settings, log, structlog.get_logger("test"), stopping)
    waiting = threading.Thread(target=usable.wait, args=(0.01,))
    waiting.start()
    until = time.monotonic() + 10
    while not log.end_offsets(STATUS.name)[0]:
        assert time.monotonic() < until
    (record,) = replay(log, STATUS.name)
    news = status.decode(record.value or b"")
    assert isinstance(news, status.Problem) and news.everything
    assert "there are no slots' states" in news.message
    assert usable.problem == news.message
    begun(settings.slot_states)
    waiting.join(10)
    assert not waiting.is_alive() and not usable.problem
    assert [one.value is None for one in replay(log, STATUS.name)] == [False, True]


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

"""The files that hold the slots' states, and how a batch is divided among the slots."""

from __future__ import annotations

import os
import shutil
import threading
import time
import zlib
from pathlib import Path

import msgspec
import numpy as np
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.errors import MillraceError
from millrace_core.trigger.rows import Messages
from millrace_core.trigger.slot import Slot
from millrace_core.wire import status
from millrace_core.wire.topics import CLOCK, CONTROL, REGROUP, STATUS, slot_of, wal_topic
from millrace_core.wire.topics import TOPICS as ALL_TOPICS
from millrace_wal import MemoryLog, replay
from trigger_svc.evaluator import Evaluator
from trigger_svc.ledger.cuts import Cut, Cuts
from trigger_svc.ledger.states import Generation, SlotStates, StateError, write_durably
from trigger_svc.messages import by_slot
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.checkpoint import ends_behind, forget
from trigger_svc.usable import Usable


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def blob(slot: int, slots: int = 4, text: str = "") -> bytes:
    """The state of a slot that has seen a control record; ``text``: something that tells it from others."""
    found = Slot(slot, slots)
    found.contents.failed = {1: text}
    return found.snapshot()


def begun(folder: Path) -> SlotStates:
    """Behind the first generation, which has changed nothing."""
    states = SlotStates(folder, 4)
    states.seal(states.latest(), 0, {})
    return states


def done(states: SlotStates, number: int, *slots: int, text: str = "") -> Generation:
    """A generation that changes these slots."""
    before = states.latest()
    for slot in slots:
        states.write(slot, number, blob(slot, text=text or f"of {number}"), before)
    return states.seal(before, number, {"clock": {0: number}})


def text_of(state: bytes | None) -> str | None:
    return None if state is None else Slot.restore(state).contents.failed[1]


def test_what_was_sealed_last_is_found(tmp_path: Path) -> None:
    states = begun(tmp_path)
    assert states.read(3, states.latest()) is None
    first = done(states, 4, 3)
    second = done(states, 9, 3)
    found = [text_of(states.read(3, one)) for one in (first, second, states.latest())]
    assert found == ["of 4", "of 9", "of 9"]
    assert states.read(2, second) is None
    assert (states.latest().number, states.latest().positions) == (9, {"clock": {0: 9}})


def test_what_was_not_sealed_is_not_found(tmp_path: Path) -> None:
    states = begun(tmp_path)
    done(states, 1, 0, 1)
    states.write(0, 2, blob(0, text="left by a run that did not end"), states.latest())
    again = SlotStates(tmp_path, 4)
    found = again.check()
    assert (found.number, text_of(again.read(0, found))) == (1, "of 1")
    second = done(again, 2, 1)
    assert [text_of(again.read(slot, second)) for slot in (0, 1)] == ["of 1", "of 2"]


def test_what_is_listed_outlives_any_number_of_runs_that_do_not_end(tmp_path: Path) -> None:
    states = begun(tmp_path)
    listed = done(states, 1, 0)
    for number in (2, 3, 4):
        states.write(0, number, blob(0, text="left behind"), listed)
        assert text_of(SlotStates(tmp_path, 4).read(0, SlotStates(tmp_path, 4).latest())) == "of 1"


def test_what_nobody_can_find_any_more_is_removed(tmp_path: Path) -> None:
    states = SlotStates(tmp_path, 4)
    for number in range(10):
        done(states, number, 0, *([1] if number == 3 else []))
    assert files(tmp_path) == ["0/8.state", "0/9.state", "1/3.state", "8.slots", "9.slots"]
    assert text_of(states.read(1, states.latest())) == "of 3"


def test_a_write_that_did_not_end_is_no_state(tmp_path: Path) -> None:
    states = begun(tmp_path)
    done(states, 1, 0)
    (tmp_path / "0" / "2.4711").write_bytes(b"tw")
    assert text_of(states.read(0, states.check())) == "of 1"
    assert files(tmp_path) == ["0.slots", "0/1.state", "1.slots"]


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
    "empty": "is damaged: ", "truncated": "is damaged: ", "head": "is damaged: it has only 5 bytes",
    "a bit": "is damaged: ", "another slot's": "is damaged: ", "an older one": "is damaged: ",
    "a newer head": "has version 99, but this Millrace reads version 1",
}  # fmt: skip


@pytest.mark.parametrize("wound", WOUNDS)
def test_a_damaged_state_is_an_error_that_says_what_to_do(tmp_path: Path, wound: str) -> None:
    states = begun(tmp_path / "slots")
    for batch in (7, 8):
        done(states, batch, 0, 1, 2, 3)
    damaged(tmp_path / "slots", wound)
    for look in (states.check, lambda: states.read(2, states.latest())):
        with pytest.raises(StateError, match="let trigger-svc start afresh") as caught:
            look()
        assert WOUNDS[wound] in str(caught.value) and str(tmp_path) in str(caught.value)
    assert text_of(states.read(1, states.latest())) == "of 8", "the others are as they were"


@pytest.mark.parametrize("slots", [2, 8])
def test_another_number_of_slots_is_an_error_that_names_both(tmp_path: Path, slots: int) -> None:
    done(begun(tmp_path), 3, 0, 3)
    with pytest.raises(
        StateError,
        match=f"MILLRACE_SLOTS is {slots}, but .* were written for 4 slots, .*: set MILLRACE_SLOTS to 4, or",
    ):
        SlotStates(tmp_path, slots).check()


def test_a_damaged_list_is_an_error(tmp_path: Path) -> None:
    states = begun(tmp_path)
    done(states, 6, 0)
    (tmp_path / "6.slots").write_text((tmp_path / "6.slots").read_text().replace("null", "6"))
    with pytest.raises(StateError, match=r"6\.slots is damaged"):
        states.check()


@pytest.mark.parametrize("content", [b"", b"\x06", b"\x05" * 40, b"{}" * 20])
def test_a_state_without_a_head_must_be_readable(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "3.state").write_bytes(content)
    with pytest.raises(StateError, match=r"3\.state is damaged"):
        SlotStates(tmp_path, 4).check()


def test_states_from_before_heads_and_lists_are_taken_over(tmp_path: Path) -> None:
    for slot, batches in ((0, (2, 5)), (3, (4,))):
        (tmp_path / str(slot)).mkdir()
        for batch in batches:
            (tmp_path / str(slot) / f"{batch}.state").write_bytes(blob(slot, text=f"of batch {batch}"))
    with pytest.raises(
        StateError, match=r"MILLRACE_SLOTS is 3, but the states .* were written for more than 3 slots"
    ):
        SlotStates(tmp_path, 3).check()
    with pytest.raises(StateError, match=r"MILLRACE_SLOTS is 8, but the states .* were written for 4 slots"):
        SlotStates(tmp_path, 8).check()
    states = SlotStates(tmp_path, 4)
    assert (states.latest().number, states.latest().positions) == (5, None)
    found = done(states, 6, 0)
    assert [text_of(states.read(slot, found)) for slot in range(4)] == ["of 6", None, None, "of batch 4"]


def test_what_is_promised_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file before it gets its name, and the folder behind."""
    told: list[str] = []

    def synced(handle: int) -> None:
        told.append(Path(f"/proc/self/fd/{handle}").readlink().name.split(".")[0])

    states = begun(tmp_path / "slots")
    monkeypatch.setattr(os, "fsync", synced)
    before = states.latest()
    states.write(1, 7, blob(1), before)
    assert told == ["7", "1", "slots"], "the folder was made"
    del told[:]
    states.seal(before, 7, {})
    assert told == ["7", "slots"]


# ------------------------------------------------------------------------------------- Spark's checkpoint


def planned(checkpoint: Path, batch: int, text: str) -> None:
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch)).write_text(text)
    forget()


def test_up_to_where_a_batch_reads(tmp_path: Path) -> None:
    planned(tmp_path, 3, 'v1\n{}\n{"clock":{"0":7},"wal.d.t":{"0":5,"1":0}}')
    assert ends_behind(tmp_path, 3) == {"clock": {0: 7}, "wal.d.t": {0: 5, 1: 0}}


@pytest.mark.parametrize("text", ["", 'v1\n{}\n{"clock":{"0":', 'v2\n{}\n{"clock":{"0":7}}', "v1\n{}"])
def test_offsets_that_are_not_understood_are_an_error(tmp_path: Path, text: str) -> None:
    planned(tmp_path, 3, text)
    for batch in (3, 4):
        with pytest.raises(MillraceError, match=f"offsets/{batch} does not contain"):
            ends_behind(tmp_path, batch)


def old_states(settings: TriggerSettings, positions: str) -> Evaluator:
    """States of a version that left positions to Spark's checkpoint."""
    states = SlotStates(settings.slot_states, settings.slots)
    states.write(1, 6, blob(1, text="of 6"), states.latest())
    kept = msgspec.json.encode({"slots": 4, "batches": [None, 6, None, None], "version": 1})
    write_durably(settings.slot_states / "6.slots", b"%s\n%08x\n" % (kept, zlib.crc32(kept)))
    planned(settings.checkpoint, 6, f"v1\n{{}}\n{positions}")
    log = MemoryLog()
    log.ensure_topics(ALL_TOPICS)
    return Evaluator(settings, log, structlog.get_logger("test"))


def test_positions_that_only_the_checkpoint_had_are_taken_over(tmp_path: Path) -> None:
    settings = TriggerSettings(data_dir=tmp_path, slots=4)
    evaluator = old_states(settings, '{"clock":{"0":7},"control":{"0":2}}')
    evaluator.ready()
    assert (evaluator.positions["clock"], evaluator.positions["control"]) == ({0: 7}, {0: 2})
    evaluator.close()
    shutil.rmtree(settings.checkpoint)
    forget()
    found = SlotStates(settings.slot_states, 4).latest()
    assert found.positions is not None and found.positions["clock"] == {0: 7}
    assert text_of(SlotStates(settings.slot_states, 4).read(1, found)) == "of 6"


def test_positions_that_spark_has_forgotten_are_those_of_the_next_batch(tmp_path: Path) -> None:
    """What came between has changed no state."""
    settings = TriggerSettings(data_dir=tmp_path, slots=4)
    evaluator = old_states(settings, '{"clock":{"0":7}}')
    (settings.checkpoint / "offsets" / "6").unlink()
    for batch in (11, 9, 5):
        planned(settings.checkpoint, batch, f'v1\n{{}}\n{{"clock":{{"0":{batch}}}}}')
    evaluator.ready()
    assert evaluator.positions["clock"] == {0: 9}
    evaluator.close()


def test_states_whose_positions_are_lost_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    evaluator = old_states(TriggerSettings(data_dir=tmp_path, slots=4), "nonsense")
    with pytest.raises(StateError, match=r"offsets/6 does not contain .* let trigger-svc start afresh"):
        evaluator.ready()
    evaluator.close()
    log = MemoryLog()
    log.ensure_topics([STATUS])
    stopping = threading.Event()
    usable = Usable(TriggerSettings(data_dir=tmp_path, slots=4), log, structlog.get_logger("test"), stopping)
    stopping.wait = lambda timeout=None: bool(stopping.set())  # type: ignore[method-assign,assignment]
    usable.wait()
    assert "offsets/6 does not contain" in usable.problem, "it is told before anything begins"


def test_a_journal_tells_how_the_log_was_cut(tmp_path: Path) -> None:
    cuts = Cuts(tmp_path)
    told = [Cut({"wal.d.t": {0: end}}) for end in range(5)]
    cuts.begin(3)
    for cut in told[:2]:
        cuts.add(cut)
    with (tmp_path / "3.cuts").open("ab") as file:
        file.write(b'{"ends":{"wal.d.t')  # a crash
    cuts.begin(3)
    cuts.add(told[2])
    cuts.begin(7)
    cuts.add(told[3])
    assert (cuts.since(3), cuts.since(4)) == (told[:4], told[3:4])
    cuts.forget_before(7)
    assert cuts.since(0) == told[3:4]
    cuts.close()


def test_a_query_that_cannot_start_says_why_until_it_can(tmp_path: Path) -> None:
    settings = TriggerSettings(data_dir=tmp_path, slots=4)
    done(begun(settings.slot_states), 3, 2)
    kept = settings.slot_states / "2" / "3.state"
    whole = kept.read_bytes()
    kept.unlink()
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
    assert "the state of slot 2, is missing" in news.message
    assert usable.problem == news.message
    kept.write_bytes(whole)
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


def test_messages_keep_their_columns() -> None:
    messages = Messages.of([(CLOCK.name, 1, 7, 99, None, b"x")])
    ((_, mine),) = by_slot(messages, 1)
    assert (mine.topic_of(0), mine.key_of(0), mine.value) == (CLOCK.name, None, [b"x"])
    assert np.concatenate((mine.partition, mine.offset, mine.timestamp)).tolist() == [1, 7, 99]

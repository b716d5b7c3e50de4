"""Which topics the trigger query reads: what control records say of it, and what the checkpoint is told."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Table
from millrace_core.model.stream import Output, StreamSpec
from millrace_core.trigger.topic_use import TopicUse, one_of
from millrace_core.wire import control
from millrace_core.wire.topics import CONTROL, WAL_PREFIX, wal_topic
from millrace_service import Life
from millrace_wal import MemoryLog, Message
from trigger_svc.batches import Batches, BeginAgain
from trigger_svc.rest import Rest
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.checkpoint import begin_at, ends_behind, not_read
from trigger_svc.spark.query import topics
from trigger_svc.topic_choice import TopicChoice

SOURCE = wal_topic("d", "meters")


def writes(spec: StreamSpec, table: str) -> StreamSpec:
    return msgspec.structs.replace(spec, output=Output("d", table))


def told(*records: control.AnyControl) -> TopicUse:
    use = TopicUse()
    for record in records:
        use.apply(record)
    return use


def output(number: int) -> str:
    return wal_topic("d", f"out{number}")


# -- what the records say ------------------------------------------------------------------------------------


def test_an_output_that_no_stream_triggers_on_is_needless(kit: Any) -> None:
    first = control.DefineStream(writes(kit.stream(1), "out1"), {0: 5})
    middle = Table("d", "out1", "normal", 9, "ms", kit.METERS.columns)
    second = control.DefineStream(writes(kit.stream(2, table=middle, partition=()), "out2"), {0: 3})
    assert told(first).needless == {output(1)}
    assert told(first, second).needless == {output(2)}
    assert told(first, second).wanted == {SOURCE: {0: 5}, output(1): {0: 3}}
    assert told(first, second, control.StopStream(2)).needless == {output(2)}, "it may start again"
    assert told(first, second, control.DropStream(2)).needless == {output(1), output(2)}
    assert told(first, control.DropTable(9, output(1))).needless == set()


def test_a_stream_on_a_virtual_table_wants_what_that_is_made_of(kit: Any) -> None:
    first = control.DefineStream(writes(kit.stream(1), "out1"), {0: 5})
    virtual = control.DefineStream(kit.stream(2), {0: 0}, origins={output(1): {0: 4, 1: 2}})
    assert told(first, virtual).needless == set()
    more = control.KnowOrigins(0, 2, kit.METERS, (), {output(1): {0: 6, 1: 1}, output(3): {0: 1}}, ())
    third = control.DefineStream(writes(kit.stream(3), "out3"), {0: 9})
    found = told(first, third, virtual, more)
    assert (found.needless, found.wanted[output(1)]) == (frozenset(), {0: 4, 1: 1})
    assert told(first, third, virtual, more, control.DropStream(2)).needless == {output(1), output(3)}


def test_a_topic_begins_where_the_first_of_its_streams_does(kit: Any) -> None:
    streams = [control.DefineStream(kit.stream(uid), {0: 10 - uid, 1: uid}) for uid in (1, 2)]
    assert told(*streams).wanted == {SOURCE: {0: 8, 1: 1}}
    assert told(control.DefineStream(kit.stream(1), {}), streams[1]).wanted == {SOURCE: {0: 0, 1: 0}}


NAMES = st.text(st.sampled_from("ab.-_|(9"), max_size=6)


@given(st.sets(NAMES, min_size=1), st.sets(NAMES))
def test_a_pattern_matches_its_words_and_no_others(words: set[str], others: set[str]) -> None:
    pattern = re.compile(one_of(words))
    assert {word for word in words | others if pattern.fullmatch(word)} == words


def test_what_the_query_reads() -> None:
    def read(*left_out: str) -> list[str]:
        there = [wal_topic("d", name) for name in ("out", "out1", "out12", "ä")] + [CONTROL.name, "triggers"]
        pattern = re.compile(topics(left_out))
        return [topic.removeprefix(WAL_PREFIX) for topic in there if pattern.match(topic)]

    assert read() == ["d.out", "d.out1", "d.out12", "d.-c3-a4", "control"]
    assert read(output(1)) == ["d.out", "d.out12", "d.-c3-a4", "control"]
    assert read(wal_topic("d", "ä"), output(12), wal_topic("d", "out")) == ["d.out1", "control"]


# -- the checkpoint ------------------------------------------------------------------------------------------


def checkpoint(folder: Path, *batches: Mapping[str, Mapping[str, int]]) -> Path:
    (folder / "offsets").mkdir(parents=True)
    for number, ends in enumerate(batches):
        (folder / "offsets" / str(number)).write_text(f'v1\n{{"a":1}}\n{json.dumps(ends)}')
        (folder / "offsets" / f".{number}.crc").write_bytes(b"sum")
    return folder


def test_a_topic_begins_behind_the_last_batch_and_the_one_before(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, *({"clock": {"0": batch}} for batch in range(3)))
    assert ends_behind(folder, 2) == {"clock": {0: 2}}
    assert not_read(folder, ["clock", "wal.d.a"]) == {"wal.d.a"}
    begin_at(folder, {"wal.d.a": {0: 7, 1: 0}})
    assert not_read(folder, ["clock", "wal.d.a"]) == set()
    assert ends_behind(folder, 0) == {"clock": {0: 0}}
    for batch in (1, 2):
        assert ends_behind(folder, batch) == {"clock": {0: batch}, "wal.d.a": {0: 7, 1: 0}}
        assert (folder / "offsets" / str(batch)).read_text().startswith('v1\n{"a":1}\n{"clock"')
    # the sums would be wrong
    assert sorted(path.name for path in (folder / "offsets").iterdir()) == [".0.crc", "0", "1", "2"]


def test_before_the_first_batch_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert not_read(tmp_path, ["clock"]) == set()
    begin_at(tmp_path, {})
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "4").write_text("nonsense")
    with pytest.raises(MillraceError, match=r"offsets/4 .* damaged") as caught:
        not_read(tmp_path, ["clock"])
    assert caught.value.code is ErrorCode.INTERNAL


# -- the choice ------------------------------------------------------------------------------------------


class Rig:
    """A choice on a log; a query that has read the source table."""

    def __init__(self, folder: Path, most: int) -> None:
        self.log = MemoryLog()
        self.log.ensure_topics([CONTROL, (SOURCE, 1), *((output(number), 1) for number in range(1, 5))])
        self.log.append([Message(output(1), b"c", b"{}")] * 4)
        self.checkpoint = checkpoint(folder, {SOURCE: {"0": 0}})
        self.changed = threading.Event()
        logger = structlog.get_logger("test")
        self.choice = TopicChoice(self.log, self.checkpoint, most, logger, self.changed.set)
        self.life = Life(self.choice, logger)

    def tell(self, *records: control.AnyControl) -> None:
        self.log.append([Message(CONTROL.name, b"", control.encode(record)) for record in records])

    def changes(self) -> bool:
        found = self.changed.wait(5)
        self.changed.clear()
        return found


def test_the_query_begins_again_when_a_stream_wants_what_was_left_out(tmp_path: Path, kit: Any) -> None:
    rig = Rig(tmp_path, 100)
    rig.log.append([Message(CONTROL.name, None, b"nonsense"), Message(CONTROL.name, b"k", None)])
    rig.tell(control.DefineStream(writes(kit.stream(1), "out1"), {0: 0}))
    assert rig.choice.choose() == {output(1)}
    rig.life.start()
    rig.life.start()
    middle = Table("d", "out1", "normal", 9, "ms", kit.METERS.columns)
    rig.tell(control.DefineStream(writes(kit.stream(2, table=middle, partition=()), "out2"), {0: 3}))
    assert rig.changes()
    assert rig.choice.choose() == {output(2)}
    assert ends_behind(rig.checkpoint, 0) == {SOURCE: {0: 0}, output(1): {0: 3}}
    rig.life.stop()


def test_the_query_begins_again_when_it_reads_too_much_that_nobody_wants(tmp_path: Path, kit: Any) -> None:
    rig = Rig(tmp_path, 1)
    assert rig.choice.choose() == set()
    rig.choice.begin()
    rig.tell(control.DefineStream(writes(kit.stream(1), "out1"), {0: 0}))
    rig.choice.step()
    assert not rig.changed.is_set()
    rig.tell(control.DefineStream(writes(kit.stream(2), "out2"), {0: 0}))
    rig.choice.step()
    assert rig.changes()
    assert rig.choice.choose() == {output(1), output(2)}
    rig.tell(control.DropStream(1), control.DropTable(9, output(2)))
    rig.choice.step()
    assert not rig.changed.is_set(), "who is left out and gone does no harm"
    assert rig.choice.choose() == {output(1)}
    rig.choice.end()


def test_a_topic_that_is_not_as_its_streams_knew_it_is_read_from_its_beginning(
    tmp_path: Path, kit: Any
) -> None:
    rig = Rig(tmp_path, 100)
    for uid, (name, live_from) in enumerate([("out1", {0: 9}), ("out2", {0: 0, 1: 0}), ("gone", {0: 1})]):
        table = Table("d", name, "normal", 20 + uid, "ms", kit.METERS.columns)
        rig.tell(control.DefineStream(kit.stream(uid + 1, table=table, partition=()), live_from))
    rig.choice.choose()
    assert ends_behind(rig.checkpoint, 0) == {SOURCE: {0: 0}, output(1): {0: 4}}


def test_no_batch_is_judged_once_the_query_is_to_begin_again(tmp_path: Path) -> None:
    settings = TriggerSettings(data_dir=tmp_path, slots=2)
    rest = Rest(MemoryLog())
    batches = Batches(settings, MemoryLog(), rest)
    batches.leaves = True
    frame: Any = None
    with pytest.raises(BeginAgain):
        batches(frame, 3)
    rest.close()

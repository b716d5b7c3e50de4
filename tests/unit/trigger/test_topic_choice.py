"""Which topics the trigger query reads: what control records say of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.model.schema import Table
from millrace_core.model.stream import Output, StreamSpec
from millrace_core.trigger.topic_use import TopicUse, one_of
from millrace_core.wire import control
from millrace_core.wire.topics import CONTROL, TOPICS, WAL_PREFIX, wal_topic
from millrace_service import Lives
from millrace_wal import MemoryLog, Message
from trigger_svc.batches import Batches, BeginAgain
from trigger_svc.engine import Engine
from trigger_svc.evaluator import Evaluator
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.query import topics

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


# -- when the query begins again ----------------------------------------


def engine(folder: Path, most: int) -> Engine:
    logger = structlog.get_logger("test")
    settings = TriggerSettings(data_dir=folder, trigger_needless_topics=most)
    return Engine(settings, MemoryLog(), logger, Lives(logger, 30))


def test_the_query_begins_again_when_a_stream_wants_what_was_left_out(tmp_path: Path, kit: Any) -> None:
    one = engine(tmp_path, 100)
    use = one.evaluator.use
    use.apply(control.DefineStream(writes(kit.stream(1), "out1"), {0: 0}))
    one._left_out = use.needless
    assert one._left_out == {output(1)} and not one._needs_others()
    middle = Table("d", "out1", "normal", 9, "ms", kit.METERS.columns)
    use.apply(control.DefineStream(writes(kit.stream(2, table=middle, partition=()), "out2"), {0: 3}))
    assert one._needs_others()
    one._left_out = use.needless
    assert one._left_out == {output(2)} and not one._needs_others()


def test_the_query_begins_again_when_it_reads_too_much_that_nobody_wants(tmp_path: Path, kit: Any) -> None:
    one = engine(tmp_path, 1)
    use = one.evaluator.use
    use.apply(control.DefineStream(writes(kit.stream(1), "out1"), {0: 0}))
    assert not one._needs_others()
    use.apply(control.DefineStream(writes(kit.stream(2), "out2"), {0: 0}))
    assert one._needs_others()
    one._left_out = use.needless
    use.apply(control.DropStream(1))
    use.apply(control.DropTable(9, output(2)))
    assert not one._needs_others(), "who is left out and gone does no harm"


def test_a_table_that_is_made_again_is_wanted_by_new_streams_alone(kit: Any) -> None:
    first = control.DefineStream(kit.stream(1), {0: 500})
    again = control.DefineStream(kit.stream(2), {0: 2})
    assert told(first, control.DropTable(7, SOURCE)).wanted == {}
    assert told(first, control.DropTable(7, SOURCE), again).wanted == {SOURCE: {0: 2}}


def test_from_where_on_a_stream_wants_rows_by_a_record(kit: Any) -> None:
    first = control.DefineStream(kit.stream(1), {0: 5}, origins={output(1): {0: 4}})
    use = told(first)
    assert use.begins(first) == {SOURCE: {0: 5}, output(1): {0: 4}}
    assert use.begins(control.StartStream(1, {0: 9}, 1, {output(1): {0: 7}})) == {
        SOURCE: {0: 9}, output(1): {0: 7},
    }  # fmt: skip
    assert use.begins(control.StartStream(3, {0: 9}, 1)) == {}, "nobody knows it"
    assert use.begins(control.KnowOrigins(0, 1, kit.METERS, (), {output(3): {0: 1}}, ())) == {
        output(3): {0: 1}
    }
    assert use.begins(control.StopStream(1)) == use.begins(control.DropStream(1)) == {}


def test_a_topic_that_is_not_as_its_streams_knew_it_is_read_from_its_beginning(
    tmp_path: Path, kit: Any
) -> None:
    log = MemoryLog()
    log.ensure_topics([*TOPICS, (output(1), 1), (output(2), 2)])
    log.append([Message(output(1), b"c", b"{}")] * 4)
    for uid, (name, live_from) in enumerate([("out1", {0: 9}), ("out2", {0: 0}), ("gone", {0: 1})]):
        table = Table("d", name, "normal", 20 + uid, "ms", kit.METERS.columns)
        record = control.DefineStream(kit.stream(uid + 1, table=table, partition=()), live_from)
        log.append([Message(CONTROL.name, b"s", control.encode(record))])
    evaluator = Evaluator(TriggerSettings(data_dir=tmp_path), log, structlog.get_logger("test"))
    evaluator.ready()
    evaluator.catch_up(log.ends_of([CONTROL.name]))
    found = {topic: ends for topic, ends in evaluator.positions.items() if topic.startswith(WAL_PREFIX)}
    assert found == {output(1): {0: 4}, output(2): {0: 0, 1: 0}}
    evaluator.close()


def test_no_batch_is_done_once_the_query_is_to_begin_again(tmp_path: Path) -> None:
    evaluator = Evaluator(TriggerSettings(data_dir=tmp_path), MemoryLog(), structlog.get_logger("test"))
    batches = Batches(TriggerSettings(data_dir=tmp_path), evaluator)
    batches.leave()
    frame: Any = None
    with pytest.raises(BeginAgain):
        batches(frame, 3)
    evaluator.close()

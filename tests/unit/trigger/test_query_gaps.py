"""Offsets that a topic has forgotten before the query read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import structlog

from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import Duration, Source, StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.trigger.types import Interval
from millrace_core.wire import control, status
from millrace_core.wire.topics import CLOCK, CONTROL, HANDOVER, REGROUP, STATUS, wal_topic
from millrace_wal import Gap, MemoryLog, Message, replay
from trigger_svc.query_gaps import QueryGaps
from trigger_svc.topic_choice import TopicChoice

TOPIC = wal_topic("d", "meters")
COLUMNS = (Column("ts", TIMESTAMP), Column("v", DataType("INT")))
METERS = Table("d", "meters", "normal", 7, "ms", COLUMNS)


class Query:
    """What Spark would have planned and read of a log; two streams, one from the beginning, one from 8 on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "offsets").mkdir(parents=True)
        self.log = MemoryLog()
        self.log.ensure_topics([CONTROL, CLOCK, REGROUP, HANDOVER, STATUS, (TOPIC, 1)])
        second = Duration(1, "s")
        for uid, live_from in ((1, 0), (2, 8)):
            spec = StreamSpec(uid, "d", f"s{uid}", "", Interval(second, second), Source(METERS))
            record = control.encode(control.DefineStream(spec, {0: live_from}))
            self.log.append([Message(CONTROL.name, b"s", record)])
        self.choice = TopicChoice(self.log, folder, 9, structlog.get_logger("test"), lambda: None)
        self.choice.choose()
        self.lost: list[Gap] = []
        self.gaps = QueryGaps(self.log, folder, self.choice.touched, self.lost.append)

    def plan(self, batch: int, **ends: int) -> None:
        offsets = {topic: {"0": end} for topic, end in ends.items()}
        text = json.dumps(offsets).replace("meters", TOPIC)
        (self.folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{text}")

    def write(self, topic: str, count: int) -> None:
        self.log.append([Message(topic, b"k", b"v")] * count)

    def check(self, batch: int, *read: tuple[str, int], collected: bool = True) -> list[tuple[Any, ...]]:
        """The gaps, and whom they touch."""
        table = pa.table({
            "topic": pa.array([topic for topic, _ in read], pa.string()),
            "partition": pa.array([0] * len(read), pa.int32()),
            "offset": pa.array([offset for _, offset in read], pa.int64()),
        })  # fmt: skip
        before = len(self.told())
        self.gaps.check(batch, table if collected else None)
        return [(one.what, one.streams, one.everything, one.control) for one in self.told()[before:]]

    def told(self) -> list[status.Problem]:
        found = [status.decode(record.value or b"") for record in replay(self.log, STATUS.name)]
        return [one for one in found if isinstance(one, status.Problem)]


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / "query")


@pytest.mark.parametrize("collected", [True, False])
def test_rows_that_are_gone_touch_the_streams_that_wanted_them(query: Query, collected: bool) -> None:
    query.write(TOPIC, 20)
    query.plan(0, meters=5)
    query.plan(1, meters=12)
    assert query.check(0, *((TOPIC, at) for at in range(5)), collected=collected) == []
    query.log.trim({TOPIC: {0: 7}})
    found = query.check(1, *((TOPIC, at) for at in range(7, 12)), collected=collected)
    assert found == [(f"gap/{TOPIC}/0", (1,), False, 1)], "the other stream begins at 8"
    assert query.lost == [Gap(TOPIC, 0, 5, 7)]
    assert query.told()[0].message == (
        f"trigger-svc: 2 offsets of topic {TOPIC}, partition 0, were gone before they were read: 5 to 6"
    )


def test_all_that_a_batch_should_have_read_is_gone(query: Query) -> None:
    query.write(TOPIC, 20)
    query.plan(0, meters=5)
    query.plan(1, meters=12)
    query.log.trim({TOPIC: {0: 15}})
    assert query.check(1) == [(f"gap/{TOPIC}/0", (1, 2), False, 1)]
    assert query.lost == [Gap(TOPIC, 0, 5, 12)]


def test_offsets_that_no_stream_wanted_are_no_loss(query: Query) -> None:
    query.write(TOPIC, 20)
    query.plan(0, clock=1)
    query.plan(1, clock=2, meters=12)
    control_record = control.encode(control.DropStream(1))
    query.log.append([Message(CONTROL.name, b"s", control_record)])
    query.choice._changed(list(replay(query.log, CONTROL.name)))
    query.log.trim({TOPIC: {0: 8}})
    assert query.check(1, *((TOPIC, at) for at in range(8, 12))) == []


def test_holes_that_are_no_loss_are_none(query: Query) -> None:
    """Ends of transactions have offsets, and no record; topics go with their tables."""
    query.write(TOPIC, 20)
    query.plan(0, meters=5)
    query.plan(1, meters=12)
    assert query.check(1, (TOPIC, 6), (TOPIC, 8)) == []
    query.log.delete_topics([TOPIC])
    assert query.check(1) == []


@pytest.mark.parametrize("topic", [REGROUP.name, HANDOVER.name])
def test_rows_on_their_way_that_are_gone_touch_all_streams(query: Query, topic: str) -> None:
    query.write(topic, 9)
    query.plan(0, **{topic: 2})
    query.plan(1, **{topic: 9})
    query.log.trim({topic: {0: 4}})
    assert query.check(1, *((topic, at) for at in range(4, 9))) == [(f"gap/{topic}/0", (), True, 1)]
    assert query.check(0) == [], "a query that begins has missed nothing of these"


def test_old_ticks_are_missed_by_nobody(query: Query) -> None:
    query.write(CLOCK.name, 9)
    query.plan(0, clock=2)
    query.plan(1, clock=9)
    query.log.trim({CLOCK.name: {0: 5}})
    assert query.check(1, (CLOCK.name, 5)) == []

"""Offsets that a topic has forgotten before the query read them."""

from __future__ import annotations

from typing import Any

import pytest

from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import Duration, Source, StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.trigger.rows import Messages
from millrace_core.trigger.topic_use import TopicUse
from millrace_core.trigger.types import Interval
from millrace_core.wire import control, status
from millrace_core.wire.topics import CLOCK, CONTROL, HANDOVER, REGROUP, STATUS, wal_topic
from millrace_wal import MemoryLog, Message, replay
from trigger_svc.gaps import Missing
from trigger_svc.metrics import OFFSETS_LOST

TOPIC = wal_topic("d", "meters")
COLUMNS = (Column("ts", TIMESTAMP), Column("v", DataType("INT")))
METERS = Table("d", "meters", "normal", 7, "ms", COLUMNS)


class Query:
    """What should have been read of a log; two streams, one from the beginning, one from 8 on."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.log.ensure_topics([CONTROL, CLOCK, REGROUP, HANDOVER, STATUS, (TOPIC, 1)])
        self.use = TopicUse()
        second = Duration(1, "s")
        for uid, live_from in ((1, 0), (2, 8)):
            spec = StreamSpec(uid, "d", f"s{uid}", "", Interval(second, second), Source(METERS))
            record = control.DefineStream(spec, {0: live_from})
            self.use.apply(record)
            self.log.append([Message(CONTROL.name, b"s", control.encode(record))])
        self.missing = Missing(self.log, lambda gap: self.use.streams_of(gap.topic, gap.partition, gap.end))

    def write(self, topic: str, count: int) -> None:
        self.log.append([Message(topic, b"k", b"v")] * count)

    def look(self, topic: str, start: int, end: int, *came: int, here: bool = True) -> list[tuple[Any, ...]]:
        """The gaps between these offsets, of which this many messages came, and whom they touch."""
        before = len(self.told())
        messages = Messages.of([(topic, 0, at, 0, b"k", b"v") for at in came]) if here else None
        self.missing.look(messages, {topic: {0: start}}, {topic: {0: end}})
        return [(one.what, one.streams, one.everything, one.control) for one in self.told()[before:]]

    def told(self) -> list[status.Problem]:
        found = [status.decode(record.value or b"") for record in replay(self.log, STATUS.name)]
        return [one for one in found if isinstance(one, status.Problem)]


@pytest.fixture
def query() -> Query:
    return Query()


def lost() -> float:
    found: float = OFFSETS_LOST.labels(TOPIC)._value.get()
    return found


@pytest.mark.parametrize("here", [True, False])
def test_rows_that_are_gone_touch_the_streams_that_wanted_them(query: Query, here: bool) -> None:
    query.write(TOPIC, 20)
    before = lost()
    assert query.look(TOPIC, 0, 5, *range(5), here=here) == []
    query.log.trim({TOPIC: {0: 7}})
    found = query.look(TOPIC, 5, 12, *range(7, 12), here=here)
    assert found == [(f"gap/{TOPIC}/0", (1,), False, 1)], "the other stream begins at 8"
    assert lost() == before + 2
    assert query.told()[0].message == (
        f"trigger-svc: 2 offsets of topic {TOPIC}, partition 0, were deleted before they were read: 5 to 6"
    )


def test_all_that_should_have_been_read_is_gone(query: Query) -> None:
    query.write(TOPIC, 20)
    query.log.trim({TOPIC: {0: 15}})
    before = lost()
    assert query.look(TOPIC, 5, 12) == [(f"gap/{TOPIC}/0", (1, 2), False, 1)]
    assert lost() == before + 7


def test_offsets_that_no_stream_wanted_are_no_loss(query: Query) -> None:
    query.write(TOPIC, 20)
    query.use.apply(control.DropStream(1))
    query.log.trim({TOPIC: {0: 8}})
    assert query.look(TOPIC, 0, 12, *range(8, 12)) == []


def test_holes_that_are_no_loss_are_none(query: Query) -> None:
    """Ends of transactions have offsets, and no record; topics go with their tables."""
    query.write(TOPIC, 20)
    assert query.look(TOPIC, 5, 12, 6, 8) == []
    query.log.delete_topics([TOPIC])
    assert query.look(TOPIC, 5, 12) == []


@pytest.mark.parametrize("topic", [REGROUP.name, HANDOVER.name])
def test_rows_on_their_way_that_are_gone_touch_all_streams(query: Query, topic: str) -> None:
    query.write(topic, 9)
    query.log.trim({topic: {0: 4}})
    assert query.look(topic, 2, 9, *range(4, 9)) == [(f"gap/{topic}/0", (), True, 1)]


def test_old_ticks_are_missed_by_nobody(query: Query) -> None:
    query.write(CLOCK.name, 9)
    query.log.trim({CLOCK.name: {0: 5}})
    assert query.look(CLOCK.name, 2, 9, 5) == []

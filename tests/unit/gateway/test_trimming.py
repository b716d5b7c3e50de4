"""What topics may forget: nothing that anybody still needs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from api_gateway.upkeep.trimming import FLOOR_MS, Trimmer, lowest
from millrace_core.wire import status
from millrace_core.wire.status import ReadUpTo, Stored, StreamFailure, TriggersHeld
from millrace_core.wire.topics import (
    NOTIFICATIONS,
    RECALC,
    REGROUP,
    STATUS,
    TRIGGERS,
    wal_topic,
)
from millrace_wal import Message

ONE = wal_topic("d", "one")
HOUR = 3_600_000
STREAM = "CREATE STREAM s INTERVAL(1s) SLIDING(1s) FROM one INTO out1 AS SELECT _twstart ts, v FROM %%trows"


class Forgetting:
    """A gateway with the table ``d.one``, of which ten messages were written, and one look of its trimmer."""

    def __init__(self, rig: Any, options: str = "", stream: bool = True) -> None:
        self.rig, self.log = rig, rig.log
        if options:
            rig(f"CREATE DATABASE e {options}", None)
        self.db = "e" if options else "d"
        rig("CREATE TABLE one (ts TIMESTAMP, v INT)", self.db)
        rig.calc.describes(("ts", "TIMESTAMP"), ("v", "INT"))
        if stream:
            rig(STREAM, self.db)
        self.topic = wal_topic(self.db, "one")
        self.uid = rig.gateway.context.catalog.tables[self.db, "one"].uid
        (self.partition, _), *_ = self.log.append([Message(self.topic, b"one", b"{}")] * 10)

    def tell(self, *news: status.AnyStatus) -> None:
        self.log.append([Message(STATUS.name, status.key(one), status.encode(one)) for one in news])

    def stored(self, upto: int, store: str = "a", uid: int = 0) -> Stored:
        return Stored(store, self.topic, uid or self.uid, {self.partition: upto})

    def read(self, upto: int) -> ReadUpTo:
        return ReadUpTo(self.topic, {self.partition: upto})

    def look(self, later: int = 2 * HOUR, topic: str = "", partition: int | None = None) -> int:
        """Trim at a time so much later than now (ms); the first offset that is left."""
        trimmer = Trimmer(self.log, self.rig.gateway.context)
        trimmer.begin()
        while not trimmer._up_to_date():
            trimmer._follow()
        trimmer.trim(time.time_ns() // 1_000_000 + later)
        trimmer.end()
        begins: dict[int, int] = self.log.begin_offsets(topic or self.topic)
        return begins[self.partition if partition is None else partition]


def test_a_table_forgets_what_is_in_files_and_judged(rig: Any) -> None:
    one = Forgetting(rig)
    assert one.look() == 0, "nobody has told"
    one.tell(one.stored(7))
    assert one.look() == 0, "the stream has not judged it"
    one.tell(one.read(4))
    assert one.look() == 4
    one.tell(one.read(9))
    assert one.look() == 7
    one.tell(one.stored(10), one.read(10))
    assert one.look(later=HOUR // 2) == 7, "younger than WAL_RETENTION_PERIOD"
    assert one.look() == 10


def test_without_a_stream_only_the_files_matter(rig: Any) -> None:
    one = Forgetting(rig, stream=False)
    one.tell(one.stored(6))
    assert one.look() == 6


def test_a_stream_that_was_just_made_has_its_rows(rig: Any) -> None:
    """The query has not read the topic: it was left out, as no stream wanted it."""
    one = Forgetting(rig, stream=False)
    one.tell(one.stored(10))
    rig(STREAM)
    one.log.append([Message(one.topic, b"one", b"{}")] * 5)
    one.tell(one.stored(15))
    assert one.look() == 10
    one.tell(one.read(12))
    assert one.look() == 12
    rig("DROP STREAM s")
    assert one.look() == 15


def test_all_stores_must_have_the_rows(rig: Any) -> None:
    one = Forgetting(rig, stream=False)
    one.tell(one.stored(9), one.stored(3, store="b"))
    assert one.look() == 3
    rig.log.append([Message(STATUS.name, status.key(one.stored(3, store="b")), None)])
    assert one.look() == 9


def test_files_of_a_table_that_was_dropped_do_not_count(rig: Any) -> None:
    one = Forgetting(rig, stream=False)
    one.tell(one.stored(9, uid=one.uid + 1))
    assert one.look() == 0


@pytest.mark.parametrize(
    ("options", "later", "left"),
    [
        ("WAL_RETENTION_PERIOD 0", 0, 0),
        ("WAL_RETENTION_PERIOD 0", 61_000, 10),
        ("WAL_RETENTION_PERIOD 600", 599_000, 0),
        ("WAL_RETENTION_PERIOD 600", 601_000, 10),
        ("WAL_RETENTION_PERIOD -1", 1000 * HOUR, 0),
    ],
)
def test_for_how_long_a_topic_keeps_what_is_done_with(rig: Any, options: str, later: int, left: int) -> None:
    one = Forgetting(rig, options, stream=False)
    one.tell(one.stored(10))
    assert one.look(later) == left


def test_inner_topics_forget_what_all_their_readers_have_done_with(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Forgetting(rig)
    written = rig.log.append([Message(TRIGGERS.name, b"7/0", b"{}")] * 10)
    partition = written[0][0]
    day = 25 * HOUR

    def commit(group: str, topic: str, partition: int, upto: int) -> None:
        reader = rig.log.subscribe(group, [topic])
        reader.poll(0)
        reader.commit({(topic, partition): upto})
        reader.close()

    commit("calc-svc", TRIGGERS.name, partition, 8)
    assert one.look(day, TRIGGERS.name, partition) == 0, "the other group has told nothing"
    commit("calc-again", TRIGGERS.name, partition, 6)
    assert one.look(23 * HOUR, TRIGGERS.name, partition) == 0, "not a day old"
    assert one.look(day, TRIGGERS.name, partition) == 6
    commit("calc-again", TRIGGERS.name, partition, 10)
    one.tell(TriggersHeld(7, -1 - partition, 7))
    assert one.look(day, TRIGGERS.name, partition) == 7, "a stream that waits reads them again"
    rig.log.append([Message(STATUS.name, status.key(TriggersHeld(7, -1 - partition, 7)), None)])
    assert one.look(day, TRIGGERS.name, partition) == 8

    committed = rig.log.committed

    def held_just_now(group: str, topic: str) -> Any:
        if (group, topic) == ("calc-svc", TRIGGERS.name):
            one.tell(TriggersHeld(7, partition, 9))
            commit(group, topic, partition, 10)
        return committed(group, topic)

    monkeypatch.setattr(rig.log, "committed", held_just_now)
    assert one.look(day, TRIGGERS.name, partition) == 9

    ((at, _), *_) = rig.log.append([Message(REGROUP.name, b"7/1", b"{}")] * 4)
    one.tell(ReadUpTo(REGROUP.name, {at: 3}))
    assert one.look(topic=REGROUP.name, partition=at) == 3
    ((at, _), *_) = rig.log.append([Message(RECALC.name, b"7/1", b"{}")] * 4)
    for group, upto in (("calc-recalc", 4), ("calc-history", 2)):
        commit(group, RECALC.name, at, upto)
    assert one.look(topic=RECALC.name, partition=at) == 2
    ((at, _), *_) = rig.log.append([Message(NOTIFICATIONS.name, b"7/1", b"{}")] * 4)
    commit("notify-svc", NOTIFICATIONS.name, at, 4)
    assert one.look(day, NOTIFICATIONS.name, at) == 0, "subscribers come back for a week"
    assert one.look(8 * 24 * HOUR, NOTIFICATIONS.name, at) == 4


def test_inner_topics_are_cut_for_what_they_are_to_keep(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Forgetting(rig)
    one.look()
    assert (rig.log.kept[NOTIFICATIONS.name], rig.log.kept[RECALC.name]) == (7 * 24 * HOUR, HOUR)
    settings = rig.gateway.context.settings.model_copy(update={"keep_consumed_seconds": 120})
    monkeypatch.setattr(rig.gateway.context, "settings", settings)
    one.look()
    assert set(rig.log.kept.values()) == {120_000}


def test_what_was_told_of_streams_that_were_dropped_is_forgotten(rig: Any) -> None:
    one = Forgetting(rig)
    rig(STREAM.replace(" s ", " t ").replace("out1", "out2"))
    streams = rig.gateway.context.catalog.streams
    gone, there = streams["d", "s"].spec.uid, streams["d", "t"].spec.uid

    def told_of(uid: int) -> list[status.AnyStatus]:
        return [
            status.Counters("trigger-svc", uid, 0, {}), StreamFailure(uid, "why"), StreamFailure(uid, "", 3),
            status.Recalculation(uid, 1, 7, "MANUAL", 0, 1, "Finished", 1.0, 0, 0),
        ]  # fmt: skip

    others: list[status.AnyStatus] = [
        status.Counters("trigger-svc", 0, 0, {}),
        status.Applied(0),
        one.stored(0),
        one.read(0),
    ]
    one.tell(*told_of(gone), *told_of(there), *others)
    rig("DROP STREAM s")
    before = len(rig.records(STATUS.name))

    def deleted() -> list[bytes]:
        return [found.key for found in rig.records(STATUS.name)[before:] if found.value is None]

    one.look(later=FLOOR_MS // 2)
    assert deleted() == [], "its services may still be at it"
    one.look(later=FLOOR_MS + 1)
    assert deleted() == [status.key(told) for told in told_of(gone)]
    one.look(later=FLOOR_MS + 1)
    assert len(deleted()) == 4, "once is enough"


def test_rows_of_a_virtual_table_stay_while_a_period_looks_them_up(rig: Any) -> None:
    one = Forgetting(rig, stream=False)
    rig("CREATE VTABLE seen (ts TIMESTAMP, v INT FROM one.v)")
    seen = wal_topic("d", "seen")
    query = "SELECT cast(_tlocaltime/1000000 AS TIMESTAMP) ts, v FROM %%trows"
    rig(f"CREATE STREAM p PERIOD(1h) FROM seen INTO out2 AS {query}")
    ((at, _), *_) = rig.log.append([Message(seen, b"seen", b"{}")] * 4)
    one.tell(ReadUpTo(seen, {at: 4}))
    assert one.look(topic=seen, partition=at) == 0
    rig("DROP STREAM p")
    assert one.look(topic=seen, partition=at) == 4


def test_a_partition_that_somebody_does_not_tell_of_stays() -> None:
    assert lowest([{0: 3, 1: 5}, {0: 4}]) == {0: 3}
    assert lowest([]) == {}

"""Rows that streams put off: nobody can tell, but by the work that was not done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.trigger.rows import Messages
from millrace_core.trigger.slot import Slot, evaluate_batch
from millrace_core.trigger.slot import rows as slot_rows
from millrace_core.trigger.slot.backlog import AT_ONCE, LONG, MOST, NEVER_CALM, Backlog, calm_of
from millrace_core.trigger.stream import Stream
from millrace_core.wire import control, status
from millrace_core.wire.operations import Delete, Drop
from millrace_core.wire.topics import wal_topic

from ...conftest import examples

METERS = wal_topic("d", "meters")
STREAMS = 10

times = st.lists(st.integers(-10, 60), min_size=1, max_size=3)
messages = st.lists(st.tuples(st.sampled_from(["c1", "c2"]), times), max_size=12)
cuts = st.lists(st.sampled_from(["run", "run", "stay", "tick", "ask"]), min_size=12, max_size=12)
lengths = st.integers(5, 40)
triggers = st.one_of(
    st.none(),
    st.builds(lambda gap: {"Session": {"gap": gap}}, lengths),
    st.builds(
        lambda every, offset: {"Sliding": {"sliding": every, "offset": offset}}, lengths, st.integers(0, 4)
    ),
    st.builds(lambda count: {"Count": {"count": count, "sliding": count}}, st.integers(1, 4)),
)
streams = st.lists(
    st.fixed_dictionaries(
        {
            "trigger": triggers,
            "interval": lengths,
            "sliding": st.sampled_from([None, None, 4, 50]),
            "offset": st.integers(0, 3),
            "watermark": st.sampled_from([0, 0, 7, 20]),
            "expired": st.sampled_from([None, None, 40]),
            "ignore_disorder": st.booleans(),
            "ignore_nodata": st.booleans(),
            "child": st.sampled_from([None, "c1", "c2"]),
            "kinds": st.sampled_from([("WINDOW_CLOSE",), ("WINDOW_CLOSE",), ("WINDOW_OPEN", "WINDOW_CLOSE")]),
        }
    ),
    min_size=3,
    max_size=5,
)


@contextmanager
def putting_off(few: int) -> Iterator[None]:
    """So few streams of a table put rows off."""
    with patch.object(slot_rows, "FEW", few):
        yield


class Kept:
    """A cluster whose slots stay in memory between batches, as in the driver of trigger-svc."""

    def __init__(self, kit: Any, slots: int = 1) -> None:
        held: dict[int, Slot | None] = {}

        class InMemory(kit.Cluster):  # type: ignore[misc, name-defined]
            def on_batch(self, number: int, records: list[Any]) -> list[tuple[str, bytes, bytes]]:
                messages, blob = Messages.of(records), self.blobs.get(number)
                if not Slot.heeds(blob, messages):
                    return []
                judged = evaluate_batch(blob, number, self.slots, messages, held.get(number))
                self.blobs[number], held[number] = judged.state, judged.slot
                return judged.sent

        self.cluster = InMemory(slots)


def replay(cluster: Any, kit: Any, given_: list[dict[str, Any]], some: list[Any], cut: list[str]) -> Any:
    for uid, one in enumerate(given_, start=1):
        cluster.define(kit.stream(uid, **one))
    cluster.run()
    for (child, rows), then in zip(some, cut, strict=False):
        cluster.write(child, rows)
        if then == "ask":
            cluster.run()
            cluster.control(control.RecalculateStream(1, 0, None))
        if then == "tick":
            cluster.run()
            cluster.tick(cluster.now)
        if then != "stay":
            cluster.run()
    cluster.run()
    for _ in range(2):
        cluster.tick(cluster.now)
        cluster.run()
    return cluster


def outcome(cluster: Any, count: int) -> list[Any]:
    """What every stream told and asked, and the counters in the end."""
    last = {status.key(one): dict(one.totals) for one in cluster.status if isinstance(one, status.Counters)}
    asked = [
        (r.stream, r.why, [(p.group.id, p.first, p.last, p.until) for p in r.parts]) for r in cluster.asked
    ]
    manual = [one for one in asked if one[1] == "MANUAL"]
    spans = {(stream, why, part) for stream, why, parts in asked for part in parts if why != "MANUAL"}
    live = [cluster.live(uid) for uid in range(1, count + 1)]
    for totals in last.values():
        totals.pop("requests_sent", None)  # what several batches ask for comes in several
        totals.pop("events_sent", None)  # windows that are recalculated, too
    return [live, cluster.recalculated(), last, manual, spans]


@settings(max_examples=examples(150))
@given(streams, messages, cuts)
def test_nobody_can_tell(kit: Any, given_: list[dict[str, Any]], some: list[Any], cut: list[str]) -> None:
    with putting_off(1_000):
        at_once = replay(kit.Cluster(2), kit, given_, some, cut)
    with putting_off(1):
        through_bytes = replay(kit.Cluster(2), kit, given_, some, cut)
        in_memory = replay(Kept(kit, 2).cluster, kit, given_, some, cut)
    expected = outcome(at_once, len(given_))
    assert outcome(through_bytes, len(given_)) == expected
    assert outcome(in_memory, len(given_)) == expected
    assert in_memory.blobs == through_bytes.blobs, "what is kept encoded is the state"


def many(kit: Any, cluster: Any, count: int = STREAMS, **more: Any) -> Any:
    """Windows of 100 ms, each stream's at an offset of its own; every one is open."""
    for number in range(count):
        cluster.define(kit.stream(number + 1, 100, offset=number * 100 // count, **more))
    cluster.write("c1", [1_000, 1_001])
    cluster.run()
    return cluster


def behind(cluster: Any) -> dict[int, int]:
    """Stream -> the number of its first part that it has not judged."""
    backlog = Slot.restore(cluster.blobs[0]).contents.backlogs.get(METERS)
    return {} if backlog is None else backlog.behind


def resting(kit: Any) -> Any:
    """A cluster kept in memory, all of whose streams have put a row off."""
    cluster = many(kit, Kept(kit).cluster)
    cluster.write("c1", [1_005])
    cluster.run()
    return cluster


def test_only_streams_whose_windows_end_judge(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = many(kit, Kept(kit).cluster)
    judged: list[int] = []
    original = Stream.judge_table

    def judge_table(stream: Stream, *given_: Any) -> Any:
        judged.append(stream.uid)
        return original(stream, *given_)

    monkeypatch.setattr(Stream, "judge_table", judge_table)
    cluster.write("c1", [1_005])
    cluster.run()
    assert judged == [] and behind(cluster).keys() == set(range(1, STREAMS + 1))
    cluster.write("c1", [1_012])  # the windows of the second stream end at 1010
    cluster.run()
    assert judged == [2]
    assert cluster.live(2)["c1"] == ["CLOSE 910-1010 x3"]
    assert behind(cluster).keys() == set(range(1, STREAMS + 1)) - {2}


def test_all_is_judged_when_no_rows_come(kit: Any) -> None:
    cluster = many(kit, kit.Cluster(1))
    cluster.write("c1", [1_005, 1_006, 1_007])
    cluster.run()
    cluster.tick(5_000)
    cluster.run()
    assert behind(cluster) == {}
    told = {one.stream: one.totals["rows_read"] for one in cluster.status if isinstance(one, status.Counters)}
    assert told == dict.fromkeys(range(1, STREAMS + 1), 5)
    cluster.tick(6_000)
    heeded = cluster.unheeded
    cluster.run()
    assert cluster.unheeded == heeded + 1, "an idle slot does not look at ticks"


def test_while_rows_come_a_tick_changes_nothing(kit: Any) -> None:
    cluster = many(kit, Kept(kit).cluster)
    for tick in range(3):
        cluster.write("c1", [1_005 + tick])
        cluster.run()
        cluster.tick(5_000 + tick)
        cluster.run()
        assert behind(cluster).keys() == set(range(1, STREAMS + 1))
    cluster.tick(6_000)
    cluster.run()
    assert behind(cluster) == {}
    told = {one.stream: one.totals["rows_read"] for one in cluster.status if isinstance(one, status.Counters)}
    assert told == dict.fromkeys(range(1, STREAMS + 1), 5)


def test_rows_of_another_table_are_no_rows_of_this_one(kit: Any) -> None:
    cluster = resting(kit)
    for tick in range(2):
        cluster.tick(5_000 + tick)
        cluster.run()
        cluster.send(wal_topic("d", "others"), b"c1", b'{"ts":1}')
        cluster.run()
    assert behind(cluster) == {}


def test_streams_put_rows_off_again_once_they_have_judged_all(kit: Any) -> None:
    cluster = resting(kit)
    for tick in range(2):
        cluster.tick(5_000 + tick)
        cluster.run()
    assert behind(cluster) == {}
    cluster.write("c1", [1_006])
    cluster.run()
    assert behind(cluster).keys() == set(range(1, STREAMS + 1))


def test_whoever_waits_for_long_judges_a_few_in_a_batch(kit: Any) -> None:
    cluster = many(kit, kit.Cluster(1), STREAMS * 2)
    cluster.write("c1", [1_003])
    cluster.run()
    cluster.now += LONG
    cluster.write("c1", [1_004])
    cluster.run()
    numbers = behind(cluster)
    assert len(numbers) == STREAMS * 2 - AT_ONCE and set(numbers.values()) == {0}
    cluster.write("c1", [1_004])
    cluster.run()
    assert sorted(set(behind(cluster).values())) == [0, 2]


def test_more_than_that_does_not_wait(kit: Any) -> None:
    cluster = many(kit, kit.Cluster(1))
    for _ in range(MOST - 1):
        cluster.write("c1", [1_003])
    cluster.run()
    assert behind(cluster)
    cluster.write("c1", [1_003])
    cluster.write("c1", [1_003])
    cluster.run()
    assert not behind(cluster)


@pytest.mark.parametrize("operation", [Delete(0, 10), Drop()])
def test_operations_find_all_judged(kit: Any, operation: Any) -> None:
    cluster = many(kit, kit.Cluster(1))
    cluster.write("c1", [1_003])
    cluster.run()
    cluster.operate("c1", operation)
    cluster.write("c2", [1_003])
    cluster.run()
    assert behind(cluster) == {}


def test_a_stream_that_is_set_aside_stops_before_what_it_put_off(kit: Any) -> None:
    cluster = many(kit, kit.Cluster(1))
    end = cluster.ends[METERS]
    cluster.write("c1", [1_003])
    cluster.run()
    cluster.write("c1", [1_004])
    (record,), cluster.waiting = cluster.waiting, []
    slot = Slot.restore(cluster.blobs[0])
    slot.on_batch(Messages.of([record]), {3: "it fails"})
    assert slot.contents.streams[3].life.stopped_at == {0: end}
    assert slot.contents.backlogs[METERS].behind.keys() == set(range(1, STREAMS + 1)) - {3}
    slot.tables.catch_up(METERS, [])
    read = {uid: stream.life.totals["rows_read"] for uid, stream in slot.contents.streams.items()}
    assert read == dict.fromkeys(range(1, STREAMS + 1), 4) | {3: 2}


def test_who_is_never_calm(kit: Any) -> None:
    """Streams that rows concern each by itself."""
    cluster = kit.Cluster(1)
    cluster.define(kit.stream(1, max_delay=1_000))
    cluster.define(kit.stream(2, kinds=("WINDOW_OPEN", "WINDOW_CLOSE")))
    cluster.define(kit.stream(3, partition=("site",)))
    cluster.define(kit.stream(4, trigger={"Count": {"count": 3, "sliding": 3}}))
    cluster.define(kit.stream(5))
    cluster.write("c1", [1_001])
    cluster.run()
    spans = {
        uid: calm_of(stream.state) for uid, stream in Slot.restore(cluster.blobs[0]).contents.streams.items()
    }
    assert spans.pop(5) == (1_000, 1_009)
    assert set(spans.values()) == {NEVER_CALM}


def part(offset: int, key: bytes) -> Messages:
    return Messages.of([(METERS, 0, offset, 0, key, b'{"ts": 1}')])


@pytest.mark.parametrize("loaded", [False, True], ids=["kept", "loaded"])
def test_a_stream_of_one_child_takes_the_parts_that_have_its_messages(loaded: bool) -> None:
    backlog = Backlog(METERS)
    for offset, (key, uids) in enumerate(
        [(b"c1", [1, 3]), (b"c2", [2]), (b"c1", []), (b"c2", []), (b"c1", [4])]
    ):
        backlog.put_off(uids, part(offset, key), {0: offset})
    if loaded:
        backlog = Backlog.load(METERS, msgspec.msgpack.decode(msgspec.msgpack.encode(backlog.dump())))

    def taken(uid: int, child: bytes | None) -> list[int]:
        return [at for _, some in backlog.take({uid: child}) for one in some for at in one.offset.tolist()]

    assert list(backlog.behind.items()) == [(1, 0), (3, 0), (2, 1), (4, 4)]
    assert taken(2, b"c2") == [1, 3]
    assert taken(1, None) == [0, 1, 2, 3, 4] and len(backlog) == 5
    assert taken(3, b"c1") == [0, 2, 4] and len(backlog) == 1, "what nobody has left to evaluate is gone"
    assert taken(3, b"c1") == []
    backlog.put_off([3], part(5, b"c2"), {0: 5})
    assert taken(3, b"c1") == []
    assert taken(4, b"c1") == [4] and len(backlog) == 0

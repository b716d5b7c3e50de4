"""PERIOD: which groups there are, what an event says was written, outages, the clock's agenda."""

from __future__ import annotations

from typing import Any

import pytest

from millrace_core.model.schema import Child, child_uid, stable_hash
from millrace_core.model.stream import Duration, Options, StreamSpec
from millrace_core.trigger.agenda import PATIENCE, Agenda
from millrace_core.trigger.slot import Slot
from millrace_core.trigger.stream import APART, FAR
from millrace_core.trigger.types import Period
from millrace_core.wire import control
from millrace_core.wire.events import TriggerEvent, trigger_id
from millrace_core.wire.operations import Drop, Register
from millrace_core.wire.topics import slot_of, wal_topic

MS = 1_000_000
TOPIC = wal_topic("d", "meters")


def every(ms: int, **more: Any) -> dict[str, Any]:
    return {"trigger": {"Period": {"every": ms}}, **more}


def fired(cluster: Any) -> list[TriggerEvent]:
    return [event for batch in cluster.triggers for event in batch.events]


def at(cluster: Any, instant: int) -> list[str]:
    """The groups for which the instant (ms) fired."""
    events = [event for event in fired(cluster) if event.end == instant * MS]
    return sorted(event.group.table or "/".join(map(str, event.group.key)) for event in events)


def test_without_a_table(kit: Any) -> None:
    spec = StreamSpec(3, "d", "s3", "", Period(Duration(100, "a")))
    cluster = kit.Cluster(slots=4)
    cluster.define(spec)
    cluster.run()
    cluster.tick(90)
    cluster.run()
    assert fired(cluster) == []
    cluster.tick(217)
    cluster.run()
    assert [(e.start, e.end, e.next, e.localtime) for e in fired(cluster)] == [
        (0, 100 * MS, 200 * MS, 100 * MS),
        (100 * MS, 200 * MS, 300 * MS, 200 * MS),
    ]
    assert {e.group.id for e in fired(cluster)} == {0}
    assert [e.id for e in fired(cluster)] == [trigger_id(3, 0, instant * MS) for instant in (100, 200)]
    assert all(e.written is None for e in fired(cluster))
    assert all(batch.seen == {} for batch in cluster.triggers)


def test_each_row_is_written_in_one_trigger(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.write("c1", [1])
    cluster.define(kit.stream(**every(100)))
    cluster.write("c1", [2])
    cluster.write("c2", [2])
    cluster.tick(100)
    cluster.run()
    cluster.write("c1", [3])
    cluster.tick(200)
    cluster.tick(300)
    cluster.run()
    mine = [event for event in fired(cluster) if event.group.table == "c1"]
    assert [event.written for event in mine] == [{0: (1, 3)}, {0: (3, 4)}, {0: (4, 4)}]
    assert all(batch.seen[0] >= event.written[0][1] for batch in cluster.triggers for event in batch.events)


def test_children_that_exist_without_rows(kit: Any) -> None:
    """The gateway tells of those that were there, the log of those that come and go."""
    cluster = kit.Cluster(slots=3)
    cluster.define(kit.stream(**every(100)))
    for name, incarnation in (("c1", 0), ("c2", 2)):
        child = Child("d", "meters", name, (1, 1), incarnation)
        cluster.control(control.KnowChildren(slot_of(TOPIC, name.encode(), 3), (child,)))
    cluster.run()
    cluster.tick(100)
    cluster.run()
    assert at(cluster, 100) == ["c1", "c2"]
    assert {e.group.id for e in fired(cluster)} == {child_uid("d", "c1"), child_uid("d", "c2", 2)}
    cluster.operate("c1", Drop())
    cluster.operate("c3", Register({"site": 1, "room": 1}))
    cluster.run()
    cluster.tick(200)
    cluster.run()
    assert at(cluster, 200) == ["c2", "c3"]
    cluster.operate("c1", Register({"site": 1, "room": 1}, 1))
    cluster.run()
    cluster.tick(300)
    cluster.run()
    assert at(cluster, 300) == ["c1", "c2", "c3"]
    assert child_uid("d", "c1", 1) in {e.group.id for e in fired(cluster) if e.end == 300 * MS}


def test_tag_groups_exist_as_long_as_they_have_tables(kit: Any) -> None:
    cluster = kit.Cluster(slots=3)
    cluster.define(kit.stream(**every(100), partition=("site",)))
    for name, site in (("c1", 1), ("c2", 1), ("c3", 2), ("c4", 1)):
        cluster.operate(name, Register({"site": site, "room": 9}))
    cluster.run()
    cluster.tick(100)
    cluster.run()
    assert at(cluster, 100) == ["1", "2"]
    assert {e.group.id for e in fired(cluster)} == {stable_hash(1, 1), stable_hash(1, 2)}
    for name in ("c1", "c3", "c4"):
        cluster.operate(name, Drop())
    cluster.run()
    cluster.tick(200)
    cluster.run()
    assert at(cluster, 200) == ["1"]
    cluster.operate("c2", Drop())
    cluster.operate("c5", Register({"site": 3, "room": 9}))
    cluster.run()
    cluster.tick(300)
    cluster.run()
    assert at(cluster, 300) == ["3"]


def test_a_row_tells_of_its_table_s_group_before_the_gateway_does(kit: Any) -> None:
    """The table's tags are known here for another stream; that the table was there is still under way."""
    cluster = kit.Cluster(slots=3)
    cluster.define(kit.stream(1, partition=("site",)))
    cluster.operate("c1", Register({"site": 1, "room": 9}))
    cluster.run()
    cluster.define(kit.stream(2, **every(100), partition=("site",)))
    cluster.run()
    cluster.write("c1", [1])
    cluster.run()
    cluster.tick(100)
    cluster.run()
    assert at(cluster, 100) == ["1"]
    cluster.operate("c1", Drop())
    cluster.run()
    cluster.tick(200)
    cluster.run()
    assert at(cluster, 200) == []


def test_word_of_a_group_that_is_under_way_survives_a_restart(kit: Any) -> None:
    """START begins a new epoch; that a group is there does not depend on it."""
    cluster = kit.Cluster(slots=2)
    cluster.define(kit.stream(**every(100), partition=("site",)))
    cluster.operate("c1", Register({"site": 1, "room": 9}))
    cluster.control(control.StopStream(1), control.StartStream(1, {0: cluster.ends[TOPIC]}, 1))
    cluster.run()
    cluster.tick(100)
    cluster.run()
    assert at(cluster, 100) == ["1"]


@pytest.mark.parametrize("partition", [(), ("site",), ("tbname",)])
def test_a_row_on_its_way_counts_for_the_instant_before_which_it_was_written(
    kit: Any, partition: tuple[str, ...]
) -> None:
    cluster = kit.Cluster(slots=3)
    cluster.define(kit.stream(**every(100, ignore_nodata=True), partition=partition))
    for name in ("c1", "c2"):
        cluster.operate(name, Register({"site": 1, "room": 9}))
    cluster.run()
    cluster.write("c1", [5])
    cluster.tick(100)  # in one batch: a regrouped row reaches its group after the tick
    cluster.run()
    assert [e.written for e in fired(cluster)] == [{0: (0, 3)}]
    assert fired(cluster)[0].end == 100 * MS
    cluster.tick(200)
    cluster.write("c2", [6])
    cluster.write("c1", [6])
    cluster.run()
    assert len(fired(cluster)) == 1, "these rows were written after the tick's ends"
    cluster.tick(300)
    cluster.run()
    groups = 2 if partition == ("tbname",) else 1
    assert [e.end for e in fired(cluster)[1:]] == [300 * MS] * groups
    assert {e.written[0] for e in fired(cluster)[1:] if e.written} <= {(0, 5), (3, 5)}
    cluster.tick(400)
    cluster.run()
    assert len(fired(cluster)) == 1 + groups


def test_missed_instants_do_not_fire_but_their_rows_count(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream(**every(100), child="c1"))
    cluster.tick(100)
    cluster.run()
    cluster.write("c1", [1])
    cluster.tick(1_030, since=950)
    cluster.run()
    assert [(e.start // MS, e.end // MS, e.written) for e in fired(cluster)] == [
        (0, 100, {0: (0, 0)}),
        (100, 1_000, {0: (0, 1)}),
    ]


def test_a_tick_without_the_table_s_ends_is_not_for_it(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream(**every(100), child="c1"))
    cluster.send("clock", None, control.encode(control.Tick(150 * MS, 0)))
    cluster.run()
    assert fired(cluster) == []
    cluster.write("c1", [1])
    cluster.tick(160)
    cluster.run()
    assert [e.end for e in fired(cluster)] == [100 * MS]


def test_ticks_are_heeded_only_where_something_is_due(kit: Any) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(1))
    cluster.write("c1", [1])
    cluster.run()
    before = cluster.blobs[0]
    cluster.tick(1_000)
    cluster.run()
    assert cluster.unheeded == 1 and cluster.blobs[0] is before
    assert Slot.due(before) == FAR
    cluster.define(kit.stream(2, **every(5_000), child="c1"))
    cluster.run()
    assert Slot.due(cluster.blobs[0]) == 5_000 * MS
    cluster.tick(4_999)
    cluster.run()
    assert cluster.unheeded == 2
    cluster.control(control.StopStream(2))
    cluster.run()
    assert Slot.due(cluster.blobs[0]) == FAR


# ---------------------------------------------------------------------- the agenda


def define(kit: Any, uid: int, **options: Any) -> control.DefineStream:
    return control.DefineStream(kit.stream(uid, **options), {})


def test_the_agenda_says_when_and_of_which_tables(kit: Any) -> None:
    agenda = Agenda(1_000 * MS)
    assert agenda.due == FAR and agenda.take(5_000 * MS) is None
    agenda.apply(define(kit, 1), 0)
    assert agenda.due == FAR, "an INTERVAL stream waits for no time"
    agenda.apply(define(kit, 2, **every(300)), 0)
    agenda.apply(control.DefineStream(StreamSpec(3, "d", "s3", "", Period(Duration(700, "a"))), {}), 0)
    assert agenda.due == 1_200 * MS
    assert agenda.take(1_199 * MS) is None
    assert agenda.take(1_200 * MS) == {TOPIC}
    assert agenda.due == 1_400 * MS
    assert agenda.take(1_400 * MS) == set(), "a tick is due, but no table's ends"
    assert agenda.take(2_000 * MS) == {TOPIC}
    assert agenda.due == 2_100 * MS


def test_the_agenda_follows_the_life_of_streams(kit: Any) -> None:
    agenda = Agenda(0)
    agenda.apply(define(kit, 2, **every(300)), 50 * MS)
    agenda.apply(control.StopStream(2), 0)
    assert agenda.due == FAR
    agenda.apply(control.StartStream(2, {}, 1), 700 * MS)
    assert agenda.due == 900 * MS
    agenda.watch_from(1_000 * MS)
    assert agenda.due == 1_200 * MS
    agenda.watch_from(1_200 * MS)
    assert agenda.due == 1_500 * MS, "an instant at that very time is missed too"
    agenda.apply(control.DropTable(kit.METERS.uid, TOPIC), 0)
    assert agenda.due == FAR
    agenda.apply(control.StartStream(2, {}, 2), 0)
    assert agenda.due == FAR
    agenda.apply(define(kit, 4, **every(300)), 0)
    agenda.apply(control.DropStream(4), 0)
    assert agenda.due == FAR


def test_the_agenda_ticks_when_an_open_window_is_due() -> None:
    agenda = Agenda(0)
    agenda.expect([3_000 * MS])
    assert agenda.due == 3_000 * MS and agenda.take(2_999 * MS) is None
    assert agenda.take(3_005 * MS) == set()
    assert agenda.due == 3_005 * MS + PATIENCE, "the slots have not read the tick yet"
    agenda.expect([3_005 * MS + APART])
    assert agenda.due == 3_005 * MS + PATIENCE, "that tick is for what is due soon, too"
    agenda.expect([3_005 * MS + APART + 1])
    assert agenda.due == 3_005 * MS + APART + 1
    agenda.expect([])
    assert agenda.due == FAR


def test_a_tick_goes_ahead_of_the_first_window_and_reaches_as_far_behind_it() -> None:
    agenda = Agenda(0)
    due = [3_000 * MS, 3_000 * MS + APART, 3_001 * MS + APART]
    agenda.expect(due, 200 * MS)
    assert agenda.due == 2_800 * MS and agenda.early == 200 * MS + APART
    assert agenda.take(2_800 * MS) == set()
    assert agenda.due == 2_801 * MS + APART, "the second came with the first"
    agenda.expect(due, 100 * MS)
    assert agenda.due == 2_901 * MS + APART and agenda.early == 100 * MS + APART


def test_the_agenda_does_not_wait_for_a_tick_to_be_read_before_the_next() -> None:
    agenda = Agenda(0)
    agenda.expect([3_000 * MS, 3_100 * MS, 3_110 * MS, 9_000 * MS])
    assert agenda.take(3_000 * MS) == set()
    assert agenda.due == 3_100 * MS
    assert agenda.take(3_120 * MS) == set(), "one tick for both that have passed"
    assert agenda.due == 3_120 * MS + PATIENCE, "repeated, for the slots have read none of them"
    agenda.expect([9_000 * MS])
    assert agenda.due == 9_000 * MS


def test_a_stream_that_the_slots_refuse_is_not_planned(kit: Any) -> None:
    spec = StreamSpec(9, "d", "s9", "", Period(Duration(1, "n")), options=Options())
    agenda = Agenda(0)
    agenda.apply(control.DefineStream(spec, {}), 0)
    assert agenda.due == FAR

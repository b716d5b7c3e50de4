"""A slot: control records, tables and children, regrouping, counters."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from millrace_core.model.schema import Child, child_uid, stable_hash
from millrace_core.model.stream import Condition, Duration, Options, Source, StreamSpec
from millrace_core.trigger.rows import Messages
from millrace_core.trigger.slot import Slot
from millrace_core.trigger.types import Session
from millrace_core.wire import control, regroup, status
from millrace_core.wire.events import Group, trigger_id
from millrace_core.wire.operations import Delete, Drop, Register
from millrace_core.wire.topics import CONTROL, wal_topic

METERS_TOPIC = wal_topic("d", "meters")


def test_windows_of_each_child(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream())
    cluster.run()
    cluster.write("c1", [1, 5])
    cluster.write("c2", [3])
    cluster.write("c1", [12])
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 0-10 x2"]}
    (batch,) = cluster.triggers
    (event,) = batch.events
    assert event.group.id == child_uid("d", "c1")
    assert event.group.key == ("c1",)
    assert event.id == trigger_id(1, event.group.id, 0)
    assert batch.seen == {0: 3}
    assert event.localtime == 4_000_000, "the fourth message, of timestamp 4 ms, closed the window"
    assert (batch.stream, batch.epoch, batch.number) == (1, 0, 1)


def test_applied_tells_the_last_control_record(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream(1))
    cluster.define(kit.stream(2))
    cluster.run()
    assert [one for one in cluster.status if isinstance(one, status.Applied)] == [status.Applied(1)]


def test_a_control_record_that_was_deleted_is_in_force_too(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream(1))
    cluster.send(CONTROL.name, b"d.s#1", None)
    cluster.run()
    cluster.send(CONTROL.name, b"d.s#2", None)
    cluster.run()
    told = [one for one in cluster.status if isinstance(one, status.Applied)]
    assert told == [status.Applied(1), status.Applied(2)]
    assert not cluster.totals()


def test_rows_before_the_definition_do_not_count(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.write("c1", [1])
    cluster.define(kit.stream())
    cluster.write("c1", [2, 15])
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 0-10 x1"]}


def test_stop_and_start_keep_the_open_windows(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream())
    cluster.write("c1", [1])
    cluster.run()
    cluster.control(control.StopStream(1))
    cluster.write("c1", [2])
    cluster.run()
    cluster.control(control.StartStream(1, {0: cluster.ends[METERS_TOPIC]}, 1))
    cluster.write("c1", [3, 11])
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 0-10 x2"]}
    assert [(batch.epoch, batch.number) for batch in cluster.triggers] == [(1, 1)]


def test_a_dropped_stream_leaves_nothing(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.run()
    cluster.control(control.StopStream(5))  # every slot gets a state
    cluster.run()
    empty = {number: len(blob) for number, blob in cluster.blobs.items()}
    cluster.define(kit.stream(1, partition=("site",)))
    cluster.operate("c1", Register({"site": 1, "room": 2}))
    cluster.write("c1", [1, 30])
    cluster.run()
    cluster.control(control.DropStream(1))
    cluster.write("c1", [99])
    cluster.run()
    assert len(cluster.triggers) == 1
    for number, blob in cluster.blobs.items():
        slot = Slot.restore(blob)
        assert not slot.contents.streams
        assert not any(family.tags for family in slot.contents.families.values())
        assert len(blob) < empty[number] + 100


def test_tag_groups_meet_in_one_slot(kit: Any) -> None:
    cluster = kit.Cluster()
    names = [f"c{i}" for i in range(9)]
    cluster.define(kit.stream(partition=("site",)))
    for i, name in enumerate(names):
        cluster.operate(name, Register({"site": i % 2, "room": i}))
    cluster.run()
    for i, name in enumerate(names):
        cluster.write(name, [i % 10, 3])
    cluster.run()
    for name in names:
        cluster.write(name, [25])
    cluster.run()
    assert cluster.regrouped == 18
    assert cluster.live() == {
        "0": ["CLOSE 0-10 x*", "CLOSE 10-20 x0"],
        "1": ["CLOSE 0-10 x*", "CLOSE 10-20 x0"],
    }
    groups = {event.group for batch in cluster.triggers for event in batch.events}
    assert {(group.id, group.key, group.table) for group in groups} == {
        (stable_hash(1, 0), (0,), None),
        (stable_hash(1, 1), (1,), None),
    }
    assert all(batch.seen[0] <= cluster.ends[METERS_TOPIC] for batch in cluster.triggers)
    assert max(batch.seen[0] for batch in cluster.triggers) > 18, "it knows what its senders had seen"


def test_ungrouped_super_table_is_one_group(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream(partition=()))
    for ts, name in ((1, "c1"), (4, "c2"), (15, "c3")):
        cluster.write(name, [ts])
        cluster.run()
    assert cluster.live() == {"-": ["CLOSE 0-10 x2"]}
    assert {event.group.id for batch in cluster.triggers for event in batch.events} == {0}


def test_regrouped_rows_that_come_again_count_once(kit: Any) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(partition=()))
    cluster.write("c1", [1])
    cluster.run()
    cluster.send("regroup", b"1/0", regroup_message(number=1, ts=[1]))  # as the slot itself sent it before
    cluster.send("regroup", b"1/0", regroup_message(number=2, ts=[4, 12]))
    cluster.run()
    assert cluster.live() == {"-": ["CLOSE 0-10 x2"]}


def regroup_message(number: int, ts: list[int], epoch: int = 0) -> bytes:
    rows = np.array(ts, dtype="<i8").tobytes()
    return regroup.encode(regroup.Regrouped(1, epoch, 0, number, Group(0, (), None), "c1", {0: 1}, 1, rows))


def test_regrouped_rows_of_an_earlier_run_do_not_count(kit: Any) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(partition=()), epoch=2)
    cluster.run()
    cluster.send("regroup", b"1/0", regroup_message(1, [1, 30], epoch=1))
    cluster.run()
    assert not cluster.triggers


def test_site_and_table_name_group_in_place(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream(partition=("site", "tbname")))
    cluster.run()
    known = tuple(Child("d", "meters", f"c{i}", (70, i)) for i in range(4))
    cluster.control(*(control.KnowChildren(number, known) for number in range(3)))
    for i in range(4):
        cluster.write(f"c{i}", [1, 10])
    cluster.write("stranger", [1, 10])
    cluster.run()
    groups = {event.group.key: event.group.id for batch in cluster.triggers for event in batch.events}
    assert groups == {(70, f"c{i}"): child_uid("d", f"c{i}") for i in range(4)}
    assert cluster.totals() == {"unknown_table": 2}
    assert cluster.regrouped == 0


def test_a_single_child_and_a_normal_table(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream(1, child="c1", partition=()))
    cluster.define(kit.stream(2, table=kit.PLAIN, partition=()))
    cluster.define(kit.stream(3, table=kit.PLAIN, partition=("tbname",)))
    for name in ("c0", "c1", "c2"):
        cluster.write(name, [1, 10])
    cluster.write(None, [1], table=kit.PLAIN)
    cluster.write("plain", [10], table=kit.PLAIN)
    cluster.run()
    found = {
        (batch.stream, event.group.id, event.group.key, event.group.table)
        for batch in cluster.triggers
        for event in batch.events
    }
    assert found == {(1, 0, (), "c1"), (2, 0, (), "plain"), (3, kit.PLAIN.uid, ("plain",), "plain")}
    streams = [set(Slot.restore(blob).contents.streams) for blob in cluster.blobs.values()]
    assert sum(1 in mine for mine in streams) == 1, "only the table's slot keeps the stream"


@pytest.mark.parametrize("together", [True, False])
def test_a_dropped_child_is_another_table_when_it_comes_again(kit: Any, together: bool) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream())

    def step() -> None:
        if not together:
            cluster.run()

    cluster.write("c1", [1, 2])
    step()
    cluster.operate("c1", Drop())
    step()
    cluster.write("c1", [3, 30])  # of no table: nobody registered it again
    step()
    cluster.operate("c1", Register({"site": 1, "room": 1}, incarnation=1))
    step()
    cluster.write("c1", [4, 12])
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 0-10 x1"]}
    ids = {event.group.id for batch in cluster.triggers for event in batch.events}
    assert ids == {child_uid("d", "c1", 1)}
    assert cluster.totals() == {"unknown_table": 2}


def test_a_child_made_by_its_producer_counts_its_drops(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream(partition=("site", "tbname")))
    for ts, site in ((0, 5), (20, 6)):
        rows = [{"ts": ts, "v": 1}, {"ts": ts + 10, "v": 1}]
        value = msgspec.json.encode({"tags": {"site": site, "room": 1}, "rows": rows})
        cluster.send(METERS_TOPIC, b"c9", value)
        cluster.operate("c9", Drop())
    cluster.run()
    found = {event.group.key: event.group.id for batch in cluster.triggers for event in batch.events}
    assert found == {(5, "c9"): child_uid("d", "c9"), (6, "c9"): child_uid("d", "c9", 1)}


def test_deleted_rows_trigger_nothing(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream())
    cluster.write("c1", [1, 11])
    cluster.operate("c1", Delete(0, 5))
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 0-10 x1"]}
    assert not cluster.recalculated()


def test_a_dropped_table_and_its_successor(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream(1))
    cluster.write("c1", [1])
    cluster.run()
    cluster.control(control.DropTable(kit.METERS.uid, METERS_TOPIC))
    cluster.run()
    cluster.ends[METERS_TOPIC] = 0  # the topic is made again
    again = msgspec.structs.replace(kit.METERS, uid=77)
    cluster.define(kit.stream(2, table=again))
    cluster.write("c1", [2, 13])
    cluster.run()
    assert [(batch.stream, batch.seen) for batch in cluster.triggers] == [(2, {0: 1})]
    assert cluster.live() == {"c1": ["CLOSE 0-10 x1"]}


def test_a_changed_table_decodes_by_its_new_columns(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream())
    cluster.send(METERS_TOPIC, b"c1", b'{"ts": 1, "w": 2}')
    cluster.run()
    assert cluster.totals() == {"undecodable": 1}
    changed = msgspec.structs.replace(
        kit.METERS,
        columns=(*kit.METERS.columns[:1], msgspec.structs.replace(kit.METERS.columns[1], name="w")),
    )
    cluster.control(control.ChangeTable(changed))
    cluster.send(METERS_TOPIC, b"c1", b'[{"ts": 1, "w": 2}, {"ts": 10}]')
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 0-10 x1"]}
    assert cluster.totals() == {"undecodable": 1}


@pytest.mark.parametrize("value", [b"", None, b"{", b'{"ts": "x"}', b"\x00{}", b"\x00{", b'{"v": 1}', b"7"])
def test_a_bad_message_costs_no_good_one(kit: Any, value: bytes | None) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream())
    cluster.write("c1", [1])
    cluster.send(METERS_TOPIC, b"c1", value)
    cluster.send(METERS_TOPIC, b"\xff\xfe", b'{"ts": 1}')
    cluster.write("c1", [12])
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 0-10 x1"]}
    assert cluster.totals() == {"undecodable": 1, "unknown_table": 1}


def test_a_wild_time_is_counted_and_fires_a_bounded_number_of_windows(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream(interval=1000))
    cluster.write("c1", [0, 2**62, -(2**63), 3_153_600_000_000])
    cluster.run()
    windows = cluster.live()["c1"]
    assert len(windows) <= 100_001
    assert windows[0] == "CLOSE 0-1000 x1"
    assert windows[-1] == "CLOSE 3153599999000-3153600000000 x0"
    assert cluster.totals() == {"out_of_range": 2, "empty_windows": 3_153_600_000 - 100_000 - 1}
    assert max(len(batch.events) for batch in cluster.triggers) <= 2_000


def test_what_cannot_run_fails_the_stream_and_no_other(kit: Any) -> None:
    cluster = kit.Cluster()
    session = StreamSpec(3, "d", "s3", "", Session(Duration(5, "b")), Source(kit.METERS), ("tbname",))
    filtered = msgspec.structs.replace(kit.stream(4), options=Options(pre_filter=Condition("v > 1", ("v",))))
    cluster.define(session)
    cluster.define(filtered)
    cluster.define(kit.stream(1))
    cluster.write("c1", [1, 10])
    cluster.run()
    failures = [news for news in cluster.status if isinstance(news, status.StreamFailure)]
    assert failures == [
        status.StreamFailure(3, "5b is not a whole number of ms, the database's precision", 0),
        status.StreamFailure(4, "stream d.s4: PRE_FILTER(v > 1) has no expression", 0),
    ]
    assert {batch.stream for batch in cluster.triggers} == {1}
    cluster.define(msgspec.structs.replace(filtered, options=Options()))
    cluster.run()
    assert status.StreamFailure(4, "", 0) in cluster.status


@pytest.mark.parametrize("version", [1, 4, 200])
def test_a_state_of_another_version_is_refused(kit: Any, version: int) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.tick(1)
    blob = bytes([version]) + Slot(0, 1).snapshot()[1:]
    ticks = Messages.of(cluster.waiting)
    for read in (Slot.restore, Slot.due, Slot.delays_due, lambda state: Slot.heeds(state, ticks)):
        with pytest.raises(ValueError, match=f"version {version}, but version"):
            read(blob)


def test_the_output_of_a_dropped_table_goes_after_its_last_event_if_that_was_asked_for(kit: Any) -> None:
    cluster, kept, gone = kit.Cluster(), kit.stream(1), kit.stream(2)
    options = msgspec.structs.replace(gone.options, delete_output_table=True)
    cluster.define(kept)
    cluster.define(msgspec.structs.replace(gone, options=options))
    cluster.write("c1", [1, 11])
    cluster.operate("c1", Drop())
    cluster.run()
    told = {uid: [e.kind for b in cluster.triggers if b.stream == uid for e in b.events] for uid in (1, 2)}
    assert told == {1: ["CLOSE"], 2: ["CLOSE", "GONE"]}
    assert [event.group.table for batch in cluster.triggers for event in batch.events] == ["c1"] * 3

"""MAX_DELAY: open windows trigger on ticks, of every type, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.trigger.slot import Slot
from millrace_core.trigger.stream.delay import AHEAD, APART, FAR, delay_of, upcoming
from millrace_core.wire import control

from ...conftest import examples

SECOND = 1_000
MS = 1_000_000


def cluster_of(kit: Any, **options: Any) -> Any:
    cluster = kit.Cluster(slots=2)
    cluster.define(kit.stream(max_delay=3 * SECOND, **options))
    cluster.run()
    return cluster


def tick(cluster: Any, now: int, early: int = 0) -> None:
    cluster.tick(now, early=early)
    cluster.run()


def test_again_and_again_until_the_window_closes(kit: Any) -> None:
    cluster = cluster_of(kit)
    cluster.write("c1", [1, 4])
    cluster.run()  # at about 2 ms
    tick(cluster, 2 * SECOND)
    assert cluster.delayed() == []
    tick(cluster, 3 * SECOND + 10)
    assert cluster.delayed() == ["c1 CLOSE 0-10 x2"]
    cluster.write("c1", [7])
    cluster.run()
    tick(cluster, 4 * SECOND)
    assert len(cluster.delayed()) == 1, "the window opened when it opened, not with its last row"
    tick(cluster, 6 * SECOND + 10)
    assert cluster.delayed()[1:] == ["c1 CLOSE 0-10 x3"]
    cluster.write("c1", [10])
    cluster.run()
    assert cluster.live() == {"c1": ["CLOSE 0-10 x3"]}
    tick(cluster, 9 * SECOND)
    assert cluster.delayed()[2:] == []
    tick(cluster, 10 * SECOND)
    assert cluster.delayed()[2:] == ["c1 CLOSE 10-20 x1"]


def test_a_window_triggers_at_the_nanosecond_at_which_it_is_due(kit: Any) -> None:
    cluster = cluster_of(kit)
    cluster.write("c1", [1])
    due = cluster.now + 3 * SECOND
    cluster.run()
    tick(cluster, due - 1)
    assert cluster.delayed() == []
    tick(cluster, due)
    assert len(cluster.delayed()) == 1
    tick(cluster, due + 3 * SECOND - 1)
    assert len(cluster.delayed()) == 1, "it is due again a whole delay later"
    tick(cluster, due + 3 * SECOND - 150, early=150)
    assert len(cluster.delayed()) == 2, "a tick reaches what is due just as early as it says"


def test_a_window_that_is_due_at_the_reach_of_a_tick_triggers_with_others(kit: Any) -> None:
    """The tick finds the stream due by its first window; the second is due at the tick's very end."""
    cluster = cluster_of(kit)
    for child in ("c1", "c2"):
        cluster.now += 100
        cluster.write(child, [1])
    due = cluster.now + 3 * SECOND
    cluster.run()
    tick(cluster, due)
    assert sorted(cluster.delayed()) == ["c1 CLOSE 0-10 x1", "c2 CLOSE 0-10 x1"]


def test_what_came_due_several_times_fires_once(kit: Any) -> None:
    cluster = cluster_of(kit)
    cluster.write("c1", [1])
    cluster.run()
    tick(cluster, 3_600 * SECOND)
    assert cluster.delayed() == ["c1 CLOSE 0-10 x1"]
    (event,) = [event for batch in cluster.triggers for event in batch.events]
    assert event.localtime == 3_600 * SECOND * 1_000_000
    tick(cluster, 3_600 * SECOND + 1)
    assert len(cluster.delayed()) == 1
    tick(cluster, 3_602 * SECOND)
    tick(cluster, 3_603 * SECOND)
    assert len(cluster.delayed()) == 2, "then every delay after the opening again"


def test_a_tick_is_for_what_is_due_soon_once(kit: Any) -> None:
    """A window that triggered early does not do so again when its time comes."""
    cluster = cluster_of(kit)
    cluster.write("c1", [1])
    cluster.run()
    tick(cluster, 3 * SECOND - 160, early=150)
    assert cluster.delayed() == []
    tick(cluster, 3 * SECOND - 140, early=150)
    assert cluster.delayed() == ["c1 CLOSE 0-10 x1"]
    for now in (3 * SECOND, 3 * SECOND + 100, 6 * SECOND - 160):
        tick(cluster, now, early=150)
    assert len(cluster.delayed()) == 1
    tick(cluster, 6 * SECOND + 10)
    assert len(cluster.delayed()) == 2


def test_a_stream_that_calculates_at_openings_alone_does_so_at_every_delay(kit: Any) -> None:
    cluster = cluster_of(kit, kinds=("WINDOW_OPEN",))
    cluster.write("c1", [1, 4])
    cluster.run()
    tick(cluster, 3 * SECOND + 10)
    tick(cluster, 6 * SECOND + 10)
    assert cluster.delayed() == ["c1 CLOSE 0-10 x2", "c1 CLOSE 0-10 x2"]
    cluster.write("c1", [10])
    cluster.run()
    assert cluster.live() == {"c1": ["OPEN 0-10 x1", "OPEN 10-20 x1"]}


def test_rows_that_the_watermark_holds_back_open_nothing(kit: Any) -> None:
    cluster = cluster_of(kit, watermark=60)
    cluster.write("c1", [1, 4])
    cluster.run()
    tick(cluster, 9 * SECOND)
    assert cluster.delayed() == []
    cluster.write("c1", [65])
    cluster.run()
    tick(cluster, 12 * SECOND + 10)
    assert cluster.delayed() == ["c1 CLOSE 0-10 x2"]


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        ({"Session": {"gap": 10}}, ["c1 CLOSE 1-7 x3"]),
        ({"State": {"column": "v"}}, ["c1 CLOSE 4-7 x2"]),
        ({"State": {"column": "v", "true_for": 1_000}}, ["c1 CLOSE 4-7 x2"]),
        ({"Count": {"count": 4, "sliding": 2}}, ["c1 CLOSE 1-7 x3", "c1 CLOSE 7-7 x1"]),
    ],
)
def test_every_type_of_window(kit: Any, trigger: dict[str, Any], expected: list[str]) -> None:
    """The end is the last row so far; TRUE_FOR does not hold MAX_DELAY back (seed 000)."""
    cluster = cluster_of(kit, trigger=trigger)
    cluster.write("c1", [[1, 8], [4, 9], [7, 9]])
    cluster.run()
    tick(cluster, 3 * SECOND + 10)
    assert cluster.delayed() == expected


def test_groups_of_tags(kit: Any) -> None:
    cluster = cluster_of(kit, partition=())
    cluster.write("c1", [1])
    cluster.write("c2", [4])
    cluster.run()
    tick(cluster, 3 * SECOND + 10)
    assert cluster.delayed() == ["- CLOSE 0-10 x2"]
    assert cluster.triggers[-1].seen == {0: 2}


def test_a_stopped_stream_is_silent_and_an_ended_group_forgotten(kit: Any) -> None:
    cluster = cluster_of(kit, child="c1")
    cluster.write("c1", [1])
    cluster.run()
    cluster.control(control.StopStream(1))
    cluster.run()
    tick(cluster, 4 * SECOND)
    assert cluster.delayed() == []
    cluster.control(control.StartStream(1, {0: 1}, 1))
    cluster.run()
    tick(cluster, 5 * SECOND)
    assert cluster.delayed() == ["c1 CLOSE 0-10 x1"]
    cluster.control(control.DropTable(kit.METERS.uid, "wal.d.meters"))
    cluster.run()
    tick(cluster, 9 * SECOND)
    assert len(cluster.delayed()) == 1
    assert all(Slot.due(blob) == FAR for blob in cluster.blobs.values())


def test_where_it_has_no_effect(kit: Any) -> None:
    assert delay_of(kit.stream(max_delay=3_000)) == 3_000_000_000
    assert delay_of(kit.stream()) is None
    assert delay_of(kit.stream(max_delay=3_000, trigger={"Sliding": {"sliding": 10}})) is None


@settings(max_examples=examples(200))
@given(st.lists(st.integers(0, 3 * AHEAD * APART), max_size=300), st.integers(0, 2 * 10**18))
def test_the_next_times_leave_no_window_waiting(spread: list[int], begin: int) -> None:
    due = [begin + one for one in spread]
    found = upcoming(np.array(due, dtype=np.int64)).tolist()
    assert found == sorted(set(found)) and len(found) <= AHEAD
    for one in due:
        if one < min(due) + AHEAD * APART:
            assert any(0 <= one - instant < APART for instant in found)


def test_a_state_tells_when_its_open_windows_are_due(kit: Any) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(1, max_delay=3 * SECOND))
    cluster.define(kit.stream(2, max_delay=4 * SECOND, child="c3"))
    cluster.define(kit.stream(3))
    cluster.run()
    assert Slot.delays_due(cluster.blobs[0]) == []
    opened = {}
    for child, at in (("c1", 100), ("c2", 105), ("c3", 200)):
        cluster.now = opened[child] = at
        cluster.write(child, [1])
        opened[child] = cluster.now
    cluster.run()
    due = [opened["c1"] + 3 * SECOND, opened["c3"] + 3 * SECOND, opened["c3"] + 4 * SECOND]
    times = [one * MS for one in due]
    assert Slot.delays_due(cluster.blobs[0]) == times, "c1's and c2's are one"
    assert Slot.due(cluster.blobs[0]) == due[0] * MS
    assert Slot.restore(cluster.blobs[0]).snapshot() == cluster.blobs[0]
    tick(cluster, due[0], early=APART // MS)
    assert Slot.delays_due(cluster.blobs[0]) == times[1:], "6 s are too far"
    cluster.control(control.StopStream(1))
    cluster.run()
    assert Slot.delays_due(cluster.blobs[0]) == times[2:]
    cluster.write("c3", [10])
    cluster.control(control.StopStream(2))
    cluster.run()
    assert Slot.delays_due(cluster.blobs[0]) == []

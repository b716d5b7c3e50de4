"""MAX_DELAY: open windows trigger on ticks, of every type, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

from millrace_core.trigger.delay import FAR, delay_of
from millrace_core.trigger.slot import Slot
from millrace_core.wire import control

SECOND = 1_000


def cluster_of(kit: Any, **options: Any) -> Any:
    cluster = kit.Cluster(slots=2)
    cluster.define(kit.stream(max_delay=3 * SECOND, **options))
    cluster.run()
    return cluster


def tick(cluster: Any, now: int) -> None:
    cluster.tick(now)
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
    assert delay_of(kit.stream(max_delay=3_000, kinds=("WINDOW_OPEN",))) is None
    assert delay_of(kit.stream(max_delay=3_000, trigger={"Sliding": {"sliding": 10}})) is None

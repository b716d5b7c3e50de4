"""Windows that the clock closes: each once, in order, with what was written before its end; batches, restarts
and what was missed are not to be seen."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.model.stream import Emission
from millrace_core.wire import control
from millrace_core.wire.operations import Delete

from ...conftest import examples

steps = st.lists(
    st.tuples(st.sampled_from(["c1", "c2"]), st.integers(-30, 60), st.integers(1, 12), st.booleans()),
    max_size=15,
)
"""A row's table, its time after (or before) the clock's, how long until the next step, and whether a tick
comes."""


def forced(kit: Any, fill: str | None = None, **stream: Any) -> Any:
    return msgspec.structs.replace(
        kit.stream(**stream), emission=Emission("force_window_close", obsolete="retracted", fill=fill)
    )


def told(cluster: Any) -> list[tuple[str, int, int, str, str]]:
    return [
        (event.group.table, event.start, event.end, event.kind, event.cause)
        for batch in cluster.triggers for event in batch.events
    ]  # fmt: skip


def windows(cluster: Any, child: str) -> list[tuple[int, int]]:
    return [(start, end) for table, start, end, *_ in told(cluster) if table == child]


@settings(max_examples=examples(60))
@given(steps)
def test_each_window_with_rows_in_time_is_told_of_once_and_in_order(
    kit: Any, some: list[tuple[str, int, int, bool]]
) -> None:
    cluster = kit.Cluster()
    cluster.define(forced(kit))
    cluster.run()
    wanted: dict[str, set[int]] = {"c1": set(), "c2": set()}
    for child, ahead, pause, ticks in some:
        cluster.now += pause
        ts = cluster.now + 1 + ahead
        if (ts // 10) * 10 + 10 > cluster.now + 1:
            wanted[child].add(ts // 10 * 10)
        cluster.write(child, [ts])
        cluster.run()
        if ticks:
            cluster.tick(cluster.now + 1)
            cluster.run()
    cluster.tick(cluster.now + 200)
    cluster.run()
    for child, starts in wanted.items():
        found = windows(cluster, child)
        assert found == [(start, start + 10) for start in sorted(starts)]


def test_nothing_is_told_before_its_end_and_what_comes_later_does_not_count(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(forced(kit))
    cluster.now = 100
    cluster.write("c1", [103, 107])
    cluster.run()
    cluster.tick(109, early=75)
    cluster.run()
    assert windows(cluster, "c1") == []
    cluster.tick(110)
    cluster.run()
    assert told(cluster) == [("c1", 100, 110, "CLOSE", "LIVE")]
    cluster.write("c1", [105])
    cluster.operate("c1", Delete(0, 200))
    cluster.tick(300)
    cluster.run()
    assert windows(cluster, "c1") == [(100, 110)] and not cluster.asked
    cluster.tick(400)
    cluster.run()
    assert cluster.totals()["expired"] == 1


def test_what_ended_while_nobody_watched_is_made_up_for(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(forced(kit))
    cluster.now = 100
    for ts in (103, 114, 131):
        cluster.write("c1", [ts])
    cluster.now = 1000  # the service was away: rows and tick come in one batch
    cluster.tick(1000, since=1000)
    cluster.run()
    assert windows(cluster, "c1") == [(100, 110), (110, 120), (130, 140)]


def test_with_fill_windows_go_on_without_rows(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(forced(kit, fill="PREV"))
    cluster.now = 100
    cluster.write("c1", [103])
    cluster.run()
    for now in (110, 125, 131):
        cluster.tick(now)
        cluster.run()
    cluster.write("c2", [145])
    cluster.tick(161)
    cluster.run()
    assert windows(cluster, "c1") == [(start, start + 10) for start in range(100, 160, 10)]
    assert windows(cluster, "c2") == [(140, 150), (150, 160)]


@pytest.mark.parametrize(
    ("fill", "expected"), [(None, [(170, 180)]), ("NULL", [(150, 160), (160, 170), (170, 180)])]
)
def test_ignore_untreated_leaves_out_what_ended_meanwhile(
    kit: Any, fill: str | None, expected: list[tuple[int, int]]
) -> None:
    cluster = kit.Cluster()
    spec = forced(kit, fill=fill)
    cluster.define(spec)
    cluster.now = 100
    cluster.write("c1", [103, 171])
    cluster.run()
    cluster.control(control.StopStream(spec.uid))
    cluster.run()
    cluster.tick(150)
    cluster.run()
    cluster.now = 151
    topic = next(topic for topic in cluster.ends if topic.startswith("wal."))
    cluster.control(control.StartStream(spec.uid, {0: cluster.ends[topic]}, 1, untreated=False))
    cluster.tick(200)
    cluster.run()
    assert windows(cluster, "c1")[: len(expected)] == expected

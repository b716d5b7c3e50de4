"""What a slot counts of a stream, and when it tells."""

from __future__ import annotations

from typing import Any

from millrace_core.trigger.slot import Slot
from millrace_core.wire import control, status
from millrace_core.wire.counters import BY_NAME, combined

MS = 1_000_000


def told(cluster: Any) -> dict[str, int]:
    """The counters of stream 1 as a reader of the topic sees them now."""
    last = {status.key(news): news for news in cluster.status if isinstance(news, status.Counters)}
    return combined(last.values()).get(1, {})


def test_volumes_are_told_with_the_next_tick(kit: Any) -> None:
    cluster = kit.Cluster(slots=2)
    cluster.define(kit.stream(1))
    cluster.run()
    assert told(cluster) == {"started": 1 * MS}
    for name in ("c1", "c2", "c3"):
        cluster.write(name, [1, 5, 12])
    cluster.run()
    assert told(cluster) == {"started": 1 * MS}
    cluster.tick(100)
    cluster.run()
    found = told(cluster)
    assert {name: found[name] for name in ("rows_read", "rows_used", "events_sent")} == {
        "rows_read": 9, "rows_used": 9, "events_sent": 3,
    }  # fmt: skip
    assert 2 * MS <= found["last_trigger"] <= 4 * MS
    assert found.keys() <= BY_NAME.keys()


def test_a_tick_without_news_is_not_heeded(kit: Any) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(1))
    cluster.run()
    cluster.write("c1", [1])
    cluster.run()
    cluster.tick(100)
    cluster.run()
    assert cluster.unheeded == 0
    before = len(cluster.status)
    cluster.tick(200)
    cluster.run()
    assert (cluster.unheeded, len(cluster.status)) == (1, before)


def test_late_rows_in_closed_windows_of_interval_count_as_recalculations(kit: Any) -> None:
    """Of other types the requests count, which calc-svc answers."""
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(1))
    for batch in ([5, 25], [3, 4, 14], [24], [7]):
        cluster.write("c1", batch)
        cluster.run()
    cluster.tick(100)
    cluster.run()
    assert (told(cluster)["recalculated"], told(cluster)["late_used"]) == (2, 5)
    assert len(cluster.recalculated()) == 2, "of the windows at 0 and at 10"


def test_what_is_dropped_is_told_at_once(kit: Any) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(1, ignore_disorder=True))
    cluster.write("c1", [50])
    cluster.run()
    cluster.write("c1", [20])
    cluster.run()
    found = told(cluster)
    assert (found["late"], found["rows_read"], found["rows_used"]) == (1, 2, 1)


def test_every_row_that_is_read_is_used_or_has_its_cause(kit: Any) -> None:
    cluster = kit.Cluster(slots=2)
    cluster.define(kit.stream(1, expired=100, ignore_disorder=True))
    cluster.write("c1", [1, 500, 505, 1 << 62])
    cluster.run()
    cluster.write("c1", [450])
    cluster.write("c1", [2])
    cluster.tick(100)
    cluster.run()
    found = told(cluster)
    causes = {name: found.get(name, 0) for name in ("late", "expired", "out_of_range")}
    assert causes == {"late": 1, "expired": 1, "out_of_range": 1}
    assert found["rows_read"] == found["rows_used"] + sum(causes.values()) == 6


def test_late_rows_that_count_and_what_they_ask_for(kit: Any) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(1))
    cluster.write("c1", [1, 11, 21])
    cluster.run()
    cluster.write("c1", [2])
    cluster.control(control.RecalculateStream(1, 0, None))
    cluster.run()
    cluster.tick(100)
    cluster.run()
    found = told(cluster)
    assert (found["late_used"], found["requests_sent"], len(cluster.asked)) == (1, 1, 1)


def test_a_restart_forgets_nothing_that_was_not_told(kit: Any) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(1))
    cluster.run()
    cluster.write("c1", [1, 12])
    cluster.run()
    assert "rows_read" not in told(cluster)
    restored = Slot.restore(cluster.blobs[0])
    assert restored.snapshot() == cluster.blobs[0]
    cluster.tick(100)
    cluster.run()
    assert told(cluster)["rows_read"] == 2


def test_events_of_a_period_are_counted(kit: Any) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(1, trigger={"Period": {"every": 1_000}}, child="c1"))
    cluster.run()
    cluster.tick(1_000)
    cluster.tick(2_000)
    cluster.run()
    found = told(cluster)
    assert (found["events_sent"], found["last_trigger"]) == (2, 2_000 * MS)
    assert "rows_read" not in found


def test_rows_in_gaps_of_an_interval(kit: Any) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(1, interval=5, sliding=20))
    cluster.write("c1", [60, 63, 65, 72, 81])
    cluster.tick(100)
    cluster.run()
    found = told(cluster)
    assert (found["in_gap"], found["rows_used"]) == (2, 3)


def test_a_stopped_stream_counts_nothing(kit: Any) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(1))
    cluster.control(control.StopStream(1))
    cluster.run()
    cluster.write("c1", [1, 12])
    cluster.tick(100)
    cluster.run()
    assert told(cluster) == {"started": 1 * MS}

"""What trigger-svc reports of its query, and when it writes a tick for the counters."""

from __future__ import annotations

from typing import Any

from millrace_core.wire import control, status
from millrace_core.wire.topics import CLOCK, STATUS, TOPICS
from millrace_wal import BEGIN, MemoryLog
from trigger_svc.reporter import Reporter, moved


def progress(**ends: int) -> dict[str, dict[int, int]]:
    """Partition 0 of each topic (``_`` for ``.``) is evaluated for good up to this offset."""
    return {name.replace("_", "."): {0: end} for name, end in ends.items()}


class Bench:
    """A reporter over a log; ``report`` is how far the query is."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.log.ensure_topics(TOPICS)
        self.report: Any = {}
        self.reporter = Reporter(self.log, lambda: self.report, "host:1")

    def step(self, report: Any) -> tuple[list[status.ReadUpTo], int]:
        """The reports and the number of ticks that there are now."""
        self.report = report
        self.reporter.report()
        found, ticks = [], 0
        reader = self.log.reader({STATUS.name: {0: BEGIN}, CLOCK.name: {0: BEGIN}})
        while records := reader.poll(0.01):
            for record in records:
                if record.topic == CLOCK.name:
                    ticks += 1
                    assert control.decode_tick(record.value or b"").since > 1 << 62, "nothing may fire"
                elif record.value is not None:
                    told = status.decode(record.value)
                    assert isinstance(told, status.ReadUpTo)
                    found.append(told)
        reader.close()
        return found, ticks


def test_ticks_are_no_news() -> None:
    assert moved({"wal.d.t": {0: 4}}, {"wal.d.t": {0: 4}, "clock": {0: 10}, "regroup": {0: 1}}) == {
        "regroup": {0: 1}
    }


def test_rows_are_followed_by_one_report_and_two_ticks() -> None:
    bench = Bench()
    assert bench.step({}) == ([], 0)
    first = status.ReadUpTo("wal.d.t", {0: 4}, "host:1")
    assert bench.step(progress(wal_d_t=4, clock=1)) == ([first], 1)
    assert bench.step(progress(wal_d_t=4, clock=2)) == ([first], 2), "no rows have come since the first tick"
    assert bench.step(progress(wal_d_t=4, clock=3)) == ([first], 2), "its own ticks are no news"
    found, ticks = bench.step(progress(wal_d_t=7, clock=3))
    assert (found[1:], ticks) == ([status.ReadUpTo("wal.d.t", {0: 7}, "host:1")], 3)


def test_regrouped_rows_need_a_tick_too() -> None:
    bench = Bench()
    assert bench.step(progress(regroup=3)) == ([status.ReadUpTo("regroup", {0: 3}, "host:1")], 1)


def test_a_topic_that_is_gone_is_forgotten() -> None:
    bench = Bench()
    bench.step(progress(wal_d_t=4, wal_d_u=1))
    bench.step(progress(wal_d_u=2))
    records = bench.log.reader({STATUS.name: {0: BEGIN}}).poll(0.01)
    last = {record.key: record.value for record in records}
    assert last[status.key(status.ReadUpTo("wal.d.t", {}))] is None

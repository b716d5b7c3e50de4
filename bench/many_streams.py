"""``python -m bench.many_streams``: whether many streams slow each other down.

10 streams and 1,000 streams read 10 tables under the same rows. Windows of a minute, each stream's at an
offset of its own, so closings are spread over time. What is measured is from giving a closing row to the
producer to its trigger event, and to the notification with the calculated result.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench import events, report
from bench.feed import Feed
from bench.goals import Figure
from bench.stage import DB, BenchError, Stage, say, stage, wait
from bench.stats import latencies_ms
from bench.workload import BASE
from millrace.demo.listen import Event, Listener
from millrace_core.wire import events as wire
from millrace_core.wire.topics import TRIGGERS, wal_topic

TABLES, RATE, WIDTH_MS = 10, 200, 60_000
STREAMS, QUICK_STREAMS = (10, 1_000), (10, 20)
SECONDS, QUICK_SECONDS = (60, 240), (5, 70)
"""The warm part, whose closings do not count, and all."""
LAST_SECONDS = 120.0
FIGURES = tuple(
    Figure(f"{name}.{many}.{share}", "x" if goal else "ms", *goal)
    for name in ("trigger_latency_ms", "result_latency_ms")
    for many in map(str, STREAMS)
    for share, goal in (
        ("p50", () if many == "10" else ("<=", 3, f"{name}.10.p50")),
        ("p99", ()),
    )
)
STEP_MS = 1000 * TABLES // RATE
"""Event time between two rows of a table; table t's first is t / TABLES of it behind BASE."""


@dataclass(frozen=True)
class Streams:
    """So many streams over all tables: stream n reads table n modulo ``TABLES``. No two have windows that
    begin at the same time, so a window is known by its start."""

    count: int

    def offset(self, number: int) -> int:
        """Where the stream's windows begin, ms."""
        return number * WIDTH_MS // self.count

    def sql(self, number: int, url: str) -> str:
        """CREATE STREAM of one."""
        return (
            f"CREATE STREAM {DB}.s{number} INTERVAL({WIDTH_MS}a, {self.offset(number)}a) SLIDING({WIDTH_MS}a)"
            f" FROM {DB}.d{number % TABLES} NOTIFY('{url}') ON (WINDOW_CLOSE) INTO {DB}.out{number}"
            " AS SELECT _twstart AS ts, count(*) AS n, avg(v) AS a FROM %%trows"
        )

    def closed_by(self, table: int, before: int, ts: int) -> Iterator[int]:
        """The windows that a row closes whose table's row before it was at ``before``."""
        for number in range(table, self.count, TABLES):
            shift = BASE + self.offset(number)
            if (first := (before - shift) // WIDTH_MS) < (ts - shift) // WIDTH_MS:
                yield shift + first * WIDTH_MS

    def rows(self, start: int) -> int:
        """How many rows a closed window has."""
        number = (start - BASE) % WIDTH_MS * self.count // WIDTH_MS
        first = BASE + number % TABLES * STEP_MS // TABLES

        def before(ts: int) -> int:
            return max(0, -((first - ts) // STEP_MS))

        return before(start + WIDTH_MS) - before(start)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """``{streams: {p50, p99}}`` of both, in milliseconds."""
    found: dict[str, Any] = {"trigger_latency_ms": {}, "result_latency_ms": {}, "create_seconds": {}}
    for count in QUICK_STREAMS if given.quick else STREAMS:
        triggers, results, created = _latencies(Streams(count), *(QUICK_SECONDS if given.quick else SECONDS))
        found["trigger_latency_ms"][str(count)] = latencies_ms(triggers)
        found["result_latency_ms"][str(count)] = latencies_ms(results)
        found["create_seconds"][str(count)] = round(created, 1)
    return found


def _latencies(streams: Streams, warm: int, seconds: int) -> tuple[list[float], list[float], float]:
    """Seconds to the trigger events and to the results; and how long it took to make the streams."""
    seen: dict[int, float] = {}
    rows: dict[int, int] = {}

    def note(_: int, event: Event) -> None:
        now = time.perf_counter()
        start = int(event["windowStart"])
        seen.setdefault(start, now)
        rows.setdefault(start, int(event["result"]["n"]))

    stable = f"CREATE STABLE {DB}.load (ts TIMESTAMP, v INT) TAGS (k INT)"
    with stage("many-streams", [stable]) as one, Listener(note) as listener:
        one.tables(TABLES, "load")
        created = _create(one, streams, listener.url)
        told = _Told(one)
        with events.InBackground(told.take):
            written = _write(one.broker, streams, seconds)
            wait(lambda: seen.keys() >= written.keys() <= told.seen.keys(), LAST_SECONDS, "the last result")
    expected = {start: streams.rows(start) for start in written}
    if rows != expected:
        wrong = sorted(one for one in rows.keys() | expected.keys() if rows.get(one) != expected.get(one))
        raise BenchError(f"{len(wrong)} of {len(expected)} windows are wrong, first {wrong[:3]}")
    begin = min(written.values()) + warm
    late = [(told.seen[start] - at, seen[start] - at) for start, at in written.items() if at >= begin]
    say(f"{streams.count} streams: {len(late)} closings")
    return [trigger for trigger, _ in late], [result for _, result in late], created


def _create(one: Stage, streams: Streams, url: str) -> float:
    began = time.monotonic()
    for number in range(streams.count):
        one.sql(streams.sql(number, url))
    one.running(f"s{streams.count - 1}", 600)
    say(f"{streams.count} streams made in {time.monotonic() - began:.1f} s")
    return time.monotonic() - began


class _Told:
    """When the event of each closing was read."""

    def __init__(self, one: Stage) -> None:
        self._reader = one.log.reader({TRIGGERS.name: one.log.end_offsets(TRIGGERS.name)})
        self.seen: dict[int, float] = {}

    def take(self) -> None:
        """Takes in what comes within a moment."""
        for record in self._reader.poll(0.1):
            now = time.perf_counter()
            for event in wire.decode(record.value or b"").events:
                self.seen.setdefault(event.start, now)


def _write(broker: str, streams: Streams, seconds: int) -> dict[int, float]:
    """Writes the rows when they are due; window -> when its closing row was written (``perf_counter``)."""
    say(f"writing {RATE * seconds:,} rows, {RATE} a second")
    feed, topic = Feed(broker, prompt=True), wal_topic(DB, "load")
    written: dict[int, float] = {}
    last: dict[int, int] = {}
    began = time.perf_counter()
    for number in range(RATE * seconds):
        late = time.perf_counter() - (began + number / RATE)
        if late < 0:
            time.sleep(-late)
        table, ts = number % TABLES, BASE + number * 1000 // RATE
        now = time.perf_counter()
        written |= dict.fromkeys(streams.closed_by(table, last.get(table, ts), ts), now)
        last[table] = ts
        feed.write(topic, f"d{table}", b'{"ts":%d,"v":%d}' % (ts, number % 97))
        feed.serve()
    feed.done()
    return written


if __name__ == "__main__":
    report.run("many_streams", __doc__, measure, FIGURES)

"""``python -m bench.many_streams``: whether many streams slow each other down.

10 streams and 1,000 streams read 10 tables under the same rows. Windows of a minute, each stream's at an
offset of its own, so closings are spread over time. What is measured is from giving a closing row to the
producer to its trigger event, and to the notification with the calculated result.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

from bench import events, report
from bench.goals import Figure
from bench.stage import DB, BenchError, Stage, say, stage, wait
from bench.stats import latencies_ms
from bench.steady import since, write
from bench.workload import BASE, SteadyRow, Window
from millrace.demo.listen import Event, Listener
from millrace_core.wire import events as wire
from millrace_core.wire.topics import TRIGGERS

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
        ("p50", () if many == "10" else ("<=", 1.3, f"{name}.10.p50")),
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

    def written(self, seconds: int) -> list[SteadyRow]:
        """The rows of all tables in turn, in the order in which they are due. A table's streams are further
        apart than its rows, so a row closes one window at most."""
        found = []
        for number in range(RATE * seconds):
            ts = BASE + number * 1000 // RATE
            closes = self._closed(number % TABLES, ts) if number >= TABLES else None
            found.append(SteadyRow(f"d{number % TABLES}", ts, closes))
        return found

    def _closed(self, table: int, ts: int) -> int | None:
        for number in range(table, self.count, TABLES):
            shift = BASE + self.offset(number)
            if (first := (ts - STEP_MS - shift) // WIDTH_MS) < (ts - shift) // WIDTH_MS:
                return shift + first * WIDTH_MS
        return None

    def window(self, start: int) -> Window:
        """The one that begins then."""
        number = (start - BASE) % WIDTH_MS * self.count // WIDTH_MS
        return f"d{number % TABLES}", start

    def rows(self, start: int) -> int:
        """How many rows a closed window has."""
        table, _ = self.window(start)
        first = BASE + int(table[1:]) * STEP_MS // TABLES

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
    seen: dict[Window, float] = {}
    rows: dict[Window, int] = {}

    def note(_: int, event: Event) -> None:
        now = time.perf_counter()
        window = streams.window(int(event["windowStart"]))
        seen.setdefault(window, now)
        rows.setdefault(window, int(event["result"]["n"]))

    stable = f"CREATE STABLE {DB}.load (ts TIMESTAMP, v INT) TAGS (k INT)"
    with stage("many-streams", [stable]) as one, Listener(note) as listener:
        one.tables(TABLES, "load")
        created = _create(one, streams, listener.url)
        told = _Told(one, streams)
        given = streams.written(seconds)
        with events.InBackground(told.take):
            written = write(one.broker, given, RATE)
            wait(lambda: seen.keys() >= written.keys() <= told.seen.keys(), LAST_SECONDS, "the last result")
    expected = {window: streams.rows(window[1]) for window in written}
    if rows != expected:
        wrong = sorted(one for one in rows.keys() | expected.keys() if rows.get(one) != expected.get(one))
        raise BenchError(f"{len(wrong)} of {len(expected)} windows are wrong, first {wrong[:3]}")
    late = since(written, told.seen, warm)
    say(f"{streams.count} streams: {len(late)} closings")
    return late, since(written, seen, warm), created


def _create(one: Stage, streams: Streams, url: str) -> float:
    began = time.monotonic()
    for number in range(streams.count):
        one.sql(streams.sql(number, url))
    one.running(f"s{streams.count - 1}", 600)
    say(f"{streams.count} streams created in {time.monotonic() - began:.1f} s")
    return time.monotonic() - began


class _Told:
    """When the event of each closing was read."""

    def __init__(self, one: Stage, streams: Streams) -> None:
        self._reader = one.log.reader({TRIGGERS.name: one.log.end_offsets(TRIGGERS.name)})
        self._streams = streams
        self.seen: dict[Window, float] = {}

    def take(self) -> None:
        """Takes in what comes within a moment."""
        for record in self._reader.poll(0.1):
            now = time.perf_counter()
            for event in wire.decode(record.value or b"").events:
                self.seen.setdefault(self._streams.window(event.start), now)


if __name__ == "__main__":
    report.run("many_streams", __doc__, measure, FIGURES)

"""Some rows a second: when each closing row was written, and when what it caused was seen."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bench import events
from bench.feed import Feed
from bench.size import Size
from bench.stage import DB, BenchError, say, stage, wait
from bench.workload import SteadyRow, Window, counts, steady
from millrace.demo.listen import Event, Listener
from millrace_core.wire.topics import wal_topic

TABLES, RATE, HIGH_RATE, WIDTH = 20, 200, 5000, 1000
LAST_SECONDS = 30.0
STABLE = f"CREATE STABLE {DB}.load (ts TIMESTAMP, v INT) TAGS (k INT)"
STREAM = (
    f"CREATE STREAM {DB}.s_load INTERVAL(1s) SLIDING(1s) FROM {DB}.load PARTITION BY tbname"
    " NOTIFY('{url}') ON (WINDOW_CLOSE)"
    f" INTO {DB}.load_out"
    " AS SELECT _twstart AS ts, %%tbname AS who, count(*) AS n, avg(v) AS a FROM %%tbname"
    " WHERE ts >= _twstart AND ts < _twend"
)


class Results:
    """What notifications tell of windows: when each was told of first (``perf_counter``), and its rows."""

    def __init__(self) -> None:
        self.seen: dict[Window, float] = {}
        self.found: dict[Window, int] = {}

    def note(self, _: int, event: Event) -> None:
        """As a :class:`Listener` calls it."""
        now = time.perf_counter()
        window = (str(event["result"]["who"]), int(event["windowStart"]))
        self.seen.setdefault(window, now)
        self.found.setdefault(window, int(event["result"]["n"]))

    def have(self, windows: Collection[Window]) -> bool:
        """Whether all of these have been told of."""
        return self.seen.keys() >= set(windows)


def trigger_latencies(size: Size, rate: int) -> list[float]:
    """Seconds from writing the closing row to reading its trigger event, the calculation running too."""
    with stage("trigger-latency", [STABLE]) as one, Listener(lambda number, event: None) as listener:
        one.tables(TABLES, "load")
        one.sql(STREAM.replace("{url}", listener.url))
        one.running("s_load")
        triggers = events.triggers(one.log)
        rows = steady(TABLES, rate, size.steady_seconds, WIDTH)
        with events.InBackground(lambda: triggers.take(0.1)):
            written = write(one.broker, rows, rate)
            wait(lambda: triggers.seen.keys() >= written.keys(), LAST_SECONDS, "the last trigger event")
        check(rows, triggers.rows, written)
        return since(written, triggers.seen, size.steady_warm)


def result_latencies(size: Size, rate: int) -> list[float]:
    """Seconds from writing the closing row to receiving its notification with the calculated result."""
    results = Results()
    with stage("result-latency", [STABLE]) as one, Listener(results.note) as listener:
        one.tables(TABLES, "load")
        one.sql(STREAM.replace("{url}", listener.url))
        one.running("s_load")
        rows = steady(TABLES, rate, size.steady_seconds, WIDTH)
        written = write(one.broker, rows, rate)
        wait(lambda: results.have(written), LAST_SECONDS, "the last notification")
        check(rows, results.found, written)
        return since(written, results.seen, size.steady_warm)


def write(broker: str, rows: Sequence[SteadyRow], rate: int = RATE) -> dict[Window, float]:
    """Writes the rows when they are due; window -> when its closing row was written (``perf_counter``)."""
    say(f"writing {len(rows)} rows, {rate} a second")
    feed, topic = Feed(broker, prompt=True), wal_topic(DB, "load")
    written: dict[Window, float] = {}
    began = time.perf_counter()
    for number, row in enumerate(rows):
        late = time.perf_counter() - (began + number / rate)
        if late < 0:
            time.sleep(-late)
        if row.closes is not None:
            written[row.table, row.closes] = time.perf_counter()
        feed.write(topic, row.table, b'{"ts":%d,"v":%d}' % (row.ts, number % 97))
        feed.serve()
    feed.done()
    return written


def check(rows: Sequence[SteadyRow], found: Mapping[Window, int], written: Mapping[Window, Any]) -> None:
    """:raises BenchError: unless exactly the closed windows came, each with its number of rows."""
    expected = {window: count for window, count in counts(rows, WIDTH).items() if window in written}
    if found != expected:
        wrong = sorted(
            window for window in expected.keys() | found if expected.get(window) != found.get(window)
        )
        raise BenchError(f"{len(wrong)} of {len(expected)} windows are wrong, first {wrong[:3]}")


def since(written: Mapping[Window, float], seen: Mapping[Window, float], warm: float) -> list[float]:
    """The latencies of the rows that were written ``warm`` seconds after the first one or later."""
    begin = min(written.values(), default=math.inf) + warm
    return [seen[window] - at for window, at in written.items() if at >= begin]

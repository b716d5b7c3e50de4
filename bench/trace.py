"""``python -m bench.trace``: where the time goes between a row and the subscriber who is told of its result.

A light load, as in ``result_latency``; with ``--together`` the tables' rows are written at once, as by
devices that report together, and only the last of them is traced. The producer begins the trace of each row
that closes a window; the services go on with it (docs/TRACING.md). Prints the p50 and p99 of each span, and
writes the way of the row that took the median as a picture, ``bench/results/trace.svg``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from bench.feed import Feed
from bench.size import FULL, QUICK, Size
from bench.stage import DB, BenchError, Stage, environment, say, stage, wait
from bench.stats import percentile
from bench.steady import LAST_SECONDS, RATE, STABLE, STREAM, TABLES, WIDTH
from bench.waterfall import waterfall
from bench.workload import SteadyRow, Window, steady
from millrace_core.wire.topics import wal_topic
from millrace_service.spans import Span, spans_of, traces_of

ALMOST_NONE = "0.000001"
"""Rows whose producer begins no trace are not sampled: traces of rows that close nothing would be a load of
their own."""
FLUSHED = 5.0
"""Seconds after which services have written the spans that they made; they do so each second."""
PICTURE = Path(__file__).parent / "results" / "trace.svg"
WHOLE = "row to subscriber"
STATEMENT = STREAM.replace(" NOTIFY('{url}') ON (WINDOW_CLOSE)", "")
AUTH = {"Authorization": aiohttp.encode_basic_auth("root", "taosdata")}


@dataclass
class Subscriber:
    """Listens to the stream's closings, in a thread: when each window's came (ns since the epoch)."""

    url: str
    seen: dict[Window, int] = field(default_factory=dict)
    listens: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        threading.Thread(target=lambda: asyncio.run(self._listen()), daemon=True).start()

    async def _listen(self) -> None:
        async with aiohttp.ClientSession(headers=AUTH) as session, session.ws_connect(self.url) as socket:
            self.listens.set()
            async for message in socket:
                now = time.time_ns()
                for stream in json.loads(message.data).get("streams", ()):
                    for event in stream["events"]:
                        if event["eventType"] == "WINDOW_CLOSE":
                            window = (str(event["result"]["who"]), int(event["windowStart"]))
                            self.seen.setdefault(window, now)


@dataclass
class Begun:
    """The traces that the producer has begun: the window that the row closes, and when it was written."""

    at: dict[Window, int] = field(default_factory=dict)

    def header(self, row: SteadyRow) -> list[tuple[str, bytes]] | None:
        """Of a row that is written now."""
        if row.closes is None:
            return None
        window = (row.table, row.closes)
        self.at[window] = time.time_ns()
        trace, span = ids(window)
        return [("traceparent", f"00-{trace}-{span}-01".encode())]


def ids(window: Window) -> tuple[str, str]:
    """Trace and first span of the row that closes a window."""
    table = int(window[0].removeprefix("d")) + 1
    return f"{table:016x}{window[1]:016x}", f"{table:016x}"


def write(broker: str, rows: Sequence[SteadyRow], begun: Begun, together: bool) -> None:
    """Writes the rows when they are due, or the rows of all tables when the first of them is."""
    feed, topic, began = Feed(broker, prompt=True), wal_topic(DB, "load"), time.perf_counter()
    for number, row in enumerate(rows):
        place = number % TABLES if together else 0
        time.sleep(max(began + (number - place) / RATE - time.perf_counter(), 0))
        header = begun.header(row) if not together or place == TABLES - 1 else None
        feed.write(topic, row.table, b'{"ts":%d,"v":%d}' % (row.ts, number % 97), header)
        feed.serve()
    feed.done()


def collect(size: Size, together: bool) -> list[list[Span]]:
    """The spans of each row that closed a window after the warm-up, by their begin; the whole comes first.
    Rows whose event went in one message with another's are left out: a message carries one trace."""
    with environment({"MILLRACE_TRACE": ALMOST_NONE}), stage("trace", [STABLE]) as one:
        one.tables(TABLES, "load")
        one.sql(STATEMENT)
        one.running("s_load")
        url = one.stack.settings.url("notify-svc").replace("http", "ws", 1)
        subscriber = Subscriber(f"{url}/api/v1/streams/{DB}.s_load/events")
        subscriber.start()
        wait(subscriber.listens.is_set, 30, "a subscription")
        say(f"writing {RATE} rows a second for {size.steady_seconds} s")
        begun = Begun()
        write(one.broker, steady(TABLES, RATE, size.steady_seconds, WIDTH, together), begun, together)
        wait(lambda: subscriber.seen.keys() >= begun.at.keys(), LAST_SECONDS, "the last notification")
        first = min(begun.at.values()) + size.steady_warm * 1_000_000_000
        wanted = {window: at for window, at in begun.at.items() if at >= first}
        return _whole(one, wanted, subscriber.seen)


def _whole(one: Stage, written: Mapping[Window, int], seen: Mapping[Window, int]) -> list[list[Span]]:
    folder = one.stack.settings.data_dir / "traces"
    time.sleep(FLUSHED)
    traces = traces_of(
        span for file in sorted(folder.glob("*.jsonl*")) for span in spans_of(file.read_bytes())
    )
    found = []
    for window, at in written.items():
        trace, span = ids(window)
        spans = traces.get(trace, [])
        if any(part.name == "subscriber.send" for part in spans):
            found.append([Span(trace, span, "", "bench", WHOLE, at, seen[window]), *spans])
    say(f"{len(found)} of {len(written)} rows are traced up to the subscriber")
    if not found:
        raise BenchError("no trace reaches the subscriber")
    return found


def figures(traces: Sequence[Sequence[Span]]) -> list[tuple[str, str, int, float, float, float]]:
    """Of each span: service, name, how many, p50 of when it begins behind the row, p50 and p99 of how long it
    takes (ms); in the order in which they begin."""
    begins: dict[tuple[str, str], list[float]] = {}
    took: dict[tuple[str, str], list[float]] = {}
    for whole, *spans in traces:
        for span in (whole, *spans):
            key = span.service, span.name
            begins.setdefault(key, []).append((span.begin - whole.begin) / 1e6)
            took.setdefault(key, []).append(span.ms)
    found = [
        (*key, len(ms), percentile(begins[key], 0.5), percentile(ms, 0.5), percentile(ms, 0.99))
        for key, ms in took.items()
    ]
    return sorted(found, key=lambda one: (one[1] != WHOLE, one[3]))


def median(traces: Sequence[Sequence[Span]]) -> Sequence[Span]:
    """The trace that took the median."""
    return sorted(traces, key=lambda spans: spans[0].ms)[len(traces) // 2]


def main() -> int:
    """The command line."""
    root = argparse.ArgumentParser(prog="bench.trace", description=__doc__)
    root.add_argument(
        "--quick",
        action="store_true",
        help="small sizes: only shows whether the bench works, the figures mean nothing",
    )
    root.add_argument(
        "--together",
        action="store_true",
        help=f"the {TABLES} tables' rows are written at once, and their windows close together",
    )
    root.add_argument("--picture", type=Path, default=PICTURE, help="where the picture is written")
    given = root.parse_args()
    before = os.getloadavg()[0]
    traces = collect(QUICK if given.quick else FULL, given.together)
    load = f"load {before:.1f} before, {os.getloadavg()[0]:.1f} after, {os.cpu_count()} cores"
    print(f"{len(traces)} rows that closed a window, {RATE} rows a second; {load}")
    print(f"{'service':<12} {'span':<20} {'n':>5} {'begins p50':>11} {'took p50':>9} {'p99':>8}  (ms)")
    for service, name, count, begins, p50, p99 in figures(traces):
        print(f"{service:<12} {name:<20} {count:>5} {begins:>11.2f} {p50:>9.2f} {p99:>8.2f}")
    given.picture.parent.mkdir(parents=True, exist_ok=True)
    spans = median(traces)
    given.picture.write_text(waterfall(spans, f"One row's way: {spans[0].ms:.1f} ms, the median"))
    print(f"one row's way: {given.picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

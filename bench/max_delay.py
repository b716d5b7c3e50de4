"""``python -m bench.max_delay``: how far from its time MAX_DELAY fires.

Sessions of many tables stay open; each has to trigger every three seconds from the time of the message that
opened it. What is measured is from that instant to the time at which the trigger event was written; it may
be a little early, which counts as much. A second measure is the same beside a steady load on another stream.
The first minute of each is not measured: the JVMs have just started.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Event, Thread
from typing import Any

from bench import report
from bench.feed import Feed
from bench.goals import Figure
from bench.stage import DB, BenchError, Stage, say, stage
from bench.stats import latencies_ms
from millrace_core.wire import events
from millrace_core.wire.topics import TRIGGERS, wal_topic
from millrace_wal import replay

DELAY_MS = 3_000
TABLES, WARM_STEPS, STEPS = 50, 20, 10
QUICK_TABLES, QUICK_WARM_STEPS, QUICK_STEPS = 5, 1, 3
STAGGER = 0.137  # seconds between two openings: they come due at different times
LOAD_RATE = 200
FIGURES = tuple(
    Figure(f"{name}.{share}", "ms", *(("<=", 200) if share == "p99" else ()))
    for name in ("max_delay_off_ms", "max_delay_off_loaded_ms")
    for share in ("p50", "p99")
)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """``{p50, p99}`` of both, in milliseconds."""
    tables, steps = (QUICK_TABLES, QUICK_STEPS) if given.quick else (TABLES, STEPS)
    warm = QUICK_WARM_STEPS if given.quick else WARM_STEPS
    found: dict[str, Any] = {}
    with stage("max-delay") as one:
        for number, name in enumerate(("max_delay_off_ms", "max_delay_off_loaded_ms")):
            say(name)
            with _load(one) if number else nullcontext():
                found[name] = latencies_ms(_off(one, number, tables, warm, steps))
    return found


def _off(one: Stage, number: int, tables: int, warm: int, steps: int) -> list[float]:
    """Seconds between when each trigger was due and when its event was written, but for the ``warm`` first of
    each window."""
    table, topic = f"open{number}", wal_topic(DB, f"open{number}")
    children = " ".join(f"{DB}.o{number}_{i} USING {DB}.{table} TAGS ({i})" for i in range(tables))
    one.sql(
        f"CREATE STABLE {DB}.{table} (ts TIMESTAMP, v INT) TAGS (k INT)",
        f"CREATE TABLE {children}",
        f"CREATE STREAM {DB}.delayed{number} SESSION(ts, 1d) FROM {DB}.{table} PARTITION BY tbname"
        f" STREAM_OPTIONS(MAX_DELAY({DELAY_MS // 1000}s)) INTO {DB}.delayed_out{number}"
        " AS SELECT _twstart AS ts, count(*) AS n FROM %%trows",
    )
    feed = Feed(one.broker, prompt=True)
    for i in range(tables):
        feed.write(topic, f"o{number}_{i}", b'{"ts":1767225600000,"v":1}')
        feed.done()
        time.sleep(STAGGER)
    time.sleep(DELAY_MS / 1000 * (warm + steps + 1))
    opened = {record.key: record.timestamp for record in replay(one.log, topic)}
    fired: dict[str, list[int]] = {}
    for record in replay(one.log, TRIGGERS.name):
        for event in events.decode(record.value or b"").events:
            if event.cause == "DELAY" and (event.group.table or "").startswith(f"o{number}_"):
                fired.setdefault(str(event.group.table), []).append(record.timestamp)
    past = [
        (at - opened[name.encode()]) % DELAY_MS for name, instants in fired.items() for at in instants[warm:]
    ]
    if len(fired) != tables or min(map(len, fired.values())) < warm + steps:
        raise BenchError(
            f"{len(fired)} of {tables} windows fired, one of them {min(map(len, fired.values()))} times"
        )
    return [min(ms, DELAY_MS - ms) / 1000 for ms in past]


@contextmanager
def _load(one: Stage) -> Iterator[None]:
    """200 rows a second for a stream of one-second windows, meanwhile."""
    one.sql(
        f"CREATE STABLE {DB}.load (ts TIMESTAMP, v INT) TAGS (k INT)",
        f"CREATE TABLE {DB}.l0 USING {DB}.load TAGS (0)",
        f"CREATE STREAM {DB}.loaded INTERVAL(1s) SLIDING(1s) FROM {DB}.load PARTITION BY tbname"
        f" INTO {DB}.load_out AS SELECT _twstart AS ts, count(*) AS n FROM %%trows",
    )
    over = Event()

    def write() -> None:
        feed, began, number = Feed(one.broker, prompt=True), time.monotonic(), 0
        while not over.is_set():
            feed.write(wal_topic(DB, "load"), "l0", b'{"ts":%d,"v":1}' % (1767225600000 + number * 5))
            feed.serve()
            number += 1
            over.wait(max(0.0, began + number / LOAD_RATE - time.monotonic()))
        feed.done()

    thread = Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    report.run("max_delay", __doc__, measure, FIGURES)

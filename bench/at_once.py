"""``python -m bench.at_once``: a row is written -> the result that has it is in the output table's topic.

The same rows, 200 a second over 20 tables, for two streams of the older dialect with windows of ten seconds:
AT_ONCE, where every row's result counts, and WINDOW_CLOSE, where only the rows count that close a window
(they are in the next one; what is awaited is the result of the one before). Both run at the same time. Times
are those of Kafka's messages. The first minute is not measured: the JVMs have just started.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bench import report
from bench.feed import Feed
from bench.goals import Figure
from bench.stage import DB, BenchError, Stage, say, stage, wait
from bench.stats import latencies_ms
from millrace_core.wire.operations import operation_in
from millrace_core.wire.topics import wal_topic
from millrace_wal import replay

TABLES, RATE, WIDTH = 20, 200, 10_000
SECONDS, WARM = 120, 70
QUICK_SECONDS, QUICK_WARM = 25, 5
BEGIN = 1_767_225_600_000
LAST_SECONDS = 60.0
MODES = {"at_once": "AT_ONCE", "window_close": "WINDOW_CLOSE"}
FIGURES = tuple(Figure(f"{mode}_result_ms.{share}", "ms") for mode in MODES for share in ("p50", "p99"))

Shown = list[tuple[int, int]]
"""(number of the newest row of a result, when the result was written, ms), in order."""


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """``{p50, p99}`` of both, in milliseconds."""
    seconds, warm = (QUICK_SECONDS, QUICK_WARM) if given.quick else (SECONDS, WARM)
    with stage("at-once", [f"CREATE STABLE {DB}.load (ts TIMESTAMP, v INT) TAGS (k INT)"]) as one:
        one.tables(TABLES, "load")
        for name, mode in MODES.items():
            one.sql(
                f"CREATE STREAM bench_{name} TRIGGER {mode} INTO {DB}.{name}_out TAGS (who VARCHAR(16))"
                f" AS SELECT _wstart AS ts, count(*) AS n, max(v) AS newest FROM {DB}.load"
                " PARTITION BY tbname AS who INTERVAL(10s)"
            )
        rows = RATE * seconds
        _write(one, rows)
        last = f"SELECT max(newest) FROM {DB}.at_once_out"
        wait(lambda: one.scalar(last) == rows - 1, LAST_SECONDS, "the last result of AT_ONCE")
        written = [record.timestamp for record in sorted(_records(one, "load"), key=_number)]
        begin = RATE * warm
        return {
            "at_once_result_ms": latencies_ms(list(_at_once(written, _shown(one, "at_once"), begin))),
            "window_close_result_ms": latencies_ms(
                list(_closed(written, _shown(one, "window_close"), begin))
            ),
        }


def _write(one: Stage, rows: int) -> None:
    """Row ``v`` belongs to table ``v % TABLES`` and has the time at which it is due."""
    say(f"writing {rows} rows, {RATE} a second")
    feed, topic, began = Feed(one.broker, prompt=True), wal_topic(DB, "load"), time.perf_counter()
    for number in range(rows):
        late = time.perf_counter() - (began + number / RATE)
        if late < 0:
            time.sleep(-late)
        ts = BEGIN + number * 1000 // RATE
        feed.write(topic, f"d{number % TABLES}", b'{"ts":%d,"v":%d}' % (ts, number))
        feed.serve()
    feed.done()


def _records(one: Stage, table: str) -> list[Any]:
    """The messages with rows."""
    records = replay(one.log, wal_topic(DB, table))
    return [record for record in records if record.value and operation_in(record.value) is None]


def _number(record: Any) -> int:
    return int(msgspec.json.decode(record.value)["v"])


def _shown(one: Stage, mode: str) -> dict[int, Shown]:
    """By table, what its results had and when they were written."""
    found: dict[int, Shown] = {}
    for record in _records(one, f"{mode}_out"):
        value = msgspec.json.decode(record.value)
        for row in value.get("rows", []) if isinstance(value, dict) else value:
            newest = int(row["newest"])
            found.setdefault(newest % TABLES, []).append((newest, record.timestamp))
    if len(found) != TABLES:
        raise BenchError(f"{mode}: {len(found)} of {TABLES} tables have results")
    return {table: sorted(shown, key=lambda one: one[1]) for table, shown in found.items()}


def _at_once(written: list[int], shown: Mapping[int, Shown], begin: int) -> Iterator[float]:
    """Seconds from each row to the first result that has it."""
    for table, results in shown.items():
        place = 0
        for number in range(table, len(written), TABLES):
            while place < len(results) and results[place][0] < number:
                place += 1
            if place == len(results):
                raise BenchError(f"row {number} is not in any result of AT_ONCE")
            if number >= begin:
                yield (results[place][1] - written[number]) / 1000


def _closed(written: list[int], shown: Mapping[int, Shown], begin: int) -> Iterator[float]:
    """Seconds from each row that closes a window to that window's result, which ends with the row before."""
    for table, results in shown.items():
        at = dict(results)
        for number in range(table + TABLES, len(written), TABLES):
            before = number - TABLES
            closes = before * 1000 // RATE // WIDTH != number * 1000 // RATE // WIDTH
            if closes and before not in at:
                raise BenchError(f"the window that row {before} ends has no result of WINDOW_CLOSE")
            if closes and number >= begin:
                yield (at[before] - written[number]) / 1000


if __name__ == "__main__":
    report.run("at_once", __doc__, measure, FIGURES)

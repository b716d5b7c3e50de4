"""``python -m bench.history``: how fast FILL_HISTORY reads stored rows; ``--parts``, ``--sizes`` take some.

1,000 tables with a row a second each, ``INTERVAL(1m)`` by ``tbname`` with count and avg: 60 rows a window.

*store*: calc-svc's parts in this process, without a broker: its answers over a real table store of 1, 5 and
20 M rows. ``cut``: rows read and windows cut; ``filled``: their events calculated by Spark too, batch after
batch, up to the messages for the output table. The memory is that of this process and its JVM.
*stack*: the same rows through a whole stack, from CREATE STREAM to the last result in the output table's
topic. *live*: rows of another stream, 200 a second, from writing the row that closes a window
to its notification with the result: before, and while a history of 10 M rows is filled beside it.

Every window must come once, with its figures, else there is no figure.
"""

from __future__ import annotations

import argparse
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psutil

from bench import report, steady
from bench.events import InBackground, Results, read_all
from bench.feed import Feed
from bench.goals import Figure
from bench.in_process import InProcess, fire, in_process, store, where
from bench.stage import DB, BenchError, Stage, family, say, stage, wait
from bench.stats import latencies_ms, rate
from bench.workload import Block, Window, closed, rows_of, windows
from calc_svc.jobs.answers import Answers
from millrace.demo.listen import Event, Listener
from millrace_core.model.stream import StreamSpec
from millrace_core.recalc.sending import Work
from millrace_core.recalc.told import Told
from millrace_core.trigger.groups import RANGE
from millrace_core.wire.events import TriggerBatch
from millrace_core.wire.recalc import Request
from millrace_core.wire.topics import wal_topic

PARTS = ("store", "stack", "live")
WIDTH = 60
PER_MESSAGE = 100
MEMORY_ROWS = 8_000_000
STORED_SECONDS, FILL_SECONDS = 900.0, 1800.0
STREAM = (
    f"CREATE STREAM {DB}.s_past INTERVAL({WIDTH}s) SLIDING({WIDTH}s) FROM {DB}.past PARTITION BY tbname"
    f" STREAM_OPTIONS(FILL_HISTORY) INTO {DB}.past_out"
    " AS SELECT _twstart AS ts, %%tbname AS who, count(*) AS n, avg(v) AS a FROM %%tbname"
    " WHERE ts >= _twstart AND ts < _twend"
)
SIZES = (1_000_000, 5_000_000, 20_000_000)
FIGURES = (
    *(
        figure
        for rows in SIZES
        for figure in (
            Figure(f"store.{rows}.cut_rows_per_s", "rows/s"),
            Figure(f"store.{rows}.filled_rows_per_s", "rows/s", ">=", 300_000),
            Figure(f"store.{rows}.peak_bytes", "bytes"),
        )
    ),
    Figure("store.20000000.cut_rows_per_s", "x", None, None, "store.1000000.cut_rows_per_s"),
    Figure("store.20000000.filled_rows_per_s", "x", None, None, "store.1000000.filled_rows_per_s"),
    *(
        figure
        for rows in SIZES
        for figure in (
            Figure(f"stack.{rows}.rows_per_s", "rows/s", ">=", 300_000),
            Figure(f"stack.{rows}.calc_peak_bytes", "bytes"),
        )
    ),
    Figure("stack.20000000.rows_per_s", "x", None, None, "stack.1000000.rows_per_s"),
    Figure("live.idle_ms.p50", "ms"),
    Figure("live.idle_ms.p99", "ms"),
    Figure("live.filling_ms.p50", "ms"),
    Figure("live.filling_ms.p99", "ms"),
    Figure("live.filling_ms.p99", "x", "<=", 2, "live.idle_ms.p99"),
    Figure("live.history_rows_per_s", "rows/s"),
)


@dataclass(frozen=True)
class Extent:
    """``sizes``: rows of the past by the name that their figures have; times in seconds."""

    tables: int
    sizes: dict[str, int]
    live_rows: int
    warm: int
    idle: int
    filling: int


FULL = Extent(1_000, {str(rows): rows for rows in SIZES}, 10_000_000, warm=70, idle=40, filling=180)
QUICK = Extent(
    20, dict(zip(map(str, SIZES), (20_000, 40_000, 80_000), strict=True)), 40_000, warm=5, idle=8, filling=20
)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """What was asked for, by part."""
    extent, parts = QUICK if given.quick else FULL, given.parts
    sizes = {name: rows for name, rows in extent.sizes.items() if int(name) in given.sizes}
    found: dict[str, Any] = {"rows": sizes}
    if "store" in parts:
        _stored(extent.tables, min(extent.sizes.values()))  # Spark compiles what it runs often
        found["store"] = {name: _stored(extent.tables, rows) for name, rows in sizes.items()}
    if "stack" in parts:
        found["stack"] = {name: _stacked(extent.tables, rows) for name, rows in sizes.items()}
    if "live" in parts:
        found["live"] = _live(extent)
    return found


# ---------------------------------------------------------------------- over the store, in this process


def _stored(tables: int, rows: int) -> dict[str, Any]:
    """Rows a second and the most memory, over a store of this many rows."""
    seconds = rows // tables
    with in_process(MEMORY_ROWS) as one:
        past = one.table("past", ("v",), tables)
        store(one, past, tables, seconds)
        found: dict[str, Any] = dict(where(past))
        say(f"{rows} rows: {found}")
        spec = one.stream(STREAM)
        with peak([psutil.Process()]) as most:
            began = time.perf_counter()
            batches = list(_answer(one, spec, rows, past.positions))
            found["cut_rows_per_s"] = rate(rows, time.perf_counter() - began)
        found["cut_peak_bytes"] = most()
        _check_events(batches, tables, seconds)
        batches.clear()
        with peak([psutil.Process()]) as most:
            began = time.perf_counter()
            results = _fill(one, spec, rows, past.positions)
            found["filled_rows_per_s"] = rate(rows, time.perf_counter() - began)
        found["peak_bytes"] = most()
        _check_results(results, tables, seconds, "past_")
        say(f"{rows} rows: {found}")
    return found


def _answer(one: InProcess, spec: StreamSpec, rows: int, positions: dict[int, int]) -> Iterator[TriggerBatch]:
    """What calc-svc sends for the history of all rows; one slot asks."""
    written = {partition: (0, end) for partition, end in positions.items()}
    request = Request(spec.uid, 0, 0, 1, "HISTORY", {}, time.time_ns(), rest=(-RANGE, RANGE), written=written)
    work = Work()
    answers = Answers(one.catalog, one.store, Told(one.catalog))
    for output in answers.answer([request], (0, 0), work):
        if isinstance(output, TriggerBatch):
            yield output
    if work.rows != rows:
        raise BenchError(f"{work.rows} rows were read, not {rows}")


def _fill(
    one: InProcess, spec: StreamSpec, rows: int, positions: dict[int, int]
) -> dict[Window, dict[str, Any]]:
    """As calc-svc paces it: a batch of events is calculated before the next is made."""
    jobs = one.jobs()
    written: list[bytes] = []
    for batch in _answer(one, spec, rows, positions):
        product = fire(jobs, spec, batch.events, batch.number)
        if product.status is not None:
            raise BenchError(product.status.message)
        written += [message.value or b"" for message in product.messages]
    return {(row["who"], row["ts"]): row for value in written for row in rows_of(value)}


def _check_events(batches: list[TriggerBatch], tables: int, seconds: int) -> None:
    """:raises BenchError: unless each closed window was told of once."""
    told = [(event.group.table, event.start) for batch in batches for event in batch.events]
    wanted = tables * closed(seconds, WIDTH)
    if len(told) != wanted or len(set(told)) != wanted:
        raise BenchError(f"{len(told)} events of {len(set(told))} windows arrived, not of {wanted}")


def _check_results(found: dict[Window, dict[str, Any]], tables: int, seconds: int, prefix: str) -> None:
    """:raises BenchError: unless each closed window has its row with the right figures."""
    starts = sorted(windows(seconds, WIDTH))[: closed(seconds, WIDTH)]
    averages = {
        start: sum(second % 97 for second in range(place * WIDTH, (place + 1) * WIDTH)) / WIDTH
        for place, start in enumerate(starts)
    }
    wrong = [
        (table, start)
        for table in (f"{prefix}{number}" for number in range(tables))
        for start, average in averages.items()
        if (row := found.get((table, start))) is None
        or row["n"] != WIDTH
        or not math.isclose(row["a"], average, rel_tol=1e-9)
    ]
    if wrong or len(found) != tables * len(averages):
        raise BenchError(f"{len(wrong)} results are wrong, first {wrong[:3]}; {len(found)} arrived")


@contextmanager
def peak(processes: list[psutil.Process]) -> Iterator[Callable[[], int]]:
    """The most resident bytes that these processes and all below them have had, four readings a second."""
    most = 0

    def look() -> None:
        nonlocal most
        total = 0
        for process in processes:
            for one in family(process):
                try:
                    total += one.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
        most = max(most, total)
        time.sleep(0.25)

    with InBackground(look):
        yield lambda: most


# ---------------------------------------------------------------------- through a stack


def _write_past(one: Stage, tables: int, rows: int) -> None:
    """The table and its rows, and waits until calc-svc has taken them all."""
    one.sql(f"CREATE STABLE {DB}.past (ts TIMESTAMP, v INT) TAGS (k INT)")
    for begin in range(0, tables, 100):
        numbers = range(begin, min(begin + 100, tables))
        one.sql("CREATE TABLE " + " ".join(f"{DB}.h{n} USING {DB}.past TAGS ({n})" for n in numbers))
    before = counter(one, "millrace_rows_stored_total")
    feed, topic = Feed(one.broker), wal_topic(DB, "past")
    for value in Block(tables, 0, rows // tables, PER_MESSAGE).values():
        for number in range(tables):
            feed.write(topic, f"h{number}", value)
        feed.serve()
    feed.done()
    wait(
        lambda: counter(one, "millrace_rows_stored_total") - before >= rows, STORED_SECONDS,
        f"{rows} rows stored", 1.0,
    )  # fmt: skip
    say(f"{rows} rows are stored")
    time.sleep(10 if rows >= 1_000_000 else 2)  # the last are flushed, memory comes to rest


def counter(one: Stage, name: str) -> float:
    """A counter of calc-svc's."""
    text = one.stack.ask("calc-svc", "/metrics").text
    values = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(values[0]) if values else 0.0


def _stacked(tables: int, rows: int) -> dict[str, Any]:
    """Rows a second from CREATE STREAM to the last result, and calc-svc's most memory."""
    rows -= rows % (tables * PER_MESSAGE)
    seconds = rows // tables
    with stage("history") as one:
        _write_past(one, tables, rows)
        with peak([one.process("calc-svc")]) as most:
            began = time.time()
            one.sql(STREAM)
            results = Results(read_all(one.log, wal_topic(DB, "past_out")))

            def all_there() -> bool:
                results.take(0.5)
                return len(results.rows) >= tables * closed(seconds, WIDTH)

            wait(all_there, FILL_SECONDS, "all results of the history", 0.5)
        _check_results(results.rows, tables, seconds, "h")
        found = {"rows_per_s": rate(rows, results.last_ms / 1000 - began), "calc_peak_bytes": most()}
    say(f"{rows} rows through the stack: {found}")
    return found


# ---------------------------------------------------------------------- another stream meanwhile


@dataclass
class _Filling:
    """When the history of ``rows`` rows was begun and done (``perf_counter``)."""

    one: Stage
    rows: int
    began: float = math.inf
    ended: float = math.inf
    failed: list[Exception] = field(default_factory=list)

    def run(self, after: float) -> None:
        time.sleep(after)
        try:
            before = counter(self.one, "millrace_recalculated_rows_total")
            self.began = time.perf_counter()
            self.one.sql(STREAM)
            while counter(self.one, "millrace_recalculated_rows_total") - before < self.rows:
                if time.perf_counter() - self.began > FILL_SECONDS:
                    raise BenchError(f"the history of {self.rows} rows took longer than {FILL_SECONDS:g} s")
                time.sleep(1.0)
            self.ended = time.perf_counter()
        except Exception as error:
            self.failed.append(error)


def _live(extent: Extent) -> dict[str, Any]:
    """``{p50, p99}`` in ms of results of the live stream, before and while the history is filled."""
    seen: dict[Window, float] = {}
    counted: dict[Window, int] = {}

    def note(_: int, event: Event) -> None:
        now = time.perf_counter()
        window = (str(event["result"]["who"]), int(event["windowStart"]))
        seen.setdefault(window, now)
        counted.setdefault(window, int(event["result"]["n"]))

    past = extent.live_rows - extent.live_rows % (extent.tables * PER_MESSAGE)
    with stage("history-live", [steady.STABLE]) as one, Listener(note) as listener:
        one.tables(steady.TABLES, "load")
        _write_past(one, extent.tables, past)
        one.sql(steady.STREAM.replace("{url}", listener.url))
        one.running("s_load")
        rows = steady.steady(
            steady.TABLES, steady.RATE, extent.warm + extent.idle + extent.filling, steady.WIDTH
        )
        filling = _Filling(one, past)
        thread = threading.Thread(target=partial(filling.run, extent.warm + extent.idle), daemon=True)
        begin = time.perf_counter()
        thread.start()
        written = steady.write(one.broker, rows)
        wait(lambda: seen.keys() >= written.keys(), FILL_SECONDS, "the last notification")
        thread.join(FILL_SECONDS)
        if filling.failed:
            raise BenchError(f"the history failed: {filling.failed[0]}")
        steady.check(rows, counted, written)
    if filling.ended > max(written.values()):
        say("the history took longer than the rows of the live stream were being written")
    idle = _latencies(written, seen, begin + extent.warm, begin + extent.warm + extent.idle)
    beside = _latencies(written, seen, filling.began, filling.ended)
    return {
        "idle_ms": latencies_ms(idle), "filling_ms": latencies_ms(beside),
        "idle_samples": len(idle), "filling_samples": len(beside),
        "history_seconds": round(filling.ended - filling.began, 1),
        "history_rows_per_s": rate(past, filling.ended - filling.began),
    }  # fmt: skip


def _latencies(
    written: dict[Window, float], seen: dict[Window, float], first: float, end: float
) -> list[float]:
    """Of the closing rows that were written in ``[first, end)``."""
    found = [seen[window] - at for window, at in written.items() if first <= at < end]
    if not found:
        raise BenchError("no window closed during that time")
    return found


def _parts(text: str) -> list[str]:
    found = text.split(",")
    if unknown := set(found) - set(PARTS):
        raise argparse.ArgumentTypeError(
            f"unknown parts {sorted(unknown)}: must be some of {', '.join(PARTS)}"
        )
    return found


def _sizes(text: str) -> list[int]:
    found = [int(part) for part in text.split(",") if part.isdigit()]
    if not found or not set(found) <= set(SIZES):
        raise argparse.ArgumentTypeError(f"'{text}' must be some of the sizes {', '.join(map(str, SIZES))}")
    return found


if __name__ == "__main__":
    parts = {"type": _parts, "default": list(PARTS), "help": f"some of {','.join(PARTS)}"}
    sizes = {"type": _sizes, "default": list(SIZES), "help": f"some of {','.join(map(str, SIZES))}"}
    report.run("history", __doc__, measure, FIGURES, parts=parts, sizes=sizes)

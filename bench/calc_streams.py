"""``python -m bench.calc_streams [--quick]``: how fast calc-svc answers when many streams have a trigger that
waits.

calc-svc's own path in this process, as in ``bench.calc_shapes``: 10, 100 and 1,000 streams, each with one
trigger over a window of ten rows, from events to the messages for their output tables. The queries are of six
shapes with different constants in them, so that ``TEXTS`` differ. They are answered in two ways, by turns:
*many*, as many streams side by side as the service has, and *two*. Both must give the same rows, else there
is no figure.
``one_trigger_ms``: a single trigger, alone, in both ways.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from bench.calc_shapes import EACH, MEMORY_ROWS, ROWS, SHAPES, STATES, WIDTH
from bench.goals import Figure
from bench.in_process import RESULT_ROWS, InProcess, append, closings, fire, in_process
from bench.report import run
from bench.stage import DB, BenchError, say
from bench.stats import latencies_ms, rate
from bench.workload import BASE, rows_of
from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.job import StreamJobs
from calc_svc.loops.holding import LIVE
from calc_svc.spark.session import Engine
from calc_svc.spark.start import new_spark
from millrace_core.calc.product import Product
from millrace_core.model.stream import StreamSpec

WAYS = {"many": LIVE.side_by_side, "two": 2}
"""Pools of Spark, and how many streams are side by side; two queries run at the same time in both."""
STREAMS = (10, 100, 1_000)
TEXTS = 24
GROUPS, WINDOWS = 20, 20
WARM = 3
REPEATS = 3
ALONE = 200
FIGURES = (
    *(Figure(f"one_trigger_ms.{way}.p50", "ms") for way in WAYS),
    *(
        figure
        for streams in STREAMS
        for figure in (
            *(Figure(f"{way}.triggers_per_s_{streams}", "1/s") for way in WAYS),
            Figure(f"many.triggers_per_s_{streams}", "x", None, None, f"two.triggers_per_s_{streams}"),
            *(Figure(f"{way}.seconds_{streams}", "s") for way in WAYS),
        )
    ),
)
Shaped = tuple[str, StreamSpec]


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Triggers a second, and seconds until all are answered, by way and streams; a single one's latency."""
    counts = STREAMS[:1] if given.quick else STREAMS
    repeats, alone = (1, 40) if given.quick else (REPEATS, ALONE)
    found: dict[str, Any] = {"texts": TEXTS, "side_by_side": WAYS, **{way: {} for way in WAYS}}
    with in_process(MEMORY_ROWS, spark=False) as one:
        one.engine = Engine(dict.fromkeys(WAYS, 2), new_spark(os.cpu_count() or 2), WAYS)
        try:
            one.engine.warm_up()
            _fill(one)
            streams = [_stream(one, number) for number in range(max(counts))]
            ways = {way: _Way(one, way) for way in WAYS}
            for count in counts:
                _measure(ways, streams[:count], repeats, found)
            seconds: dict[str, list[float]] = {way: [] for way in ways}
            for turn in range(alone):
                for name, way in ways.items():
                    seconds[name].append(way.answer(streams[:1], turn % WINDOWS)[0])
            found["one_trigger_ms"] = {name: latencies_ms(times) for name, times in seconds.items()}
        finally:
            one.engine.stop()
    return found


def _measure(ways: dict[str, _Way], streams: list[Shaped], repeats: int, found: dict[str, Any]) -> None:
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(WARM + repeats):
        cells = []
        for name, way in ways.items():
            took, products = way.answer(streams, turn % WINDOWS)
            seconds[name] += [took] if turn >= WARM else []  # the first ones plan and compile
            cells.append(_checked(streams, products))
        if cells[0] != cells[1]:
            raise BenchError("many streams at the same time gave different rows from two")
    for name in ways:
        took = statistics.median(seconds[name])
        found[name] |= {
            f"seconds_{len(streams)}": took, f"triggers_per_s_{len(streams)}": rate(len(streams), took),
        }  # fmt: skip
    say(f"{len(streams)} streams: {seconds}")


class _Way:
    """The streams' jobs as one of ``WAYS`` runs them."""

    def __init__(self, one: InProcess, way: str) -> None:
        assert one.engine is not None
        calculator = Calculator(one.engine, one.catalog, one.store, RESULT_ROWS)
        self._jobs = StreamJobs(calculator, one.catalog, one.store, way)
        self._groups = one.groups("meters")
        self._threads = ThreadPoolExecutor(WAYS[way])

    def answer(self, streams: list[Shaped], window: int) -> tuple[float, list[Product]]:
        """One trigger of each stream: seconds until all are answered, and the answers."""
        starts = [BASE + window * WIDTH]
        waiting = [
            (spec, closings(spec, self._groups[place % GROUPS], starts, WIDTH, EACH))
            for place, (_, spec) in enumerate(streams)
        ]
        began = time.perf_counter()
        products = list(self._threads.map(lambda each: fire(self._jobs, each[0], each[1], window), waiting))
        return time.perf_counter() - began, products


def _fill(one: InProcess) -> None:
    """A row a second of each group, and of the table that is joined."""
    ts = BASE + np.arange(WINDOWS * EACH, dtype=np.int64) * (WIDTH // EACH)
    meters = one.table("meters", ("v", "s"), GROUPS)
    place = np.arange(GROUPS * len(ts))
    append(meters, GROUPS, ts, {"v": place * 7 % 1000, "s": place % STATES}, 0)
    append(one.table("other", ("w",), 0), 1, ts, {"w": np.arange(len(ts)) % 97}, 0)


def _stream(one: InProcess, number: int) -> Shaped:
    """A stream of one of the shapes; the next one is of the next shape."""
    names = list(SHAPES)
    shape = names[number % len(names)]
    constant = number % TEXTS // len(names)
    query = re.sub(r"(avg\(v|top\(v|first\(v|a\.v)", rf"\1 + {constant}", SHAPES[shape])
    return shape, one.stream(
        f"CREATE STREAM {DB}.s_{number} INTERVAL({WIDTH}a) SLIDING({WIDTH}a) FROM {DB}.meters"
        f" PARTITION BY tbname INTO {DB}.out_{number} AS {query}"
    )


def _checked(streams: list[Shaped], products: list[Product]) -> list[list[tuple[bytes | None, str]]]:
    """The rows of each stream. :raises BenchError: where there are more or fewer than its shape gives."""
    found = []
    for (shape, spec), product in zip(streams, products, strict=True):
        if product.status is not None:
            raise BenchError(f"{spec.full_name}: {product.status.message}")
        rows = [(message.key, repr(row)) for message in product.messages for row in rows_of(message.value)]
        if len(rows) != ROWS[shape]:
            raise BenchError(f"{spec.full_name}: {len(rows)} rows, not {ROWS[shape]}")
        found.append(sorted(rows, key=repr))
    return found


if __name__ == "__main__":
    run("calc_streams", __doc__, measure, FIGURES)

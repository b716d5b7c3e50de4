"""``python -m bench.calc_shapes [--quick]``: how fast calc-svc answers triggers, for several shapes of query.

calc-svc's own path in this process: trigger events in, messages for the output table out, on the real table
store and real Spark; Kafka's part is left out. Each shape is answered for 1,000 and for 10,000 triggers
(1,000 groups, windows of ten rows) *set-wise*, many triggers in one job, and *one by one*, a job for each;
one by one only ``SAMPLE`` triggers are run, and their rate is held against that of all. The messages of the
sample must be the same in both ways, and each trigger must have given its rows, else there is no figure.
``one_trigger_ms``: a single trigger of a small window, alone, from event to messages.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.goals import Figure
from bench.in_process import InProcess, answer, append, closings, in_process
from bench.report import run
from bench.stage import DB, BenchError, say
from bench.stats import latencies_ms, rate
from bench.workload import BASE, rows_of
from millrace_core.calc.product import Product
from millrace_core.model.stream import StreamSpec
from millrace_core.wire.events import TriggerEvent

SHAPES: dict[str, str] = {
    "window_aggregate": "SELECT _twstart AS ts, avg(v) AS a, max(v) AS hi, count(*) AS n FROM %%tbname"
    " WHERE ts >= _twstart AND ts < _twend",
    "group_by_having": "SELECT max(ts) AS ts, s, count(*) AS n, avg(v) AS a FROM %%tbname"
    " WHERE ts >= _twstart AND ts < _twend GROUP BY s HAVING count(*) > 1",
    "join_on_ts": f"SELECT a.ts AS ts, a.v AS v, b.w AS w FROM %%tbname a JOIN {DB}.other b ON a.ts = b.ts"
    " WHERE a.ts >= _twstart AND a.ts < _twend",
    "interval_fill": "SELECT _wstart AS ts, avg(v) AS a, count(*) AS n FROM %%tbname"
    " WHERE ts >= _twstart AND ts < _twend INTERVAL(500a) FILL(PREV)",
    "first_last": "SELECT _twstart AS ts, first(v) AS f, last(v) AS l FROM %%trows",
    "top": "SELECT ts, top(v, 3) AS best FROM %%trows",
}
ROWS: dict[str, int] = {
    "window_aggregate": 1, "group_by_having": 2, "join_on_ts": 10, "interval_fill": 20, "first_last": 1,
    "top": 3,
}  # fmt: skip
"""Result rows of a trigger."""
WIDTH, EACH = 10_000, 10
STATES = 2
MEMORY_ROWS = 8_000_000
SAMPLE = 50
REPEATS = 5
ALONE = 200
FIGURES = (
    Figure("one_trigger_ms.p50", "ms", "<=", 60),
    Figure("one_trigger_ms.p99", "ms"),
    *(
        figure
        for shape in SHAPES
        for figure in (
            *(
                Figure(f"{shape}.set_wise_{count}", "1/s", ">=", 5_000)
                if shape == "window_aggregate"
                else Figure(f"{shape}.set_wise_{count}", "1/s")
                for count in (1_000, 10_000)
            ),
            Figure(f"{shape}.one_by_one", "1/s"),
            Figure(f"{shape}.set_wise_1000", "x", ">=", 50, f"{shape}.one_by_one"),
            Figure(f"{shape}.set_wise_10000", "x", None, None, f"{shape}.one_by_one"),
        )
    ),
)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Triggers a second by shape and way, and ``{p50, p99}`` of a single one in ms."""
    groups, windows = (100, 2) if given.quick else (1_000, 10)
    sample, repeats, alone = (5, 2, 20) if given.quick else (SAMPLE, REPEATS, ALONE)
    found: dict[str, Any] = {
        "note": f"one_by_one: only {sample} triggers were run; ratios assume the same rate for all",
        "triggers": [groups, groups * windows],
    }
    with in_process(MEMORY_ROWS) as one:
        _fill(one, groups, windows)
        for shape, query in SHAPES.items():
            spec = _stream(one, shape, query)
            fired = _events(one, spec, windows)
            found[shape] = _shape(one, shape, spec, fired, groups, sample, repeats)
            if shape == "window_aggregate":
                found["one_trigger_ms"] = _alone(one, spec, fired[:alone])
    return found


def _fill(one: InProcess, groups: int, windows: int) -> None:
    """A row a second of every group, and of the table that is joined."""
    ts = BASE + np.arange(windows * EACH, dtype=np.int64) * (WIDTH // EACH)
    meters = one.table("meters", ("v", "s"), groups)
    place = np.arange(groups * len(ts))
    append(meters, groups, ts, {"v": place * 7 % 1000, "s": place % STATES}, 0)
    append(one.table("other", ("w",), 0), 1, ts, {"w": np.arange(len(ts)) % 97}, 0)


def _stream(one: InProcess, shape: str, query: str) -> StreamSpec:
    return one.stream(
        f"CREATE STREAM {DB}.s_{shape} INTERVAL({WIDTH}a) SLIDING({WIDTH}a) FROM {DB}.meters"
        f" PARTITION BY tbname INTO {DB}.{shape} AS {query}"
    )


def _events(one: InProcess, spec: StreamSpec, windows: int) -> list[TriggerEvent]:
    """Window by window, as live rows close them: the first of all groups, then the second."""
    groups = one.groups("meters")
    return [
        event
        for window in range(windows)
        for group in groups
        for event in closings(spec, group, [BASE + window * WIDTH], WIDTH, EACH)
    ]


def _shape(
    one: InProcess, shape: str, spec: StreamSpec, fired: list[TriggerEvent], groups: int, sample: int,
    repeats: int,
) -> dict[str, float]:  # fmt: skip
    jobs, single = one.jobs(), one.jobs(one_by_one=True)
    few = fired[:: max(len(fired) // sample, 1)][:sample]
    _check(shape, answer(jobs, spec, few), answer(single, spec, few), len(few))
    found: dict[str, float] = {}
    for label, events in (("1000", fired[:groups]), ("10000", fired)):
        seconds = []
        for turn in range(repeats + 1):
            began = time.perf_counter()
            product = answer(jobs, spec, events)
            seconds += [time.perf_counter() - began] if turn else []  # the first one compiles
            _check_rows(shape, product, len(events))
        found[f"set_wise_{label}"] = rate(len(events), statistics.median(seconds))
    began = time.perf_counter()
    answer(single, spec, few)
    found["one_by_one"] = rate(len(few), time.perf_counter() - began)
    say(f"{shape}: {found}")
    return found


def _alone(one: InProcess, spec: StreamSpec, fired: Sequence[TriggerEvent]) -> dict[str, float]:
    jobs = one.jobs()
    seconds = []
    for turn, event in enumerate([fired[0], *fired]):
        began = time.perf_counter()
        answer(jobs, spec, [event])
        seconds += [time.perf_counter() - began] if turn else []  # the first one plans
    return latencies_ms(seconds)


def _cells(product: Product) -> list[tuple[bytes | None, dict[str, Any]]]:
    return [(message.key, row) for message in product.messages for row in rows_of(message.value)]


def _check(shape: str, many: Product, ones: Product, triggers: int) -> None:
    """:raises BenchError: unless both ways gave the same rows."""
    if sorted(_cells(many), key=repr) != sorted(_cells(ones), key=repr):
        raise BenchError(f"{shape}: one job for all and one job for each gave different rows")
    _check_rows(shape, many, triggers)


def _check_rows(shape: str, product: Product, triggers: int) -> None:
    """:raises BenchError: unless each trigger gave as many rows as it must."""
    rows = sum(len(rows_of(message.value)) for message in product.messages)
    if rows != triggers * ROWS[shape]:
        raise BenchError(f"{shape}: {triggers} triggers gave {rows} rows, not {triggers * ROWS[shape]}")


if __name__ == "__main__":
    run("calc_shapes", __doc__, measure, FIGURES)

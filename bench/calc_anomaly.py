"""``python -m bench.calc_anomaly [--quick]``: anomaly windows of many triggers, in one job and one by one.

As ``bench.calc_shapes``: calc-svc's own path in this process, on real Spark, whose Python workers run the
algorithms. 1,000 triggers of 500 rows each are answered in one job; one by one ``SAMPLE`` of them are, and
their rate is held against that of all. The windows found must be the same both ways, and must be those that
were put into the rows, else there is no figure.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

from bench.goals import Figure
from bench.in_process import InProcess, answer, append, closings, in_process
from bench.report import run
from bench.stage import DB, BenchError, say
from bench.stats import rate
from bench.workload import BASE, rows_of
from millrace_core.calc.product import Product
from millrace_core.model.stream import StreamSpec
from millrace_core.wire.events import TriggerEvent

ALGORITHMS = ("iqr", "ksigma", "shesd", "lof")
EACH, STEP = 500, 100
WIDTH = EACH * STEP
PLACES = (123, 124, 400)
"""Rows of each window that lie far outside."""
WINDOWS = 2
MEMORY_ROWS = 8_000_000
SAMPLE, REPEATS = 20, 3
FIGURES = tuple(
    figure
    for name in ALGORITHMS
    for figure in (
        Figure(f"{name}.set_wise", "1/s"),
        Figure(f"{name}.one_by_one", "1/s"),
        Figure(f"{name}.set_wise", "x", ">=", 30, f"{name}.one_by_one"),
    )
)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Triggers a second by algorithm and way."""
    groups, sample, repeats = (50, 3, 1) if given.quick else (1_000, SAMPLE, REPEATS)
    found: dict[str, Any] = {
        "note": f"one_by_one: only {sample} triggers were run; ratios assume the same rate for all",
        "triggers": groups, "rows_each": EACH,
    }  # fmt: skip
    with in_process(MEMORY_ROWS) as one:
        _fill(one, groups)
        for name in ALGORITHMS:
            spec = one.stream(
                f"CREATE STREAM {DB}.s_{name} INTERVAL({WIDTH}a) SLIDING({WIDTH}a) FROM {DB}.readings"
                f" PARTITION BY tbname INTO {DB}.{name} AS SELECT _wstart AS ts, count(*) AS n, max(v) AS hi"
                " FROM %%tbname WHERE ts >= _twstart AND ts < _twend"
                f" ANOMALY_WINDOW(v, 'algo={name}, wncheck=0')"
            )
            fired = [
                e for group in one.groups("readings") for e in closings(spec, group, [BASE], WIDTH, EACH)
            ]
            found[name] = _algorithm(one, name, spec, fired, sample, repeats)
    return found


def _fill(one: InProcess, groups: int) -> None:
    """Noise of every group, with rows far outside at PLACES."""
    ts = BASE + np.arange(EACH, dtype=np.int64) * STEP
    readings = one.table("readings", ("v",), groups)
    rng = np.random.default_rng(1)
    values = rng.integers(1_000, 1_100, (groups, EACH))
    values[:, PLACES] = 5_000
    append(readings, groups, ts, {"v": values.reshape(-1)}, 0)


def _algorithm(
    one: InProcess, name: str, spec: StreamSpec, fired: list[TriggerEvent], sample: int, repeats: int
) -> dict[str, float]:
    jobs, single = one.jobs(), one.jobs(one_by_one=True)
    few = fired[:sample]
    if _cells(answer(jobs, spec, few)) != _cells(answer(single, spec, few)):
        raise BenchError(f"{name}: one job for all and one job for each found different windows")
    seconds = []
    for turn in range(repeats + 1):
        began = time.perf_counter()
        product = answer(jobs, spec, fired)
        seconds += [time.perf_counter() - began] if turn else []  # the first one starts the workers
        _check(name, product, len(fired))
    began = time.perf_counter()
    answer(single, spec, few)
    alone = rate(len(few), time.perf_counter() - began)
    found = {"set_wise": rate(len(fired), statistics.median(seconds)), "one_by_one": alone}
    say(f"{name}: {found}")
    return found


def _cells(product: Product) -> list[str]:
    return sorted(repr((m.key, row)) for m in product.messages for row in rows_of(m.value))


def _check(name: str, product: Product, triggers: int) -> None:
    """:raises BenchError: unless each trigger gave the two windows that are there."""
    found = [(row["n"], row["hi"]) for message in product.messages for row in rows_of(message.value)]
    if sum(one == (2, 5_000) for one in found) != triggers or len(found) < WINDOWS * triggers:
        raise BenchError(
            f"{name}: {triggers} triggers gave {len(found)} windows, which are not those of the rows"
        )


if __name__ == "__main__":
    run("calc_anomaly", __doc__, measure, FIGURES)

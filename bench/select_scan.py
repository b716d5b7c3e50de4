"""``python -m bench.select_scan [--quick]``: a user's SELECT over 10 M stored rows, beside DuckDB.

calc-svc's own path in this process (planner, table store, Spark with calc-svc's settings and heap), against
DuckDB over the Parquet files of the same Delta table, on as many threads. The rows lie in three ways:
*memory*: all of them are in the table store's memory (and flushed); *half*: what calc-svc keeps with its
default setting after they came in; *restarted*: what it has in memory after a start, most rows in files
alone. DuckDB reads files in all three; of that many rows Spark does too, wherever else they are. Best of
``REPEATS`` each, the first run not counted; both must give the same, else there is no figure.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import duckdb

from bench.goals import Figure
from bench.in_process import InProcess, in_process, shrink, store, where
from bench.report import run
from bench.stage import DB, BenchError, say
from calc_svc.queries.running import Query
from calc_svc.store.table import StoredTable
from millrace_core.timeline.precision import HIGHEST, LOWEST

TABLES = 1_000
ROWS, QUICK_ROWS = 10_000_000, 100_000
MEMORY_ROWS = 8_000_000
REPEATS = 3
WAYS = ("memory", "half", "restarted")
QUERIES: dict[str, tuple[str, str]] = {
    "group_by_tbname": (
        f"SELECT tbname, count(*), avg(v), min(v), max(v) FROM {DB}.meters GROUP BY tbname",
        'SELECT "-tbname", count(*), avg(v), min(v), max(v) FROM rows GROUP BY 1',
    ),
    "last_per_group": (
        f"SELECT tbname, last(ts), last(v) FROM {DB}.meters GROUP BY tbname",
        'SELECT "-tbname", max(ts), arg_max(v, ts) FROM rows GROUP BY 1',
    ),
    "interval_1m": (
        f"SELECT _wstart, count(*), avg(v) FROM {DB}.meters INTERVAL(1m)",
        "SELECT ts - ts % 60000, count(*), avg(v) FROM rows GROUP BY 1",
    ),
}
"""Ours, and the same for DuckDB."""
FIGURES = tuple(
    figure
    for way in WAYS
    for query in QUERIES
    for figure in (
        Figure(f"{way}.{query}.millrace_s", "s"),
        Figure(f"{way}.{query}.duckdb_s", "s"),
        Figure(f"{way}.{query}.millrace_s", "x", None, None, f"{way}.{query}.duckdb_s"),
    )
)
Cells = list[tuple[Any, ...]]


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Seconds of each query by way."""
    rows = QUICK_ROWS if given.quick else ROWS
    tables = 100 if given.quick else TABLES
    found: dict[str, Any] = {"rows": rows, "tables": tables}
    with in_process(2 * rows) as one:
        stored = one.table("meters", ("v",), tables)
        store(one, stored, tables, rows // tables)
        found["memory"] = _all(one, stored)
        one.store.memory_rows = MEMORY_ROWS * rows // ROWS
        shrink(one, stored)
        found["half"] = _all(one, stored)
        one.store.close(stored.topic)
        stored = one.store.open(stored.table)
        stored.resume({0: 0}, {})
        found["restarted"] = _all(one, stored)
    return found


def _all(one: InProcess, stored: StoredTable) -> dict[str, Any]:
    """What lies where, and the seconds of all queries."""
    found: dict[str, Any] = dict(where(stored))
    say(f"{found}")
    with duckdb.connect(config={"threads": str(os.cpu_count() or 2)}) as connection:
        files = stored.delta.files(LOWEST, HIGHEST)
        connection.read_parquet(files).create_view("rows")
        for name, (ours, theirs) in QUERIES.items():
            seconds, cells = _best(lambda: _millrace(one, ours))  # noqa: B023 - run at once
            peer, expected = _best(lambda: connection.execute(theirs).fetchall())  # noqa: B023 - as above
            _compare(name, cells, expected)
            found[name] = {"millrace_s": round(seconds, 3), "duckdb_s": round(peer, 3)}
            say(f"{name}: {found[name]}")
    return found


def _millrace(one: InProcess, sql: str) -> Cells:
    _, table = one.calculator.query(Query(sql, 60), DB, "UTC", 0)
    return [tuple(row.values()) for row in table.to_pylist()]


def _best(work: Callable[[], Cells]) -> tuple[float, Cells]:
    work()
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        cells = work()
        seconds.append(time.perf_counter() - began)
    return min(seconds), cells


def _compare(name: str, found: Cells, expected: Cells) -> None:
    """:raises BenchError: unless both have the same rows, in whatever order."""
    if len(found) != len(expected) or not all(map(_same, sorted(found), sorted(expected))):
        raise BenchError(f"{name}: Millrace gives {sorted(found)[:2]}…, DuckDB {sorted(expected)[:2]}…")


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) else a == b
        for a, b in zip(one, other, strict=True)
    )


if __name__ == "__main__":
    run("select_scan", __doc__, measure, FIGURES)

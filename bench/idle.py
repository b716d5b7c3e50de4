"""``idle_cores``: processor time that the whole stack takes while nothing is written."""

from __future__ import annotations

import time
from typing import Any

import psutil

from bench.size import Size
from bench.stage import DB, Stage, stage

SETTLE_SECONDS = 150.0
"""A third of the broker's time at first is the compiling of what the start used much, and about a minute
after the start the next process for queries is started and warmed up (decision 0072). Neither is idle."""


def measure(size: Size) -> dict[str, Any]:
    """Cores in use on average, with a stream that waits for rows."""
    with stage("idle", [f"CREATE TABLE {DB}.quiet (ts TIMESTAMP, v INT)"]) as one:
        one.sql(
            f"CREATE STREAM {DB}.s_quiet INTERVAL(10s) SLIDING(10s) FROM {DB}.quiet INTO {DB}.quiet_out"
            " AS SELECT _twstart AS ts, count(*) AS n FROM %%trows"
        )
        one.running("s_quiet")
        time.sleep(SETTLE_SECONDS)
        before, began = processor_seconds(one), time.monotonic()
        time.sleep(size.idle_seconds)
        spent, took = processor_seconds(one) - before, time.monotonic() - began
        return {"idle_cores": round(spent / took, 3)}


def processor_seconds(one: Stage) -> float:
    """Seconds of processor time of all processes so far, those that have ended included."""
    total = 0.0
    for process in one.processes():
        try:
            total += sum(process.cpu_times()[:4])  # user, system, and both of children that ended
        except psutil.NoSuchProcess:
            continue
    return total

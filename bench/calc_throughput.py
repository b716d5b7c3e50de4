"""``calc_triggers_per_s`` and ``calc_one_by_one_per_s``: triggers answered by calc-svc, for an avg/max/count
query over many groups: many in one job, and one job for each.

The rows are stored and the trigger events are there before the clock starts: calc-svc is held meanwhile.
"""

from __future__ import annotations

import math
import time
from typing import Any

from bench.events import Results, read_all, triggers
from bench.feed import Feed
from bench.size import Size
from bench.stage import DB, BenchError, Stage, hold, let_go, say, stage, wait
from bench.stats import rate
from bench.workload import Readings
from millrace_core.wire.topics import wal_topic

ONE_BY_ONE = {"MILLRACE_CALC_ONE_BY_ONE": "true"}
EACH = 10
SECONDS = 600.0


def measure(size: Size) -> dict[str, Any]:
    """Triggers a second in both ways."""
    with stage("calc-throughput") as one:
        _answer(one, "warm", Readings(size.groups, 1, EACH))
        together = _answer(one, "many", Readings(size.groups, size.windows, EACH))
    with stage("calc-one-by-one") as one:
        one.restart("calc-svc", ONE_BY_ONE)
        single = _answer(one, "ones", Readings(size.groups, size.one_by_one_windows, EACH), alone=True)
    return {"calc_triggers_per_s": together, "calc_one_by_one_per_s": single}


def _answer(one: Stage, name: str, readings: Readings, alone: bool = False) -> float:
    """Triggers a second; ``alone``: there must have been a job for each."""
    one.sql(f"CREATE STABLE {DB}.{name} (ts TIMESTAMP, v INT) TAGS (k INT)")
    _children(one, name, readings.groups)
    one.sql(
        f"CREATE STREAM {DB}.s_{name} INTERVAL({readings.width}a) SLIDING({readings.width}a)"
        f" FROM {DB}.{name} PARTITION BY tbname INTO {DB}.{name}_out"
        " AS SELECT _twstart AS ts, %%tbname AS who, avg(v) AS a, max(v) AS hi, count(*) AS n FROM %%tbname"
        " WHERE ts >= _twstart AND ts < _twend"
    )
    one.running(f"s_{name}")
    jobs = _jobs(one)
    _prepare(one, name, readings)
    expected = readings.expected()
    results = Results(read_all(one.log, wal_topic(DB, f"{name}_out")))

    def all_there() -> bool:
        results.take(0.2)
        return len(results.rows) >= len(expected)

    began = time.time()
    let_go(one.process("calc-svc"))
    wait(all_there, SECONDS, f"{len(expected)} results of s_{name}")
    seconds = results.last_ms / 1000 - began
    _check(results, readings)
    jobs = _jobs(one) - jobs
    say(f"{len(expected)} triggers answered in {seconds:.2f} s by {jobs} jobs")
    if alone and jobs < len(expected):
        raise BenchError(
            f"{len(expected)} triggers took {jobs} jobs: calc-svc ignores {next(iter(ONE_BY_ONE))}"
        )
    one.sql(f"DROP STREAM {DB}.s_{name}")
    return rate(len(expected), seconds)


def _children(one: Stage, name: str, groups: int) -> None:
    for begin in range(0, groups, 100):
        numbers = range(begin, min(begin + 100, groups))
        made = " ".join(f"{DB}.{name}_{n} USING {DB}.{name} TAGS ({n})" for n in numbers)
        one.sql(f"CREATE TABLE {made}")


def _prepare(one: Stage, name: str, readings: Readings) -> None:
    """Stores the rows with trigger-svc held, then has them judged with calc-svc held."""
    trigger_svc, calc_svc = one.process("trigger-svc"), one.process("calc-svc")
    hold(trigger_svc)
    feed, topic = Feed(one.broker), wal_topic(DB, name)
    for group in range(readings.groups):
        feed.write(topic, f"{name}_{group}", readings.message(group))
    feed.done()
    wait(
        lambda: one.scalar(f"SELECT count(*) FROM {DB}.{name}") == readings.total, SECONDS, "rows stored", 0.5
    )
    found = triggers(one.log)
    hold(calc_svc)
    let_go(trigger_svc)

    def judged() -> bool:
        found.take(0.2)
        return sum(table.startswith(f"{name}_") for table, _ in found.rows) >= len(readings.expected())

    wait(judged, SECONDS, "all triggers")


def _jobs(one: Stage) -> int:
    """Jobs that calc-svc has run for triggers, by its metrics."""
    for line in one.stack.ask("calc-svc", "/metrics").text.splitlines():
        if line.startswith("millrace_job_seconds_count") and 'kind="triggers"' in line:
            return int(float(line.rpartition(" ")[2]))
    return 0


def _check(results: Results, readings: Readings) -> None:
    """:raises BenchError: unless each trigger has its one row with the right figures."""
    found = {(f"d{who.rpartition('_')[2]}", ts): row for (who, ts), row in results.rows.items()}
    expected = readings.expected()
    wrong = [
        window
        for window, (average, highest, count) in expected.items()
        if (row := found.get(window)) is None
        or not math.isclose(row["a"], average, rel_tol=1e-9)
        or (row["hi"], row["n"]) != (highest, count)
    ]
    if wrong or len(found) != len(expected):
        raise BenchError(
            f"{len(wrong)} of {len(expected)} results are wrong, first {wrong[:3]}; {len(found)} arrived"
        )

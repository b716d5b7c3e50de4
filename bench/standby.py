"""``python -m bench.standby``: kill -9 of calc-svc, and of trigger-svc, until the next result.

First without another process that stands by, then with one (``MILLRACE_STANDBY``).
200 rows a second over 20 tables, windows of a second, a supervised stack. A service is killed with its JVM;
counted is the time until the notification of a window whose closing row was written after that. Every window
must be right in the end.
"""

from __future__ import annotations

import argparse
import threading
import time
from typing import Any

import psutil

from bench import report
from bench.goals import Figure
from bench.stage import BenchError, Stage, family, say, stage, wait
from bench.steady import RATE, STABLE, STREAM, TABLES, WIDTH, Results, check, write
from bench.workload import Window, steady
from millrace.demo.listen import Listener
from millrace.supervision import standby

KILLED = ("calc-svc", "trigger-svc")
WARM, BETWEEN, AFTER = 60, 120, 90
"""Seconds until the first kill, from one to the next, and behind the last."""
QUICK_WARM, QUICK_BETWEEN, QUICK_AFTER = 40, 60, 60
PATIENCE = 180.0
FIGURES = tuple(
    figure
    for name in KILLED
    for figure in (
        Figure(f"without.{name}", "s"),
        Figure(f"with.{name}", "s"),
        Figure(f"with.{name}", "x", None, None, f"without.{name}"),
    )
)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Seconds until the next result, by what was killed."""
    times = (QUICK_WARM, QUICK_BETWEEN, QUICK_AFTER) if given.quick else (WARM, BETWEEN, AFTER)
    return {"without": _killed(False, *times), "with": _killed(True, *times)}


def _killed(stands_by: bool, warm: int, between: int, after: int) -> dict[str, float]:
    results = Results()
    rows = steady(TABLES, RATE, warm + between * (len(KILLED) - 1) + after, WIDTH)
    name = "standby" if stands_by else "no-standby"
    with (
        stage(name, [STABLE], supervise=True, standby=stands_by) as one,
        Listener(results.note) as listener,
    ):
        one.tables(TABLES, "load")
        one.sql(STREAM.replace("{url}", listener.url))
        one.running("s_load")
        written: dict[Window, float] = {}
        writing = threading.Thread(target=lambda: written.update(write(one.broker, rows)))
        writing.start()
        kills: dict[str, float] = {}
        for number, part in enumerate(KILLED):
            time.sleep(between if number else warm)
            kills[part] = _kill(one, part, stands_by)
        writing.join()
        wait(lambda: results.have(written), PATIENCE, "the last notification")
        check(rows, results.found, written)
    return {part: _next(at, written, results.seen) for part, at in kills.items()}


def _kill(one: Stage, part: str, stands_by: bool) -> float:
    """The service and what is below it, as the kernel would; when (``perf_counter``)."""
    place = one.stack.place
    if stands_by and not standby.waits(place, part):
        raise BenchError(f"no standby {part} is running")
    say(f"kill -9 of {part}")
    at = time.perf_counter()
    for process in family(one.process(part)):
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    return at


def _next(kill: float, written: dict[Window, float], seen: dict[Window, float]) -> float:
    return round(min(seen[window] for window, at in written.items() if at > kill) - kill, 2)


if __name__ == "__main__":
    report.run("standby", __doc__, measure, FIGURES)

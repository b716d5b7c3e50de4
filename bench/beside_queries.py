"""``python -m bench.beside_queries``: a stream's latency alone, and beside a user who means no good.

200 rows a second over 20 tables, windows of a second; from writing a closing row to receiving its
notification with the calculated result. First the stream is alone; then, in the same run, a user sends
statements of ``HOSTILE`` all the time, each kind again as soon as it is answered: what takes all processors,
all memory or all places for queries, and cannot be stopped. Every window must be right in both parts. A query
may take 10 s instead of 60, so that more of them end, and their process with them.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench import report
from bench.goals import Figure
from bench.stage import DB, BenchError, Stage, environment, say, stage, wait
from bench.stats import latencies_ms
from bench.steady import LAST_SECONDS, RATE, STABLE, STREAM, TABLES, WIDTH, Results, check, since, write
from bench.workload import BASE, steady
from millrace.demo.listen import Listener
from millrace.sql_client import Rest
from millrace_core.errors import ErrorCode, MillraceError

SECONDS, WARM = 120, 40
"""Of each part, and of its begin how much is not measured: JVMs have just started, queries are coming."""
QUICK_SECONDS, QUICK_WARM = 20, 5
QUERY_SECONDS = 10
PATIENCE = 10 * QUERY_SECONDS
ROWS = 2_000
FAR = "a.v + b.v + c.v + d.v"
HOSTILE: dict[str, str] = {
    "text": f"SELECT repeat('x', 2000000000) FROM {DB}.wide LIMIT 1",
    "crossed": f"SELECT count(*) FROM {DB}.wide a, {DB}.wide b, {DB}.wide c, {DB}.wide d WHERE {FAR} = -1",
    "sorted": f"SELECT a.v, b.v, a.s FROM {DB}.wide a, {DB}.wide b ORDER BY a.v * b.v, b.s LIMIT 500000",
    "result": f"SELECT repeat(a.s, 900) FROM {DB}.wide a, {DB}.wide b WHERE a.v + b.v > 0",
    "pattern": f"SELECT count(*) FROM {DB}.wide WHERE concat(s, s, '!') MATCH '(a|aa)+\\\\1b'",
    "columns": f"SELECT {', '.join(['v + 1'] * 4_000)} FROM {DB}.wide LIMIT 2",
}
FIGURES = tuple(
    figure
    for share in ("p50", "p99")
    for figure in (
        Figure(f"alone_result_ms.{share}", "ms"),
        Figure(f"beside_result_ms.{share}", "ms"),
        Figure(f"beside_result_ms.{share}", "x", None, None, f"alone_result_ms.{share}"),
    )
)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """``{p50, p99}`` of both parts, in milliseconds, and how the hostile statements were answered."""
    seconds, warm = (QUICK_SECONDS, QUICK_WARM) if given.quick else (SECONDS, WARM)
    results = Results()
    made = [STABLE, f"CREATE TABLE {DB}.wide (ts TIMESTAMP, v INT, s VARCHAR(80))"]
    with (
        # who ends the process for queries again and again is to go on
        environment(
            {"MILLRACE_QUERY_SECONDS": str(QUERY_SECONDS), "MILLRACE_CALC_QUERY_PENALTY_SECONDS": "0"}
        ),
        stage("beside-queries", made) as one,
        Listener(results.note) as listener,
    ):
        one.tables(TABLES, "load")
        values = " ".join(f"({BASE + number}, {number}, '{'a' * 60}')" for number in range(ROWS))
        one.sql(f"INSERT INTO {DB}.wide VALUES {values}", STREAM.replace("{url}", listener.url))
        one.running("s_load")
        rows = steady(TABLES, RATE, 2 * seconds, WIDTH)
        half = len(rows) // 2
        alone = write(one.broker, rows[:half])
        wait(lambda: results.have(alone), LAST_SECONDS, "the last notification of the first part")
        with Hostile(one).sending() as user:
            beside = write(one.broker, rows[half:])
            wait(lambda: results.have(beside), PATIENCE, "the last notification")
        check(rows, results.found, alone | beside)
        return {
            "alone_result_ms": latencies_ms(since(alone, results.seen, warm)),
            "beside_result_ms": latencies_ms(since(beside, results.seen, warm)),
            "hostile": user.told(),
        }


class Hostile:
    """Sends each kind of statement again and again. ``answers``: kind -> (seconds, how it ended) of each."""

    def __init__(self, one: Stage) -> None:
        self._url = one.stack.settings.url("api-gateway")
        self._over = threading.Event()
        self.answers: dict[str, list[tuple[float, str]]] = {kind: [] for kind in HOSTILE}

    @contextmanager
    def sending(self) -> Iterator[Hostile]:
        """It sends meanwhile; what it has sent by the end is answered."""
        threads = [threading.Thread(target=self._send, args=(kind,)) for kind in HOSTILE]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _send(self, kind: str) -> None:
        with Rest(self._url, timeout=PATIENCE) as rest:
            while not self._over.is_set():
                began = time.monotonic()
                try:
                    rest.execute(HOSTILE[kind])
                    ended = "answered"
                except MillraceError as error:
                    ended = error.code.name
                self.answers[kind].append((time.monotonic() - began, ended))

    def told(self) -> dict[str, Any]:
        """By kind: how many, how they ended, the longest wait in seconds.

        :raises BenchError: if one had no answer, or an inner error for one.
        """
        found: dict[str, Any] = {}
        for kind, answers in self.answers.items():
            ends = [ended for _, ended in answers]
            found[kind] = {
                "count": len(ends), "longest_s": round(max(seconds for seconds, _ in answers), 1),
                **{ended: ends.count(ended) for ended in sorted(set(ends))},
            }  # fmt: skip
            say(f"{kind}: {found[kind]}")
            if ErrorCode.INTERNAL.name in ends:
                raise BenchError(f"{kind}: an internal error")
        return found


if __name__ == "__main__":
    report.run("beside_queries", __doc__, measure, FIGURES)

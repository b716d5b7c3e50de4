"""``python -m bench.catch_up --rows 20000000``: calc-svc is down while many rows come, then started again.

trigger-svc goes on meanwhile, so that all triggers wait when calc-svc comes back, and its table store has all
the rows to read. Rows in Arrow, 1,000 a message; windows of ten minutes by ``tbname``, count and avg. Another
stream on a table of its own is written to from then on: its results come while the first one's triggers
wait. In the end each window has its row with the right figures, and nothing was given up.

*caught_up_s*, *results_s*: from the start of calc-svc (its JVM's included) until all rows are stored, and
until the last result; *beside_s*: until the other stream's first result. *waiting*: what SHOW STREAMS said.
"""

from __future__ import annotations

import argparse
import math
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from bench import report
from bench.events import Results, read_all, triggers
from bench.feed import Feed
from bench.goals import Figure
from bench.history import counter, peak
from bench.stage import DB, BenchError, Stage, say, stage, wait
from bench.stats import rate
from bench.workload import BASE, Block, closed, windows
from millrace_core.errors import MillraceError
from millrace_core.wire.topics import wal_topic

WIDTH = 600
TABLES, QUICK_TABLES, QUICK_ROWS = 1_000, 20, 60_000
ARROW_ROWS = 1_000
SECONDS = 3_600.0
SAMPLE = 0.5
FIGURES = (
    Figure("given_up", "triggers", "<=", 0),
    Figure("caught_up_s", "s"),
    Figure("results_s", "s"),
    Figure("beside_s", "s"),
    Figure("rows_per_s", "rows/s"),
    Figure("calc_peak_bytes", "bytes"),
)
WAITING = "SELECT message FROM information_schema.ins_streams WHERE stream_name = 's_filled'"
STATEMENTS = [
    f"CREATE STABLE {DB}.filled (ts TIMESTAMP, v INT) TAGS (k INT)",
    f"CREATE TABLE {DB}.beside (ts TIMESTAMP, v INT)",
    f"CREATE STREAM {DB}.s_beside INTERVAL(1s) SLIDING(1s) FROM {DB}.beside INTO {DB}.beside_out"
    " AS SELECT _twstart AS ts, 'beside' AS who, count(*) AS n FROM %%trows",
]
STREAM = (
    f"CREATE STREAM {DB}.s_filled INTERVAL({WIDTH}s) SLIDING({WIDTH}s) FROM {DB}.filled PARTITION BY tbname"
    f" INTO {DB}.filled_out AS SELECT _twstart AS ts, %%tbname AS who, count(*) AS n, avg(v) AS a"
    " FROM %%tbname WHERE ts >= _twstart AND ts < _twend"
)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """The figures; :raises BenchError: if a window is wrong or missing, or a trigger was given up."""
    tables = QUICK_TABLES if given.quick else TABLES
    rows = QUICK_ROWS if given.quick else given.rows
    block = Block(tables, 0, rows // tables // ARROW_ROWS * ARROW_ROWS, ARROW_ROWS, arrow=True)
    with stage("catch-up", STATEMENTS) as one:
        one.tables(tables, "filled")
        one.sql(STREAM)
        for stream in ("s_filled", "s_beside"):
            one.running(stream)
        one.stack.stop("calc-svc")
        _fill(one, block)
        return {"rows": block.rows} | _catch_up(one, block)


def _fill(one: Stage, block: Block) -> None:
    """Returns when trigger-svc has judged the rows."""
    found, wanted = triggers(one.log), block.tables * closed(block.last, WIDTH)
    seconds = Feed(one.broker).fill(wal_topic(DB, "filled"), block.tables, block.values())
    say(f"{block.rows} rows in {block.messages} messages written in {seconds:.1f} s")

    def told() -> bool:
        found.take(0.2)
        return len(found.rows) >= wanted

    wait(told, SECONDS, f"{wanted} windows closed")
    say(f"{wanted} windows are closed and waiting to be calculated")


@dataclass
class _Meanwhile:
    """While calc-svc reads: writes rows of the other stream, one of them a second later than the one before,
    and notes when its first result came and all ``rows`` were stored (seconds from ``began``), and what SHOW
    STREAMS says."""

    one: Stage
    rows: int
    began: float
    first: float = math.nan
    stored: float = math.nan
    waiting: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        feed = Feed(self.one.broker, prompt=True)
        results = Results(read_all(self.one.log, wal_topic(DB, "beside_out")))
        turn = 0
        while not self._stop.wait(SAMPLE):
            feed.write(wal_topic(DB, "beside"), "beside", b'{"ts":%d,"v":1}' % (BASE + turn * 1000))
            feed.serve()
            turn += 1
            results.take(0.05)
            now = time.time() - self.began
            if results.rows and math.isnan(self.first):
                self.first = now
            if math.isnan(self.stored):
                self._look(now)
        feed.done()

    def _look(self, now: float) -> None:
        try:
            if counter(self.one, "millrace_rows_stored_total") >= self.rows:
                self.stored = now
            elif not self.waiting:
                (message,) = self.one.rest.execute(WAITING, DB).rows[0]
                self.waiting = str(message or "")
        except (httpx.HTTPError, MillraceError):
            pass  # calc-svc answers both, and is busy

    def stop(self) -> None:
        self._stop.set()


def _catch_up(one: Stage, block: Block) -> dict[str, Any]:
    wanted = block.tables * closed(block.last, WIDTH)
    results = Results(read_all(one.log, wal_topic(DB, "filled_out")))
    meanwhile = _Meanwhile(one, block.rows, time.time())
    thread = threading.Thread(target=meanwhile.run, daemon=True)
    thread.start()  # its rows are in the log before calc-svc is there
    one.stack.start("calc-svc")

    def all_there() -> bool:
        results.take(0.5)
        return len(results.rows) >= wanted and not math.isnan(meanwhile.first)

    with peak([one.process("calc-svc")]) as most:
        try:
            wait(all_there, SECONDS, f"{wanted} results, and one of the other stream")
        finally:
            meanwhile.stop()
            thread.join()
    _check(results, block)
    given_up = one.scalar("SELECT sum(failures) FROM information_schema.ins_streams")
    if given_up:
        raise BenchError(f"{given_up} triggers were given up")
    seconds = results.last_ms / 1000 - meanwhile.began
    return {
        "given_up": given_up, "caught_up_s": meanwhile.stored, "results_s": seconds,
        "beside_s": meanwhile.first, "rows_per_s": rate(block.rows, seconds), "calc_peak_bytes": most(),
        "waiting": meanwhile.waiting,
    }  # fmt: skip


def _check(results: Results, block: Block) -> None:
    """:raises BenchError: unless each closed window has its row with the right figures."""
    starts = sorted(windows(block.last, WIDTH))[: closed(block.last, WIDTH)]
    averages = {
        start: sum(second % 97 for second in range(place * WIDTH, (place + 1) * WIDTH)) / WIDTH
        for place, start in enumerate(starts)
    }
    wrong = [
        (table, start)
        for table in (f"d{number}" for number in range(block.tables))
        for start, average in averages.items()
        if (row := results.rows.get((table, start))) is None
        or row["n"] != WIDTH
        or not math.isclose(row["a"], average, rel_tol=1e-9)
    ]
    if wrong:
        raise BenchError(f"{len(wrong)} results are wrong or missing, first {wrong[:3]}")


if __name__ == "__main__":
    report.run(
        "catch_up", __doc__, measure, FIGURES,
        rows={"type": int, "default": 20_000_000, "help": "rows that are written while calc-svc is down"},
    )  # fmt: skip

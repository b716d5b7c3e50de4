"""``python -m bench.recalc_crash --runs 20``: kill -9 in the middle of recalculations and history fills.

Each round, in a database of its own: two streams begin with the history of a table, a third one is
recalculated by hand and by late rows; at a random moment meanwhile trigger-svc, calc-svc or both are killed.
In the end each output table holds the windows that plain Python cuts: none is missing, none comes twice.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from bench.recalc_crash_rows import (
    COUNT,
    GAP,
    LENGTH,
    Load,
    Row,
    Windows,
    counts,
    differences,
    intervals,
    joined,
    load,
    sessions,
)
from bench.stage import BenchError, say, stage
from bench.workload import BASE
from millrace.sql_client import Rest
from millrace.stack import Stack
from millrace_core.errors import MillraceError

TABLES, ROWS = 6, 1_000
ROWS_PER_STATEMENT = 2_000
VICTIMS = (("trigger-svc",), ("calc-svc",), ("trigger-svc", "calc-svc"))
"""Of the rounds in turn."""
LATEST = 4.0
"""Seconds after the first statement within which the crash comes."""
SECONDS = 180.0
"""After which an answer that has not come will not come."""
SETTLED = 2.0
"""Seconds for which the right result must stay right."""
SHOWN = 20


@dataclass(slots=True)
class Crash:
    """kill -9 of services ``delay`` seconds from now, all at once; they are started again ``pause`` later."""

    stack: Stack
    victims: Sequence[str]
    delay: float
    pause: float
    _failure: list[BaseException] = field(default_factory=list)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Returns once all run again. :raises MillraceError: if one does not come back."""
        if self._thread is not None:
            self._thread.join()
        if self._failure:
            raise self._failure[0]

    def _run(self) -> None:
        try:
            time.sleep(self.delay)
            with ThreadPoolExecutor(len(self.victims)) as side_by_side:
                list(side_by_side.map(self.stack.kill, self.victims))
                time.sleep(self.pause)
                list(side_by_side.map(self.stack.start, self.victims))
        except BaseException as failure:  # raised where the round waits for it
            self._failure.append(failure)


@dataclass(slots=True)
class Round:
    """One round; the same seed gives the same rows, statements and moment."""

    stack: Stack
    rest: Rest
    seed: int

    @property
    def db(self) -> str:
        return f"crash{self.seed}"

    def run(self) -> str:
        """What was done, in a line.

        :raises BenchError: if an output table does not become right in time; it shows the differences.
        """
        rng = random.Random(self.seed)
        rows = load(rng, TABLES, ROWS)
        victims = VICTIMS[self.seed % len(VICTIMS)]
        crash = Crash(self.stack, victims, rng.uniform(0, LATEST), rng.uniform(0, 1))
        fill = rng.choice(("FILL_HISTORY", "FILL_HISTORY_FIRST"))
        self._prepare(rows)
        steps: list[Callable[[], None]] = [
            lambda: self._sql(_stream(self.db, "by_gap", f"SESSION(ts, {GAP}a)", "past", "<=", fill)),
            lambda: self._sql(
                _stream(self.db, "by_count", f"COUNT_WINDOW({COUNT})", "past", "<=", "FILL_HISTORY_FIRST")
            ),
            lambda: self._sql(f"RECALCULATE STREAM {self.db}.by_length FROM {BASE}"),
            lambda: self._insert(rows.late),
        ]
        rng.shuffle(steps)
        crash.begin()
        for step in steps:
            step()
        self._insert(rows.future)
        self._insert(rows.closing)
        crash.end()
        whole = joined(rows.past, rows.future)
        self._expect({
            "by_gap": sessions(whole), "by_count": counts(whole),
            "by_length": intervals(joined(rows.old, rows.live, rows.late, rows.closing)),
        })  # fmt: skip
        self._sql(f"DROP DATABASE {self.db}")
        return f"{fill}, kill of {' and '.join(victims)} after {crash.delay:.2f} s"

    # ------------------------------------------------------------------ statements

    def _prepare(self, rows: Load) -> None:
        db = self.db
        self._sql(f"CREATE DATABASE {db}")
        for table, names in (("past", rows.past), ("live", rows.old)):
            self._sql(f"CREATE STABLE {db}.{table} (ts TIMESTAMP, v INT) TAGS (k INT)")
            children = (f"{db}.{name} USING {db}.{table} TAGS ({k})" for k, name in enumerate(names))
            self._sql(f"CREATE TABLE {' '.join(children)}")
        self._insert(rows.past)
        self._insert(rows.old)
        length = f"{LENGTH}a"
        self._sql(_stream(db, "by_length", f"INTERVAL({length}) SLIDING({length})", "live", "<"))
        self._insert(rows.live)

    def _sql(self, statement: str) -> None:
        """Runs a statement, again and again while a service that it needs is away."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                self.rest.execute(statement)
                return
            except MillraceError as error:
                if not error.code.value.retry or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _insert(self, tables: dict[str, list[Row]]) -> None:
        for name, rows in tables.items():
            for begin in range(0, len(rows), ROWS_PER_STATEMENT):
                values = " ".join(
                    f"({ts}, {value})" for ts, value in rows[begin : begin + ROWS_PER_STATEMENT]
                )
                self._sql(f"INSERT INTO {self.db}.{name} VALUES {values}")

    # ------------------------------------------------------------------ results

    def _expect(self, expected: dict[str, Windows]) -> None:
        """:raises BenchError: unless all output tables are right in time, and stay so."""
        deadline = time.monotonic() + SECONDS
        while (wrong := self._wrong(expected)) and time.monotonic() < deadline:
            time.sleep(0.5)
        if not wrong:
            time.sleep(SETTLED)
            wrong = self._wrong(expected)
        if wrong:
            more = f"\n… {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
            raise BenchError(f"seed {self.seed}:\n" + "\n".join(wrong[:SHOWN]) + more)

    def _wrong(self, expected: dict[str, Windows]) -> list[str]:
        found = []
        for stream, windows in expected.items():
            sql = (
                "SELECT tag_tbname, cast(ts AS BIGINT), cast(upto AS BIGINT), n, total "
                f"FROM {self.db}.{stream}_out"
            )
            try:
                answer = self.rest.execute(sql)
            except MillraceError as error:
                if not error.code.value.retry:
                    raise
                return [f"{stream}: {error}"]
            rows = [(str(row[0]), int(row[1]), int(row[2]), int(row[3]), int(row[4])) for row in answer.rows]
            found += [f"{stream}: {line}" for line in differences(windows, rows)]
        return found


def _stream(db: str, name: str, trigger: str, table: str, upto: str, options: str = "") -> str:
    """CREATE STREAM over the children of a table. ``upto``: whether ``_twend`` is a row of the window."""
    given = f"STREAM_OPTIONS({options}) " if options else ""
    return (
        f"CREATE STREAM IF NOT EXISTS {db}.{name} {trigger} FROM {db}.{table} PARTITION BY tbname {given}"
        f"INTO {db}.{name}_out AS SELECT _twstart AS ts, _twend AS upto, count(*) AS n, sum(v) AS total "
        f"FROM %%tbname WHERE ts >= _twstart AND ts {upto} _twend"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs rounds on one stack; 1 if one of them fails."""
    parser = argparse.ArgumentParser(prog="bench.recalc_crash", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="rounds (20)")
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the first round; each further round has the next one (1)"
    )
    given = parser.parse_args(arguments)
    failed = 0
    with stage("recalc_crash") as one:
        for seed in range(given.seed, given.seed + given.runs):
            began = time.monotonic()
            try:
                done = Round(one.stack, one.rest, seed).run()
                say(f"seed {seed}: correct after {time.monotonic() - began:.1f} s ({done})")
            except (BenchError, MillraceError) as error:
                failed += 1
                print(f"error: {error}", file=sys.stderr, flush=True)
    print(f"{given.runs - failed} of {given.runs} rounds were correct")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m bench.calc_one [--quick] [--rates 200,5000]``: from a trigger event in the log to its result.

The broker, calc-svc and notify-svc run. This process stands in for the others: it defines tables and a
stream, writes rows and, as soon as the log has a row that closes a window, its trigger event: so triggering
adds nothing. Each table's window of a second closes at a time of its own. ``result_ms``: the event is in the
log -> its result row is read from the log; ``told_ms``: -> its notification is received; ``select_ms``: -> a
SELECT that is sent when the result row is read gives it. Each result must be right. ``cpu_ms``: of calc-svc
and all below it, a result.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil
import pyarrow as pa

from bench.events import InBackground, Results, read_all
from bench.goals import Figure
from bench.in_process import INT, InProcess, in_process
from bench.report import run
from bench.stage import DB, BenchError, family, say, wait
from bench.stats import latencies_ms
from bench.steady import STREAM, TABLES, WIDTH
from bench.workload import SteadyRow, Window, counts, steady
from calc_svc.store.catalog import CatalogView
from millrace import broker, processes
from millrace.demo.listen import Event, Listener
from millrace.settings import StackSettings, project_root
from millrace.stack import Stack
from millrace_core.catalog import encode, key_of
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.model.types import TIMESTAMP
from millrace_core.wire import events
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent, trigger_id
from millrace_core.wire.topics import CATALOG, TOPICS, TRIGGERS, wal_topic
from millrace_wal import KafkaLog, Message

RATES = "200,5000"
WARM_SECONDS, SECONDS = 30, 30
SLOTS, PARTITIONS = 8, 4
SELECTS = 30
LAST_SECONDS = 60.0
PARTS = ("calc-svc", "notify-svc")
FIGURES = tuple(
    figure
    for rate in (200, 5000)
    for figure in (
        Figure(f"{rate}.result_ms.p50", "ms", "<=", 25 if rate == 200 else None),
        *(
            Figure(f"{rate}.{what}.{share}", "ms")
            for what, share in (
                ("result_ms", "p99"), ("told_ms", "p50"), ("told_ms", "p99"), ("select_ms", "p50"),
            )
        ),
        Figure(f"{rate}.cpu_ms", "ms"),
    )
)  # fmt: skip


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """The figures of each rate, by the rate's number."""
    warm, seconds = (4, 4) if given.quick else (WARM_SECONDS, SECONDS)
    found: dict[str, Any] = {}
    for rate in map(int, given.rates.split(",")):
        found[str(rate)] = _measure(rate, warm, seconds)
        say(f"{rate} rows a second: {found[str(rate)]}")
    return found


@dataclass
class Seen:
    """When notifications and result rows came, by window (``perf_counter``)."""

    told: dict[Window, float] = field(default_factory=dict)
    read: dict[Window, float] = field(default_factory=dict)

    def note(self, _: int, event: Event) -> None:
        """A notification has come."""
        window = (str(event["result"]["who"]), int(event["windowStart"]))
        self.told.setdefault(window, time.perf_counter())


def _measure(rate: int, warm: int, seconds: int) -> dict[str, Any]:
    seen, tables = Seen(), max(TABLES, rate // 10)
    with Listener(seen.note) as listener, _calculation() as (stack, log):
        spec = _define(log, tables, STREAM.replace("{url}", listener.url))
        for part in PARTS:
            stack.start(part)
        rows = steady(tables, rate, warm + seconds, WIDTH)
        fire = Fire(log, spec, counts(rows, WIDTH))
        results = Results(read_all(log, wal_topic(DB, "load_out")))
        calc = family(_process(stack, "calc-svc"))
        with InBackground(partial(_read, results, seen)):
            first = len(rows) * warm // (warm + seconds)
            _write(fire, rows[:first], rate)
            before = _cpu(calc)
            fired = _write(fire, rows[first:], rate)
            wait(lambda: seen.read.keys() >= fired.keys(), LAST_SECONDS, "the last result")
            spent = _cpu(calc) - before
            wait(lambda: seen.told.keys() >= fired.keys(), LAST_SECONDS, "the last notification")
            selects = _selects(stack, log, fire, seen, rows)
        _check(fire, results)
        return {
            "results": len(fired),
            "result_ms": latencies_ms([seen.read[window] - at for window, at in fired.items()]),
            "told_ms": latencies_ms([seen.told[window] - at for window, at in fired.items()]),
            "select_ms": latencies_ms(selects),
            "cpu_ms": round(1000 * spent / len(fired), 2),
        }


@contextmanager
def _calculation() -> Iterator[tuple[Stack, KafkaLog]]:
    """A broker of its own, and a stack of which nothing else runs; its data is removed in the end."""
    folder = project_root() / ".millrace" / "bench" / "calc-one"
    shutil.rmtree(folder, ignore_errors=True)
    jars = Path(os.environ.get("MILLRACE_JARS_DIR", project_root() / ".jars"))
    stack = Stack(StackSettings.on_free_ports(folder, jars), say)
    try:
        stack.start(broker.NAME)
        with KafkaLog(stack.settings.broker, "bench") as log:
            yield stack, log
    finally:
        stack.down()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Defined(InProcess):
    """What is defined, as messages for the catalog too."""

    messages: list[Message] = field(default_factory=list)

    def know(self, *records: Any) -> None:
        """As it does, and keep them."""
        super().know(*records)
        self.messages += [Message(CATALOG.name, key_of(one), encode(one)) for one in records]


def _define(log: KafkaLog, tables: int, sql: str) -> StreamSpec:
    """Write the catalog: tables d0, d1, … and the stream of ``sql``, which runs."""
    with in_process(1000, spark=False) as one:
        made = Defined(CatalogView(), one.store, None)
        made.store.catalog = made.catalog
        made.know(Database(DB))
        columns = (Column("ts", TIMESTAMP), Column("v", INT))
        made.know(Table(DB, "load", "super", 2, "ms", columns, (Column("k", INT),)))
        made.know(*(Child(DB, "load", f"d{k}", (k,)) for k in range(tables)))
        spec = made.stream(sql)
    log.ensure_topics([*TOPICS, *((wal_topic(DB, name), PARTITIONS) for name in ("load", "load_out"))])
    log.append(made.messages)
    return spec


class Fire:
    """Writes rows and, in the place of trigger-svc, trigger events."""

    def __init__(self, log: KafkaLog, spec: StreamSpec, rows: Mapping[Window, int]) -> None:
        self.rows = rows
        self._log, self._spec = log, spec
        self._numbers = [0] * SLOTS
        self._topic = wal_topic(DB, "load")
        self._seen: dict[int, int] = {}
        self.fired: dict[Window, float] = {}

    def write(self, rows: Sequence[SteadyRow], number: int) -> None:
        """Rows that are due together, then the events of those that close a window."""
        values = [b'{"ts":%d,"v":%d}' % (row.ts, (number + n) % 97) for n, row in enumerate(rows)]
        every = zip(rows, values, strict=True)
        places = self._log.append([Message(self._topic, row.table.encode(), value) for row, value in every])
        for partition, offset in places:
            self._seen[partition] = max(self._seen.get(partition, 0), offset + 1)
        closing = [(row.table, row.closes) for row in rows if row.closes is not None]
        if closing:
            self._log.append([self._message(*window) for window in closing])
            self.fired |= dict.fromkeys(closing, time.perf_counter())

    def _message(self, table: str, start: int) -> Message:
        spec, slot = self._spec, int(table[1:]) % SLOTS
        group = Group(Child(DB, "load", table, (0,)).uid, (table,), table)
        one = trigger_id(spec.uid, group.id, start)
        close = TriggerEvent(
            one, "CLOSE", "LIVE", group, start, start + WIDTH, self.rows[table, start], time.time_ns()
        )
        batch = TriggerBatch(spec.uid, 0, slot, self._numbers[slot], dict(self._seen), [close])
        self._numbers[slot] += 1
        return Message(TRIGGERS.name, events.key_of(batch), events.encode(batch))


def _read(results: Results, seen: Seen) -> None:
    results.take(0.02)
    now = time.perf_counter()
    for window in results.rows.keys() - seen.read.keys():
        seen.read[window] = now


def _write(fire: Fire, rows: Sequence[SteadyRow], rate: int) -> dict[Window, float]:
    """Writes rows when they are due; window -> when its event was in the log."""
    say(f"writing {len(rows)} rows, {rate} a second")
    fire.fired, began, at = {}, time.perf_counter(), 0
    while at < len(rows):
        early = began + at / rate - time.perf_counter()
        if early > 0:
            time.sleep(early)
        due = max(int((time.perf_counter() - began) * rate), at + 1)
        fire.write(rows[at:due], at)
        at = min(due, len(rows))
    return fire.fired


def _selects(stack: Stack, log: KafkaLog, fire: Fire, seen: Seen, rows: Sequence[SteadyRow]) -> list[float]:
    """Seconds from an event to the answer of a SELECT that has its result, one after the other, while nothing
    else comes."""
    last, url = {row.table: row for row in rows}, f"{stack.settings.url('calc-svc')}/query"
    took = []
    with httpx.Client(headers=dict(stack.settings.token.header), trust_env=False) as client:
        for turn, row in enumerate(list(last.values())[:SELECTS]):
            start = row.ts - row.ts % WIDTH
            window = (row.table, start)
            fire.write([replace(row, ts=start + WIDTH, closes=start)], turn)
            wait(lambda window=window: window in seen.read, LAST_SECONDS, "a result", 0.0005)  # type: ignore[misc]
            asked = {
                "sql": f"SELECT n FROM {DB}.load_out WHERE who = '{row.table}' AND ts = {start}",
                "wal": {wal_topic(DB, "load_out"): log.end_offsets(wal_topic(DB, "load_out"))},
            }
            answer = client.post(url, content=msgspec.json.encode(asked))
            took.append(time.perf_counter() - fire.fired[window])
            found = pa.ipc.open_stream(answer.raise_for_status().content).read_all().column(0).to_pylist()
            if found != [fire.rows[window]]:
                raise BenchError(f"SELECT gives {found} for {window}")
    return took


def _check(fire: Fire, results: Results) -> None:
    """:raises BenchError: unless each window has its number of rows."""
    wrong = [window for window, row in results.rows.items() if row["n"] != fire.rows[window]]
    if wrong:
        raise BenchError(f"{len(wrong)} windows are wrong, first {wrong[0]}: {results.rows[wrong[0]]}")


def _process(stack: Stack, name: str) -> psutil.Process:
    found = processes.running(stack.place, name)
    if found is None:
        raise BenchError(f"{name} has ended: {processes.tail(stack.place.log_file(name))}")
    return found


def _cpu(every: Sequence[psutil.Process]) -> float:
    return float(sum(sum(one.cpu_times()[:2]) for one in every))


if __name__ == "__main__":
    run("calc_one", __doc__, measure, FIGURES, rates={"default": RATES, "help": "rows a second"})

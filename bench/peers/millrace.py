"""Millrace: the whole of it, from rows to result rows; or its trigger stage alone, to trigger events."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec
import polars as pl
import psutil

from bench.peers.jobs import Job, table_of
from bench.peers.peer import Row
from bench.peers.run import Load, Run, Topics
from bench.stage import DB, BenchError, say, wait
from bench.workload import rows_of
from millrace import processes
from millrace.settings import SERVICES
from millrace.sql_client import Rest
from millrace.stack import Stack
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.timeline.text import parse_timestamp
from millrace_core.wire import events
from millrace_core.wire.topics import TRIGGERS, wal_topic
from millrace_wal import Record

START_SECONDS = 900.0
"""A service that is not ready in time is given this much in all: others use the machine, too."""
_CALCULATION = ("calc-svc", "notify-svc")
_STREAMS = {
    "tumbling": "INTERVAL({width}a) SLIDING({width}a) FROM {source} PARTITION BY tbname"
    " STREAM_OPTIONS(IGNORE_NODATA_TRIGGER) INTO {sink}"
    " AS SELECT _twstart AS ts, %%tbname AS who, avg(v) AS a, min(v) AS lo, max(v) AS hi FROM %%tbname"
    " WHERE ts >= _twstart AND ts < _twend",
    "session": "SESSION(ts, {gap}a) FROM {source} PARTITION BY tbname INTO {sink}"
    " AS SELECT _twstart AS ts, %%tbname AS who, cast(_twend AS BIGINT) AS last, count(*) AS n FROM %%tbname"
    " WHERE ts >= _twstart AND ts <= _twend",
    "event": "EVENT_WINDOW(START WITH v >= {high} END WITH v < {low}) FROM {source} PARTITION BY tbname"
    " INTO {sink} AS SELECT _twstart AS ts, %%tbname AS who, cast(_twend AS BIGINT) AS last, count(*) AS n,"
    " max(v) AS hi FROM %%tbname WHERE ts >= _twstart AND ts <= _twend",
}
_TOLD_BY_TRIGGERS: Mapping[str, tuple[str, ...]] = {
    "tumbling": (),
    "session": ("last", "n"),
    "event": ("last", "n"),
}


class Millrace:
    """The four services on the run's stack; each stream has an output table of its own."""

    name = "millrace"

    def __init__(self) -> None:
        self._stack: Stack | None = None
        self._services = tuple(one.name for one in SERVICES)
        self._columns: tuple[str, ...] = ()
        self._sinks: dict[str, int] = {}

    def prepare(self) -> Mapping[str, str]:
        """It is here."""
        return {}

    def columns(self, job: Job) -> tuple[str, ...]:
        """All of them."""
        return job.columns

    def topics(self, load: Load) -> Topics:
        """The WAL topics of its tables."""
        return Topics(_sources(load), tuple(wal_topic(DB, f"out{n}") for n in range(load.streams)), own=True)

    def start(self, run: Run, topics: Topics, again: bool = False) -> None:
        """Starts the services, and defines tables and streams; ``again``: the services that do not run."""
        self._stack, self._columns = run.stack, self.columns(run.load.job)
        self._sinks = {sink: number for number, sink in enumerate(topics.sinks)}
        if again:
            with ThreadPoolExecutor(len(self._services)) as side_by_side:
                starts = [partial(run.stack.start, name) for name in self._services]
                list(side_by_side.map(until_ready, starts))
            return
        until_ready(run.stack.up)
        with Rest(run.stack.settings.url("api-gateway"), timeout=600) as rest:
            rest.execute(f"CREATE DATABASE {DB}")
            for table in range(run.load.tables):
                rest.execute(f"CREATE STABLE rows{table} (ts TIMESTAMP, v INT) TAGS (k INT)", DB)
            for number in range(run.load.streams):
                rest.execute(_stream(run.load, number), DB)
            wait(lambda: _all_run(rest), 600, "all streams Running", 0.5)
        wait(lambda: _has_begun(run.stack), 300, "the first batch of trigger-svc's query", 0.5)

    def first(self, number: int, text: bytes) -> bytes:
        """The first message of a device makes its child table."""
        rows = text if text.startswith(b"[") else b"[%s]" % text
        return b'{"tags":{"k":%d},"rows":%s}' % (number, rows)

    def messages(self, texts: list[bytes]) -> list[bytes]:
        """JSON, as all others get it."""
        return texts

    def settle(self, run: Run, topics: Topics) -> None:
        """Each device has a watermark of its own: nothing to wait for."""

    def processes(self) -> list[psutil.Process]:
        """The services that the run needs."""
        assert self._stack is not None
        found = []
        for name in self._services:
            one = processes.running(self._stack.place, name)
            if one is None:
                log = self._stack.place.log_file(name)
                raise BenchError(f"{name} ended; the end of {log}:\n{processes.tail(log, 30)}")
            found.append(one)
        return found

    def rows(self, record: Record) -> Sequence[Row]:
        """The rows of an output table."""
        stream = self._sinks[record.topic]
        return [
            (stream, row["who"], _ticks(row["ts"]), *(row[column] for column in self._columns))
            for row in rows_of(record.value)
        ]

    def crash(self) -> None:
        """All services; the broker is not Millrace's alone."""
        assert self._stack is not None
        for name in self._services:
            self._stack.kill(name)

    def stop(self) -> None:
        """As a crash: the data is thrown away after a run."""
        if self._stack is not None:
            self.crash()


class Triggers(Millrace):
    """The trigger stage alone: calc-svc and notify-svc are stopped once the streams are defined. Results are
    the trigger events: which windows, from when to when, of how many rows."""

    name = "millrace-trigger"

    def __init__(self) -> None:
        super().__init__()
        self._services = tuple(one.name for one in SERVICES if one.name not in _CALCULATION)
        self._streams: dict[int, int] = {}
        self.tables = 1
        self._interval = False

    def columns(self, job: Job) -> tuple[str, ...]:
        """What an event says."""
        return _TOLD_BY_TRIGGERS[job.shape]

    def topics(self, load: Load) -> Topics:
        """Trigger events of all streams go to one topic."""
        return Topics(_sources(load), (TRIGGERS.name,), own=True)

    def start(self, run: Run, topics: Topics, again: bool = False) -> None:
        """As all of Millrace, then without the calculation."""
        super().start(run, topics, again)
        if again:
            return
        self._streams, self.tables = {}, run.load.tables
        self._interval = run.load.job.shape == "tumbling"
        for name in _CALCULATION:
            run.stack.stop(name)

    def rows(self, record: Record) -> Sequence[Row]:
        """The closings of a batch."""
        batch = events.decode(record.value or b"")
        return [
            (
                self.number(batch.stream, one.group.table or ""),
                one.group.table,
                one.start,
                *(() if self._interval else (one.end, one.rownum)),
            )
            for one in batch.events
            if one.kind == "CLOSE"
        ]

    def number(self, uid: int, device: str) -> int:
        """The number of a stream, from a device of its table: streams take the tables in turn, and those of
        one table have equal results, so that they may be numbered as they come."""
        if uid not in self._streams:
            table = table_of(device)
            same = sum(number % self.tables == table for number in self._streams.values())
            self._streams[uid] = table + same * self.tables
        return self._streams[uid]


class ArrowTriggers(Triggers):
    """The trigger stage with messages that are Arrow IPC streams, which none of the others can read: beside
    them it shows what producers gain that write so. The first message of a device is JSON, for its tags."""

    name = "millrace-arrow"

    def messages(self, texts: list[bytes]) -> list[bytes]:
        """The same rows as Arrow."""
        return [arrow(text) for text in texts]


def arrow(text: bytes) -> bytes:
    """A JSON message as an Arrow IPC stream of one batch: ``ts`` BIGINT, ``v`` INT."""
    rows = msgspec.json.decode(text)
    frame = pl.DataFrame(rows if isinstance(rows, list) else [rows], {"ts": pl.Int64, "v": pl.Int32})
    sink = io.BytesIO()
    frame.write_ipc_stream(sink, compat_level=pl.CompatLevel.oldest())
    return sink.getvalue()


def until_ready(start: Callable[[], object]) -> None:
    """A start that took too long still goes on and is waited for again; a service that ended starts again,
    once."""
    deadline, ended = time.monotonic() + START_SECONDS, 0
    while True:
        try:
            start()
            return
        except MillraceError as error:
            ended += error.code is ErrorCode.UNAVAILABLE
            patient = error.code in (ErrorCode.TIMEOUT, ErrorCode.UNAVAILABLE) and ended <= 1
            if not patient or time.monotonic() > deadline:
                raise
            say(f"not ready yet: {str(error).splitlines()[0]}")


def _sources(load: Load) -> tuple[str, ...]:
    return tuple(wal_topic(DB, f"rows{table}") for table in range(load.tables))


def _stream(load: Load, number: int) -> str:
    text = query_of(load.job, f"rows{number % load.tables}", f"out{number}")
    return f"CREATE STREAM s{number} {text}"


def query_of(job: Job, source: str, sink: str) -> str:
    """What follows the name in CREATE STREAM."""
    return _STREAMS[job.shape].format(
        width=job.width_ms, gap=job.gap_ms, high=job.high, low=job.low, source=source, sink=sink
    )


def _has_begun(stack: Stack) -> bool:
    """Whether trigger-svc's Spark is up, which starts some time after its reader: no part of any peer's start
    belongs to what is measured."""
    return bool(stack.ask("trigger-svc", "/healthz").json()["detail"]["warm"])


def _all_run(rest: Rest) -> bool:
    answer = rest.execute(f"SHOW {DB}.STREAMS")
    status = [name for name, _, _ in answer.columns].index("status")
    return all(row[status] == "Running" for row in answer.rows)


def _ticks(found: int | str) -> int:
    return found if isinstance(found, int) else parse_timestamp(found, "ms")

"""A peer at work on a fresh broker: rows go in, results are taken in and compared."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import psutil
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from bench.feed import Feed
from bench.peers import compare
from bench.peers.jobs import KEY, PHASES, device, expected, texts
from bench.peers.peer import Peer
from bench.peers.run import PARTITIONS, Load, Run, Topics
from bench.stage import BenchError, hold, let_go, say
from millrace import broker, jars, processes
from millrace.java import find_java
from millrace.settings import StackSettings, project_root
from millrace.stack import Stack
from millrace_wal import BEGIN, KafkaLog, Reader

PATIENCE = 1800.0
"""Seconds that a peer may take for a part of the rows."""
_KEY_TYPES = {"stream": pl.Int32, "device": pl.String, "start": pl.Int64}


@dataclass
class Results:
    """What came out of the sinks so far. ``at``: when a record reached the broker (ms since the
    epoch), ``seen``: when it was read here (``perf_counter``)."""

    reader: Reader
    peer: Peer
    columns: tuple[str, ...]
    _rows: list[tuple[Any, ...]] = field(default_factory=list)

    def take(self, timeout: float) -> None:
        """Takes in what comes within ``timeout`` seconds."""
        for record in self.reader.poll(timeout):
            seen = time.perf_counter()
            self._rows += [(*row, record.timestamp, seen) for row in self.peer.rows(record)]

    def __len__(self) -> int:
        return len(self._rows)

    def frame(self) -> pl.DataFrame:
        """KEY, the columns, ``at``, ``seen``; each result once."""
        schema = _KEY_TYPES | dict.fromkeys(self.columns, pl.Float64) | {"at": pl.Int64, "seen": pl.Float64}
        found = pl.DataFrame(self._rows, schema=schema, orient="row", strict=False)
        return compare.distinct(found, self.columns)


@dataclass
class Play:
    """A peer that has started. ``expected``: see :func:`bench.peers.jobs.expected`."""

    peer: Peer
    run: Run
    topics: Topics
    feed: Feed
    results: Results
    expected: pl.DataFrame

    def write(self, first: int, last: int) -> None:
        """The messages of rounds ``first`` to before ``last``, as fast as they can be written."""
        load, began = self.run.load, time.monotonic()
        names = [[device(table, n) for n in range(load.devices)] for table in range(load.tables)]
        for block, told in enumerate(texts(load.job, first, last, load.per_message)):
            beginning = first + block == 0
            values = told if beginning else self.peer.messages(told)
            for topic, keys in zip(self.topics.sources, names, strict=True):
                for number, key in enumerate(keys):
                    text = values[number % PHASES]
                    self.feed.write(topic, key, self.peer.first(number, text) if beginning else text)
                self.feed.serve()
        self.feed.done()
        say(f"{load.rows(last - first):,} rows written in {time.monotonic() - began:.1f} s")

    def reach(self, rounds: int, seconds: float = PATIENCE) -> pl.DataFrame:
        """Waits for all results that are due after this many rounds, and gives them: KEY, ``at``, ``seen``,
        ``closed``. :raises BenchError: if they do not come, or the peer ends."""
        due = compare.due(self.expected, self.run.load.due(rounds))
        if due.is_empty():
            raise BenchError(f"{rounds} rounds are too few: they give no results")
        deadline = time.monotonic() + seconds
        missing, looked = len(due), 0
        while missing:
            self.results.take(0.1)
            # to look costs processor time that the peer could use
            if len(self.results) >= max(len(due), looked + 1):
                looked = len(self.results)
                missing = len(due.join(self.results.frame(), on=KEY, how="anti"))
            if missing and time.monotonic() > deadline:
                raise BenchError(
                    f"{self.peer.name}: {missing} of {len(due)} results missing after {seconds:g} s"
                )
            self.peer.processes()
        return due.select(*KEY, "closed").join(
            self.results.frame().select(*KEY, "at", "seen"), on=KEY, how="inner"
        )

    def check(self) -> None:
        """:raises BenchError: unless the results of all rounds are right."""
        load, results = self.run.load, self.results
        compare.check(results.frame(), self.expected, load.due(load.rounds), results.columns)

    def beside(self) -> list[psutil.Process]:
        """The broker: what it does is not the peer's doing, nor that of others on the machine."""
        found = processes.running(self.run.stack.place, broker.NAME)
        return [] if found is None else [found]

    @contextmanager
    def held(self) -> Iterator[None]:
        """The peer stands still in the block."""
        own = self.peer.processes()
        for one in own:
            hold(one)
        yield
        for one in own:
            let_go(one)


@contextmanager
def playing(peer: Peer, load: Load) -> Iterator[Play]:
    """The peer on a broker of its own; all of it is gone in the end."""
    settings = StackSettings.from_environment()
    folder = settings.data_dir / "peers"
    shutil.rmtree(folder, ignore_errors=True)
    stack = Stack(StackSettings.on_free_ports(folder, settings.jars_dir))
    jars.resolve(find_java(), project_root() / "ivy.xml", settings.jars_dir, say)
    try:
        stack.start(broker.NAME)
        with KafkaLog(stack.settings.broker, "bench") as log:
            yield _started(peer, Run(load, stack), log)
    finally:
        peer.stop()
        stack.down()
        shutil.rmtree(folder, ignore_errors=True)


def _started(peer: Peer, run: Run, log: KafkaLog) -> Play:
    topics = peer.topics(run.load)
    if not topics.own:
        log.ensure_topics([(name, PARTITIONS) for name in (*topics.sources, *topics.sinks)])
    peer.start(run, topics)
    _stamp_by_broker(run.broker, topics.sinks)
    load, columns = run.load, peer.columns(run.load.job)
    reader = log.reader({sink: dict.fromkeys(log.end_offsets(sink), BEGIN) for sink in topics.sinks})
    found = expected(load.job, load.rounds, load.tables, load.devices, load.streams)
    return Play(peer, run, topics, Feed(run.broker), Results(reader, peer, columns), found)


def _stamp_by_broker(address: str, sinks: Sequence[str]) -> None:
    """The time stamps of results are those of their arrival: some peers would pass on the event time."""
    stamp = ConfigEntry(
        "message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET
    )
    wanted = [ConfigResource(ConfigResource.Type.TOPIC, sink, incremental_configs=[stamp]) for sink in sinks]
    admin = AdminClient({"bootstrap.servers": address})  # what it does ends with it
    for done in admin.incremental_alter_configs(wanted).values():
        done.result(30)

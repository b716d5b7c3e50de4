"""A steady load: how late results are, and how long a crash is felt."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from bench.events import InBackground
from bench.feed import Feed
from bench.peers.jobs import PHASES, Job, device, texts
from bench.peers.peer import Peer
from bench.peers.play import Play, playing
from bench.peers.run import Load
from bench.peers.usage import Watch
from bench.stage import BenchError, say
from bench.stats import latencies_ms

STEP_MS = 100
"""A round comes every so often, and takes as much event time: all devices' rows at once, so it makes no
difference whether an engine closes windows by each device's time or by that of all."""
WIDTH_MS = 1000
LAST_SECONDS = 600.0
LATE_SECONDS = 1.0
"""After a crash, results that are later than this show that the peer has not caught up."""


@dataclass(frozen=True)
class Pace:
    """``rate``: rows a second of all devices. ``warm``, ``main``: seconds."""

    rate: int
    warm: int
    main: int

    def load(self, job: Job, crashes: bool = False) -> Load:
        """One row a message. :raises ValueError: if a round would have no device."""
        devices = self.rate * STEP_MS // 1000
        if devices < 1:
            raise ValueError(f"{self.rate} rows a second are fewer than one every {STEP_MS} ms")
        rounds = 1000 // STEP_MS
        fast = replace(job, step_ms=STEP_MS, width_ms=WIDTH_MS)
        warm = max(self.warm * rounds, 2 * fast.rounds(1, 1))
        return Load(fast, devices, 1, warm, self.main * rounds, crashes=crashes)


def latency(peer: Peer, job: Job, pace: Pace) -> dict[str, Any]:
    """From giving a closing row to the producer to reading the result, in ms; and the cost. The rows of the
    warm part are not counted."""
    load = pace.load(job)
    with playing(peer, load) as one:
        feed = Feed(one.run.broker, prompt=True)
        _warm(one, feed)
        with InBackground(lambda: one.results.take(0.02)), Watch(peer.processes(), one.beside()) as watch:
            written = _write(one, feed, load.warm, load.rounds)
        one.reach(load.rounds, LAST_SECONDS)
        one.check()
        seconds = _late(one, written)["late"].to_list()
    return {
        "rows_per_s": pace.rate,
        "samples": len(seconds),
        "latency_ms": latencies_ms(seconds),
        **watch.figures(load.rows(load.main), watch.seconds),
    }


def recovery(peer: Peer, job: Job, pace: Pace) -> dict[str, Any]:
    """kill -9 of the whole peer under load, and its start at once. ``recovery_s``: from the kill to the first
    result of a row that was written after it; ``caught_up_s``: to the last result that came late."""
    load = pace.load(job, crashes=True)
    with playing(peer, load) as one:
        feed = Feed(one.run.broker, prompt=True)
        _warm(one, feed)
        crash = load.warm + load.main // 4
        with InBackground(lambda: one.results.take(0.02)):
            _write(one, feed, load.warm, crash)
            killed = time.perf_counter()
            peer.crash()
            again = _Beside(lambda: peer.start(one.run, one.topics, again=True))
            written = _write(one, feed, crash, load.rounds)
            again.join()
        one.reach(load.rounds)
        one.check()
        late = _late(one, written)
    if late.is_empty():
        raise BenchError("no row that was written after the crash had a result")
    first = min(late["seen"].to_list())
    slow = late.filter(pl.col("late") > LATE_SECONDS)["seen"].to_list()
    return {
        "rows_per_s": pace.rate,
        "recovery_s": round(first - killed, 2),
        "caught_up_s": round(max(slow, default=first) - killed, 2),
    }


class _Beside:
    """Does something in a thread; an error in it is raised by :meth:`join`."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._error: Exception | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self._error = error

    def join(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error


def _warm(one: Play, feed: Feed) -> None:
    """The warm part: the first round before all others, then what gives the first results, and the rest once
    they are there, so that the start takes nothing of it. All its results have come in the end. ``feed``
    writes what is measured, too: a new producer takes half a second for its first message, whoever reads
    it."""
    load = one.run.load
    started = load.job.rounds(1, load.per_message)
    _write(one, feed, 0, 1)
    one.peer.settle(one.run, one.topics)
    _write(one, feed, 1, started)
    one.reach(started)
    _write(one, feed, started, load.warm)
    one.reach(load.warm)


def _write(one: Play, feed: Feed, first: int, last: int) -> pl.DataFrame:
    """Writes rounds when they are due; device, closed (the round), written (``perf_counter``)."""
    load = one.run.load
    topic = one.topics.sources[0]
    keys = [device(0, number) for number in range(load.devices)]
    say(f"{load.rows(last - first):,} rows, {load.devices} every {STEP_MS} ms")
    times: list[float] = []
    began = time.perf_counter()
    for block, values in enumerate(texts(load.job, first, last, 1)):
        early = began + block * STEP_MS / 1000 - time.perf_counter()
        if early > 0:
            time.sleep(early)
        for number, key in enumerate(keys):
            text = values[number % PHASES]
            times.append(time.perf_counter())
            feed.write(topic, key, one.peer.first(number, text) if first + block == 0 else text)
        feed.serve()
    feed.done()
    rounds = [number for number in range(first, last) for _ in keys]
    return pl.DataFrame(
        {"device": keys * (last - first), "closed": rounds, "written": times},
        schema={"device": pl.String, "closed": pl.Int64, "written": pl.Float64},
    )


def _late(one: Play, written: pl.DataFrame) -> pl.DataFrame:
    """Each result that one of the rows closes: seen, late (seconds)."""
    found = one.reach(one.run.load.rounds).join(written, on=["device", "closed"], how="inner")
    return found.select("seen", late=pl.col("seen") - pl.col("written"))

"""The measures as data: which points each has, and how one point is measured for one peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from bench.peers.jobs import JOBS, Job
from bench.peers.peer import Peer
from bench.peers.run import Load
from bench.peers.steady import Pace, latency, recovery
from bench.peers.throughput import throughput


@dataclass(frozen=True)
class Size:
    """How much is measured. ``rows``: of the main part of a filled topic; ``grown``: the same for the growth
    measures; ``devices``, ``per_message``: the points of throughput; ``rates``: of latency, in rows a second;
    ``warm_seconds``, ``seconds``: of a steady load; ``jobs``: which jobs a measure is taken of unless others
    are named (all others: ``tumbling`` alone); the rest: the points along which growth is measured."""

    rows: int = 4_000_000
    grown: int = 1_000_000
    devices: tuple[int, ...] = (1_000, 100_000)
    per_message: tuple[int, ...] = (1, 100)
    rates: tuple[int, ...] = (200, 5_000)
    warm_seconds: int = 60
    seconds: int = 60
    many_devices: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    streams: tuple[int, ...] = (1, 10, 100, 1_000)
    tables: int = 10
    jobs: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {"throughput": tuple(JOBS), "latency": tuple(JOBS)}
    )
    widths: tuple[int, ...] = (1, 10, 60, 600)
    window_devices: int = 1_000
    window_messages: tuple[int, ...] = (1,)
    message_rows: tuple[int, ...] = (1, 10, 100, 1_000)


QUICK = Size(
    rows=10_000,
    grown=10_000,
    devices=(100,),
    per_message=(1,),
    rates=(200,),
    warm_seconds=4,
    seconds=10,
    many_devices=(200,),
    streams=(3,),
    tables=2,
    widths=(20,),
    window_devices=20,
    message_rows=(10,),
    jobs={"latency": ("event",), "recovery": ("session",), "growth-devices": ("event",),
          "growth-message": ("session",)},
)  # fmt: skip
"""To see that the bench works: each measure at one point, each job of each peer. No figures come of it."""


@dataclass(frozen=True)
class Point:
    """One figure to be taken of each peer. ``of``: what tells it from the other points of its measure."""

    job: Job
    of: dict[str, int]
    take: Callable[[Peer], dict[str, Any]]


def filled(job: Job, rows: int, devices: int, per_message: int, tables: int = 1, streams: int = 1) -> Load:
    """At least this many rows of all tables that count, and a tenth before them. Those behind them, at most a
    quarter, do not count: a peer that takes all at once does them too."""
    each, behind = -(-rows // (devices * tables)), job.behind(per_message)
    warm = job.rounds(each // 10, per_message)
    total = job.rounds(warm + max(each, 3 * behind) + behind, per_message)
    return Load(job, devices, per_message, warm, total - warm, tables, streams)


def _of_load(load: Load, rows: int, of: dict[str, int]) -> Point:
    return Point(load.job, {"rows": rows, **of}, partial(throughput, load=load))


def _throughput(size: Size, jobs: list[Job]) -> Iterator[Point]:
    for job in jobs:
        for devices in size.devices:
            for each in size.per_message:
                load = filled(job, size.rows, devices, each)
                yield _of_load(load, size.rows, {"devices": devices, "per_message": each})


def _latency(size: Size, jobs: list[Job]) -> Iterator[Point]:
    for job in jobs:
        for rate in size.rates:
            pace = Pace(rate, size.warm_seconds, size.seconds)
            yield Point(job, {"rate": rate, "seconds": size.seconds}, partial(latency, job=job, pace=pace))


def _recovery(size: Size, jobs: list[Job]) -> Iterator[Point]:
    pace = Pace(200, size.warm_seconds, size.seconds)
    for job in jobs:
        of = {"rate": pace.rate, "seconds": size.seconds}
        yield Point(job, of, partial(recovery, job=job, pace=pace))


def _growth_devices(size: Size, jobs: list[Job]) -> Iterator[Point]:
    for job in jobs:
        for devices in size.many_devices:
            yield _of_load(filled(job, size.grown, devices, 1), size.grown, {"devices": devices})


def _growth_streams(size: Size, jobs: list[Job]) -> Iterator[Point]:
    for job in jobs:
        for streams in size.streams:
            # every stream reads all rows of its table: fewer rows, the more streams read each
            rows = max(size.grown // max(1, streams // size.tables), 1_000)
            tables = min(size.tables, streams)
            load = filled(job, rows, 20, 1, tables, streams)
            yield _of_load(load, rows, {"streams": streams, "tables": tables})


def _growth_window(size: Size, jobs: list[Job]) -> Iterator[Point]:
    for job in jobs:
        if job.shape == "tumbling":
            for width in size.widths:
                wide = replace(job, width_ms=width * 1000)
                for each in size.window_messages:
                    load = filled(wide, size.grown, size.window_devices, each)
                    of = {"width_s": width} if each == 1 else {"width_s": width, "per_message": each}
                    yield _of_load(load, size.grown, of)


def _growth_message(size: Size, jobs: list[Job]) -> Iterator[Point]:
    for job in jobs:
        for each in size.message_rows:
            yield _of_load(filled(job, size.grown, 100, each), size.grown, {"per_message": each})


MEASURES: dict[str, Callable[[Size, list[Job]], Iterator[Point]]] = {
    "throughput": _throughput,
    "latency": _latency,
    "recovery": _recovery,
    "growth-devices": _growth_devices,
    "growth-streams": _growth_streams,
    "growth-window": _growth_window,
    "growth-message": _growth_message,
}


def points(measure: str, size: Size, jobs: list[str] | None) -> list[Point]:
    """The points of a measure, of the named jobs or of its own choice."""
    named = jobs or size.jobs.get(measure, ("tumbling",))
    return list(MEASURES[measure](size, [JOBS[name] for name in named]))

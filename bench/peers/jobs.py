"""The jobs that every peer does, as data; the rows they are done on; and what must come of them. Pure.

Times are ms of event time. Rows come in rounds: in each round every device has one row, all at the same time.
What a device measures depends on its number modulo :data:`PHASES` alone, so what must come of any number of
devices is known from so many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import polars as pl

from bench.workload import BASE

PHASES = 100
Shape = Literal["tumbling", "session", "event"]
KEY = ("stream", "device", "start")
"""The columns that say which result a row is; the job's own columns follow."""


@dataclass(frozen=True)
class Job:
    """One row of the table of jobs.

    ``columns``: what each result says beside its key. ``step_ms``: event time between rounds. After every
    ``run`` rounds (0: never) comes a pause of ``pause_ms`` more. ``width_ms``: of a tumbling window;
    ``gap_ms``: the pause that ends a session; an event begins with a row of ``v >= high`` and ends with the
    next one of ``v < low``, both belong to it.
    """

    name: str
    shape: Shape
    columns: tuple[str, ...]
    step_ms: int = 1000
    run: int = 0
    pause_ms: int = 0
    width_ms: int = 10_000
    gap_ms: int = 30_000
    high: int = 80
    low: int = 20

    def ts(self, number: int) -> int:
        """The event time of a round."""
        return BASE + number * self.step_ms + (number // self.run * self.pause_ms if self.run else 0)

    @property
    def cycle(self) -> int:
        """After this many rounds every device has had a result, and again after as many more."""
        if self.shape == "tumbling":
            return max(1, self.width_ms // self.step_ms)
        return self.run or 20

    def rounds(self, wanted: int, per_message: int) -> int:
        """The least number of rounds from ``wanted`` on that ends just behind a result of every device and
        is made of whole messages."""
        whole = -(-max(wanted, 1) // self.cycle) * self.cycle + self.behind(per_message)
        return -(-whole // per_message) * per_message

    def disorder_ms(self, per_message: int) -> int:
        """How far rows of two devices may be apart, the earlier ones behind.

        A message holds all rounds of a block, so the next device's message goes back to where it begins.
        An engine with one watermark for all devices must let it lag by that.
        """
        pauses = -(-(per_message - 1) // self.run) if self.run else 0
        return (per_message - 1) * self.step_ms + pauses * self.pause_ms

    def behind(self, per_message: int) -> int:
        """A result must be there once this many rounds have come from the one that closes it on (that one
        included). An engine that judges a row when its watermark has passed it needs the next round; one with
        a lag needs rounds until that is over."""
        return 2 if per_message == 1 else 2 + per_message + 2 * self.run


JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        Job("tumbling", "tumbling", ("a", "lo", "hi")),
        # Quix Streams closes a session two gaps behind its last row: the pause is longer than that
        Job("session", "session", ("last", "n"), run=10, pause_ms=90_000),
        Job("event", "event", ("last", "n", "hi")),
    )
}


def value(phase: int, number: int) -> int:
    """What a device of a phase measures in a round: 0 … 99."""
    return (phase * 31 + number * 37) % 100


def device(table: int, number: int) -> str:
    """The name of a device, which is the key of its messages."""
    return f"t{table}d{number}"


def table_of(device: str) -> int:
    """The number of the table that a device belongs to."""
    return int(device[1 : device.index("d")])


def texts(job: Job, first: int, last: int, per_message: int) -> Iterator[list[bytes]]:
    """For each block of ``per_message`` rounds from ``first`` to before ``last``: the message of a device of
    each phase."""
    for begin in range(first, last, per_message):
        block = [(number, job.ts(number)) for number in range(begin, begin + per_message)]
        yield [_text(phase, block) for phase in range(PHASES)]


def _text(phase: int, block: list[tuple[int, int]]) -> bytes:
    rows = ",".join(f'{{"ts":{ts},"v":{value(phase, number)}}}' for number, ts in block)
    return (rows if len(block) == 1 else f"[{rows}]").encode()


def expected(job: Job, rounds: int, tables: int, devices: int, streams: int) -> pl.DataFrame:
    """Every result that the rounds cause: KEY, the job's columns, ``closed`` (the round whose row of this
    very device closes it). Stream s reads table s modulo ``tables``."""
    names = pl.DataFrame(
        {
            "stream": [stream for stream in range(streams) for _ in range(devices)],
            "phase": [number % PHASES for _ in range(streams) for number in range(devices)],
            "device": [
                device(stream % tables, number) for stream in range(streams) for number in range(devices)
            ],
        },
        schema={"stream": pl.Int32, "phase": pl.Int32, "device": pl.String},
    )
    found = names.join(_by_phase(job, rounds), on="phase", how="inner")
    return found.select(*KEY, *job.columns, "closed")


@lru_cache(maxsize=4)
def _by_phase(job: Job, rounds: int) -> pl.DataFrame:
    """The results of one device of each phase."""
    phase = pl.DataFrame({"phase": range(PHASES)}, schema={"phase": pl.Int32})
    number = pl.DataFrame({"round": range(rounds)}, schema={"round": pl.Int64})
    number = number.with_columns(ts=pl.Series([job.ts(one) for one in range(rounds)], dtype=pl.Int64))
    rows = phase.join(number, how="cross").with_columns(
        v=(pl.col("phase").cast(pl.Int64) * 31 + pl.col("round") * 37) % 100
    )
    return _RESULTS[job.shape](job, rows.sort("phase", "round"))


def _tumbling(job: Job, rows: pl.DataFrame) -> pl.DataFrame:
    start = pl.col("ts") - (pl.col("ts") - BASE) % job.width_ms
    found = rows.group_by("phase", start.alias("start")).agg(
        a=pl.col("v").mean(), lo=pl.col("v").min(), hi=pl.col("v").max(), closed=pl.col("round").max() + 1
    )
    return _closed(found, rows)


def _session(job: Job, rows: pl.DataFrame) -> pl.DataFrame:
    begins = (pl.col("ts").diff().over("phase") > job.gap_ms).fill_null(False)
    found = (
        rows.with_columns(session=begins.cum_sum().over("phase"))
        .group_by("phase", "session")
        .agg(
            start=pl.col("ts").min(),
            last=pl.col("ts").max(),
            n=pl.len().cast(pl.Int64),
            closed=pl.col("round").max() + 1,
        )
    )
    return _closed(found, rows)


def _closed(found: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Without what no row closes."""
    return found.filter(pl.col("closed") <= rows["round"].max()).drop("session", strict=False)


def _event(job: Job, rows: pl.DataFrame) -> pl.DataFrame:
    found: list[tuple[int, int, int, int, int, int]] = []
    for (phase,), own in rows.group_by("phase", maintain_order=True):
        start, count, highest = None, 0, 0
        for number, ts, v in own.select("round", "ts", "v").iter_rows():
            if start is None:
                if v < job.high:
                    continue
                start, count, highest = ts, 0, v
            count, highest = count + 1, max(highest, v)
            if v < job.low:
                found.append((phase, start, ts, count, highest, number))
                start = None
    schema = dict.fromkeys(("start", "last", "n", "hi", "closed"), pl.Int64)
    return pl.DataFrame(found, schema={"phase": pl.Int32, **schema}, orient="row")


_RESULTS = {"tumbling": _tumbling, "session": _session, "event": _event}

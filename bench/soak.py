"""``python -m bench.soak --minutes N --rate R``: disk and memory over time under a steady load.

Rows of 50 tables come at R a second (default 2,000) for N minutes (default 60), with the time of 23 hours and
54 minutes ago: their database keeps a day, so they leave it after six minutes; WAL_RETENTION_PERIOD is two
minutes, and files that a table has no more stay for two. Three streams judge them: windows by table, over
all tables (which go through ``regroup``), sessions.
Once every ten seconds the bytes of each part of the data folder and the memory of each process are noted. All
of it should be flat after the first ten minutes (in a short run: after its first half): of the time behind
them, the mean of the second half is compared with that of the first.

Judged are three things: the disk; the resident memory of all processes but Java's (``memory``); and of Java's
the objects in use behind a full garbage collection, which is asked for once a minute (``heap``, by the JDK's
``jcmd``). Java's resident memory (``java``) is shown and not judged: a JVM fills its heap up to ``-Xmx``
before it takes the trouble to collect what is old, so it grows for an hour though nothing is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from bench import report
from bench.feed import Feed
from bench.goals import Figure
from bench.stage import BenchError, Stage, environment, family, say, stage
from millrace.stack import NAMES
from millrace_core.wire.topics import wal_topic

DB = "soak"
TABLES, LOOK_SECONDS, WARM_SECONDS = 50, 10.0, 600.0
PER_MESSAGE = 10
AGE_MS = (24 * 60 - 6) * 60_000
MOST_GROWTH = 1.05
SETTINGS = {
    "MILLRACE_TRIM_SECONDS": "20",
    "MILLRACE_KEEP_CONSUMED_SECONDS": "120",
    "MILLRACE_CALC_EXPIRE_SECONDS": "60",
    "MILLRACE_CALC_KEEP_FILES_SECONDS": "120",
}
FIGURES = (
    Figure("disk_growth", "times", "<=", MOST_GROWTH),
    Figure("memory_growth", "times", "<=", MOST_GROWTH),
    Figure("heap_growth", "times", "<=", MOST_GROWTH),
)
KINDS = ("disk", "memory", "heap")
"""What is judged."""
HEAP_SECONDS = 60.0
"""Between two full collections: each stops a JVM for some tenths of a second."""
TOTAL = re.compile(r"^Total\s+\d+\s+(\d+)", re.MULTILINE)
"""The last line of what ``jcmd`` says of the objects in use: how many there are, and their bytes."""
Look = dict[str, int]
"""Bytes by part: ``disk/…`` of a folder, ``memory/…`` of a service without its JVMs, ``java/…`` of its JVMs,
``heap/…`` in use in these."""


def statements() -> list[str]:
    children = " ".join(f"{DB}.d{number} USING {DB}.meters TAGS ({number})" for number in range(TABLES))
    select = "AS SELECT _twstart AS ts, count(*) AS n, avg(v) AS mean FROM"
    return [
        f"CREATE DATABASE {DB} KEEP 1 WAL_RETENTION_PERIOD 120",
        f"CREATE STABLE {DB}.meters (ts TIMESTAMP, v INT) TAGS (k INT)",
        f"CREATE TABLE {children}",
        f"CREATE STREAM {DB}.by_table INTERVAL(10s) SLIDING(10s) FROM {DB}.meters PARTITION BY tbname"
        f" INTO {DB}.by_table_out {select} %%tbname WHERE ts >= _twstart AND ts < _twend",
        f"CREATE STREAM {DB}.over_all INTERVAL(10s) SLIDING(10s) FROM {DB}.meters"
        f" STREAM_OPTIONS(WATERMARK(5s)) INTO {DB}.over_all_out"
        f" {select} {DB}.meters WHERE ts >= _twstart AND ts < _twend",
        f"CREATE STREAM {DB}.sessions SESSION(ts, 5s) FROM {DB}.meters PARTITION BY tbname"
        f" STREAM_OPTIONS(MAX_DELAY(30s)) INTO {DB}.sessions_out {select} %%trows",
    ]


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """The growth of each of KINDS, and ``looks``: seconds and bytes by part, over time."""
    minutes = 2.0 if given.quick else given.minutes
    looks: list[tuple[float, Look]] = []
    with environment(SETTINGS), stage("soak", statements()) as one:
        feed, topic, began = Feed(one.broker), wal_topic(DB, "meters"), time.monotonic()
        sent, next_look, next_heap, heap = 0, 0.0, 0.0, Look()
        while (now := time.monotonic() - began) < minutes * 60:
            while sent < now * given.rate:
                _send(feed, topic, sent // PER_MESSAGE)
                sent += PER_MESSAGE
            feed.serve()
            if now >= next_look:
                if now >= next_heap:
                    heap, next_heap = heaps(one), now + HEAP_SECONDS
                looks.append((round(now, 1), look(one) | heap))
                next_look = now + LOOK_SECONDS
                say(_line(looks[-1]))
            time.sleep(0.05)
        feed.done()
    return {**growth(looks, minutes * 60), "rows": sent, "looks": looks}


def _send(feed: Feed, topic: str, number: int) -> None:
    """One message with rows of one table."""
    at = time.time_ns() // 1_000_000 - AGE_MS
    rows = [{"ts": at + place, "v": (number + place) % 100} for place in range(PER_MESSAGE)]
    feed.write(topic, f"d{number % TABLES}", json.dumps(rows).encode())


def look(one: Stage) -> Look:
    """What everything takes now, but for the heaps."""
    data = one.stack.settings.data_dir
    found = {f"disk/{path.name}": used(path) for path in sorted(data.iterdir())}
    for name in NAMES:
        found[f"memory/{name}"] = found[f"java/{name}"] = 0
        for part in family(one.process(name)):
            kind = "java" if part.name() == "java" else "memory"
            found[f"{kind}/{name}"] += part.memory_info().rss
    return found


def heaps(one: Stage) -> Look:
    """What is in use of the heaps of each service, behind a full collection."""
    return {f"heap/{name}": sum(map(in_use, _jvms(one.process(name)))) for name in NAMES}


def _jvms(process: psutil.Process) -> list[psutil.Process]:
    return [part for part in family(process) if part.name() == "java"]


def in_use(jvm: psutil.Process) -> int:
    """Bytes of the objects that a JVM uses, behind a full collection; 0 if it has ended meanwhile.

    :raises BenchError: if there is no ``jcmd`` beside its ``java``.
    """
    try:
        jcmd = Path(jvm.exe()).with_name("jcmd")
    except psutil.NoSuchProcess:
        return 0
    if not jcmd.exists():
        raise BenchError(f"the heaps are measured by {jcmd}, which does not exist: a JDK is needed")
    said = subprocess.run(
        [jcmd, str(jvm.pid), "GC.class_histogram"], capture_output=True, text=True, check=False
    )
    return bytes_of(said.stdout)


def bytes_of(histogram: str) -> int:
    """The bytes of all objects in a histogram of ``jcmd``'s; 0 if there is none."""
    found = TOTAL.search(histogram)
    return int(found[1]) if found else 0


def used(path: Path) -> int:
    """Bytes that a file, or all files below a folder, take on disk; files may vanish meanwhile."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += os.stat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH116, PTH118 - fast
            except FileNotFoundError:
                continue
    return total if path.is_dir() else path.stat().st_blocks * 512


def growth(looks: Sequence[tuple[float, Look]], seconds: float) -> dict[str, float]:
    """How many times as much the second half has as the first, behind the time to warm up."""
    warm = WARM_SECONDS if seconds >= 2 * WARM_SECONDS else seconds / 2
    steady = [found for at, found in looks if at >= warm]
    half = len(steady) // 2
    before, last = steady[:half], steady[half:]
    return {f"{kind}_growth": round(_mean(last, kind) / max(_mean(before, kind), 1), 3) for kind in KINDS}


def _mean(looks: Sequence[Look], kind: str) -> float:
    return sum(total(found, kind) for found in looks) / max(len(looks), 1)


def total(found: Mapping[str, int], kind: str) -> int:
    return sum(size for name, size in found.items() if name.startswith(f"{kind}/"))


def _line(found: tuple[float, Look]) -> str:
    parts = ", ".join(f"{name} {size / 1e6:.0f}" for name, size in found[1].items())
    sums = ", ".join(f"{kind} {total(found[1], kind) / 1e6:.0f} MB" for kind in (*KINDS, "java"))
    return f"{found[0]:.0f} s: {sums} ({parts})"


if __name__ == "__main__":
    report.run(
        "soak", __doc__, measure, FIGURES,
        minutes={"type": float, "default": 60.0, "help": "how long rows are written"},
        rate={"type": int, "default": 2000, "help": "rows a second"},
    )  # fmt: skip

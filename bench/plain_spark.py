"""The process of the peer, and what it tells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil

from bench.plain_spark_query import Job
from bench.stage import BenchError, family, wait
from millrace.processes import tail


@dataclass
class Peer:
    """``messages``: how many it has counted so far; ``last_ms``: when the last micro-batch ended;
    ``partitions``: the most partitions that its state was in."""

    process: psutil.Popen
    log: Path
    messages: int = 0
    last_ms: float = 0.0
    partitions: int = 0

    def listen(self) -> None:
        """Takes in what the process tells, until it ends."""
        for line in self.process.stdout:
            self.take(line)

    def take(self, line: str) -> None:
        """One line of the process: a micro-batch, or what does not concern us."""
        if not line.startswith("{"):
            return
        told = json.loads(line)
        self.last_ms = datetime.fromisoformat(told["began"]).timestamp() * 1000 + told["ms"]
        self.partitions = max(self.partitions, told["partitions"])
        self.messages += told["messages"]

    def reach(self, messages: int, seconds: float) -> None:
        """Waits until this many messages are counted.

        :raises BenchError: if that takes longer, if it ends, or if its state is in more partitions than there
            are cores: each is a task in every micro-batch.
        """

        def reached() -> bool:
            if self.process.poll() is not None:
                raise BenchError(f"plain Spark ended; the end of {self.log}:\n{tail(self.log, 30)}")
            return self.messages >= messages

        wait(reached, seconds, f"plain Spark counting {messages} messages")
        cores = os.cpu_count() or 1
        if self.partitions > cores:
            raise BenchError(f"plain Spark's state is in {self.partitions} partitions on {cores} cores")


@contextmanager
def running(job: Job) -> Iterator[Peer]:
    """The peer, while the block runs."""
    folder = Path(job.folder)
    folder.mkdir(parents=True)
    log = folder / "log"
    with log.open("wb") as errors:
        process = psutil.Popen(
            [sys.executable, "-m", "bench.plain_spark_query", job.text()],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    peer = Peer(process, log)
    reading = threading.Thread(target=peer.listen, daemon=True)
    reading.start()
    try:
        yield peer
    finally:
        ending = family(process)
        for one in ending:
            one.kill()
        psutil.wait_procs(ending, timeout=10)
        reading.join(10)

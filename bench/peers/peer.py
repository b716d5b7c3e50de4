"""What every peer can do, and what those share that run programs in environments of their own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import msgspec
import psutil

from bench.peers.jobs import Job
from bench.peers.run import COMMIT_SECONDS, CORES, HEAP, PARTITIONS, Load, Run, Topics, plain_topics
from bench.stage import BenchError, family
from millrace.java import find_java
from millrace.processes import tail
from millrace_wal import Record

Row = tuple[Any, ...]
"""A result: stream, device, start, then the columns that the peer tells of the job."""
_decode = msgspec.json.Decoder().decode
_PYTHON_OF_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


class Peer(Protocol):
    """One stream engine. ``prepare`` once, then for each run ``topics``, ``start``, ``stop``."""

    name: str

    def prepare(self) -> Mapping[str, str]:
        """Makes its environment; the versions of what is in it."""

    def columns(self, job: Job) -> tuple[str, ...]:
        """The columns of a job that its results tell."""

    def topics(self, load: Load) -> Topics:
        """Where it reads and writes."""

    def start(self, run: Run, topics: Topics, again: bool = False) -> None:
        """Starts the job. ``again``: where a run that has crashed left off."""

    def first(self, number: int, text: bytes) -> bytes:
        """The first message of a device (its number, and what all others get), as this peer wants it."""

    def messages(self, texts: list[bytes]) -> list[bytes]:
        """The messages that come later, as this peer wants them."""

    def settle(self, run: Run, topics: Topics) -> None:
        """Waits until the first message of each device is read, if more must not come before."""

    def processes(self) -> list[psutil.Process]:
        """The processes that do the job, without what is below them. :raises BenchError: if one has ended."""

    def rows(self, record: Record) -> Sequence[Row]:
        """The results in a record of a sink."""

    def crash(self) -> None:
        """kill -9 of all its processes."""

    def stop(self) -> None:
        """Ends all its processes."""


class ProgramPeer:
    """A peer whose job is a Python program, run by ``copies`` processes of an environment of its own. Each of
    its results is a record of its own, a JSON object."""

    name: str
    copies = 1

    def __init__(self) -> None:
        self._python = Path()
        self._running: list[psutil.Popen] = []
        self._log = Path()
        self._columns: tuple[str, ...] = ()

    def columns(self, job: Job) -> tuple[str, ...]:
        """All of them."""
        return job.columns

    def topics(self, load: Load) -> Topics:
        """Topics that the bench makes."""
        return plain_topics(load)

    def first(self, number: int, text: bytes) -> bytes:
        """A first message is like any other."""
        return text

    def messages(self, texts: list[bytes]) -> list[bytes]:
        """JSON, as they are."""
        return texts

    def settle(self, run: Run, topics: Topics) -> None:
        """Most peers need not wait."""

    def settings(self, run: Run, again: bool) -> dict[str, Any]:
        """What its program needs to know beside the run."""
        return {}

    def environment(self) -> Mapping[str, str]:
        """What its processes get on top of the bench's environment."""
        return {}

    def start(self, run: Run, topics: Topics, again: bool = False) -> None:
        """Starts the processes; they read the topics from the beginning, or where they left off."""
        load = run.load
        self._columns = load.job.columns
        told = {
            "broker": run.broker,
            "sources": topics.sources,
            "sink": topics.sinks[0],
            "job": asdict(load.job),
            "streams": load.streams,
            "per_message": load.per_message,
            "disorder_ms": load.job.disorder_ms(load.per_message),
            "cores": CORES,
            "heap": HEAP,
            "partitions": PARTITIONS,
            "commit_seconds": COMMIT_SECONDS,
        } | self.settings(run, again)
        self._log = run.folder / f"{self.name}.log"
        for copy in range(self.copies):
            place = run.folder / str(copy)
            place.mkdir(parents=True, exist_ok=True)
            self._running.append(self._started(told | {"folder": str(place)}, place))

    def _started(self, told: Mapping[str, Any], place: Path) -> psutil.Popen:
        program = Path(__file__).parent / "programs" / f"{self.name}.py"
        outside = {name: text for name, text in os.environ.items() if name not in _PYTHON_OF_OURS}
        java = {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
        with self._log.open("ab") as log:
            return psutil.Popen(
                [str(self._python), str(program), json.dumps(told)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=place,
                env=outside | java | dict(self.environment()),
                start_new_session=True,
            )

    def processes(self) -> list[psutil.Process]:
        """Its copies."""
        for process in self._running:
            if process.poll() is not None:
                raise BenchError(f"{self.name} ended; the end of {self._log}:\n{tail(self._log, 30)}")
        return list(self._running)

    def rows(self, record: Record) -> Sequence[Row]:
        """One result."""
        told = _decode(record.value or b"")
        return [(told["stream"], told["device"], told["start"], *(told[column] for column in self._columns))]

    def crash(self) -> None:
        """What the processes have started goes with them."""
        ending = [one for process in self._running for one in family(process)]
        for one in ending:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(ending, timeout=20)
        self._running = []

    def stop(self) -> None:
        """The data is thrown away after a run, so a crash is as good an end as any."""
        self.crash()


def versions(python: Path, packages: Sequence[str]) -> dict[str, str]:
    """The versions of packages of an environment."""
    names = list(packages)
    text = f"import importlib.metadata as m, json; print(json.dumps({{n: m.version(n) for n in {names}}}))"
    done = subprocess.run([str(python), "-c", text], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))

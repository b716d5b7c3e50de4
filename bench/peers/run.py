"""What one run is: a job, on how many rows, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.peers.jobs import Job
from millrace.stack import Stack

PARTITIONS = 4
"""Of each topic of the others. Millrace gives a super table one; Flink's tasks need one each, and it has the
same latency with two as with four."""
CORES = 2
"""What each peer may use: as many tasks as Millrace's two Spark drivers have by default …"""
HEAP = "2g"
"""… and as much heap as both together."""
COMMIT_SECONDS = 5
"""How often Flink makes a checkpoint and Quix Streams commits (its default); Spark does with every batch."""


@dataclass(frozen=True)
class Load:
    """``streams`` streams over ``tables`` tables (topics) of ``devices`` devices each; stream s reads table s
    modulo ``tables``. ``warm``, ``main``: rounds of the warm part and of the part that is measured.
    ``crashes``: whether the peer is going to be killed."""

    job: Job
    devices: int
    per_message: int
    warm: int
    main: int
    tables: int = 1
    streams: int = 1
    crashes: bool = False

    @property
    def rounds(self) -> int:
        """All rounds."""
        return self.warm + self.main

    def due(self, rounds: int) -> int:
        """The last round whose results, with all before, must be there once this many rounds have come."""
        return rounds - self.job.behind(self.per_message)

    @property
    def counted(self) -> int:
        """Rows of the main part that count: those up to the last result that is due. No peer needs to have
        done the others by then, though one that takes all that is there at once has."""
        return self.rows(self.due(self.rounds) - self.warm)

    def rows(self, rounds: int) -> int:
        """The rows of this many rounds, of all tables."""
        return rounds * self.devices * self.tables


@dataclass(frozen=True)
class Run:
    """A load on a fresh stack, of which at first the broker alone runs."""

    load: Load
    stack: Stack

    @property
    def broker(self) -> str:
        """Its address."""
        return self.stack.settings.broker

    @property
    def jars(self) -> Path:
        """Millrace's own; the Kafka connector of Spark is among them."""
        return self.stack.settings.jars_dir

    @property
    def folder(self) -> Path:
        """For what a peer keeps."""
        return self.stack.settings.data_dir / "peer"


@dataclass(frozen=True)
class Topics:
    """``sources``: one of each table; ``sinks``: where results come out. Made by the bench before the peer
    starts, unless the peer says ``own``: then it has made them itself once it has started."""

    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    own: bool = False


def plain_topics(load: Load) -> Topics:
    """Topics of a peer that has no names of its own for them."""
    return Topics(tuple(f"rows-{table}" for table in range(load.tables)), ("results",))

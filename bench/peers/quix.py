"""Quix Streams: a Python process for each core, members of one consumer group, state in RocksDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.peers import environment
from bench.peers.peer import ProgramPeer, versions
from bench.peers.run import CORES, Run

REQUIREMENTS = ("quixstreams==3.28.0",)


class Quix(ProgramPeer):
    """Windows with final results, events by a function with state. It finds its state and the group's offsets
    by itself."""

    name = "quix"
    copies = CORES

    def prepare(self) -> Mapping[str, str]:
        """The package."""
        self._python = environment.python(self.name, REQUIREMENTS)
        return versions(self._python, ["quixstreams"])

    def settings(self, run: Run, again: bool) -> dict[str, Any]:
        """After a crash the group waits for its dead members as long as the session's timeout says. A run
        that is held must not be taken for dead."""
        return {"session_timeout_ms": 6_000 if run.load.crashes else 600_000}

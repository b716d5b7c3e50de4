"""How the log was cut into batches since the last generation, so that a restart cuts it the same way.

What a slot sends to others is numbered (``regroup``), and a receiver passes over numbers that it has seen.
So a batch that is evaluated again after a kill must have the messages that it had. The journal is written,
not synced, before a batch is evaluated: it outlives the process. Should the power fail, the broker has lost
what was sent since as well.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from trigger_svc.ledger.states import CUTS, Positions


class Cut(msgspec.Struct, frozen=True):
    """One batch. ``ends``: behind its messages, of the partitions that it has any of; it begins where the one
    before ended. ``again``: where messages begin that had been evaluated before, for streams that begin in
    this batch (``again`` of :meth:`Slot.on_batch`). ``large``: Spark's workers evaluate it."""

    ends: Positions
    again: Positions = {}
    large: bool = False


class Cuts:
    """The journal, a file for each generation: what came after it. Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None

    def since(self, generation: int) -> list[Cut]:
        """All cuts since a generation, in order; one that a crash left half written was not evaluated."""
        found: list[Cut] = []
        for number in self._numbers():
            if number >= generation:
                for line in (self._folder / f"{number}{CUTS}").read_bytes().splitlines():
                    with suppress(msgspec.DecodeError):
                        found.append(msgspec.json.decode(line, type=Cut))
        return found

    @property
    def last(self) -> int:
        """The last generation that has a journal, whether it was sealed or not; -1: none."""
        return max(self._numbers(), default=-1)

    def begin(self, generation: int) -> None:
        """What follows comes after this generation."""
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{generation}{CUTS}"
        torn = path.exists() and not (b"\n" + path.read_bytes()).endswith(b"\n")
        self._file = path.open("ab", buffering=0)
        if torn:
            self._file.write(b"\n")

    def add(self, cut: Cut) -> None:
        """This batch is being evaluated now."""
        assert self._file is not None, "begin comes first"
        self._file.write(msgspec.json.encode(cut) + b"\n")

    def forget_before(self, generation: int) -> None:
        """What came before it is no longer needed."""
        for number in self._numbers():
            if number < generation:
                (self._folder / f"{number}{CUTS}").unlink(missing_ok=True)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self._folder.glob(f"*{CUTS}"))

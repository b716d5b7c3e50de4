"""How the log was cut into batches since the last generation, so that a restart cuts it the same way.

What a slot sends to others is numbered (``regroup``), and a receiver skips numbers that it has seen. So a
batch that is evaluated again after a kill must have the same messages as before. The journal is written, but
not synced, before a batch is evaluated, so it outlives the process. If the power fails, the broker has lost
what was sent since then as well.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from trigger_svc.ledger.states import CUTS, Positions


class Cut(msgspec.Struct, frozen=True):
    """One batch. ``ends``: the offsets after its messages, for the partitions that it has messages from; the
    batch begins where the one before ended. ``again``: where messages begin that were evaluated before, but
    also count for streams that begin in this batch (``again`` of :meth:`Slot.on_batch`). ``large``: whether
    Spark's workers evaluate it."""

    ends: Positions
    again: Positions = {}
    large: bool = False


class Cuts:
    """The journal: for each generation, a file with the cuts after it. Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None

    def since(self, generation: int) -> list[Cut]:
        """All cuts since a generation, in order. One that a crash left half written is skipped: its batch was
        not evaluated."""
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
        """The cuts that are added from now on come after this generation."""
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{generation}{CUTS}"
        torn = path.exists() and not (b"\n" + path.read_bytes()).endswith(b"\n")
        self._file = path.open("ab", buffering=0)
        if torn:
            self._file.write(b"\n")

    def add(self, cut: Cut) -> None:
        """This batch is about to be evaluated."""
        assert self._file is not None, "begin comes first"
        self._file.write(msgspec.json.encode(cut) + b"\n")

    def forget_before(self, generation: int) -> None:
        """What came before this generation is no longer needed."""
        for number in self._numbers():
            if number < generation:
                (self._folder / f"{number}{CUTS}").unlink(missing_ok=True)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self._folder.glob(f"*{CUTS}"))

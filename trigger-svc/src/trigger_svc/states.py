"""The states of the slots on disk: one file for each slot and micro-batch that changed it.

A batch builds on what the batches before it left. Spark runs a batch again, with the same messages, if its
commit is not in the checkpoint; then what the first run left is passed over and overwritten. So the last
state from before the running batch must stay, and nothing else: writing the state of a batch removes those
before that.
"""

from __future__ import annotations

import os
from pathlib import Path

SUFFIX = ".state"


class SlotStates:
    """``folder``: shared by the driver and all workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, slot: int, batch: int) -> bytes | None:
        """The state that this batch finds; None if no batch before it left one."""
        before = [known for known in self._batches(slot) if known < batch]
        return self._path(slot, max(before)).read_bytes() if before else None

    def write(self, slot: int, batch: int, state: bytes) -> None:
        """What this batch leaves. The file is there whole or not at all."""
        known = self._batches(slot)
        path = self._path(slot, batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        # a task that Spark takes for lost may still write
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(state)
        fresh.replace(path)
        last = max((one for one in known if one < batch), default=batch)
        for old in known:
            if old < last:
                self._path(slot, old).unlink(missing_ok=True)

    def _path(self, slot: int, batch: int) -> Path:
        return self._folder / str(slot) / f"{batch}{SUFFIX}"

    def _batches(self, slot: int) -> list[int]:
        return [int(path.stem) for path in (self._folder / str(slot)).glob(f"*{SUFFIX}")]

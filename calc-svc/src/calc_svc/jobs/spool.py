"""Trigger batches that are sent later: kept in memory up to a size, beyond that in an unnamed file."""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Self

from millrace_core.wire import events
from millrace_core.wire.events import TriggerBatch

SPOOL_BYTES = 64 << 20
_LENGTH = 4


class Spool:
    """Batches in the order in which they were added. ``limit``: how many bytes of them stay in memory."""

    def __init__(self, limit: int = SPOOL_BYTES) -> None:
        self._file = SpooledTemporaryFile(max_size=limit)  # noqa: SIM115 - it is closed where this one is

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, batch: TriggerBatch) -> None:
        """:raises OSError: if the disk is full."""
        encoded = events.encode(batch)
        self._file.write(len(encoded).to_bytes(_LENGTH, "little"))
        self._file.write(encoded)

    def replay(self) -> Iterator[TriggerBatch]:
        """All of them; nothing may be added after this."""
        self._file.seek(0)
        while head := self._file.read(_LENGTH):
            yield events.decode(self._file.read(int.from_bytes(head, "little")))

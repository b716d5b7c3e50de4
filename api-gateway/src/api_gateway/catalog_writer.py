"""The catalog topic's only writer: what it holds in memory is what the topic holds."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from millrace_core.catalog import Catalog, Record, encode, key_of
from millrace_core.errors import MillraceError
from millrace_core.wire.topics import CATALOG
from millrace_wal import Log, Message, replay


class CatalogWriter:
    """``ddl``: held by whoever looks and then writes, so that definitions come one after another.

    ``position``: the first offset of the catalog topic that is not in ``catalog``.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._unsure = False
        self.catalog = Catalog()
        self.position = 0
        self.ddl = threading.RLock()

    def load(self) -> None:
        """Read the topic from its start."""
        for record in replay(self._log, CATALOG.name):
            self._apply(record.offset, record.key or b"", record.value)

    def write(self, put: Sequence[Record] = (), remove: Sequence[bytes] = ()) -> None:
        """Remove keys and put records, in this order; durable, and in ``catalog``, when it returns.

        :raises MillraceError: UNAVAILABLE or TIMEOUT; then ``catalog`` is as it was. What of it reached the
            topic nevertheless is read back before the next write.
        """
        changes: list[tuple[bytes, bytes | None]] = [(key, None) for key in remove]
        changes += [(key_of(record), encode(record)) for record in put]
        if not changes:
            return
        with self.ddl:
            self._catch_up()
            try:
                places = self._log.append([Message(CATALOG.name, key, value) for key, value in changes])
            except MillraceError:
                self._unsure = True
                raise
            for (_, offset), (key, value) in zip(places, changes, strict=True):
                self._apply(offset, key, value)

    def _catch_up(self) -> None:
        """After a write of unknown outcome: take in what the topic has beyond ``position``."""
        if not self._unsure:
            return
        end = self._log.end_offsets(CATALOG.name)[0]
        reader = self._log.reader({CATALOG.name: {0: self.position}})
        try:
            while reader.positions()[CATALOG.name][0] < end:
                for record in reader.poll(1):
                    self._apply(record.offset, record.key or b"", record.value)
        finally:
            reader.close()
        self._unsure = False

    def _apply(self, offset: int, key: bytes, value: bytes | None) -> None:
        self.catalog.apply(key, value)
        self.position = offset + 1

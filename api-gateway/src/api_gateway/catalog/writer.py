"""The catalog topic's only writer: what it holds in memory is what the topic holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType

import structlog

from millrace_core.catalog import Catalog, Record, encode, key_of
from millrace_core.errors import MillraceError, WireError
from millrace_core.wire.topics import CATALOG
from millrace_service import passed_over
from millrace_wal import DeadLetters, Log, Message, replay
from millrace_wal import Record as Found


class Ddl:
    """Held by whoever looks at the catalog and then writes, so that definitions come one after another. The
    holder sees everything in the topic, even a write whose outcome was unknown, for ``settle`` is called
    first. So a table that exists after all is not made again under another uid.
    """

    def __init__(self, settle: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._settle = settle

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self._settle()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


class CatalogWriter:
    """``ddl``: see :class:`Ddl`; entering it raises MillraceError while the topic cannot be read that far.

    ``position``: the first offset of the catalog topic that is not in ``catalog``.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        # calc-svc makes the dead letters
        self._dead = DeadLetters(log, "api-gateway", passed_over(structlog.get_logger("api-gateway")))
        self._unsure = False
        self.catalog = Catalog()
        self.position = 0
        self.ddl = Ddl(self._catch_up)

    def load(self) -> None:
        """Read the topic from its start."""
        for record in replay(self._log, CATALOG.name):
            self._take(record)

    def write(self, put: Sequence[Record] = (), remove: Sequence[bytes] = ()) -> None:
        """Remove keys and put records, in this order; durable, and in ``catalog``, when it returns.

        :raises MillraceError: UNAVAILABLE or TIMEOUT; then ``catalog`` is as it was. If some of it has
            reached the topic nevertheless, that is read back before anybody looks and writes again
            (:class:`Ddl`).
        """
        changes: list[tuple[bytes, bytes | None]] = [(key, None) for key in remove]
        changes += [(key_of(record), encode(record)) for record in put]
        if not changes:
            return
        with self.ddl:
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
        for record in replay(self._log, CATALOG.name, begin={0: self.position}):
            self._take(record)
        self._unsure = False

    def _take(self, record: Found) -> None:
        """Take in what the topic holds, whoever wrote it."""
        try:
            self._apply(record.offset, record.key, record.value)
        except WireError as error:
            self._dead.bury(record, error)

    def _apply(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        self.position = offset + 1
        self.catalog.apply(key, value)

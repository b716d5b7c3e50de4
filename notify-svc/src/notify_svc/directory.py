"""What notify-svc knows about streams: which exist, and which are paused."""

from __future__ import annotations

from contextlib import suppress

from millrace_core.catalog import StreamEntry, read, record_key
from millrace_core.errors import WireError
from millrace_core.wire import status
from millrace_core.wire.counters import NOTIFY
from millrace_core.wire.status import Counters, StreamPaused
from millrace_core.wire.topics import CATALOG, STATUS
from millrace_wal import BEGIN, Log, Record

_STREAM = record_key("stream", "")
Pauses = dict[tuple[int, int], StreamPaused]
"""By stream uid and partition of ``notifications``."""
Counted = dict[tuple[int, int], Counters]
"""What notify-svc has counted, by stream uid and partition of ``notifications``."""
_COUNTERS = f"{status.COUNTERS}{NOTIFY}/".encode()


class Directory:
    """Follows the catalog (only its streams) and the pauses of the ``status`` topic. Used by one thread;
    what :attr:`pauses` and :meth:`gone` return is not changed afterwards.

    :raises MillraceError: if the log cannot be read.
    """

    def __init__(self, log: Log) -> None:
        log.ensure_topics([CATALOG, STATUS])
        self._log = log
        self._streams: dict[tuple[str, ...], int] = {}
        self._reader = log.reader({CATALOG.name: {0: BEGIN}, STATUS.name: {0: BEGIN}})
        self.pauses: Pauses = {}
        self.counted: Counted = {}
        ends = {name: log.end_offsets(name)[0] for name in (CATALOG.name, STATUS.name)}
        while any(self._reader.positions()[name][0] < end for name, end in ends.items()):
            self.step(0.1)

    def step(self, timeout: float = 0) -> None:
        """Take in what has come."""
        for record in self._reader.poll(timeout):
            with suppress(WireError):  # calc-svc makes a dead letter of it
                self._take(record)

    def gone(self, streams: set[int]) -> set[int]:
        """Which of these streams, known from notifications that were read before, no longer exist. Empty
        until enough of the catalog has been read to be sure."""
        end = self._log.end_offsets(CATALOG.name)[0]
        self.step()
        if self._reader.positions()[CATALOG.name][0] < end:
            return set()
        return streams - set(self._streams.values()) - {0}

    def close(self) -> None:
        self._reader.close()

    def _take(self, record: Record) -> None:
        key = record.key or b""
        if record.topic == CATALOG.name:
            if key.startswith(_STREAM):
                self._stream(record)
        elif key.startswith(status.PAUSED.encode()):
            self._pause(record)
        elif key.startswith(_COUNTERS):
            found = status.read(record.key, record.value)
            if isinstance(found, Counters):
                self.counted[found.stream, found.slot] = found

    def _stream(self, record: Record) -> None:
        _, names, entry = read(record.key, record.value)
        if isinstance(entry, StreamEntry):
            self._streams[names] = entry.spec.uid
        else:
            self._streams.pop(names, None)

    def _pause(self, record: Record) -> None:
        found, key = status.read(record.key, record.value), record.key or b""
        pauses = {part: paused for part, paused in self.pauses.items() if part != status.part_of(key)}
        if isinstance(found, StreamPaused):
            pauses[status.part_of(key)] = found
        self.pauses = pauses

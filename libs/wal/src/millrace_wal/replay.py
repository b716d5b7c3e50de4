"""Reading a topic up to its end as of now: from its beginning, as the catalog does at start, or
further on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from threading import Event

from millrace_core.errors import ErrorCode, MillraceError
from millrace_wal.record import Log, Reader, Record


def replay(
    log: Log, topic: str, stall: float = 30, begin: Mapping[int, int] | None = None
) -> Iterator[Record]:
    """All records of a topic up to its end as of the call, ordered within a partition.

    ``begin``: the offsets to begin with, by partition; if not given, the first records that are kept.

    Raises MillraceError: TIMEOUT when nothing comes for ``stall`` seconds, UNAVAILABLE as :class:`Log` does.
    """
    ends = log.end_offsets(topic)
    reached = log.begin_offsets(topic) if begin is None else dict(begin)
    reader = log.reader({topic: reached})
    try:
        last = time.monotonic()
        while any(reached.get(partition, 0) < end for partition, end in ends.items()):
            records = reader.poll(0.5)
            positions = reader.positions()[topic]
            if positions != reached:
                reached, last = positions, time.monotonic()
            elif time.monotonic() - last > stall:
                raise MillraceError(
                    ErrorCode.TIMEOUT,
                    f"topic {topic}: no record arrived for {stall:g} s before its end was reached",
                )
            # the end may move on meanwhile; later records are for the reader that follows
            yield from (record for record in records if record.offset < ends.get(record.partition, 0))
    finally:
        reader.close()


def up_to(
    reader: Reader, topic: str, ends: Mapping[int, int], stopping: Event | None = None
) -> Iterator[Record]:
    """The records before these offsets of a topic that a reader has not read yet, and perhaps some after
    them. It ends early once ``stopping`` is set.

    Raises MillraceError: as :class:`Reader` does.
    """
    while stopping is None or not stopping.is_set():
        at = reader.positions().get(topic, {})
        if all(at.get(partition, 0) >= end for partition, end in ends.items()):
            return
        yield from reader.poll(0.5)

"""Ticks: processing time as data. No stream waits for it yet, so they only warm the query up."""

from __future__ import annotations

import json
import time
from typing import Any

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire import control
from millrace_core.wire.topics import CLOCK
from millrace_wal import Log, Message


def tick(log: Log) -> int:
    """Write the time now; returns the offset of the record."""
    value = control.encode(control.Tick(time.time_ns()))
    ((_, offset),) = log.append([Message(CLOCK.name, None, value)])
    return offset


def warm_up(log: Log, query: Any, rounds: int = 12, within: float = 120) -> None:
    """Send ticks through the query, one after the other: the first batches of a cold JVM take seconds.

    :raises MillraceError: TIMEOUT if the query has not taken them within so many seconds.
    """
    until = time.monotonic() + within
    for _ in range(rounds):
        offset = tick(log)
        while _taken(query) <= offset:
            if not query.isActive:
                return  # who watches the query says why
            if time.monotonic() > until:
                raise MillraceError(ErrorCode.TIMEOUT, f"the trigger query took no tick within {within:g} s")
            time.sleep(0.02)


def _taken(query: Any) -> int:
    """The first clock offset that the query's last finished batch has not read."""
    progress = query.lastProgress
    if progress is None:
        return 0
    end = progress["sources"][0]["endOffset"] if isinstance(progress, dict) else progress.sources[0].endOffset
    offsets = json.loads(end) if isinstance(end, str) else end
    return int((offsets or {}).get(CLOCK.name, {}).get("0", 0))

"""The windows that a stream has told of, by group: a recalculation compares its own windows with them.

They are taken from the topic ``triggers``. Only streams that notify need them, and only where windows are
made of rows.
"""

from __future__ import annotations

from typing import Protocol

from millrace_core.catalog import StreamEntry
from millrace_core.model.stream import StreamSpec
from millrace_core.recalc.answer import Window
from millrace_core.recalc.reach import may_vanish
from millrace_core.wire.events import TriggerBatch

MOST = 2_000
"""How many windows of a group are remembered. If an older one is gone, nobody is told."""


def wants(spec: StreamSpec) -> bool:
    """Whether somebody may be told that a window of the stream is gone: this is so where windows are made of
    rows."""
    return spec.notify is not None and may_vanish(spec)


class Streams(Protocol):
    """Knows which streams exist."""

    def stream(self, uid: int) -> StreamEntry | None: ...


class Told:
    """Not thread-safe."""

    def __init__(self, catalog: Streams) -> None:
        self._catalog = catalog
        self._windows: dict[tuple[int, int], dict[int, tuple[int, int | None]]] = {}
        """(stream, group) -> start -> when that was told (ms), and the end; None: it is gone."""
        self._wanted: dict[int, bool] = {}

    def hear(self, batch: TriggerBatch, at: int) -> None:
        """Take note of what one trigger batch tells. ``at``: when it was written to the log (ms). Slots and
        answers write to different partitions, which are read in any order: the later event of a window
        counts."""
        if not self._of_interest(batch.stream):
            return
        for event in batch.events:
            if event.cause == "DELAY" or event.kind == "RETRACT":
                continue
            windows = self._windows.setdefault((batch.stream, event.group.id), {})
            known, end = windows.get(event.start, (at, event.start))
            if known > at:
                continue
            if event.kind == "INVALID":
                end = None
            elif event.kind == "CLOSE":
                end = event.end
            elif end is None:
                end = event.start
            windows.pop(event.start, None)
            windows[event.start] = at, end
            if len(windows) > MOST:
                del windows[next(iter(windows))]

    def _of_interest(self, uid: int) -> bool:
        if uid not in self._wanted:
            entry = self._catalog.stream(uid)
            if entry is None:
                return False
            self._wanted[uid] = wants(entry.spec)
        return self._wanted[uid]

    def of(self, stream: int, group: int) -> list[Window]:
        """(start, end) of each window; an open one ends where it begins."""
        known = self._windows.get((stream, group), {})
        return [(start, end) for start, (_, end) in known.items() if end is not None]

"""What the trigger types that go by the clock share. No row is evaluated; ticks say that instants have come.

A group only remembers which rows it has not triggered on yet, and only IGNORE_NODATA_TRIGGER needs that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from millrace_core.trigger.groups.columns import Columns
from millrace_core.trigger.groups.watermark import Evaluated
from millrace_core.trigger.types.occurrences import Occurrence, Occurrences, Row
from millrace_core.trigger.types.windower import Windower

News = dict[int, tuple[int, int]]
"""Messages with rows: partition -> (offset of the first, of the last)."""


class NewsMemory(msgspec.Struct, array_like=True):
    """``told``: offsets up to which the group's rows were part of a trigger (None: of none yet); ``news``:
    the messages after these (a :data:`News`, or None)."""

    told: Any = None
    news: Any = None


class ClockWindower(Windower):
    """Rows mean nothing to this windower: it never tells of anything."""

    memory = NewsMemory

    def on_row(self, memory: NewsMemory, row: Row) -> Iterable[Occurrence]:
        return ()

    def on_late(self, memory: NewsMemory, row: Row, before: int) -> Iterable[Occurrence]:
        return ()

    def on_time(self, memory: NewsMemory, before: int, now: int) -> Iterable[Occurrence]:
        return ()

    def on_rows(self, memory: Columns, evaluated: Evaluated) -> Occurrences:
        return Occurrences.of(
            evaluated.group[:0], evaluated.step[:0], 0, evaluated.ts[:0], evaluated.ts[:0], 0
        )

"""PERIOD: instants of processing time (seed 000, 定时触发). No row is judged; ticks say that instants came.

What a group remembers is which rows it has not triggered on yet: only IGNORE_NODATA_TRIGGER asks for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from millrace_core.model.stream import Period, StreamSpec
from millrace_core.timeline import Schedule, zone
from millrace_core.timeline.precision import duration_ns
from millrace_core.trigger.groups.columns import Columns
from millrace_core.trigger.groups.watermark import Judged
from millrace_core.trigger.windower import Occurrence, Occurrences, Row, Windower

NS_PER_MS = 1_000_000

News = dict[int, tuple[int, int]]
"""Messages with rows: partition -> (offset of the first, of the last)."""


class PeriodMemory(msgspec.Struct, array_like=True):
    """``told``: offsets up to which the group's rows were in a trigger (None: in none yet); ``news``: the
    messages behind these (a :data:`News`, or None)."""

    told: Any = None
    news: Any = None


class PeriodWindower(Windower):
    """Rows mean nothing to it: it never tells of anything."""

    memory = PeriodMemory

    def on_row(self, memory: PeriodMemory, row: Row) -> Iterable[Occurrence]:
        return ()

    def on_late(self, memory: PeriodMemory, row: Row, before: int) -> Iterable[Occurrence]:
        return ()

    def on_time(self, memory: PeriodMemory, before: int, now: int) -> Iterable[Occurrence]:
        return ()

    def on_rows(self, memory: Columns, judged: Judged) -> Occurrences:
        return Occurrences.of(judged.group[:0], judged.step[:0], 0, judged.ts[:0], judged.ts[:0], 0)


def schedule_of(spec: StreamSpec) -> Schedule:
    """The planned instants of a PERIOD stream, in ns; periods of a day or more are counted from the day on
    which it was made.

    :raises MillraceError: INVALID_VALUE for months and years, or an unknown time zone.
    """
    trigger = spec.trigger
    assert isinstance(trigger, Period)
    offset = duration_ns(trigger.offset) if trigger.offset else 0
    where = zone(trigger.timezone)
    return Schedule(duration_ns(trigger.every), offset, "ns", where, spec.created * NS_PER_MS)

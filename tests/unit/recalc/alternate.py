"""A trigger type that the product knows nothing of: every second row opens a window, the next one closes
it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from millrace_core.model.expression import Call, Field
from millrace_core.model.triggers import Trait, Trigger
from millrace_core.model.types import BIGINT
from millrace_core.trigger.groups.watermark import NEVER
from millrace_core.trigger.rows.signals import Signal
from millrace_core.trigger.types import TriggerType
from millrace_core.trigger.types.arguments import Arguments, Quote, call
from millrace_core.trigger.types.moment import WINDOW, Moment, Placeholder
from millrace_core.trigger.types.occurrences import (
    CLOSE,
    INVALID,
    OPEN,
    RECALC,
    REDO,
    Occurrence,
    Row,
    SoFar,
)
from millrace_core.trigger.types.reach import Reach, Stretch
from millrace_core.trigger.types.setting import Setting
from millrace_core.trigger.types.windower import Windower

GIVEN = "given"


class Alternate(Trigger, msgspec.Struct, frozen=True, tag_field="type", tag="Alternate"):
    """Rows count in which the column is not NULL."""

    column: str


class AlternateMemory(msgspec.Struct, array_like=True):
    """How many rows have counted, and the last one's time."""

    rows: int = 0
    last: int = NEVER


class AlternateReach(Reach):
    """Which rows open depends on all before; so a change reaches up to the newest row."""

    def span(self, first: int, last: int) -> tuple[int, int]:
        return first, last

    def begins(self, stretch: Stretch, first: int) -> bool:
        return False

    def ends(self, stretch: Stretch, last: int) -> bool:
        return False

    def affected(self, stretch: Stretch, first: int, last: int) -> tuple[int, int]:
        return first, stretch.high


class AlternateWindower(Windower):
    """Row by row only. A row with a time of its own is a new one: nothing is ever updated here."""

    memory = AlternateMemory

    def __init__(self, column: str, notifies: bool) -> None:
        self.signals = (Signal(GIVEN, Call("is_not_null", (Field(column),)), "flag"),)
        self.notifies = notifies

    def _pair(self, rows: int) -> dict[str, object] | None:
        return {"pair": rows // 2} if self.notifies else None

    def on_row(self, memory: AlternateMemory, row: Row) -> Iterator[Occurrence]:
        if not row.cells[GIVEN]:
            return
        detail = self._pair(memory.rows)
        if memory.rows % 2:
            yield Occurrence(CLOSE, memory.last, row.ts, 2, detail=detail)
        else:
            yield Occurrence(OPEN, row.ts, row.ts, 1, detail=detail)
        memory.rows, memory.last = memory.rows + 1, row.ts

    def on_late(self, memory: AlternateMemory, row: Row, before: int) -> Iterator[Occurrence]:
        if row.ts > memory.last:
            yield from self.on_row(memory, row)
        elif row.cells[GIVEN]:
            if memory.rows % 2:
                yield Occurrence(INVALID, memory.last, memory.last, -1)
            else:
                yield Occurrence(OPEN, memory.last, memory.last, 1, detail=self._pair(memory.rows))
            memory.rows += 1
            yield Occurrence(REDO, row.ts, memory.last, -1, RECALC)

    def on_time(self, memory: AlternateMemory, before: int, now: int) -> tuple[Occurrence, ...]:
        return ()

    def so_far(self, memory: AlternateMemory) -> Iterator[SoFar]:
        if memory.rows % 2:
            yield SoFar(memory.last, memory.last, 1)

    def reach(self, origin: int | None = None) -> AlternateReach:
        return AlternateReach()


def read(given: Arguments) -> Alternate:
    """``ALTERNATE(col)``."""
    column, _ = given.column("col")
    given.done()
    return Alternate(column.name)


def write(trigger: Alternate, key: str, quote: Quote) -> str:
    return call("ALTERNATE", quote(trigger.column))


def windower(trigger: Alternate, setting: Setting) -> Windower:
    return AlternateWindower(trigger.column, setting.notifies)


GAP = Placeholder("_tgap", BIGINT, lambda event: event.end - event.start)
ALTERNATE: TriggerType[Any] = TriggerType(
    spec=Alternate,
    keyword="ALTERNATE",
    read=read,
    write=write,
    windower=windower,
    traits=frozenset({Trait.ROWS}),
    moment=Moment((*WINDOW.placeholders, GAP), WINDOW.begin, WINDOW.end),
    details={"WINDOW_OPEN": ("pair",), "WINDOW_CLOSE": ("pair",)},
    by_child=True,
    counted=lambda trigger: (trigger.column,),
    begins_with_row=lambda trigger: True,
)

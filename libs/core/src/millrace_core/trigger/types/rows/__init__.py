"""Rows themselves trigger, without a window: each has its own results (seed 002). There is no clause for
it."""

from __future__ import annotations

from millrace_core.model.triggers import Trait
from millrace_core.trigger.types.arguments import Arguments, bad
from millrace_core.trigger.types.count.spec import Count
from millrace_core.trigger.types.rows.spec import EveryRow
from millrace_core.trigger.types.rows.windower import RowsWindower
from millrace_core.trigger.types.trigger_type import TriggerType


def _read(given: Arguments) -> EveryRow:
    raise bad("there is no clause for every row", given.here)


ROWS = TriggerType(
    spec=EveryRow,
    keyword="every row",
    read=_read,
    write=lambda trigger, key, quote: "every row",
    windower=lambda trigger, setting: RowsWindower(setting.shared),
    traits=frozenset({Trait.ROWS}),
    nearest=lambda trigger: Count(1, 1),
)

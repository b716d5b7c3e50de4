"""COUNT_WINDOW: a window of a number of rows, and a new one every number of rows."""

from __future__ import annotations

from millrace_core.model.rules import IntegerRule
from millrace_core.model.triggers import Trait
from millrace_core.trigger.types.count.read import read, write
from millrace_core.trigger.types.count.spec import Count
from millrace_core.trigger.types.count.windower import CountWindower
from millrace_core.trigger.types.trigger_type import Measures, TriggerType

MOST = (1 << 31) - 1
"""The most rows of a window."""

COUNT = TriggerType(
    spec=Count,
    keyword="COUNT_WINDOW",
    read=read,
    write=write,
    windower=lambda trigger, setting: CountWindower(
        trigger.count, trigger.sliding, trigger.columns, follows=setting.options.delete_recalc
    ),
    rules={"count_val": IntegerRule(1, MOST), "sliding_val": IntegerRule(1, MOST)},
    traits=frozenset({Trait.FINAL, Trait.ROWS, Trait.NUMBERED}),
    by_child=True,
    measures=lambda trigger: Measures(rows=trigger.count),
    counted=lambda trigger: trigger.columns,
)

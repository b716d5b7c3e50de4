"""INTERVAL: windows of fixed length at fixed distances."""

from __future__ import annotations

import msgspec

from millrace_core.model.rules import ALL_UNITS, FIXED_UNITS, DurationRule
from millrace_core.model.stream import Duration
from millrace_core.trigger.types.arguments import Syntax
from millrace_core.trigger.types.interval.grid import IntervalGrid
from millrace_core.trigger.types.interval.read import read, write
from millrace_core.trigger.types.interval.spec import Interval
from millrace_core.trigger.types.interval.windower import IntervalWindower
from millrace_core.trigger.types.moment import WINDOW_UNTIL
from millrace_core.trigger.types.trigger_type import Measures, TriggerType

INTERVAL = TriggerType(
    spec=Interval,
    keyword="INTERVAL",
    read=read,
    write=write,
    windower=lambda trigger, setting: IntervalWindower(
        IntervalGrid.of(trigger, setting.table.precision), setting.empty
    ),
    rules={
        "interval_val": DurationRule(ALL_UNITS, low=Duration(10, "a")),
        "interval_offset": DurationRule(FIXED_UNITS, zero=True),
        "sliding_val": DurationRule(ALL_UNITS, low=Duration(10, "a")),
    },
    syntax=Syntax(then="SLIDING"),
    moment=WINDOW_UNTIL,
    measures=lambda trigger: Measures(length=trigger.interval, step=trigger.sliding),
    on_clock=lambda trigger, timezone: msgspec.structs.replace(trigger, timezone=timezone),
    grid=IntervalGrid.of,
)

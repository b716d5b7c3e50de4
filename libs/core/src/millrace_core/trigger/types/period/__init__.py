"""PERIOD: instants of processing time."""

from __future__ import annotations

import msgspec

from millrace_core.model.rules import DAY_OFFSET, PERIOD_RULE
from millrace_core.model.triggers import Trait
from millrace_core.trigger.types.clock import ClockWindower
from millrace_core.trigger.types.period.moment import INSTANT
from millrace_core.trigger.types.period.read import read, write
from millrace_core.trigger.types.period.schedule import schedule_of
from millrace_core.trigger.types.period.spec import Period
from millrace_core.trigger.types.trigger_type import TriggerType

PERIOD = TriggerType(
    spec=Period,
    keyword="PERIOD",
    read=read,
    write=write,
    windower=lambda trigger, setting: ClockWindower(),
    rules={"period_time": PERIOD_RULE, "offset_time": DAY_OFFSET},
    traits=frozenset({Trait.CLOCK, Trait.INSTANTS, Trait.FINAL}),
    moment=INSTANT,
    schedule=schedule_of,
    at_home=lambda trigger, timezone: msgspec.structs.replace(trigger, timezone=timezone),
)

"""SLIDING: instants of event time."""

from __future__ import annotations

import msgspec

from millrace_core.model.rules import DAY_OFFSET, PERIOD_RULE
from millrace_core.model.triggers import Trait
from millrace_core.trigger.types.sliding.moment import INSTANT
from millrace_core.trigger.types.sliding.read import read, write
from millrace_core.trigger.types.sliding.spec import Sliding
from millrace_core.trigger.types.sliding.windower import SlidingWindower
from millrace_core.trigger.types.trigger_type import TriggerType

SLIDING = TriggerType(
    spec=Sliding,
    keyword="SLIDING",
    read=read,
    write=write,
    windower=lambda trigger, setting: SlidingWindower.of(trigger, setting.table.precision, setting.empty),
    rules={"sliding_val": PERIOD_RULE, "offset_time": DAY_OFFSET},
    traits=frozenset({Trait.INSTANTS, Trait.FINAL}),
    moment=INSTANT,
    at_home=lambda trigger, timezone: msgspec.structs.replace(trigger, timezone=timezone),
)

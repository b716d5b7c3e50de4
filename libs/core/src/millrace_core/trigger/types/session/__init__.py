"""SESSION: rows that lie no further apart than a gap."""

from __future__ import annotations

from millrace_core.model.rules import FIXED_UNITS, DurationRule
from millrace_core.model.triggers import Trait
from millrace_core.trigger.types.session.read import read, write
from millrace_core.trigger.types.session.spec import Session
from millrace_core.trigger.types.session.windower import SessionWindower
from millrace_core.trigger.types.trigger_type import Measures, TriggerType

SESSION = TriggerType(
    spec=Session,
    keyword="SESSION",
    read=read,
    write=write,
    windower=lambda trigger, setting: SessionWindower(setting.ticks(trigger.gap), setting.retracts),
    rules={"session_val": DurationRule(FIXED_UNITS)},
    traits=frozenset({Trait.ROWS}),
    measures=lambda trigger: Measures(gap=trigger.gap),
    begins_with_row=lambda trigger: True,
)

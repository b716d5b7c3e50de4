"""EVENT_WINDOW: from a row that meets one condition to the next that meets another."""

from __future__ import annotations

from millrace_core.model.triggers import Trait
from millrace_core.trigger.types.arguments import Syntax
from millrace_core.trigger.types.event.arrays import EventRule
from millrace_core.trigger.types.event.read import read, write
from millrace_core.trigger.types.event.spec import Event
from millrace_core.trigger.types.event.windower import EventWindower
from millrace_core.trigger.types.setting import Setting
from millrace_core.trigger.types.trigger_type import TriggerType


def _windower(trigger: Event, setting: Setting) -> EventWindower:
    start, end = trigger.start, trigger.end
    rule = EventRule(
        setting.ticks(trigger.true_for), setting.shared, setting.notifies, setting.tells_openings,
        start.columns, end.columns, setting.retracts,
    )  # fmt: skip
    return EventWindower(start, end, rule)


EVENT = TriggerType(
    spec=Event,
    keyword="EVENT_WINDOW",
    read=read,
    write=write,
    windower=_windower,
    syntax=Syntax(conditions=("START WITH", "END WITH")),
    traits=frozenset({Trait.ROWS}),
    by_child=True,
    takes_true_for=True,
    details={"WINDOW_OPEN": ("triggerCondition",), "WINDOW_CLOSE": ("triggerCondition",)},
    words={
        "start": lambda trigger: f"meets START WITH {trigger.start.sql}",
        "end": lambda trigger: f"meets END WITH {trigger.end.sql}",
    },
    conditions=lambda trigger: (trigger.start, trigger.end),
    begins_with_row=lambda trigger: True,
)

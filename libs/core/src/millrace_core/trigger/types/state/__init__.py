"""STATE_WINDOW: runs of rows of one state."""

from __future__ import annotations

from millrace_core.model.rules import IntegerRule
from millrace_core.model.triggers import Trait
from millrace_core.trigger.types.setting import Setting
from millrace_core.trigger.types.state.arrays import StateRule
from millrace_core.trigger.types.state.read import read, write
from millrace_core.trigger.types.state.spec import State
from millrace_core.trigger.types.state.windower import StateWindower
from millrace_core.trigger.types.trigger_type import TriggerType


def _windower(trigger: State, setting: Setting) -> StateWindower:
    rule = StateRule(
        trigger.extend, setting.ticks(trigger.true_for), setting.shared, setting.notifies,
        setting.tells_openings, setting.retracts,
    )  # fmt: skip
    return StateWindower(trigger.column, rule)


STATE = TriggerType(
    spec=State,
    keyword="STATE_WINDOW",
    read=read,
    write=write,
    windower=_windower,
    rules={"extend": IntegerRule(0, 2)},
    traits=frozenset({Trait.ROWS}),
    by_child=True,
    takes_true_for=True,
    details={"WINDOW_OPEN": ("prevState", "curState"), "WINDOW_CLOSE": ("curState", "nextState")},
    # with extend 2 a window begins right after the last row of the window before
    begins_with_row=lambda trigger: trigger.extend != 2,
)

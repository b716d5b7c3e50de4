"""The trigger types: one package for each. ``trigger_type`` says what a type consists of, and ``registry``
which types exist.

No code outside this folder knows a type by its name.
"""

from millrace_core.trigger.types.count.spec import Count
from millrace_core.trigger.types.event.spec import Event
from millrace_core.trigger.types.interval.spec import Interval
from millrace_core.trigger.types.period.spec import Period
from millrace_core.trigger.types.registry import (
    register,
    trigger_types,
    type_named,
    type_of,
    unregister,
)
from millrace_core.trigger.types.rows.spec import EveryRow
from millrace_core.trigger.types.session.spec import Session
from millrace_core.trigger.types.sliding.spec import Sliding
from millrace_core.trigger.types.state.spec import State
from millrace_core.trigger.types.trigger_type import Grid, TriggerType

__all__ = [
    "Count", "Event", "EveryRow", "Grid", "Interval", "Period", "Session", "Sliding", "State", "TriggerType",
    "register", "trigger_types", "type_named", "type_of", "unregister",
]  # fmt: skip

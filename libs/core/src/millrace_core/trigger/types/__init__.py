"""The trigger types: one package for each. What one consists of says ``trigger_type``, which there are,
``registry``.

Outside this folder nobody knows a type by its name.
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

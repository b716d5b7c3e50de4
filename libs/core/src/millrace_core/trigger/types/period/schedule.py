"""The instants of PERIOD (seed 000, 定时触发)."""

from __future__ import annotations

from millrace_core.model.stream import StreamSpec
from millrace_core.timeline import Schedule, zone
from millrace_core.timeline.precision import NS_PER_MS, duration_ns
from millrace_core.trigger.types.period.spec import Period


def schedule_of(spec: StreamSpec) -> Schedule:
    """The planned instants of a PERIOD stream, in ns; periods of a day or more are counted from the day on
    which the stream was created.

    :raises MillraceError: INVALID_VALUE for months and years, or an unknown time zone.
    """
    trigger = spec.trigger
    assert isinstance(trigger, Period)
    offset = duration_ns(trigger.offset) if trigger.offset else 0
    where = zone(trigger.timezone)
    return Schedule(duration_ns(trigger.every), offset, "ns", where, spec.created * NS_PER_MS)

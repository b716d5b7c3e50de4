"""Time as integers: ticks of a database's precision, durations, calendars, and their texts."""

from millrace_core.timeline.calendar import add, local_midnight, zone
from millrace_core.timeline.precision import from_ns, ticks, to_ns
from millrace_core.timeline.schedule import Schedule
from millrace_core.timeline.text import format_local, format_rfc3339, parse_timestamp

__all__ = [
    "Schedule", "add", "format_local", "format_rfc3339", "from_ns", "local_midnight", "parse_timestamp",
    "ticks", "to_ns", "zone",
]  # fmt: skip

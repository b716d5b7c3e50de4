"""Time as integers: ticks of a database's precision, durations, calendars, and their texts."""

from millrace_core.timeline.align import next_boundary, previous_boundary, window_start
from millrace_core.timeline.calendar import add, local_midnight, zone
from millrace_core.timeline.precision import from_ns, ticks, to_ns
from millrace_core.timeline.text import format_local, format_rfc3339, parse_timestamp

__all__ = [
    "add", "format_local", "format_rfc3339", "from_ns", "local_midnight", "next_boundary", "parse_timestamp",
    "previous_boundary", "ticks", "to_ns", "window_start", "zone",
]  # fmt: skip

"""The arguments of INTERVAL."""

from __future__ import annotations

from millrace_core.timeline.precision import CALENDAR_MONTHS, shortest_ns
from millrace_core.trigger.types.arguments import Arguments, Quote, bad, call
from millrace_core.trigger.types.interval.spec import Interval

MOST_OVERLAPPING = 10_000
"""The most windows that a row may lie in, because each row opens or extends all of them."""


def read(given: Arguments) -> Interval:
    """``INTERVAL(interval_val [, interval_offset]) SLIDING(sliding_val)``."""
    interval = given.duration("interval_val")
    at = given.here
    offset = given.optional_duration("interval_offset")
    given.done()
    if offset is not None and shortest_ns(offset) >= shortest_ns(interval):
        raise bad(f"INTERVAL: interval_offset {offset} must be less than the interval {interval}", at)
    following = given.then()
    at = following.here
    sliding = following.duration("sliding_val")
    if following.more:
        raise bad("SLIDING with INTERVAL takes one argument; put an offset in INTERVAL", following.here)
    if (interval.unit in CALENDAR_MONTHS) != (sliding.unit in CALENDAR_MONTHS):
        raise bad(
            f"SLIDING: sliding_val {sliding} cannot be used with INTERVAL({interval}): months and years can "
            "be combined only with months and years",
            at,
        )
    if shortest_ns(interval) > MOST_OVERLAPPING * shortest_ns(sliding):
        raise bad(
            f"SLIDING: a row would be in more than {MOST_OVERLAPPING} windows: use a sliding_val longer than "
            f"{sliding}, or an interval shorter than {interval}",
            at,
        )
    return Interval(interval, sliding, offset)


def write(trigger: Interval, key: str, quote: Quote) -> str:
    """The same clause again."""
    return f"{call('INTERVAL', trigger.interval, trigger.offset)} SLIDING({trigger.sliding})"

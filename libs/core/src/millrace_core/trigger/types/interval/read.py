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
        raise bad(f"INTERVAL: interval_offset {offset} is not less than the interval {interval}", at)
    following = given.then()
    at = following.here
    sliding = following.duration("sliding_val")
    if following.more:
        raise bad("SLIDING: with INTERVAL it takes one argument; an offset is INTERVAL's", following.here)
    if (interval.unit in CALENDAR_MONTHS) != (sliding.unit in CALENDAR_MONTHS):
        raise bad(
            f"SLIDING: sliding_val {sliding} does not go with INTERVAL({interval}): months and years go "
            "with months and years only",
            at,
        )
    if shortest_ns(interval) > MOST_OVERLAPPING * shortest_ns(sliding):
        raise bad(
            f"SLIDING: a row would lie in more than {MOST_OVERLAPPING} windows: take a longer sliding_val "
            f"than {sliding}, or a shorter interval than {interval}",
            at,
        )
    return Interval(interval, sliding, offset)


def write(trigger: Interval, key: str, quote: Quote) -> str:
    """The same clause again."""
    return f"{call('INTERVAL', trigger.interval, trigger.offset)} SLIDING({trigger.sliding})"

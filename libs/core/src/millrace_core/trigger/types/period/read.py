"""The arguments of PERIOD."""

from __future__ import annotations

from millrace_core.trigger.types.arguments import Arguments, Quote, call
from millrace_core.trigger.types.period.spec import Period


def read(given: Arguments) -> Period:
    """``PERIOD(period_time [, offset_time])``."""
    found = Period(given.duration("period_time"), given.optional_duration("offset_time"))
    given.done()
    return found


def write(trigger: Period, key: str, quote: Quote) -> str:
    """The same clause again."""
    return call("PERIOD", trigger.every, trigger.offset)

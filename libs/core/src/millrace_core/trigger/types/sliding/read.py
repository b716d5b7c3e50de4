"""The arguments of SLIDING."""

from __future__ import annotations

from millrace_core.trigger.types.arguments import Arguments, Quote, call
from millrace_core.trigger.types.sliding.spec import Sliding


def read(given: Arguments) -> Sliding:
    """``SLIDING(sliding_val [, offset_time])``."""
    found = Sliding(given.duration("sliding_val"), given.optional_duration("offset_time"))
    given.done()
    return found


def write(trigger: Sliding, key: str, quote: Quote) -> str:
    """The same clause again."""
    return call("SLIDING", trigger.sliding, trigger.offset)

"""The arguments of EVENT_WINDOW."""

from __future__ import annotations

from millrace_core.trigger.types.arguments import Arguments, Quote, with_true_for
from millrace_core.trigger.types.event.spec import Event


def read(given: Arguments) -> Event:
    """``EVENT_WINDOW(START WITH start_condition END WITH end_condition) [TRUE_FOR(duration_time)]``."""
    start, end = given.condition("start_condition"), given.condition("end_condition")
    return Event(start, end, given.true_for())


def write(trigger: Event, key: str, quote: Quote) -> str:
    """The same clause again."""
    clause = f"EVENT_WINDOW(START WITH {trigger.start.sql} END WITH {trigger.end.sql})"
    return with_true_for(clause, trigger.true_for)

"""The arguments of SESSION."""

from __future__ import annotations

from millrace_core.trigger.types.arguments import Arguments, Quote, bad, call
from millrace_core.trigger.types.session.spec import Session


def read(given: Arguments) -> Session:
    """``SESSION(ts_col, session_val)``."""
    column, where = given.column("ts_col")
    if column.name != given.table.key.name:
        raise bad(f"SESSION: ts_col {column.name} is not the time column {given.table.key.name}", where)
    found = Session(given.duration("session_val"))
    given.done()
    return found


def write(trigger: Session, key: str, quote: Quote) -> str:
    """The same clause again."""
    return call("SESSION", quote(key), trigger.gap)

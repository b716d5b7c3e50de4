"""The arguments of STATE_WINDOW."""

from __future__ import annotations

from millrace_core.trigger.types.arguments import Arguments, Quote, bad, call, with_true_for
from millrace_core.trigger.types.state.spec import State

STATE_TYPES = frozenset({"BOOL", "VARCHAR"})
"""Besides whole numbers."""


def read(given: Arguments) -> State:
    """``STATE_WINDOW(col [, extend]) [TRUE_FOR(duration_time)]``."""
    column, where = given.column("col")
    if column.name == given.table.key.name or not (
        (column.type.info.integer and column.type.name != "TIMESTAMP") or column.type.name in STATE_TYPES
    ):
        raise bad(
            f"STATE_WINDOW: col {column.name} is {column.type}, but must be an integer, BOOL or VARCHAR",
            where,
        )
    extend = given.integer("extend") if given.more else 0
    given.done()
    return State(column.name, extend, given.true_for())


def write(trigger: State, key: str, quote: Quote) -> str:
    """The same clause again."""
    clause = call("STATE_WINDOW", quote(trigger.column), trigger.extend or None)
    return with_true_for(clause, trigger.true_for)

"""The arguments of COUNT_WINDOW."""

from __future__ import annotations

from millrace_core.trigger.types.arguments import Arguments, Quote, bad, call
from millrace_core.trigger.types.count.spec import Count


def read(given: Arguments) -> Count:
    """``COUNT_WINDOW(count_val [, sliding_val] [, col …])``."""
    count = given.integer("count_val")
    sliding = count
    if given.at_number:
        at = given.here
        sliding = given.integer("sliding_val")
        if sliding > count:
            raise bad(f"COUNT_WINDOW: sliding_val {sliding} is larger than count_val {count}", at)
    columns: list[str] = []
    while given.more:
        column, where = given.column("col")
        if column.name in columns:
            raise bad(f"COUNT_WINDOW: the column {column.name} is given twice", where)
        columns.append(column.name)
    return Count(count, sliding, tuple(columns))


def write(trigger: Count, key: str, quote: Quote) -> str:
    """The same clause again."""
    return call("COUNT_WINDOW", trigger.count, trigger.sliding, *map(quote, trigger.columns))

"""A condition over one row of a table, as a clause of a statement holds it."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.conditions.spelling import condition_expression, value_expression
from millrace_core.errors import ErrorCode
from millrace_core.language.arguments import bad
from millrace_core.language.query import parse_expression, placeholders
from millrace_core.language.query.nodes import position_of
from millrace_core.language.statements import Argument
from millrace_core.model.schema import Table
from millrace_core.model.stream import Condition, GroupKey

TIME_NAMES = frozenset({"_c0", "_rowts"})
"""Names that always mean the time column, whatever it is called."""
AGGREGATES = frozenset({
    "count", "avg", "sum", "min", "max", "first", "last", "last_row", "spread", "stddev", "stddev_pop",
    "stddev_samp", "var_pop", "var_samp", "variance", "twa", "irate", "elapsed", "leastsquares",
    "percentile", "apercentile", "hyperloglog", "histogram", "mode", "top", "bottom", "interp", "sample",
    "tail", "unique", "diff", "derivative", "csum", "mavg", "statecount", "stateduration", "lag", "lead",
    "cols", "group_concat",
})  # fmt: skip
"""Functions over several rows, which a condition on one row cannot use."""
UNGROUPED = frozenset({"VARBINARY", "GEOMETRY", "JSON"})
"""Types that rows cannot be grouped by: messages do not carry their values unchanged."""


def condition(argument: Argument, what: str, table: Table, timezone: str) -> Condition:
    """A condition over one row of the trigger table: its text, the columns and tags that it reads, its
    meaning.

    :raises SqlError: if it does not parse, names what the table does not have, looks beyond the row, or
        cannot be decided row by row.
    """
    tree, names = _over_a_row(argument, what, table)
    return Condition(argument.text, names, condition_expression(tree, table, timezone, what))


def group_key(argument: Argument, what: str, table: Table, timezone: str) -> GroupKey:
    """A value of one row of the table, by which rows are grouped.

    :raises SqlError: as :func:`condition` does, and for a type whose values cannot be told apart in the form
        in which they are kept.
    """
    tree, _ = _over_a_row(argument, what, table)
    expression, type_ = value_expression(tree, table, timezone, what)
    if type_.name in UNGROUPED:
        raise bad(f"{what}: rows cannot be grouped by a value of type {type_.name}", argument.position)
    return GroupKey(argument.text, type_, expression)


def _over_a_row(argument: Argument, what: str, table: Table) -> tuple[exp.Expr, tuple[str, ...]]:
    """The expression, and the names of the columns and tags that it reads."""
    tree = parse_expression(argument.text, argument.position)
    for placeholder, where in placeholders(tree):
        raise bad(
            f"{what}: the placeholder {placeholder} is not allowed in an expression over one row", where
        )
    for query in tree.find_all(exp.Query):
        raise bad(f"{what}: a subquery is not allowed in an expression over one row", position_of(query))
    for call in tree.find_all(exp.Anonymous):
        if call.this in AGGREGATES:
            raise bad(f"{what}: {call.this} reads more than one row", position_of(call))
    names: list[str] = []
    for column in tree.find_all(exp.Column):
        where = position_of(column)
        if column.name in TIME_NAMES and not column.this.args.get("quoted"):
            column.this.set("this", table.key.name)
        if column.table not in ("", table.name):
            raise bad(f"{what}: {column.table}.{column.name} is not a column of the trigger table", where)
        if table.column(column.name) is None and table.tag(column.name) is None and column.name != "tbname":
            raise bad(f"{what}: {table.name} has no column {column.name}", where, ErrorCode.UNKNOWN_COLUMN)
        if column.name not in names:
            names.append(column.name)
    return tree, tuple(names)

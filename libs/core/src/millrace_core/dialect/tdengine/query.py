"""A stream's query: which placeholders may stand in it, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from millrace_core.language.arguments import bad
from millrace_core.language.query import parse_expression, parse_query
from millrace_core.language.query.nodes import position_of
from millrace_core.language.statements import SqlText
from millrace_core.model.placeholders import PlaceholderRule
from millrace_core.model.stream import EventType
from millrace_core.trigger.types import TriggerType
from millrace_core.trigger.types.registry import placeholders

VALUE_CLAUSES = frozenset({"expressions", "where"})
"""Clauses of a SELECT in which a placeholder may stand for a value (seed 000)."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a stream offers to placeholders."""

    trigger: TriggerType[Any]
    has_table: bool
    partition: tuple[str, ...]
    events: tuple[EventType, ...]


def check_query(query: SqlText, offer: Offer) -> exp.Expression:
    """The parsed query. Its placeholders are ones that the stream offers, and stand where they are allowed.

    :raises SqlError: for any other placeholder; SYNTAX if the query does not parse.
    """
    tree = parse_query(query.text, query.position)
    for node in tree.find_all(exp.Placeholder):
        rule = _offered(node, offer)
        if isinstance(node.parent, exp.Table):
            _check_as_table(node, rule)
        else:
            _check_as_value(node, rule)
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and not table.db and table.name in placeholders():
            raise bad(
                f"{table.name} is not a table: it can be used only in SELECT and WHERE", position_of(table)
            )
    return tree


def check_key(tree: exp.Expression, query: SqlText) -> None:
    """Check the key by which RETRACT takes results back: it must be the start of their window.

    :raises SqlError: if the first result column is not ``_twstart``.
    """
    columns = tree.expressions if isinstance(tree, exp.Select) else []
    first = columns[0].unalias() if columns else None
    if not (isinstance(first, exp.Placeholder) and first.name == "_twstart"):
        where = position_of(columns[0]) if columns else query.position
        raise bad("RETRACT needs a query whose first column is _twstart, the key of its results", where)


def check_group_expression(text: SqlText, what: str, offer: Offer) -> None:
    """Check an expression for a tag or a sub-table's name: it may use only the grouping columns.

    :raises SqlError: for a column or placeholder whose value differs within a group.
    """
    tree = parse_expression(text.text, text.position)
    for query in tree.find_all(exp.Query):
        raise bad(f"{what}: a subquery is not allowed", position_of(query))
    for node in tree.find_all(exp.Placeholder):
        if not _offered(node, offer).group:
            raise bad(f"{what}: {node.name} is not constant within a group", position_of(node))
    for column in tree.find_all(exp.Column):
        if column.table or column.name not in offer.partition:
            raise bad(
                f"{what}: {column.sql()} is not a grouping column; those are {', '.join(offer.partition)}",
                position_of(column),
            )


def _offered(node: exp.Placeholder, offer: Offer) -> PlaceholderRule:
    """The rule of a placeholder that this stream offers; :raises SqlError: if it does not."""
    name, where = node.name, position_of(node)
    number = name[2:] if name.startswith("%%") else ""
    rule = placeholders()["%%n" if number.isdigit() else name]
    keyword = offer.trigger.keyword
    if keyword not in rule.triggers:
        allowed = ", ".join(sorted(rule.triggers))
        raise bad(f"the placeholder {name} is not available with {keyword}, only with {allowed}", where)
    if rule.close_only and offer.trigger.window and "WINDOW_OPEN" in offer.events:
        raise bad(
            f"{name} is known only when a window closes, so it cannot be used with EVENT_TYPE(WINDOW_OPEN)",
            where,
        )
    if number.isdigit() and not 1 <= int(number) <= len(offer.partition):
        count = len(offer.partition)
        raise bad(f"{name}: the stream has {count} grouping columns (%%1 is the first)", where)
    if name == "%%tbname" and "tbname" not in offer.partition:
        raise bad("%%tbname needs PARTITION BY tbname", where)
    if name == "%%trows" and not offer.has_table:
        raise bad("%%trows needs a trigger table (FROM)", where)
    return rule


def _check_as_table(node: exp.Placeholder, rule: PlaceholderRule) -> None:
    if not rule.table:
        raise bad(f"{node.name} is not a table: it can be used only in SELECT and WHERE", position_of(node))
    if rule.value:
        return
    select = node.find_ancestor(exp.Select)
    if select is None:
        return
    if select.args.get("where"):
        raise bad(
            f"FROM {node.name} cannot be combined with WHERE; use the option PRE_FILTER to select rows",
            position_of(select.args["where"]),
        )
    if select.args.get("joins") or node.find_ancestor(exp.Join):
        raise bad(f"{node.name} cannot be joined", position_of(node))


def _check_as_value(node: exp.Placeholder, rule: PlaceholderRule) -> None:
    if not rule.value:
        raise bad(f"{node.name} stands for a table: it can be used only in FROM", position_of(node))
    top: exp.Expr = node
    while top.parent is not None and not isinstance(top.parent, exp.Select):
        top = top.parent
    if isinstance(top.parent, exp.Select) and top.arg_key not in VALUE_CLAUSES:
        raise bad(f"{node.name} can be used only in SELECT and WHERE", position_of(node))

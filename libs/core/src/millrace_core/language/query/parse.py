"""Parses Millrace's query language: text becomes a tree whose names, literals and calls know their places."""

from __future__ import annotations

from typing import cast

from sqlglot import exp
from sqlglot.errors import ParseError

from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language.lexer import check_size
from millrace_core.language.query import nodes
from millrace_core.language.query.grammar import Millrace
from millrace_core.language.query.nodes import START, position_at
from millrace_core.language.query.size import balance, check_nesting, check_tree, too_deep
from millrace_core.language.query.tokens import query_tokens
from millrace_core.trigger.types.registry import placeholders as known_placeholders

_DIALECT = Millrace()


def parse_query(sql: str, origin: Position = START) -> exp.Expression:
    """Parse one SELECT (or UNION of them). ``origin``: where the text stands in the user's statement.

    Unquoted names come out in lower case, quoted ones as they are. Every name, literal and call has ``line``
    and ``col`` in its ``meta`` (see :func:`position_of`); every result column has its ``text`` there.

    :raises SqlError: SYNTAX, or TOO_LARGE, with the position in the user's statement.
    """
    return _parse(sql, exp.Query, origin)


def parse_expression(sql: str, origin: Position = START) -> exp.Expression:
    """Parse one expression or condition, likewise."""
    return _parse(sql, exp.Condition, origin)


def placeholders(expression: exp.Expr) -> list[tuple[str, Position]]:
    """All placeholders in the expression with their places, in the order of the text."""
    found = [(n.name, nodes.position_of(n)) for n in expression.find_all(exp.Placeholder)]
    return sorted(found, key=lambda item: (item[1].line, item[1].column))


def _parse(sql: str, kind: type[exp.Expr], origin: Position) -> exp.Expression:
    check_size(sql, origin)
    try:
        tokens = query_tokens(sql, origin)
        check_nesting(sql, tokens, origin)
        trees = [tree for tree in _DIALECT.parser().parse_into(kind, tokens, sql) if tree is not None]
    except RecursionError:
        raise too_deep(origin) from None
    except ParseError as error:
        raise _syntax(sql, error, origin) from None
    if len(trees) != 1:
        what = "nothing to parse" if not trees else "more than one statement"
        raise SqlError(ErrorCode.SYNTAX, f"syntax error: {what}", origin)
    root = exp.Block(expressions=[trees[0]])  # a parent, so that the root itself can be replaced
    for node in list(root.walk()):
        _finish(node, sql, origin)
    balance(root)
    check_tree(root)
    result = root.expressions[0]
    result.pop()
    return cast(exp.Expression, result)


def _finish(node: exp.Expr, sql: str, origin: Position) -> None:
    """Give a node its place and its name the right case; turn names of placeholders into placeholder
    nodes."""
    if "start" in node.meta:
        place = position_at(sql, node.meta["start"], origin)
        node.meta.update(line=place.line, col=place.column)
    if isinstance(node, exp.Concat) or (
        isinstance(node, exp.Alias) and not isinstance(node.args["alias"], exp.Identifier)
    ):
        message = (
            "syntax error: two strings in a row"
            if isinstance(node, exp.Concat)
            else "syntax error: invalid alias"
        )
        raise SqlError(ErrorCode.SYNTAX, message, nodes.position_of(node))
    if isinstance(node, exp.Identifier) and not node.args.get("quoted"):
        node.set("this", node.this.lower())
    elif isinstance(node, exp.Anonymous):
        node.set("this", str(node.this).lower())
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        name = node.this
        if (
            not name.args.get("quoted")
            and not node.args.get("table")
            and name.name.lower() in known_placeholders()
        ):
            placeholder = exp.Placeholder(this=name.name.lower())
            placeholder.meta.update(name.meta)
            place = position_at(sql, name.meta["start"], origin)
            placeholder.meta.update(node.meta, line=place.line, col=place.column)
            node.replace(placeholder)


def _syntax(sql: str, error: ParseError, origin: Position) -> SqlError:
    first = error.errors[0]
    message = first.get("description") or "syntax error: nothing to parse"
    return SqlError(ErrorCode.SYNTAX, message, position_at(sql, first.get("line") or 0, origin))

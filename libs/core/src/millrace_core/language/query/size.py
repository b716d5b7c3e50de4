"""How large a query may be, and how its tree is kept shallow, since parsing and planning descend into it.

The parser makes of ``a OR b OR c …`` a tree as deep as the chain is long. It is rebuilt with a depth that
only grows with the logarithm of the length; this changes neither its meaning nor the order of its parts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language.query.nodes import START, position_at, position_of

MOST_NESTED = 200
"""The most parentheses, calls, CASEs, NOTs and signs inside one another."""
MOST_DEEP = 1_000
"""The most nodes from a tree's root down: a chain such as ``a + b + c …`` counts each of its parts."""
MOST_JOINS = 10
MOST_SELECTS = 256
SHORT = 8
"""A chain of AND or OR with at most this many parts stays as it is."""
RECURSION = 8_000
"""Python frames that the deepest query needs, some twenty for each parenthesis: the default limit of 1,000 is
used up at 49. Since 3.11 a frame of Python takes no C stack."""

sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION))

_PREFIXES = (TokenType.NOT, TokenType.DASH, TokenType.PLUS)


def too_deep(position: Position) -> SqlError:
    return SqlError(ErrorCode.TOO_LARGE, f"the query is nested more than {MOST_NESTED} levels deep", position)


def check_nesting(sql: str, tokens: Sequence[Token], origin: Position = START) -> None:
    """:raises SqlError: TOO_LARGE, with the place, for a text that is nested too deeply."""
    opened: list[TokenType] = []
    signs = 0
    for token in tokens:
        kind = token.token_type
        signs = signs + 1 if kind in _PREFIXES else 0
        if kind in (TokenType.L_PAREN, TokenType.CASE):
            opened.append(kind)
        elif opened and (
            kind is TokenType.R_PAREN or (kind is TokenType.END and opened[-1] is TokenType.CASE)
        ):
            opened.pop()
        if len(opened) + signs > MOST_NESTED:
            raise too_deep(position_at(sql, token.start, origin))


def check_tree(root: exp.Expr) -> None:
    """:raises SqlError: TOO_LARGE for a tree that is too deep, or too many SELECTs, or too many
    joins in one SELECT."""
    level: list[exp.Expr] = [root]
    depth = selects = 0
    while level:
        depth += 1
        if depth > MOST_DEEP:
            message = f"an expression has more than {MOST_DEEP:,} chained or nested parts"
            raise SqlError(ErrorCode.TOO_LARGE, message, position_of(level[0]))
        for node in level:
            selects += isinstance(node, exp.Select)
            joins = node.args.get("joins") or []
            if len(joins) > MOST_JOINS:
                message = f"a SELECT has {len(joins)} joins; at most {MOST_JOINS} are allowed"
                raise SqlError(ErrorCode.TOO_LARGE, message, position_of(joins[MOST_JOINS]))
            if selects > MOST_SELECTS:
                message = f"the query has more than {MOST_SELECTS} SELECTs"
                raise SqlError(ErrorCode.TOO_LARGE, message, position_of(node))
        level = [child for node in level for child in node.iter_expressions()]


def balance(root: exp.Expr) -> None:
    """Rebuild chains of AND and of OR with the least depth."""
    for kind in (exp.And, exp.Or):
        for top in [node for node in root.find_all(kind) if not isinstance(node.parent, kind)]:
            parts = _parts(top, kind)
            if len(parts) > SHORT:
                half = len(parts) // 2
                top.set("this", _joined(parts[:half], kind))
                top.set("expression", _joined(parts[half:], kind))


def _parts(top: exp.Expr, kind: type[exp.Connector]) -> list[exp.Expr]:
    """The parts that the chain joins, in order."""
    found: list[exp.Expr] = []
    waiting = [top]
    while waiting:
        node = waiting.pop()
        if isinstance(node, kind):
            waiting += [node.expression, node.this]
        else:
            found.append(node)
    return found


def _joined(parts: list[exp.Expr], kind: type[exp.Connector]) -> exp.Expr:
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return kind(this=_joined(parts[:half], kind), expression=_joined(parts[half:], kind))

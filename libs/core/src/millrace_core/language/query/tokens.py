"""The words of Millrace's query language: tokens of its lexer turned into tokens for sqlglot's parser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlglot.tokenizer_core import Token, TokenType

from millrace_core.errors import Position
from millrace_core.language import lexer, words
from millrace_core.language.words import TokenKind

# sqlglot has no token types for these clauses; this type has no other use in the language
CLAUSE = TokenType.QUALIFY
# likewise for CONTAINS and NMATCH
CONTAINS, NMATCH = TokenType.AT_GT, TokenType.GLOB

SIDES = frozenset({"LEFT", "RIGHT"})
OTHER_JOINS = frozenset({"ASOF", "WINDOW", "SEMI", "ANTI"})
"""Kinds of joins that TDengine has beside the inner and outer ones (``joins.py``)."""

KEYWORDS: dict[str, TokenType] = {
    "all": TokenType.ALL, "and": TokenType.AND, "as": TokenType.ALIAS, "asc": TokenType.ASC,
    "between": TokenType.BETWEEN, "case": TokenType.CASE, "contains": CONTAINS,
    "desc": TokenType.DESC, "distinct": TokenType.DISTINCT, "else": TokenType.ELSE,
    "end": TokenType.END, "false": TokenType.FALSE, "from": TokenType.FROM, "full": TokenType.FULL,
    "having": TokenType.HAVING, "in": TokenType.IN,
    "inner": TokenType.INNER, "is": TokenType.IS, "join": TokenType.JOIN, "left": TokenType.LEFT,
    "like": TokenType.LIKE, "limit": TokenType.LIMIT, "match": TokenType.RLIKE, "nmatch": NMATCH,
    "not": TokenType.NOT, "null": TokenType.NULL, "offset": TokenType.OFFSET, "on": TokenType.ON,
    "or": TokenType.OR, "outer": TokenType.OUTER,
    "regexp": TokenType.RLIKE, "right": TokenType.RIGHT,
    "select": TokenType.SELECT, "then": TokenType.THEN, "true": TokenType.TRUE,
    "union": TokenType.UNION, "when": TokenType.WHEN, "where": TokenType.WHERE,
    **dict.fromkeys(
        ("interval", "session", "state_window", "event_window", "count_window", "anomaly_window",
         "fill", "range", "every", "slimit", "soffset", "sliding", "true_for", "window_offset", "jlimit"),
        CLAUSE),
}  # fmt: skip
PAIRS = {"group": TokenType.GROUP_BY, "order": TokenType.ORDER_BY, "partition": TokenType.PARTITION_BY}
"""Words that form one token with a BY after them, and are names without it."""
OPERATORS: dict[str, TokenType] = {
    "(": TokenType.L_PAREN, ")": TokenType.R_PAREN, ",": TokenType.COMMA, ".": TokenType.DOT,
    ";": TokenType.SEMICOLON, "+": TokenType.PLUS, "-": TokenType.DASH, "*": TokenType.STAR,
    "/": TokenType.SLASH, "%": TokenType.MOD, "&": TokenType.AMP, "|": TokenType.PIPE,
    "^": TokenType.CARET, "~": TokenType.TILDE, "!": TokenType.NOT, "=": TokenType.EQ, "<": TokenType.LT,
    ">": TokenType.GT, "<=": TokenType.LTE, ">=": TokenType.GTE, "<>": TokenType.NEQ, "!=": TokenType.NEQ,
    "->": TokenType.ARROW,
}  # fmt: skip
"""Other operators are UNKNOWN: no rule of the grammar begins or continues with them."""


class _Part(NamedTuple):
    """``start``, ``end``: offsets in the text."""

    type: TokenType
    text: str
    start: int
    end: int


def query_tokens(sql: str, origin: Position) -> list[Token]:
    """The tokens of a query or an expression that begins at ``origin`` in the user's statement.

    :raises SqlError: SYNTAX for text that is not a token.
    """
    found: list[_Part] = []
    for token in lexer.tokens(sql, origin):
        previous = found[-1] if found else None
        joined = PAIRS.get(previous.text.lower()) if previous and previous.type is TokenType.VAR else None
        if token.kind is TokenKind.WORD and token.value == "by" and previous and joined:
            found[-1] = _Part(joined, f"{previous.text} {token.text}", previous.start, token.end)
        else:
            found += _parts(token)
    return [Token(part.type, part.text, 1, 1, part.start, part.end - 1) for part in found]


def _parts(token: words.Token) -> Iterator[_Part]:
    """A duration becomes a number and its unit; a placeholder becomes a sign and its name."""
    kind, text, start, end = token.kind, token.text, token.start, token.end
    match kind:
        case TokenKind.WORD:
            yield _Part(KEYWORDS.get(token.value, TokenType.VAR), text, start, end)
        case TokenKind.QUOTED:
            yield _Part(TokenType.IDENTIFIER, token.value, start, end)
        case TokenKind.STRING:
            yield _Part(TokenType.STRING, token.value, start, end)
        case TokenKind.INTEGER:
            coded = token.value[:2] in ("0x", "0b")
            yield _Part(TokenType.NUMBER, str(int(token.value, 0)) if coded else text, start, end)
        case TokenKind.FLOAT:
            yield _Part(TokenType.NUMBER, text, start, end)
        case TokenKind.DURATION:
            yield _Part(TokenType.NUMBER, text[:-1], start, end - 1)
            yield _Part(TokenType.VAR, text[-1], end - 1, end)
        case TokenKind.PLACEHOLDER:
            yield _Part(TokenType.PARAMETER, "%%", start, start + 2)
            name = TokenType.NUMBER if text[2:].isdigit() else TokenType.VAR
            yield _Part(name, text[2:], start + 2, end)
        case _:
            yield _Part(OPERATORS.get(text, TokenType.UNKNOWN), text, start, end)

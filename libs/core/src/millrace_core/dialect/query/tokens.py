"""The words of Millrace's query language."""

from __future__ import annotations

import re
from typing import ClassVar

from sqlglot import tokens
from sqlglot.tokenizer_core import TokenType

# sqlglot has no token types for these clauses; this one has no other use in the language
CLAUSE = TokenType.QUALIFY
# likewise for CONTAINS and NMATCH
CONTAINS, NMATCH = TokenType.AT_GT, TokenType.GLOB

SIDES = frozenset({"LEFT", "RIGHT"})
OTHER_JOINS = frozenset({"ASOF", "WINDOW", "SEMI", "ANTI"})
"""Kinds of joins that TDengine has beside the inner and outer ones (``query_joins.py``)."""


def coded_number(text: str) -> int | None:
    """The value of a number in hexadecimal (``0x1F``) or binary digits (``0b11``); None for other text."""
    for pattern, base in (("0[xX][0-9a-fA-F]+", 16), ("0[bB][01]+", 2)):
        if re.fullmatch(pattern, text):
            return int(text, base)
    return None


class QueryTokenizer(tokens.Tokenizer):
    """Quotes, signs and words of the language."""

    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`"]
    QUOTES: ClassVar[list[tuple[str, str] | str]] = ["'", '"']
    STRING_ESCAPES: ClassVar[list[str]] = ["'", '"', "\\"]
    COMMANDS: ClassVar[set[TokenType]] = set()
    SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {
        **tokens.Tokenizer.SINGLE_TOKENS,
        **dict.fromkeys("[]{}:?@#\\", TokenType.UNKNOWN),
    }
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        "%%": TokenType.PARAMETER, "->": TokenType.ARROW, ">=": TokenType.GTE, "<=": TokenType.LTE,
        "<>": TokenType.NEQ, "!=": TokenType.NEQ,
        "ALL": TokenType.ALL, "AND": TokenType.AND, "AS": TokenType.ALIAS, "ASC": TokenType.ASC,
        "BETWEEN": TokenType.BETWEEN, "CASE": TokenType.CASE, "CONTAINS": CONTAINS,
        "DESC": TokenType.DESC, "DISTINCT": TokenType.DISTINCT, "ELSE": TokenType.ELSE,
        "END": TokenType.END, "FALSE": TokenType.FALSE, "FROM": TokenType.FROM, "FULL": TokenType.FULL,
        "GROUP BY": TokenType.GROUP_BY, "HAVING": TokenType.HAVING, "IN": TokenType.IN,
        "INNER": TokenType.INNER, "IS": TokenType.IS, "JOIN": TokenType.JOIN, "LEFT": TokenType.LEFT,
        "LIKE": TokenType.LIKE, "LIMIT": TokenType.LIMIT, "MATCH": TokenType.RLIKE, "NMATCH": NMATCH,
        "NOT": TokenType.NOT, "NULL": TokenType.NULL, "OFFSET": TokenType.OFFSET, "ON": TokenType.ON,
        "OR": TokenType.OR, "ORDER BY": TokenType.ORDER_BY, "OUTER": TokenType.OUTER,
        "PARTITION BY": TokenType.PARTITION_BY, "REGEXP": TokenType.RLIKE, "RIGHT": TokenType.RIGHT,
        "SELECT": TokenType.SELECT, "THEN": TokenType.THEN, "TRUE": TokenType.TRUE,
        "UNION": TokenType.UNION, "WHEN": TokenType.WHEN, "WHERE": TokenType.WHERE,
        **dict.fromkeys(
            ("INTERVAL", "SESSION", "STATE_WINDOW", "EVENT_WINDOW", "COUNT_WINDOW", "ANOMALY_WINDOW",
             "FILL", "RANGE", "EVERY", "SLIMIT", "SOFFSET", "SLIDING", "TRUE_FOR", "WINDOW_OFFSET", "JLIMIT"),
            CLAUSE),
    }  # fmt: skip

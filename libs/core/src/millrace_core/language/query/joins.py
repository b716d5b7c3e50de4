"""TDengine's own joins: ``a LEFT|RIGHT SEMI|ANTI|ASOF|WINDOW JOIN b [ON …] [WINDOW_OFFSET(…)] [JLIMIT n]``.

They become joins with the word as ``kind``; the last two become ``query_nodes.NearJoin``.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from millrace_core.language.query.nodes import NearJoin
from millrace_core.language.query.tokens import OTHER_JOINS, SIDES

NEAR_JOINS = frozenset({"ASOF", "WINDOW"})
"""The joins that match rows by how near their times are."""


def parse_join(parser: Any) -> exp.Join | None:
    """One of these joins if it comes next; :raises ParseError: if it is not written correctly."""
    side, kind = parser._curr, parser._next
    if not (kind and kind.text.upper() in OTHER_JOINS and side.text.upper() in SIDES):
        return None
    parser._advance(2)
    if not parser._match(TokenType.JOIN):
        parser.raise_error(f"expected JOIN after {kind.text.upper()}")
    word = kind.text.upper()
    made = NearJoin if word in NEAR_JOINS else exp.Join
    join = made(this=parser._parse_table(), side=side.text.upper(), kind=word)
    if parser._match(TokenType.ON):
        join.set("on", parser._parse_required())
    elif word not in NEAR_JOINS:
        parser.raise_error(f"{word} JOIN needs ON")
    if word == "WINDOW":
        if not parser._match_text_seq("WINDOW_OFFSET"):
            parser.raise_error("WINDOW JOIN needs WINDOW_OFFSET")
        offsets = parser._parse_arguments()
        if len(offsets) != 2:
            parser.raise_error("WINDOW_OFFSET takes two durations", parser._prev)
        join.set("window_offset", offsets)
    if word in NEAR_JOINS and parser._match_text_seq("JLIMIT"):
        join.set("jlimit", parser._parse_count())
    parser.expression(join, kind)
    return join

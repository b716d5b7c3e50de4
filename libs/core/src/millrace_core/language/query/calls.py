"""Calls with words between their arguments: TRIM, POSITION, SUBSTRING, CAST, COLS.

They become plain calls: ``trim(text, what, side)``, ``position(what, text)``, ``substring(text, from, for)``,
``cast(value, type[, length])``. Results of ``cols(selection, result [AS name], …)`` may be ``exp.Alias``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

SIDES = ("LEADING", "TRAILING", "BOTH")


def _required(parser: Any) -> exp.Expr:
    this: exp.Expr | None = parser._parse_bitwise()
    if this is None:
        parser.raise_error("expected an expression")
        raise AssertionError
    return this


def _rest(parser: Any, name: str, first: exp.Expr) -> exp.Expr:
    """The call, with further arguments after commas."""
    args = [first]
    while parser._match(TokenType.COMMA):
        args.append(_required(parser))
    return _call(parser, name, args)


def _call(parser: Any, name: str, args: list[exp.Expr]) -> exp.Expr:
    made: exp.Expr = parser.expression(exp.Anonymous(this=name, expressions=args))
    return made


def _trim(parser: Any) -> exp.Expr:
    side = next((word for word in SIDES if parser._match_text_seq(word)), None)
    if parser._match(TokenType.FROM):
        return _call(parser, "trim", [_required(parser), exp.Literal.string(" "), _side(side)])
    what = _required(parser)
    if parser._match(TokenType.FROM):
        return _call(parser, "trim", [_required(parser), what, _side(side)])
    if side is not None:
        parser.raise_error("expected FROM in TRIM")
    return _rest(parser, "trim", what)


def _side(word: str | None) -> exp.Expr:
    return exp.Literal.string((word or "BOTH").lower())


def _position(parser: Any) -> exp.Expr:
    what = _required(parser)
    if not parser._match(TokenType.IN):
        return _rest(parser, "position", what)
    return _call(parser, "position", [what, _required(parser)])


def _substring(parser: Any) -> exp.Expr:
    this = _required(parser)
    if not parser._match(TokenType.FROM):
        return _rest(parser, "substring", this)
    args = [this, _required(parser)]
    if parser._match_text_seq("FOR"):
        args.append(_required(parser))
    return _call(parser, "substring", args)


def _cast(parser: Any) -> exp.Expr:
    this = parser._parse_required()
    if not parser._match(TokenType.ALIAS):
        parser.raise_error("expected AS in CAST")
    words: list[str] = []
    while parser._match(TokenType.VAR):
        words.append(parser._prev.text.upper())
    if not words:
        parser.raise_error("expected a data type in CAST")
    length = None
    if parser._match(TokenType.L_PAREN):
        length = parser._parse_count()
        parser._match_r_paren()
    kind = exp.Literal.string(" ".join(words))
    return _call(parser, "cast", [this, kind, *([length] if length else [])])


def _cols(parser: Any) -> exp.Expr:
    """Each result keeps its text, which serves as its name if it has no alias."""
    return _call(parser, "cols", parser._parse_csv(parser._parse_projection))


CALLS: dict[str, Callable[[Any], exp.Expr]] = {
    "TRIM": _trim, "POSITION": _position, "SUBSTRING": _substring, "SUBSTR": _substring,
    "CAST": _cast, "COLS": _cols,
}  # fmt: skip
"""Parsers for what stands in the parentheses of these calls."""

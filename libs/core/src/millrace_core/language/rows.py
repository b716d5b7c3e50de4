"""The rows of INSERT as written: cells are the texts of literals; one regular expression cuts out a
whole row.

Ten thousand rows must not cost ten thousand times the parser's care. So a pattern made for the number of
columns takes a whole row; only a row that it does not fit is read token by token (which also tells where it
is wrong). Positions are found again when an error needs them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language.lexer import COMMENT, DOUBLE_QUOTED, SINGLE_QUOTED, Lexer
from millrace_core.language.words import Token, TokenKind

TextRow = tuple[str, ...]

_PLAIN = r"""[^\s'"(),;`][^'"(),;`]*+(?:\(\s*+\)[^'"(),;`]*+)*+"""  # 1.5, NULL, now() - 3d
_CELL = rf"\s*+({SINGLE_QUOTED}|{DOUBLE_QUOTED}|{_PLAIN})\s*+"
_BLANKED = re.compile(rf"{SINGLE_QUOTED}|{DOUBLE_QUOTED}|({COMMENT})", re.DOTALL)
_MANY = 128  # with more columns than this, compiling a pattern costs more than it saves


@dataclass(frozen=True, slots=True)
class InsertRows:
    """Cells as written, ``rows[i][j]``; all rows have ``width`` cells."""

    rows: list[TextRow]
    width: int
    _text: str = field(repr=False, compare=False)
    _start: int = field(repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.rows)

    def columns(self) -> list[tuple[str, ...]]:
        """The cells, column by column."""
        return list(zip(*self.rows, strict=True))

    def position(self, row: int, column: int) -> Position:
        """Where a cell stands."""
        lexer = Lexer(self._text)
        lexer.place = self._start
        for _ in range(row):
            _read_row(lexer)
        return lexer.position(_read_row(lexer)[1][column])


@lru_cache(maxsize=64)
def _pattern(width: int) -> re.Pattern[str]:
    return re.compile(r"\s*+,?\s*+\(" + ",".join([_CELL] * width) + r"\)", re.DOTALL)


def _blank_comments(text: str, start: int) -> str:
    """Replace comments by blanks of the same length, so that offsets stay valid."""
    if "--" not in text and "/*" not in text:
        return text
    return text[:start] + _BLANKED.sub(lambda m: " " * len(m[0]) if m[1] else m[0], text[start:])


def read_rows(lexer: Lexer, width: int | None) -> InsertRows:
    """Read ``(…) [,] (…) …`` from where the lexer stands, and move the lexer past them.

    ``width``: cells that each row must have; None: as many as the first.

    :raises SqlError: for a row that is malformed or has a different number of cells, or if there is no row.
    """
    start = lexer.place
    text = _blank_comments(lexer.text, start)
    rows: list[TextRow] = []
    if width is None:
        rows.append(_read_row(lexer)[0])
        width = len(rows[0])
    while True:
        if width <= _MANY:
            _take_rows(lexer, text, width, rows)
        place = lexer.place
        if lexer.peek().text == ",":
            lexer.next()
        token = lexer.peek()
        if token.text != "(":
            lexer.place = place
            break
        cells, offsets = _read_row(lexer)
        if len(cells) != width:
            raise SqlError(
                ErrorCode.SYNTAX, f"the row has {len(cells)} values, but {width} are expected",
                lexer.position(offsets[0]),
            )  # fmt: skip
        rows.append(cells)
    if not rows:
        _read_row(lexer)  # raises the error that says what is missing
    return InsertRows(rows, width, lexer.text, start)


def _take_rows(lexer: Lexer, text: str, width: int, rows: list[TextRow]) -> None:
    match, add, place = _pattern(width).match, rows.append, lexer.place
    while found := match(text, place):
        add(found.groups())
        place = found.end()
    lexer.place = place


def _read_row(lexer: Lexer) -> tuple[TextRow, list[int]]:
    """One row, token by token: its cells and their offsets."""
    token = lexer.next()
    if token.text == ",":
        token = lexer.next()
    if token.text != "(":
        raise _unexpected(lexer, "( and the values of a row", token)
    cells: list[str] = []
    offsets: list[int] = []
    while True:
        begin, end, depth = lexer.peek().start, -1, 0
        while True:
            token = lexer.next()
            if token.kind is TokenKind.END or token.text == ";":
                raise _unexpected(lexer, ")", token)
            if depth == 0 and token.text in (",", ")"):
                break
            depth += (token.text == "(") - (token.text == ")")
            end = token.end
        if end < 0:
            raise _unexpected(lexer, "a value", token)
        cells.append(_blank_comments(lexer.text[begin:end], 0))
        offsets.append(begin)
        if token.text == ")":
            return tuple(cells), offsets


def _unexpected(lexer: Lexer, expected: str, token: Token) -> SqlError:
    found = "the end of the statement" if token.kind is TokenKind.END else repr(token.text)
    return SqlError(ErrorCode.SYNTAX, f"expected {expected}, found {found}", lexer.position(token.start))

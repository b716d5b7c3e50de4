"""Tokens of Millrace's SQL with their places, found on demand by one regular expression.

Identifiers become lower case unless they are back-quoted. Strings stand in single or double quotes, with
backslash escapes or a doubled quote. Comments are ``-- …`` to the end of the line and ``/* … */``.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language.words import Token, TokenKind, Words

START = Position(1, 1)
MOST_BYTES = 1 << 20
"""The most bytes of a statement that writes no rows, as in TDengine."""


# possessive quantifiers, so that an unterminated string or comment is not tried again from every place
SINGLE_QUOTED = r"'(?:[^'\\]++|\\.|'')*+'"
DOUBLE_QUOTED = r'"(?:[^"\\]++|\\.|"")*+"'
COMMENT = r"--[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/"

_TOKEN = re.compile(
    rf"""(?P<blank>(?:\s++|{COMMENT})++)
    |(?P<string>{SINGLE_QUOTED}|{DOUBLE_QUOTED})
    |(?P<number>(?:0[xX][0-9a-fA-F]++|0[bB][01]++|\d++(?:\.\d*+)?(?:[eE][+-]?\d++)?|\.\d++(?:[eE][+-]?\d++)?)\w*+)
    |(?P<placeholder>%%\w++)
    |(?P<word>[^\W\d]\w*+)
    |(?P<quoted>`(?:[^`]++|``)++`)
    |(?P<operator><=>|<>|!=|<=|>=|==|\|\||&&|->|<<|>>|::|/(?!\*)|[-+*%=<>(),.;|&^~!?:\[\]{{}}@\#$])
    """,
    re.VERBOSE | re.DOTALL,
)
_NO_SIGN = re.compile(
    rf"""(?:[^;()'"`/-]++|{SINGLE_QUOTED}|{DOUBLE_QUOTED}|`(?:[^`]++|``)++`|{COMMENT}|/(?!\*)|-(?!-))*+""",
    re.DOTALL,
)
"""Text up to the next semicolon or parenthesis."""
_DURATION = re.compile(r"\d+(?:\.\d*)?[buasmhdwnyBUASMHDWNY]")
_INTEGER = re.compile(r"\d+|0[xX][0-9a-fA-F]+|0[bB][01]+")
_FLOAT = re.compile(r"(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "%": r"\%", "_": r"\_", "x": r"\x"}


def unquote(text: str) -> str:
    r"""The value of a quoted string. ``\%``, ``\_`` (LIKE) and ``\x`` (VARBINARY) keep their backslash."""
    quote, body = text[0], text[1:-1]
    if quote in body:
        body = re.sub(rf"\\.|{quote}{quote}", lambda m: quote if m[0][0] == quote else m[0], body, flags=re.S)
    if "\\" not in body:
        return body
    return _ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[1]), body)


def quote(value: str) -> str:
    """The string as a literal: the inverse of :func:`unquote` for values without LIKE or hex escapes."""
    body = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{body}'"


def quote_name(name: str) -> str:
    """The name, back-quoted."""
    return "`" + name.replace("`", "``") + "`"


def check_size(text: str, origin: Position = START) -> None:
    """:raises SqlError: TOO_LARGE for a text of more than :data:`MOST_BYTES`. Asked before anything reads it:
    a lexer needs seconds for some megabytes."""
    size = len(text.encode("utf-8", "replace"))
    if size > MOST_BYTES:
        message = f"the statement is {size:,} bytes long; at most {MOST_BYTES:,} bytes are allowed"
        raise SqlError(ErrorCode.TOO_LARGE, message, origin)


class Lexer(Words):
    """Tokens of one text, from a place that can be moved: a parser may look ahead, or scan parts by
    itself."""

    def __init__(self, text: str, origin: Position = START) -> None:
        self.text = text
        self.place = 0
        self._origin = origin
        self._lines: list[int] = []

    def position(self, offset: int) -> Position:
        """Line and column of an offset of the text."""
        if not self._lines:
            self._lines = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect_right(self._lines, offset)
        column = offset - self._lines[line - 1] + 1
        if line == 1:
            column += self._origin.column - 1
        return Position(line + self._origin.line - 1, column)

    def refused(self, why: str, where: Position) -> SqlError:
        return SqlError(ErrorCode.SYNTAX, why, where)

    def next(self) -> Token:
        """The next token. At the end of the text it is END, however often this is called.

        :raises SqlError: for text that is not a token.
        """
        while match := _TOKEN.match(self.text, self.place):
            start, end = match.span()
            if match.lastgroup == "blank":
                self.place = end
                continue
            token = self._token(str(match.lastgroup), match[0], start, end)
            self.place = end
            return token
        if self.place >= len(self.text):
            return Token(TokenKind.END, "", "", len(self.text), len(self.text))
        raise self._no_token()

    def pass_text(self) -> str:
        """Move past everything up to the next semicolon or parenthesis; returns which, or "" at the end. This
        is much faster than token by token.

        :raises SqlError: for a string, name or comment without an end.
        """
        if found := _NO_SIGN.match(self.text, self.place):
            self.place = found.end()
        sign = self.text[self.place : self.place + 1]
        if sign not in ("", ";", "(", ")"):
            raise self._no_token()
        return sign

    def _token(self, group: str, text: str, start: int, end: int) -> Token:
        match group:
            case "word":
                return Token(TokenKind.WORD, text, text.lower(), start, end)
            case "quoted":
                return Token(TokenKind.QUOTED, text, text[1:-1].replace("``", "`"), start, end)
            case "string":
                return Token(TokenKind.STRING, text, unquote(text), start, end)
            case "number":
                return self._number(text, start, end)
            case "placeholder":
                return Token(TokenKind.PLACEHOLDER, text, text.lower(), start, end)
        return Token(TokenKind.OPERATOR, text, text, start, end)

    def _number(self, text: str, start: int, end: int) -> Token:
        for kind, pattern in (
            (TokenKind.INTEGER, _INTEGER),
            (TokenKind.FLOAT, _FLOAT),
            (TokenKind.DURATION, _DURATION),
        ):
            if pattern.fullmatch(text):
                return Token(kind, text, text.lower(), start, end)
        raise SqlError(
            ErrorCode.SYNTAX,
            f"{text!r} is neither a number nor a duration: {text.lstrip('.0123456789')} is not a unit of "
            "time (b, u, a, s, m, h, d, w, n or y)",
            self.position(start),
        )

    def _no_token(self) -> SqlError:
        char = self.text[self.place]
        where = self.position(self.place)
        if char in "'\"":
            return SqlError(
                ErrorCode.SYNTAX,
                f"unterminated string: the closing {char} is missing",
                where,
            )
        if char == "`":
            return SqlError(ErrorCode.SYNTAX, "the name in backquotes is empty or unterminated", where)
        if self.text.startswith("/*", self.place):
            return SqlError(ErrorCode.SYNTAX, "unterminated comment: the closing */ is missing", where)
        return SqlError(ErrorCode.SYNTAX, f"unexpected character {char!r}", where)


def tokens(text: str, origin: Position = START) -> list[Token]:
    """All tokens of a text, without END."""
    lexer = Lexer(text, origin)
    found = []
    while (token := lexer.next()).kind is not TokenKind.END:
        found.append(token)
    return found

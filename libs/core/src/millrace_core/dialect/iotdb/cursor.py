"""Tokens of IoTDB's SQL, values and paths.

Keywords are read in any case, names as they are written. Paths are not made of tokens: whoever expects
one reads it from the text (:meth:`Cursor.path`), since in a path ``root.1d.*`` is not a number,
duration or product.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from millrace_core.dialect.iotdb.codes import IotdbError, Status, syntax
from millrace_core.dialect.iotdb.paths import MANY, NAME, ROOT, Node, Pattern
from millrace_core.errors import Position
from millrace_core.language.lexer import MOST_BYTES
from millrace_core.language.words import Token, TokenKind, Words

"""The most bytes of a statement, as in the other dialect."""
MOST_DIGITS = 100
"""The most digits of a whole number: Python itself reads no more than a few thousand."""


_TOKEN = re.compile(
    rf"""(?P<blank>(?:\s++|--[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)++)
    |(?P<string>'(?:[^']++|'')*+'|"(?:[^"]++|"")*+")
    |(?P<datetime>\d{{4}}[-/]\d{{1,2}}[-/]\d{{1,2}}
        (?:[T\ ]\d{{1,2}}:\d{{1,2}}:\d{{1,2}}(?:\.\d{{1,9}})?(?:Z|[+-]\d{{1,2}}:\d{{2}})?)?(?!\w))
    |(?P<duration>(?:\d+(?:ns|us|ms|mo|s|m|h|d|w|y))+(?!\w))
    |(?P<float>(?:\d++\.\d++(?:[eE][+-]?\d++)?|\d++[eE][+-]?\d++|\.\d++)(?!\w))
    |(?P<integer>\d++(?!\w))
    |(?P<word>{NAME}++)
    |(?P<quoted>`(?:[^`]++|``)++`)
    |(?P<operator><=|>=|!=|<>|==|&&|\|\||::|[-+*/%=<>(),.;\[\]!])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_QUOTED_NODE = r"`(?:[^`]++|``)++`"
_NODE = re.compile(rf"{_QUOTED_NODE}|(?:{NAME}|[*])+")
_EXPRESSION_NODE = re.compile(
    rf"{_QUOTED_NODE}|\*\*|\*{NAME}*|{NAME}+\*(?=\s*(?:[.,)]|$|(?:from|into|as)\b))|{NAME}+",
    re.IGNORECASE,
)
"""In an expression ``s1*2`` is a product, while ``s*`` alone is a pattern."""
_TARGET_NODE = re.compile(rf"{_QUOTED_NODE}|(?:{NAME}|\$\{{\d+\}})+|::")


class Cursor(Words):
    """A place that moves over IoTDB's tokens and paths."""

    def __init__(self, text: str) -> None:
        if len(text.encode("utf-8", "replace")) > MOST_BYTES:
            raise syntax(f"the statement has more than {MOST_BYTES} bytes", Position(1, 1))
        self.text = text
        self.place = 0
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        if "\0" in text:
            raise syntax("the statement holds a NUL character", self.position(text.index("\0")))

    def position(self, offset: int) -> Position:
        line = bisect_right(self._lines, offset)
        return Position(line, offset - self._lines[line - 1] + 1)

    def next(self) -> Token:
        """The next token, at the end of the text always END. :raises IotdbError: if there is none here."""
        while found := _TOKEN.match(self.text, self.place):
            self.place = found.end()
            if found.lastgroup == "blank":
                continue
            kind = TokenKind(found.lastgroup)
            return Token(kind, found[0], _value(kind, found[0]), *found.span())
        end = len(self.text)
        if self.place >= end:
            return Token(TokenKind.END, "", "", end, end)
        raise self._no_token()

    def _no_token(self) -> IotdbError:
        char, where = self.text[self.place], self.position(self.place)
        if char in "'\"`":
            what = "name in backquotes" if char == "`" else "string"
            return syntax(f"unterminated {what}: the closing {char} is missing", where)
        if self.text.startswith("/*", self.place):
            return syntax("unterminated comment: the closing */ is missing", where)
        return syntax(f"unexpected character {char!r}", where)

    def refused(self, why: str, where: Position) -> IotdbError:
        return syntax(why, where)

    # -- values ----------------------------------------------------------------------------------------------

    def of_kind(self, kind: TokenKind, what: str) -> Token:
        token = self.peek()
        if token.kind is not kind:
            raise self.unexpected(what)
        return self.next()

    def string(self, what: str) -> str:
        return self.of_kind(TokenKind.STRING, what).value

    def integer(self, what: str) -> int:
        token = self.of_kind(TokenKind.INTEGER, what)
        if len(token.value) > MOST_DIGITS:
            raise syntax(f"{token.value[:32]}… is too large for {what}", self.position(token.start))
        return int(token.value)

    def name(self, what: str) -> str:
        """One name, quoted or not, in its own case."""
        token = self.peek()
        if token.kind is TokenKind.QUOTED:
            return self.next().value
        if token.kind not in (TokenKind.WORD, TokenKind.INTEGER, TokenKind.DURATION):
            raise self.unexpected(what)
        return self.next().text

    # -- paths -----------------------------------------------------------------------------------------------

    def path(self, what: str, *, checked: bool = True) -> Pattern:
        """A path or pattern that begins with ``root``. ``checked``: False for one that was accepted before.

        :raises IotdbError: ILLEGAL_PATH if it begins otherwise, or has too many wildcards.
        """
        found = self._nodes(_NODE, what)
        if found.nodes[0] != Node(ROOT):
            raise IotdbError(
                Status.ILLEGAL_PATH, f"{found} is not {what}: a path must begin with {ROOT}", found.position
            )
        return found.check() if checked else found

    def full_path(self, what: str) -> Pattern:
        """A path without wildcards."""
        found = self.path(what)
        if found.wild:
            raise IotdbError(
                Status.ILLEGAL_PATH, f"{found} is not {what}: it contains a wildcard", found.position
            )
        return found

    def suffix(self) -> Pattern:
        """A path or pattern in an expression, below those of FROM."""
        return self._nodes(_EXPRESSION_NODE, "a measurement")

    def target(self) -> Pattern:
        """A path of INTO, which may have placeholders."""
        return self._nodes(_TARGET_NODE, "a path to write to")

    def target_measurement(self) -> Node:
        """A measurement of INTO."""
        blank = _TOKEN.match(self.text, self.place)
        # not read as a token, since it may begin with a placeholder
        start = blank.end() if blank is not None and blank.lastgroup == "blank" else self.place
        found = _TARGET_NODE.match(self.text, start)
        if found is None:
            raise self.unexpected("a measurement to write to")
        self.place = found.end()
        return _node(found[0])

    def _nodes(self, pattern: re.Pattern[str], what: str) -> Pattern:
        start = self.peek().start
        nodes, place = [], start
        while found := pattern.match(self.text, place):
            node = _node(found[0])
            stars = node.text.replace("*", "") == "" and node.wild
            if (stars and len(node.text) > 2) or (node.wild and not stars and MANY in node.text):
                raise IotdbError(
                    Status.ILLEGAL_PATH, f"{node.text} is not a valid node: ** must be a whole node",
                    self.position(place),
                )  # fmt: skip
            nodes.append(node)
            place = found.end()
            if self.text[place : place + 1] != ".":
                self.place = place
                return Pattern(tuple(nodes), self.position(start))
            place += 1
        if nodes:
            self.place = place
            raise self.unexpected("a node after the dot")
        raise self.unexpected(what)


def _node(text: str) -> Node:
    quoted = text.startswith("`")
    return Node(text[1:-1].replace("``", "`") if quoted else text, quoted)


def _value(kind: TokenKind, text: str) -> str:
    if kind is TokenKind.WORD:
        return text.lower()
    if kind is TokenKind.STRING:
        return text[1:-1].replace(text[0] * 2, text[0])
    if kind is TokenKind.QUOTED:
        return text[1:-1].replace("``", "`")
    return text

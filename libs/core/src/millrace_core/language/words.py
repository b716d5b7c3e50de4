"""Tokens, and the small steps of every parser: look at what comes next, take it, or say what was expected."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, TypeVar

from millrace_core.errors import MillraceError, Position


class TokenKind(Enum):
    WORD = "word"  # an identifier or keyword; value: lower case
    QUOTED = "quoted"  # a name in back quotes; value: without them
    STRING = "string"  # value: without quotes and escapes
    INTEGER = "integer"
    FLOAT = "float"
    DURATION = "duration"  # 10s, 1n, IoTDB: 1d12h; TDengine: also 0.5s, which its parsers refuse
    DATETIME = "datetime"  # only IoTDB: 2026-01-31T23:59:59.000+01:00
    PLACEHOLDER = "placeholder"  # only TDengine: %%tbname, %%trows, %%1
    OPERATOR = "operator"
    END = "end"


class Token(NamedTuple):
    """``text``: as written; ``value``: what it means, see :class:`TokenKind`; ``start``, ``end``: offsets."""

    kind: TokenKind
    text: str
    value: str
    start: int
    end: int


T = TypeVar("T")


class Words(ABC):
    """A place in a text that moves from token to token; each dialect has its own kind."""

    place: int

    @abstractmethod
    def next(self) -> Token:
        """The next token. At the end of the text it is END, however often this is called."""

    @abstractmethod
    def position(self, offset: int) -> Position:
        """Line and column of an offset of the text."""

    @abstractmethod
    def refused(self, why: str, where: Position) -> MillraceError:
        """The dialect's own error for what is not in its grammar."""

    def peek(self) -> Token:
        """The next token, without moving."""
        place = self.place
        token = self.next()
        self.place = place
        return token

    def here(self) -> Position:
        """Where the next token begins."""
        return self.position(self.peek().start)

    def unexpected(self, expected: str) -> MillraceError:
        """The error to raise: what was expected, and what stands there."""
        token = self.peek()
        found = "the end of the statement" if token.kind is TokenKind.END else repr(token.text)
        return self.refused(f"expected {expected}, found {found}", self.position(token.start))

    def at(self, *words: str) -> bool:
        """Whether these keywords or operators come next."""
        place = self.place
        found = self.take(*words)
        self.place = place
        return found

    def take(self, *words: str) -> bool:
        """Move past these keywords or operators if they come next."""
        place = self.place
        for word in words:
            token = self.next()
            if token.kind not in (TokenKind.WORD, TokenKind.OPERATOR) or token.value != word.lower():
                self.place = place
                return False
        return True

    def expect(self, *words: str) -> Position:
        """Move past these keywords or operators; returns where the first one stands."""
        where = self.here()
        for word in words:
            if not self.take(word):
                raise self.unexpected(word.upper())
        return where

    def one_of(self, *words: str) -> str:
        """Move past one of these keywords; returns which one, as it was given."""
        for word in words:
            if self.take(word):
                return word
        raise self.unexpected(" or ".join(word.upper() for word in words))

    def separated(self, item: Callable[[], T], separators: tuple[str, ...] = (",",)) -> tuple[T, ...]:
        """``item [, …]``, at least one."""
        items = [item()]
        while any(self.take(separator) for separator in separators):
            items.append(item())
        return tuple(items)

    def listed(self, item: Callable[[], T], separators: tuple[str, ...] = (",",)) -> tuple[T, ...]:
        """``( item [, …] )``, at least one."""
        self.expect("(")
        items = self.separated(item, separators)
        if not self.take(")"):
            raise self.unexpected(f"{' or '.join(separators)} or )")
        return items

    def finish(self) -> None:
        """Check that nothing but semicolons follows."""
        while self.take(";"):
            pass
        if self.peek().kind is not TokenKind.END:
            raise self.unexpected("the end of the statement")

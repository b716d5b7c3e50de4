"""The small words of every parser: look at the next tokens, take them, or say what was expected."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from millrace_core.errors import MillraceError, Position


class AnyToken(Protocol):
    """``text``: as written; ``value``: what it means, of a keyword or operator in lower case; ``start``: an
    offset."""

    @property
    def text(self) -> str: ...

    @property
    def value(self) -> str: ...

    @property
    def start(self) -> int: ...

    @property
    def is_end(self) -> bool: ...

    @property
    def may_be_keyword(self) -> bool:
        """Whether it is a word without quotes, or an operator."""
        ...


T = TypeVar("T")
Token = TypeVar("Token", bound=AnyToken)


class Words(ABC, Generic[Token]):
    """A place in a text that moves over tokens; each dialect has its own."""

    place: int

    @abstractmethod
    def next(self) -> Token:
        """The next token; at the end of the text the end, again and again."""

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
        found = "the end of the statement" if token.is_end else repr(token.text)
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
            if not token.may_be_keyword or token.value != word.lower():
                self.place = place
                return False
        return True

    def expect(self, *words: str) -> Position:
        """Move past these keywords or operators; where the first one stands."""
        where = self.here()
        for word in words:
            if not self.take(word):
                raise self.unexpected(word.upper())
        return where

    def one_of(self, *words: str) -> str:
        """Move past one of these keywords; which one, as it is given."""
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
        """Nothing but semicolons may follow."""
        while self.take(";"):
            pass
        if not self.peek().is_end:
            raise self.unexpected("the end of the statement")

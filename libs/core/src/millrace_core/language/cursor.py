"""What the parser is written with: look at the next token, take it, or say what was expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language.lexer import Lexer, Token, TokenKind
from millrace_core.language.statements import Argument, Literal, Name, QualifiedName, SqlText
from millrace_core.model.schema import MAX_NAME

T = TypeVar("T")
NAMES = (TokenKind.WORD, TokenKind.QUOTED)


def check_length(name: Name | QualifiedName, kind: str) -> None:
    """:raises SqlError: if a name is longer than tables (and everything else) may be called."""
    text = name.text if isinstance(name, Name) else name.name
    if len(text.encode()) > MAX_NAME:
        raise SqlError(
            ErrorCode.INVALID_VALUE,
            f"the {kind} name {text[:32]}… is longer than {MAX_NAME} bytes",
            name.position,
        )


class Cursor(Lexer):
    """A lexer with the parser's small words."""

    def here(self) -> Position:
        """Where the next token begins."""
        return self.position(self.peek().start)

    def unexpected(self, expected: str) -> SqlError:
        """The error to raise: what was expected, and what stands there."""
        token = self.peek()
        found = "the end of the statement" if token.kind is TokenKind.END else repr(token.text)
        return SqlError(ErrorCode.SYNTAX, f"expected {expected}, found {found}", self.position(token.start))

    def at(self, *words: str) -> bool:
        """Whether these keywords or operators come next."""
        place = self.place
        found = all(self._is(self.next(), word) for word in words)
        self.place = place
        return found

    @staticmethod
    def _is(token: Token, word: str) -> bool:
        return token.kind in (TokenKind.WORD, TokenKind.OPERATOR) and token.value == word.lower()

    def take(self, *words: str) -> bool:
        """Move past these keywords or operators if they come next."""
        place = self.place
        for word in words:
            if not self._is(self.next(), word):
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
        """Move past one of these keywords; which one, in upper case."""
        for word in words:
            if self.take(word):
                return word.upper()
        raise self.unexpected(" or ".join(word.upper() for word in words))

    def name(self, what: str) -> Name:
        token = self.peek()
        if token.kind not in NAMES:
            raise self.unexpected(what)
        self.next()
        return Name(token.value, self.position(token.start))

    def qualified(self, what: str) -> QualifiedName:
        first = self.name(what)
        if self.take("."):
            return QualifiedName(first.text, self.name(what).text, first.position)
        return QualifiedName(None, first.text, first.position)

    def string(self, what: str) -> Name:
        token = self.peek()
        if token.kind is not TokenKind.STRING:
            raise self.unexpected(what)
        self.next()
        return Name(token.value, self.position(token.start))

    def integer(self, what: str) -> int:
        token = self.peek()
        if token.kind is not TokenKind.INTEGER:
            raise self.unexpected(what)
        self.next()
        return int(token.value, 0) if token.value[:2] in ("0x", "0b") else int(token.value)

    def listed(self, item: Callable[[], T], separators: tuple[str, ...] = (",",)) -> tuple[T, ...]:
        """``( item [, …] )``, at least one."""
        self.expect("(")
        items = [item()]
        while any(self.take(separator) for separator in separators):
            items.append(item())
        if not self.take(")"):
            raise self.unexpected(f"{' or '.join(separators)} or )")
        return tuple(items)

    def until(self, what: str, ends: Callable[[], bool]) -> SqlText:
        """The text up to where ``ends`` holds outside all parentheses, an unmatched ``)`` or the end.

        :raises SqlError: if there is none, or parentheses do not match.
        """
        first = self.peek()
        last, depth = first.start, 0
        while (token := self.peek()).kind is not TokenKind.END:
            closing = token.text == ")"
            if depth == 0 and (closing or token.text == ";" or ends()):
                break
            depth += (token.text == "(") - closing
            self.next()
            last = token.end
        if last == first.start:
            raise self.unexpected(what)
        if depth:
            raise self.unexpected(")")
        return SqlText(self.text[first.start : last], self.position(first.start))

    def argument(self, what: str) -> Argument:
        """One argument of a clause, as written."""
        text = self.until(what, lambda: self.at(",") or self.at("|"))
        return Argument(text.text, text.position)

    def literal(self, what: str) -> Literal:
        """One value, as written, with what is added to it (``now() - 3d``)."""
        text = self.until(what, lambda: self.at(","))
        return Literal(text.text, text.position)

    def exists(self, *, negated: bool) -> bool:
        """Move past ``IF NOT EXISTS`` or ``IF EXISTS``."""
        if not self.take("if"):
            return False
        if negated:
            self.expect("not")
        self.expect("exists")
        return True

    def finish(self) -> None:
        """Nothing but semicolons may follow."""
        while self.take(";"):
            pass
        if self.peek().kind is not TokenKind.END:
            raise self.unexpected("the end of the statement")

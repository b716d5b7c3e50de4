"""The tools that the parser is written with: look at the next token, take it, or say what was expected."""

from __future__ import annotations

from collections.abc import Callable

from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.lexer import Lexer
from millrace_core.language.statements import Argument, Literal, Name, QualifiedName, SqlText
from millrace_core.language.words import TokenKind
from millrace_core.model.schema import MAX_NAME

NAMES = (TokenKind.WORD, TokenKind.QUOTED)


def check_length(name: Name | QualifiedName, kind: str) -> None:
    """:raises SqlError: if a name is longer than names of tables (and of everything else) may be."""
    text = name.text if isinstance(name, Name) else name.name
    if len(text.encode()) > MAX_NAME:
        raise SqlError(
            ErrorCode.INVALID_VALUE,
            f"the {kind} name {text[:32]}… is longer than {MAX_NAME} bytes",
            name.position,
        )


class Cursor(Lexer):
    """A lexer with the small steps of a parser, and its values and pieces of text."""

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

    def until(self, what: str, ends: Callable[[], bool]) -> SqlText:
        """The text up to the end, an unmatched ``)``, or where ``ends`` holds outside all parentheses.

        :raises SqlError: if there is no such text, or parentheses do not match.
        """
        first = self.peek()
        last, depth = first.start, 0
        while (token := self.peek()).kind is not TokenKind.END:
            closing = token.text == ")"
            if depth == 0 and (closing or token.text == ";" or ends()):
                break
            depth += (token.text == "(") - closing
            self.place = last = token.end
        if last == first.start:
            raise self.unexpected(what)
        if depth:
            raise self.unexpected(")")
        return SqlText(self.text[first.start : last], self.position(first.start))

    def to_end(self) -> SqlText:
        """The text up to the end, or a semicolon or unmatched ``)`` outside all parentheses: as :meth:`until`
        when nothing else ends it, but for blanks and comments at its end. What is in it is not looked at.

        :raises SqlError: if parentheses do not match, or a string has no end.
        """
        first, depth = self.peek().start, 0
        while (sign := self.pass_text()) and (depth or sign == "("):
            depth += {"(": 1, ")": -1}.get(sign, 0)
            self.place += 1
        if depth:
            raise self.unexpected(")")
        return SqlText(self.text[first : self.place].rstrip(), self.position(first))

    def argument(self, what: str) -> Argument:
        """One argument of a clause, as written."""
        text = self.until(what, lambda: self.at(",") or self.at("|"))
        return Argument(text.text, text.position)

    def literal(self, what: str) -> Literal:
        """One value, as written, together with what is added to it (``now() - 3d``)."""
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

"""Patterns of conditions on rows: LIKE and MATCH as regular expressions of the engine that runs them.

A query runs MATCH with Java's regular expressions, a trigger with Rust's, which have neither look-around nor
references. What the two read differently is rewritten (the point, the dollar, classes such as ``\\d``); what
is not known to mean the same in both is refused.
"""

from __future__ import annotations

import polars as pl

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_CLASSES = {
    "d": "[0-9]", "D": "[^0-9]", "w": "[0-9A-Za-z_]", "W": "[^0-9A-Za-z_]",
    "s": r"[ \t\n\x0B\f\r]", "S": r"[^ \t\n\x0B\f\r]",
}  # fmt: skip
_BOUNDS = {"b": r"(?-u:\b)"}
_KEPT = frozenset("tnrf")
_GROUPS = ("(?:", "(?i)", "(?i:")


def like(pattern: str) -> str:
    """A LIKE pattern (``%``, ``_``, escaped by a backslash), for the whole text.

    :raises ValueError: for a backslash before anything else.
    """
    parts: list[str] = []
    chars = iter(pattern)
    for char in chars:
        if char == "\\":
            escaped = next(chars, "")
            if escaped not in ("%", "_", "\\"):
                raise ValueError(f"the pattern {pattern!r}: a backslash is allowed only before %, _ or \\")
            parts.append(_escaped(escaped))
        else:
            parts.append({"%": ".*", "_": "."}.get(char) or _escaped(char))
    return rf"(?s)\A{''.join(parts)}\z"


def _escaped(char: str) -> str:
    return f"\\{char}" if char.isascii() and not char.isalnum() and char not in " _%" else char


def regular(pattern: str) -> str:
    """A MATCH pattern, for any part of the text.

    :raises ValueError: for an invalid pattern, or one that uses what only one of the two engines knows.
    """
    found = _Rewriter(pattern).run()
    try:
        pl.Series([""]).str.contains(found)
    except pl.exceptions.ComputeError:
        raise ValueError(
            f"the pattern {pattern!r} is not supported here (look-around and backreferences are not)"
        ) from None
    return found


class _Rewriter:
    """One pass over a pattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.place = 0
        self.depth = 0
        """How deep the pass is in nested character classes."""

    def run(self) -> str:
        parts: list[str] = []
        while self.place < len(self.pattern):
            parts.append(self._next())
        return "".join(parts)

    def _refuse(self, what: str) -> ValueError:
        return ValueError(f"the pattern {self.pattern!r}: {what} is not supported here")

    def _ahead(self, *texts: str) -> str | None:
        return next((text for text in texts if self.pattern.startswith(text, self.place)), None)

    def _next(self) -> str:
        char = self.pattern[self.place]
        if char == "\\":
            return self._escape()
        if self.depth:
            if (known := self._ahead("--", "~~", "[:")) is not None:
                raise self._refuse(f"{known} in a character class")
        elif self._ahead("(?") and not self._ahead(*_GROUPS):
            raise self._refuse(self.pattern[self.place : self.place + 3])
        elif char in "*+?}" and self.pattern[self.place + 1 : self.place + 2] == "+":
            raise self._refuse(f"{char}+")
        self.place += 1
        if char in "[]":
            self.depth = max(0, self.depth + (1 if char == "[" else -1))
        elif not self.depth and char == ".":
            return f"[^{_LINE_ENDS}]"
        elif not self.depth and char == "$":
            return rf"(?:\r\n|[{_LINE_ENDS}])?\z"
        return char

    def _escape(self) -> str:
        char = self.pattern[self.place + 1 : self.place + 2]
        self.place += 2
        if char in _CLASSES:
            return _CLASSES[char]
        if char in _BOUNDS and not self.depth:
            return _BOUNDS[char]
        if char in _KEPT or (char.isascii() and char and not char.isalnum()):
            return f"\\{char}"
        raise self._refuse(f"\\{char}")

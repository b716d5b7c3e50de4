"""Names, values and pieces of a statement, with their places in it."""

from __future__ import annotations

from dataclasses import dataclass

from millrace_core.errors import Position


@dataclass(frozen=True, slots=True)
class Name:
    """A name: in lower case unless it was back-quoted."""

    text: str
    position: Position


@dataclass(frozen=True, slots=True)
class QualifiedName:
    """``[db.]name``; ``db`` None: the session's database. ``position``: that of its first part."""

    db: str | None
    name: str
    position: Position

    def __str__(self) -> str:
        return f"{self.db}.{self.name}" if self.db else self.name


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as written in the SQL, quotes and all: ``'a'``, ``1.5``, ``NULL``, ``now() - 3d``."""

    text: str
    position: Position


@dataclass(frozen=True, slots=True)
class SqlText:
    """A part of the statement that is an expression or a query, as written there."""

    text: str
    position: Position

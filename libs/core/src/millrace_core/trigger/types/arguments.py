"""How a trigger type reads its clause: what a front end offers it for that.

A front end knows how its language is written; the type knows what the arguments of its trigger are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import Condition, Duration


@dataclass(frozen=True, slots=True)
class Syntax:
    """How a trigger clause is written after its keyword.

    ``conditions``: the words before each of its conditions; if there are none, the clause has a list of
    arguments. ``then``: the keyword of a clause that must follow, with arguments of its own.
    """

    conditions: tuple[str, ...] = ()
    then: str | None = None


ARGUMENTS = Syntax()
"""Arguments in parentheses, and nothing else."""


class Arguments(Protocol):
    """The arguments of one clause, taken one after the other; ``what`` is an argument's name in the seed.

    Each method that takes an argument raises SqlError, with the place in the text, if the argument is
    missing, is of the wrong kind, or does not satisfy the rule of that name.
    """

    @property
    def table(self) -> Table:
        """The trigger table."""

    @property
    def more(self) -> bool:
        """Whether arguments are left."""

    @property
    def at_number(self) -> bool:
        """Whether the next argument is a number."""

    @property
    def here(self) -> Position:
        """Where the next argument stands; if none is left, where the clause stands."""

    def duration(self, what: str) -> Duration: ...

    def optional_duration(self, what: str) -> Duration | None: ...

    def integer(self, what: str) -> int: ...

    def column(self, what: str) -> tuple[Column, Position]:
        """A column of the trigger table, and where it is named."""

    def condition(self, what: str) -> Condition:
        """A condition over one row of the trigger table."""

    def true_for(self) -> Duration | None:
        """TRUE_FOR, which stands after the clause; None: it is not given."""

    def then(self) -> Arguments:
        """The arguments of the clause that follows (:attr:`Syntax.then`)."""

    def done(self) -> None:
        """:raises SqlError: if arguments are left."""


Quote = Callable[[str], str]
"""Writes a name of the user's as SQL has it."""


def call(keyword: str, *arguments: object) -> str:
    """``keyword(argument, …)``, without those that are None."""
    return f"{keyword}({', '.join(str(argument) for argument in arguments if argument is not None)})"


def with_true_for(clause: str, length: Duration | None) -> str:
    """The clause, followed by TRUE_FOR if there is one."""
    return clause if length is None else f"{clause} TRUE_FOR({length})"


def bad(message: str, position: Position, code: ErrorCode = ErrorCode.BAD_STREAM) -> SqlError:
    """The error that says what is wrong with a stream's definition, and where."""
    return SqlError(code, message, position)

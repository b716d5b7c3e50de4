"""Statements on streams, as the parser gives them; ``stream.lower`` checks them."""

from __future__ import annotations

from dataclasses import dataclass

from millrace_core.errors import Position
from millrace_core.language.lexer import START
from millrace_core.language.names import Literal, Name, QualifiedName, SqlText
from millrace_core.model.types import DataType


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a trigger or an option as written; ``lower`` says what it must be."""

    text: str
    position: Position


@dataclass(frozen=True, slots=True)
class TriggerClause:
    """``keyword(arguments)``; for a trigger with conditions, these are its arguments.

    ``sliding``: the arguments of the SLIDING clause that must follow it.
    """

    keyword: str
    arguments: tuple[Argument, ...]
    position: Position
    sliding: tuple[Argument, ...] = ()
    true_for: Argument | None = None
    true_for_position: Position | None = None


@dataclass(frozen=True, slots=True)
class OptionClause:
    """One of STREAM_OPTIONS; ``arguments`` None: it was written without parentheses."""

    name: str
    position: Position
    arguments: tuple[Argument, ...] | None = None


@dataclass(frozen=True, slots=True)
class NotifyClause:
    urls: tuple[Name, ...]
    position: Position
    events: tuple[Name, ...] | None = None
    where: SqlText | None = None
    options: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputColumn:
    name: Name
    composite_key: bool = False


@dataclass(frozen=True, slots=True)
class TagDefinition:
    name: Name
    type: DataType
    value: SqlText
    comment: str = ""


@dataclass(frozen=True, slots=True)
class CreateStream:
    """CREATE STREAM, clause by clause; ``text`` is the whole statement, which begins at ``begins``."""

    name: QualifiedName
    text: str
    trigger: TriggerClause
    if_not_exists: bool = False
    table: QualifiedName | None = None
    partition: tuple[Name, ...] = ()
    options: tuple[OptionClause, ...] = ()
    notify: NotifyClause | None = None
    into: QualifiedName | None = None
    subtable: SqlText | None = None
    columns: tuple[OutputColumn, ...] = ()
    tags: tuple[TagDefinition, ...] = ()
    query: SqlText | None = None
    begins: Position = START


@dataclass(frozen=True, slots=True)
class DropStream:
    name: QualifiedName
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class StartStream:
    name: QualifiedName
    if_exists: bool = False
    ignore_untreated: bool = False


@dataclass(frozen=True, slots=True)
class StopStream:
    name: QualifiedName
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class PauseStream:
    name: QualifiedName
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ResumeStream:
    name: QualifiedName
    if_exists: bool = False
    ignore_untreated: bool = False


@dataclass(frozen=True, slots=True)
class RecalculateStream:
    """``end`` None: up to where the stream is now."""

    name: QualifiedName
    start: Literal
    end: Literal | None = None


@dataclass(frozen=True, slots=True)
class DiagnoseStream:
    """``DIAGNOSE STREAM name [LIMIT groups]``; ``limit`` None: the usual number."""

    name: QualifiedName
    limit: int | None = None
    limit_position: Position | None = None


@dataclass(frozen=True, slots=True)
class VerifyStream:
    """``VERIFY STREAM name FROM start TO end [LIMIT differences]``."""

    name: QualifiedName
    start: Literal
    end: Literal
    limit: int | None = None
    limit_position: Position | None = None


# -- the older dialect (seed 002) ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LegacyOption:
    """``keyword value [more]``: ``TRIGGER MAX_DELAY 5s``, ``IGNORE EXPIRED 0``, ``FILL_HISTORY 1 ASYNC``."""

    keyword: str
    position: Position
    value: Argument
    more: Argument | None = None


@dataclass(frozen=True, slots=True)
class LegacyTag:
    """``name [type]``: with a type for a new table, without one for an existing table."""

    name: Name
    type: DataType | None = None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class LegacyNotify:
    """``history``, ``pause_on_failure``: as written, else the dialect's defaults."""

    urls: tuple[Name, ...]
    position: Position
    events: tuple[Name, ...]
    history: bool = False
    pause_on_failure: bool = True


@dataclass(frozen=True, slots=True)
class LegacyQuery:
    """The subquery, clause by clause; ``text`` is all of it, ``items`` are its result columns with their
    aliases. ``alias``: what it calls the table; ``window`` None: a stream without windows."""

    text: SqlText
    items: tuple[SqlText, ...]
    table: QualifiedName
    alias: str | None = None
    where: SqlText | None = None
    partition: tuple[SqlText, ...] = ()
    window: TriggerClause | None = None
    fill: Argument | None = None


@dataclass(frozen=True, slots=True)
class CreateLegacyStream:
    """CREATE STREAM of the older dialect; ``text`` is the whole statement, which begins at ``begins``.
    ``into`` None: results are sent as notifications, but not stored."""

    name: Name
    text: str
    begins: Position
    query: LegacyQuery
    if_not_exists: bool = False
    options: tuple[LegacyOption, ...] = ()
    into: QualifiedName | None = None
    columns: tuple[OutputColumn, ...] = ()
    tags: tuple[LegacyTag, ...] = ()
    subtable: SqlText | None = None
    notify: LegacyNotify | None = None

    @property
    def in_background(self) -> bool:
        """FILL_HISTORY 1 ASYNC: the answer does not wait for the stream."""
        return any(option.keyword == "FILL_HISTORY" and option.more for option in self.options)


@dataclass(frozen=True, slots=True)
class ExplainStream:
    """``EXPLAIN CREATE STREAM …``: what the stream was understood to be."""

    stream: CreateStream | CreateLegacyStream

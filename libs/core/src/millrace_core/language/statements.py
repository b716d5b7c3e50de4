"""Statements as the parser gives them: one frozen dataclass for each, with names that know their positions.

Nothing here is checked against a catalog; values are the literals as written (see ``values.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from millrace_core.errors import Position
from millrace_core.language.lexer import START
from millrace_core.language.names import Literal as Literal
from millrace_core.language.names import Name as Name
from millrace_core.language.names import QualifiedName as QualifiedName
from millrace_core.language.names import SqlText as SqlText
from millrace_core.language.rows import InsertRows
from millrace_core.language.stream_statements import Argument as Argument
from millrace_core.language.stream_statements import CreateLegacyStream as CreateLegacyStream
from millrace_core.language.stream_statements import CreateStream as CreateStream
from millrace_core.language.stream_statements import DiagnoseStream as DiagnoseStream
from millrace_core.language.stream_statements import DropStream as DropStream
from millrace_core.language.stream_statements import ExplainStream as ExplainStream
from millrace_core.language.stream_statements import LegacyNotify as LegacyNotify
from millrace_core.language.stream_statements import LegacyOption as LegacyOption
from millrace_core.language.stream_statements import LegacyQuery as LegacyQuery
from millrace_core.language.stream_statements import LegacyTag as LegacyTag
from millrace_core.language.stream_statements import NotifyClause as NotifyClause
from millrace_core.language.stream_statements import OptionClause as OptionClause
from millrace_core.language.stream_statements import OutputColumn as OutputColumn
from millrace_core.language.stream_statements import PauseStream as PauseStream
from millrace_core.language.stream_statements import RecalculateStream as RecalculateStream
from millrace_core.language.stream_statements import ResumeStream as ResumeStream
from millrace_core.language.stream_statements import StartStream as StartStream
from millrace_core.language.stream_statements import StopStream as StopStream
from millrace_core.language.stream_statements import TagDefinition as TagDefinition
from millrace_core.language.stream_statements import TriggerClause as TriggerClause
from millrace_core.language.stream_statements import VerifyStream as VerifyStream
from millrace_core.model.schema import KEEP, WAL_RETENTION, Precision
from millrace_core.model.types import DataType


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where a column of a virtual table comes from: ``[db.]table.column``."""

    table: QualifiedName
    column: Name


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """A column or tag definition."""

    name: Name
    type: DataType
    composite_key: bool = False
    comment: str = ""
    source: ColumnSource | None = None


# -- databases -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    name: Name
    if_not_exists: bool = False
    precision: Precision = "ms"
    keep: int = KEEP
    wal_retention: int = WAL_RETENTION


@dataclass(frozen=True, slots=True)
class DropDatabase:
    name: Name
    if_exists: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class UseDatabase:
    name: Name


# -- tables --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A super table (``tags`` not empty) or a normal table; ``virtual``: its columns may have sources."""

    name: QualifiedName
    columns: tuple[ColumnDef, ...]
    tags: tuple[ColumnDef, ...] = ()
    if_not_exists: bool = False
    comment: str = ""
    virtual: bool = False


@dataclass(frozen=True, slots=True)
class ChildDef:
    """``name USING using [(tag_names)] TAGS (tags)``; ``tag_names`` empty: all tags, in their order."""

    name: QualifiedName
    using: QualifiedName
    tags: tuple[Literal, ...]
    tag_names: tuple[Name, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateChildren:
    children: tuple[ChildDef, ...]


@dataclass(frozen=True, slots=True)
class CreateVirtualChild:
    """``CREATE VTABLE c (col FROM t.col, …) USING st TAGS (…)``. A source without a column name is assigned
    by position; ``columns`` then holds None."""

    child: ChildDef
    columns: tuple[tuple[Name | None, ColumnSource], ...]


@dataclass(frozen=True, slots=True)
class DropTables:
    """DROP TABLE or VTABLE (several), or DROP STABLE (one, ``super_only``). ``if_exists`` has an entry for
    each of ``names``."""

    names: tuple[QualifiedName, ...]
    if_exists: tuple[bool, ...]
    super_only: bool = False
    virtual_only: bool = False


Target = OneOf["column", "tag"]


@dataclass(frozen=True, slots=True)
class Add:
    target: Target
    definition: ColumnDef


@dataclass(frozen=True, slots=True)
class Remove:
    target: Target
    name: Name


@dataclass(frozen=True, slots=True)
class Modify:
    """A larger length for a text column or tag."""

    target: Target
    name: Name
    type: DataType


@dataclass(frozen=True, slots=True)
class Rename:
    target: Target
    name: Name
    new: Name


@dataclass(frozen=True, slots=True)
class SetTags:
    """``SET TAG a = 1, b = 'x'`` of a child table."""

    tags: tuple[tuple[Name, Literal], ...]


@dataclass(frozen=True, slots=True)
class SetComment:
    comment: str


Change = Add | Remove | Modify | Rename | SetTags | SetComment


@dataclass(frozen=True, slots=True)
class AlterTable:
    name: QualifiedName
    change: Change
    super_only: bool = False


# -- data ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InsertTable:
    """The rows of one table. ``using``: create it first if it does not exist (None: it must exist).

    ``columns`` empty: all columns of the table, in their order.
    """

    name: QualifiedName
    rows: InsertRows
    columns: tuple[Name, ...] = ()
    using: ChildDef | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    tables: tuple[InsertTable, ...]


Operator = OneOf["=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Bound:
    """``column <operator> value``; BETWEEN gives two."""

    column: Name
    operator: Operator
    value: Literal


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE FROM: all ``bounds`` must hold; ``tables``: child tables that conditions on tbname name (None:
    all). ``values.delete_range`` turns this into ticks."""

    name: QualifiedName
    bounds: tuple[Bound, ...] = ()
    tables: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A query as written; ``explain``: whether its plan is asked for."""

    text: str
    position: Position
    explain: bool = False


@dataclass(frozen=True, slots=True)
class KillQuery:
    """``KILL QUERY 'id'``, where SHOW QUERIES gives the id."""

    id: str
    position: Position


# -- SHOW, DESCRIBE ------------------------------------------------------------------------------------------

Shown = OneOf[
    "databases",
    "stables",
    "tables",
    "streams",
    "vtables",
    "snodes",
    "users",
    "dnodes",
    "cluster",
    "functions",
    "privileges",
    "queries",
]


@dataclass(frozen=True, slots=True)
class Show:
    """``SHOW [db.]what [LIKE 'pattern']``."""

    what: Shown
    db: str | None = None
    like: str | None = None
    position: Position = START


@dataclass(frozen=True, slots=True)
class ShowCreate:
    what: OneOf["stream", "table", "stable", "vtable", "database"]
    name: QualifiedName


@dataclass(frozen=True, slots=True)
class ShowTags:
    """``SHOW TAGS FROM [db.]child``."""

    name: QualifiedName


@dataclass(frozen=True, slots=True)
class Describe:
    name: QualifiedName


# -- nodes, users --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateSnode:
    dnode: int


@dataclass(frozen=True, slots=True)
class DropSnode:
    dnode: int


@dataclass(frozen=True, slots=True)
class CreateAnode:
    """``CREATE ANODE 'host:port'``; ``position``: that of the address."""

    address: str
    position: Position = START


@dataclass(frozen=True, slots=True)
class UpdateAnode:
    """``UPDATE ANODE number``, or ``UPDATE ALL ANODES`` (None)."""

    number: int | None


@dataclass(frozen=True, slots=True)
class DropAnode:
    number: int


@dataclass(frozen=True, slots=True)
class ShowAnodes:
    """``SHOW ANODES [FULL]``; ``full``: whether to show their algorithms."""

    full: bool = False


@dataclass(frozen=True, slots=True)
class CreateUser:
    name: Name
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AlterUser:
    name: Name
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class DropUser:
    name: Name


@dataclass(frozen=True, slots=True)
class Grant:
    """``GRANT read, write ON db.* TO user``; ``revoke``: it is REVOKE … FROM. ``db`` None: every database
    (``*.*``); ``table`` None: every table. ``on``: where the statement says what is granted."""

    privileges: tuple[OneOf["read", "write", "all"], ...]
    user: Name
    db: str | None = None
    table: str | None = None
    revoke: bool = False
    on: Position = START


Statement = (
    CreateDatabase | DropDatabase | UseDatabase | CreateTable | CreateChildren | CreateVirtualChild
    | DropTables | AlterTable | Insert | Delete | Query | KillQuery | Show | ShowCreate | ShowTags | Describe
    | CreateStream | DropStream | StartStream | StopStream | PauseStream | ResumeStream | RecalculateStream
    | DiagnoseStream | VerifyStream | CreateLegacyStream | ExplainStream
    | CreateSnode | DropSnode | CreateAnode | UpdateAnode | DropAnode | ShowAnodes
    | CreateUser | AlterUser | DropUser | Grant
)  # fmt: skip

"""What a stream is: when it triggers, what it computes, where the results go (seed 000).

A :class:`StreamSpec` is the lowered form that every dialect's front end gives and every service reads. What
its trigger is says a package of ``trigger.types``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from millrace_core.errors import Position
from millrace_core.model.address import without_passwords
from millrace_core.model.expression import AnyExpression
from millrace_core.model.schema import Column, Table
from millrace_core.model.triggers import Trigger
from millrace_core.model.types import DataType

Unit = Literal["b", "u", "a", "s", "m", "h", "d", "w", "n", "y"]
EventType = Literal["WINDOW_OPEN", "WINDOW_CLOSE", "ON_TIME", "WINDOW_INVALIDATION"]


class Duration(msgspec.Struct, frozen=True):
    """A duration literal such as ``10s``; units b (ns) u (us) a (ms) s m h d w n (month) y."""

    value: int
    unit: Unit

    def __str__(self) -> str:
        return f"{self.value}{self.unit}"


class Condition(msgspec.Struct, frozen=True):
    """A condition over a trigger table's row, as SQL text of Millrace's dialect and the columns it reads.

    ``expression``: the same as data, for trigger-svc.
    """

    sql: str
    columns: tuple[str, ...]
    expression: AnyExpression | None = None


class GroupKey(msgspec.Struct, frozen=True):
    """What rows of one table may be grouped by: the text of an expression over their cells, its type, and the
    same as data, for trigger-svc."""

    sql: str
    type: DataType
    expression: AnyExpression


class Source(msgspec.Struct, frozen=True):
    """The trigger table: its definition, and the child's name where a single child table triggers."""

    table: Table
    child: str | None = None


class Options(msgspec.Struct, frozen=True):
    """STREAM_OPTIONS, with the seed's defaults."""

    watermark: Duration | None = None
    expired_time: Duration | None = None
    ignore_disorder: bool = False
    delete_recalc: bool = False
    delete_output_table: bool = False
    fill_history: int | None = None
    """Event time in ticks from which history is filled; the lowest int64 means all."""
    fill_history_first: int | None = None
    calc_notify_only: bool = False
    low_latency_calc: bool = False
    pre_filter: Condition | None = None
    force_output: bool = False
    max_delay: Duration | None = None
    event_types: tuple[EventType, ...] = ("WINDOW_CLOSE",)
    ignore_nodata_trigger: bool = False


class Notify(msgspec.Struct, frozen=True):
    """NOTIFY: addresses, event types to tell, a condition over the result's columns, options."""

    urls: tuple[str, ...]
    events: tuple[EventType, ...] = ()
    where: str | None = None
    history: bool = False
    pause_on_failure: bool = False


Naming = Literal["given", "distinct"]
"""How sub-tables get their names."""


class OutputTag(msgspec.Struct, frozen=True):
    """A tag of the output super table, and the SQL expression over the grouping columns for its value."""

    column: Column
    expression: str


class Output(msgspec.Struct, frozen=True):
    """INTO: the output table and how a group's sub-table is named and tagged.

    ``subtable`` is None where names are made up. ``columns`` are the output columns in the order of the
    query's result columns; a table that exists may have others, which stay NULL.

    ``naming``: "given": a name is used as ``subtable`` gives it, a made-up one is ``t_`` and a hash of stream
    and group; "distinct": of ``model.sub_tables``. ``converts``: results and tags take the types of a table
    that exists, and what cannot be converted is NULL; without it they must have these types.
    """

    db: str
    table: str
    columns: tuple[Column, ...] = ()
    tags: tuple[OutputTag, ...] = ()
    subtable: str | None = None
    naming: Naming = "given"
    converts: bool = False

    @property
    def grouped(self) -> bool:
        return bool(self.tags)


class ResultColumn(msgspec.Struct, frozen=True):
    """A column of a query's result: its name (alias or text) and type."""

    name: str
    type: DataType


EmissionMode = Literal[
    "window_close", "at_once", "max_delay", "force_window_close", "continuous_window_close"
]


class Emission(msgspec.Struct, frozen=True):
    """When results come out, and what becomes of those that no longer stand (seed 002).

    ``every``: the delay of max_delay, the period of continuous_window_close. ``obsolete``: whether the rows
    of windows that are gone (split, merged, emptied) stay in the output table. ``late``: what rows do that
    come for windows which are closed. ``rewritten``: whether a row written again corrects its window, or
    counts once more. ``forget``: windows older than the newest row by more are forgotten. ``fill``: what
    FILL says of windows without rows; None: they do not exist. ``untreated``: what rows are that were written
    while the stream was stopped, once it goes on: history, which some streams fill, or as if they came then.
    ``most_history``: windows that history may have; None: any number.
    """

    when: EmissionMode = "window_close"
    every: Duration | None = None
    obsolete: Literal["kept", "retracted"] = "kept"
    late: Literal["recalculated", "dropped"] = "recalculated"
    rewritten: Literal["corrected", "counted"] = "corrected"
    forget: Duration | None = None
    fill: str | None = None
    untreated: Literal["history", "live"] = "history"
    most_history: int | None = None

    @property
    def corrects_closed(self) -> bool:
        """Whether a late row changes closed windows only where it has rewritten another."""
        return self.late == "dropped" and self.rewritten == "corrected"

    @property
    def needs_versions(self) -> bool:
        """Whether versions of rows that were written over are to be kept."""
        return self.rewritten == "counted" or self.corrects_closed


NoticeShape = Literal["trigger", "window"]
"""How an event is told of: with ``triggerId`` and ``triggerType``, or ``windowId`` and ``windowType``."""


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Characters ``[begin, end)`` of a text: what stands at ``place`` in the statement."""

    begin: int
    end: int
    place: Position


class Places(msgspec.Struct, frozen=True):
    """Where the parts of a stream that are SQL begin in its statement, for errors; None: not written there.

    ``where``: NOTIFY's condition. ``tags``: the expressions of TAGS, one for each tag of the output.
    ``pieces``, ``filled``: of a query that is put together, what of ``StreamSpec.query`` and ``.filled``
    stands where; empty: the query is written as it is.
    """

    query: Position | None = None
    where: Position | None = None
    subtable: Position | None = None
    tags: tuple[Position, ...] = ()
    pieces: tuple[Piece, ...] = ()
    filled: tuple[Piece, ...] = ()


class StreamSpec(msgspec.Struct, frozen=True):
    """A stream, complete: everything that trigger-svc and calc-svc need, names resolved.

    ``db``: the database that the name belongs to; empty: the name is global.
    ``partition``: the grouping columns in order, ``tbname`` or tag names; empty when ungrouped. ``keys``:
    what divides the rows of these groups further, row by row; a group's key has its values behind those of
    ``partition``.
    ``query``: the text after AS. ``filled``: where ``emission.fill`` asks for windows without rows, the query
    that gives them and others over a whole stretch of rows. ``database``: the database that unqualified names
    of the query mean.
    ``sql``: the statement, which ``places`` point into. ``uid`` is new for every CREATE STREAM.
    """

    uid: int
    db: str
    name: str
    sql: str
    trigger: Trigger
    source: Source | None = None
    partition: tuple[str, ...] = ()
    options: Options = Options()
    notify: Notify | None = None
    output: Output | None = None
    query: str | None = None
    result: tuple[ResultColumn, ...] = ()
    timezone: str = "UTC"
    created: int = 0
    database: str = ""
    places: Places = Places()
    emission: Emission = Emission()
    notices: NoticeShape = "trigger"
    keys: tuple[GroupKey, ...] = ()
    filled: str | None = None

    @property
    def grouped(self) -> bool:
        """Whether there can be more groups than one."""
        return bool(self.partition or self.keys)

    @property
    def full_name(self) -> str:
        """``db.name``; a global name is bare."""
        return f"{self.db}.{self.name}" if self.db else self.name

    @property
    def home(self) -> str:
        """The database whose privileges hold for the stream: its own, or that of its results."""
        return self.db or (self.output.db if self.output else self.database)

    @property
    def shown_sql(self) -> str:
        """The statement for readers: addresses stand in it without their passwords."""
        return without_passwords(self.sql)

"""What a stream is: when it triggers, what it computes, where the results go (seed 000).

A :class:`StreamSpec` is the lowered form that every dialect's front end gives and every service reads. Its
trigger belongs to a package of ``trigger.types``.
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
    """What rows of one table may be grouped by: an expression over their cells as text, its type, and the
    expression as data, for trigger-svc."""

    sql: str
    type: DataType
    expression: AnyExpression


class Source(msgspec.Struct, frozen=True):
    """The trigger table: its definition, and the child's name if only one child table triggers."""

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
    """NOTIFY: addresses, event types to send, a condition over the result's columns, options."""

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
    query's result columns; an existing table may have other columns, which stay NULL.

    ``naming``: "given": a name is used as ``subtable`` gives it, and a made-up one is ``t_`` and a hash of
    stream and group; "distinct": as in ``model.sub_tables``. ``converts``: results and tags are converted to
    the types of an existing table, to NULL if that is impossible; without it they must have these types.
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
    """When results come out, and what becomes of results that are no longer valid (seed 002).

    ``every``: the delay of max_delay, or the period of continuous_window_close. ``obsolete``: whether the
    rows of windows that are gone (split, merged, emptied) stay in the output table. ``late``: the effect of
    rows that come for closed windows. ``rewritten``: whether a row that is written again corrects its window,
    or counts once more. ``forget``: windows that are older than the newest row by more than this are
    forgotten. ``fill``: what FILL says about windows without rows; None: such windows do not exist.
    ``untreated``: how rows that were written while the stream was stopped are treated once it goes on: as
    history, which some streams fill, or as if they came then. ``most_history``: the most windows that history
    may have; None: any number.
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
        """Whether a late row changes closed windows only if it has rewritten another row."""
        return self.late == "dropped" and self.rewritten == "corrected"

    @property
    def needs_versions(self) -> bool:
        """Whether versions of rows that were overwritten must be kept."""
        return self.rewritten == "counted" or self.corrects_closed


NoticeShape = Literal["trigger", "window"]
"""How an event is reported: with ``triggerId`` and ``triggerType``, or ``windowId`` and ``windowType``."""


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Characters ``[begin, end)`` of a text; they stand at ``place`` in the statement."""

    begin: int
    end: int
    place: Position


class Places(msgspec.Struct, frozen=True):
    """Where the SQL parts of a stream begin in its statement, for errors; None: not written there.

    ``where``: NOTIFY's condition. ``tags``: the expressions of TAGS, one for each tag of the output.
    ``pieces``, ``filled``: for a query that was assembled, where the pieces of ``StreamSpec.query`` and
    ``.filled`` stand in the statement; empty: the query stands there as it is.
    """

    query: Position | None = None
    where: Position | None = None
    subtable: Position | None = None
    tags: tuple[Position, ...] = ()
    pieces: tuple[Piece, ...] = ()
    filled: tuple[Piece, ...] = ()


class StreamSpec(msgspec.Struct, frozen=True):
    """A complete stream: everything that trigger-svc and calc-svc need, with names resolved.

    ``db``: the database that the name belongs to; empty: the name is global. ``partition``: the grouping
    columns in order, ``tbname`` or tag names; empty when ungrouped. ``keys``: what divides the rows of
    these groups further, row by row; a group's key has these values after those of ``partition``.
    ``query``: the text after AS. ``filled``: if ``emission.fill`` asks for windows without rows, the query
    that gives these and the other windows over a whole stretch of rows. ``database``: the database that
    unqualified names in the query mean. ``sql``: the statement, which ``places`` point into. ``uid`` is new
    for every CREATE STREAM.
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
        """Whether there can be more than one group."""
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
        """The statement for readers, with the passwords of its addresses hidden."""
        return without_passwords(self.sql)

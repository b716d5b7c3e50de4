"""Writing rows: one call, in whatever form the rows came. INSERT goes through it, and so does every protocol
that brings rows.

A protocol turns what it reads into :class:`GivenRows`, one for each table (or several, which are written in
their order), and hands them over together with the caller::

    rows = GivenRows(TableName("power", "m1"), given({"ts": [1767225600000], "amps": [1.5]}))
    written = write(context, [rows], Caller(user.name, time.time_ns()))

**What rows look like.** ``cells`` is a function from the table to its columns: name -> cells, equally many
for each column. It is called once the table is known, so that values can be read by their column's type. It
may be called twice, so it must be pure. :func:`given` is for values that are typed already, as arrays by
column; :func:`by_row` is for rows one by one, each with columns of its own. A column that is left out keeps
what is stored at that key; None is NULL, and overwrites. ``using``: make the child table first if it is not
there.

**What is checked**, all of it before anything is written: that the user may write to every table (or to the
super table of one that is to be made); that database and table exist, and that the table can hold rows (no
super table, no virtual one); that an existing table with ``using`` is a child of that super table (its tags
stay); columns and cells, by ``cells``; that the rows of one :class:`GivenRows` fit into one message.

**What it returns**: how many rows there were. They are durable by then: every later query sees them, and so
do streams.

**What it refuses**, with the position of the table's name if it has one: PERMISSION, UNKNOWN_DATABASE,
UNKNOWN_TABLE, UNKNOWN_COLUMN, NOT_ALLOWED, TYPE_MISMATCH, INVALID_VALUE, TOO_LARGE. IoTDB's triggers may
refuse rows, too (TRIGGER_FIRE_ERROR), before they are stored or after. UNAVAILABLE and TIMEOUT come from the
broker: then some of the rows may be written, and writing all of them again does no harm, for a row replaces
the one at its key.

It makes no databases, super or normal tables, and no columns. A protocol that does so holds ``writer.ddl``
over both steps (the holder may take it again), so that nobody removes the table in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import groupby

from api_gateway import metrics
from api_gateway.access.caller import Caller
from api_gateway.context import Context
from api_gateway.firing import Firing, Spot
from api_gateway.tables.children import Birth, Using, bear, conceive
from api_gateway.tables.find import TableName, database_of, missing, table_of
from millrace_core.catalog import Catalog
from millrace_core.errors import CatalogError, ErrorCode, MillraceError, SqlError
from millrace_core.model.schema import Table
from millrace_core.privileges import Named, Need, check, child_needs
from millrace_core.wire.rows.decoder import encode_columns
from millrace_core.wire.rows.given import checked_columns
from millrace_core.wire.topics import wal_topic
from millrace_wal import Message
from millrace_wal.record import MAX_MESSAGE_BYTES

Columns = Mapping[str, Sequence[object]]
Cells = Callable[[Table], Columns]


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows of one normal or child table; see the module's docstring."""

    table: TableName
    cells: Cells
    using: Using | None = None


def given(columns: Columns) -> Cells:
    """Typed cells, column by column; see ``checked_columns`` for the types, and for what it refuses."""
    return lambda table: checked_columns(columns, table)


def by_row(
    table: TableName, rows: Sequence[Mapping[str, object]], using: Using | None = None
) -> list[GivenRows]:
    """Typed cells, row by row. A row that lacks a column leaves that column as it is stored."""
    found = []
    for names, some in groupby(rows, key=tuple):
        alike = list(some)
        found.append(GivenRows(table, given({name: [row[name] for row in alike] for name in names}), using))
    return found


def write(context: Context, rows: Sequence[GivenRows], caller: Caller, firing: Firing | None = None) -> int:
    """Write rows, as the module's docstring says; returns how many there were. ``firing``: what the write has
    to do with triggers, if the caller wants to know or to decide that.

    :raises MillraceError: if they are refused, or the broker does not take them.
    """
    firing = firing or Firing()
    check(context.catalog, caller.user, _needs(context.catalog, rows))
    with context.gate.shared():
        batch = _prepare(context.catalog, rows, caller)
        heard = context.listener.hears(batch.messages)
        if not heard and not batch.births:
            _append(context, batch, firing)
            return batch.rows
    # no lock is held while triggers fire: what they write takes the same locks
    more = context.listener.before(batch.written, firing) if heard else []
    with context.writer.ddl if batch.births else nullcontext(), context.gate.shared():
        # prepared anew: a table may have come or gone before the lock was taken
        batch = _prepare(context.catalog, rows, caller)
        bear(context, list(batch.births.values()))
        spots = _append(context, batch, firing, more)
    context.listener.after(spots, firing)
    return batch.rows


def check_stored(table: Table, name: TableName) -> None:
    """:raises CatalogError: NOT_ALLOWED for a virtual table, which holds no rows of its own."""
    if table.virtual:
        raise CatalogError(
            ErrorCode.NOT_ALLOWED,
            f"{name} is a virtual table: write to the tables that its columns come from",
            name.position,
        )


@dataclass
class _Batch:
    """What rows come to: child tables to make, then messages in order, with ``rows`` rows in all."""

    births: dict[TableName, Birth] = field(default_factory=dict)
    written: list[tuple[Table, Message]] = field(default_factory=list)
    rows: int = 0

    @property
    def messages(self) -> list[Message]:
        return [message for _, message in self.written]


def _needs(catalog: Catalog, rows: Sequence[GivenRows]) -> Iterator[Need]:
    for one in rows:
        db, name, position = one.table
        if one.using is None:
            yield Need("write", db, position, name)
        else:
            yield from child_needs(catalog, Named(*one.table), Named(*one.using.table))


def _append(context: Context, batch: _Batch, firing: Firing, more: Sequence[Message] = ()) -> list[Spot]:
    """Append the rows, and ``more`` with them; returns where they lie."""
    messages = batch.messages
    if not messages and not more:
        return []
    with context.listener.appending(firing):
        places = context.append_rows([*more, *messages])[len(more) :]
        spots = [
            Spot(message.topic, partition, offset, (message.key or b"").decode())
            for message, (partition, offset) in zip(messages, places, strict=True)
        ]
        context.listener.lie(spots, firing)
    metrics.ROWS.inc(batch.rows)
    return spots


def _prepare(catalog: Catalog, rows: Sequence[GivenRows], caller: Caller) -> _Batch:
    """:raises MillraceError: at the first table, column or value that does not fit."""
    batch = _Batch()
    for one in rows:
        table, key = _target(catalog, one, caller, batch)
        columns = _columns(one, table)
        count = len(next(iter(columns.values())))
        if count == 0:
            continue
        value = encode_columns(columns, table)
        if len(value) + len(key) > MAX_MESSAGE_BYTES:
            raise SqlError(
                ErrorCode.TOO_LARGE,
                f"{one.table}: {count} rows take {len(value)} bytes, but one message holds at most "
                f"{MAX_MESSAGE_BYTES}; write fewer rows at a time",
                one.table.position,
            )
        batch.written.append((table, Message(wal_topic(table.db, table.name), key, value)))
        batch.rows += count
    return batch


def _columns(rows: GivenRows, table: Table) -> Columns:
    try:
        return rows.cells(table)
    except MillraceError as error:
        if error.position is not None:
            raise
        raise MillraceError(error.code, f"{rows.table}: {error.message}", rows.table.position) from error


def _target(catalog: Catalog, rows: GivenRows, caller: Caller, batch: _Batch) -> tuple[Table, bytes]:
    """The table whose columns the rows have, and the key of their message."""
    name = rows.table._replace(position=None)
    key = name.name.encode()
    database_of(catalog, rows.table)
    found = catalog.find(name.db, name.name)
    if found is None and rows.using is not None:
        birth = conceive(catalog, rows.table, rows.using, caller.now)
        found = batch.births.setdefault(name, birth).table, birth.child
    elif found is None and name in batch.births:
        found = batch.births[name].table, batch.births[name].child
    elif found is None:
        raise missing(rows.table)
    table, child = found
    check_stored(table, rows.table)
    if rows.using is not None:
        _check_using(catalog, rows.table, rows.using, table)
    if child is None and table.kind == "super":
        raise CatalogError(
            ErrorCode.NOT_ALLOWED,
            f"{rows.table} is a super table: write to its child tables",
            rows.table.position,
        )
    return table, key


def _check_using(catalog: Catalog, name: TableName, using: Using, table: Table) -> None:
    """Check that an existing table belongs to the super table that is named; its tags stay as they are."""
    wanted, _ = table_of(catalog, using.table)
    if wanted.uid != table.uid:
        raise CatalogError(
            ErrorCode.NOT_ALLOWED,
            f"{name} exists, but is not a child table of {using.table}",
            using.table.position,
        )

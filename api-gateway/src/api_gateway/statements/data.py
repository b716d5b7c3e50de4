"""INSERT and DELETE: everything is checked before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from api_gateway import metrics
from api_gateway.answer import Answer, affected
from api_gateway.context import Context
from api_gateway.session import Session
from api_gateway.statements.tables import Birth, bear, conceive, database_of, find_table, missing_table
from millrace_core.catalog import Catalog
from millrace_core.dialect.lexer import quote_name
from millrace_core.dialect.names import QualifiedName
from millrace_core.dialect.statements import Delete, Insert, InsertTable
from millrace_core.dialect.times import delete_range
from millrace_core.dialect.values import insert_rows
from millrace_core.errors import CatalogError, ErrorCode, SqlError
from millrace_core.model.schema import Child, Table
from millrace_core.wire import operations
from millrace_core.wire.rows.decoder import encode_columns
from millrace_core.wire.topics import wal_topic
from millrace_wal import Message
from millrace_wal.record import MAX_MESSAGE_BYTES


@dataclass
class Batch:
    """What an INSERT comes to: child tables to make, then messages in order; ``rows`` in all of them."""

    births: dict[tuple[str, str], Birth] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    rows: int = 0


def insert(context: Context, session: Session, statement: Insert) -> Answer:
    """Rows, durable before the answer: one WAL message for each table of the statement."""
    with context.gate.shared():
        batch = prepare(context.catalog, session, statement)
        if not batch.births:
            return _write(context, batch)
    with context.writer.ddl, context.gate.shared():
        # prepared anew: until the lock was held, a table may have come or gone
        batch = prepare(context.catalog, session, statement)
        bear(context, list(batch.births.values()))
        return _write(context, batch)


def _write(context: Context, batch: Batch) -> Answer:
    context.append_rows(batch.messages)
    metrics.ROWS.inc(batch.rows)
    return affected(batch.rows)


def prepare(catalog: Catalog, session: Session, statement: Insert) -> Batch:
    """The messages of an INSERT.

    :raises MillraceError: at the first table, column or value that does not fit; TOO_LARGE for rows that no
        message can hold.
    """
    batch = Batch()
    for part in statement.tables:
        table, key = _target(catalog, session, part, batch)
        columns = insert_rows(part, table, session.values(table.precision))
        rows = len(next(iter(columns.values())))
        value = encode_columns(columns, table)
        if len(value) + len(key) > MAX_MESSAGE_BYTES:
            raise SqlError(
                ErrorCode.TOO_LARGE,
                f"{part.name}: {rows} rows make {len(value)} bytes, {MAX_MESSAGE_BYTES} go into one "
                "message; insert fewer at a time",
                part.name.position,
            )
        batch.messages.append(Message(wal_topic(table.db, table.name), key, value))
        batch.rows += rows
    return batch


def _target(catalog: Catalog, session: Session, part: InsertTable, batch: Batch) -> tuple[Table, bytes]:
    """The table whose schema the rows have, and the key of their message."""
    db = database_of(catalog, session, part.name)
    name = (db.name, part.name.name)
    found = catalog.find(*name)
    if found is None and part.using is not None:
        birth = batch.births.setdefault(name, conceive(catalog, session, part.using))
        return birth.table, birth.child.name.encode()
    if found is None and name in batch.births:
        return batch.births[name].table, part.name.name.encode()
    if found is None:
        raise missing_table(db.name, part.name)
    table, child = found
    _check_stored(table, part.name)
    if part.using is not None:
        _check_using(catalog, session, part, table)
    if child is None and table.kind == "super":
        raise CatalogError(
            ErrorCode.NOT_ALLOWED, f"{part.name} is a super table: rows go into its child tables",
            part.name.position,
        )  # fmt: skip
    return table, part.name.name.encode()


def _check_stored(table: Table, name: QualifiedName) -> None:
    if table.virtual:
        raise CatalogError(
            ErrorCode.NOT_ALLOWED,
            f"{name} is a virtual table: write to the tables of its columns",
            name.position,
        )


def _check_using(catalog: Catalog, session: Session, part: InsertTable, table: Table) -> None:
    """An existing table goes with USING if that is its super table; its tags stay as they are."""
    assert part.using is not None
    wanted, _ = find_table(catalog, session, part.using.using)
    if wanted.uid != table.uid:
        raise CatalogError(
            ErrorCode.NOT_ALLOWED,
            f"{part.name} exists and is no child of {part.using.using}",
            part.using.using.position,
        )


def delete(context: Context, session: Session, statement: Delete) -> Answer:
    """Rows of a range of time, of one table or of all children; the answer is how many there were."""
    table, child = find_table(context.catalog, session, statement.name)
    _check_stored(table, statement.name)
    first, last = delete_range(statement, table, session.values(table.precision))
    if first > last:
        return affected(0)
    names = _victims(context.catalog, table, child, statement)
    rows = _count(context, session, table, child, statement, first, last)
    with context.gate.shared():
        current, _ = find_table(context.catalog, session, statement.name)
        if current.uid != table.uid:
            raise missing_table(table.db, statement.name)
        value = operations.encode_operation(operations.Delete(first, last))
        topic = wal_topic(table.db, table.name)
        context.append_rows([Message(topic, name.encode(), value) for name in names])
    return affected(rows)


def _victims(catalog: Catalog, table: Table, child: Child | None, statement: Delete) -> Sequence[str]:
    """The tables whose rows may go."""
    if child is not None:
        names = [child.name]
    elif table.kind == "normal":
        names = [table.name]
    else:
        names = list(catalog.family.get((table.db, table.name), {}))
    if statement.tables is None:
        return names
    wanted = frozenset(statement.tables)
    return [name for name in names if name in wanted]


def _count(
    context: Context, session: Session, table: Table, child: Child | None, statement: Delete,
    first: int, last: int,
) -> int:  # fmt: skip
    """How many rows the range holds, as calc-svc sees them now."""
    name = child.name if child is not None else table.name
    key = quote_name(table.key.name)
    where = f"{key} >= {first} AND {key} <= {last}"
    if statement.tables is not None:
        if not statement.tables:
            return 0
        texts = ", ".join(
            "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'" for text in statement.tables
        )
        where += f" AND tbname IN ({texts})"
    sql = f"SELECT count(*) FROM {quote_name(table.db)}.{quote_name(name)} WHERE {where}"
    answer = context.calc.query(sql, session, context.writer.position, context.written.ends())
    count = answer.rows[0][0] if answer.rows else 0
    return count if isinstance(count, int) else 0

"""INSERT and DELETE."""

from __future__ import annotations

from collections.abc import Sequence

from api_gateway.answer import Answer, affected
from api_gateway.context import Context
from api_gateway.session import Session
from api_gateway.statements.tables import using_of
from api_gateway.tables.find import find_table, full_name, missing
from api_gateway.tables.write import Columns, GivenRows, check_stored, write
from millrace_core.catalog import Catalog
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.language.lexer import quote_name
from millrace_core.language.statements import Delete, Insert, InsertTable
from millrace_core.language.times import delete_range
from millrace_core.language.values import insert_rows
from millrace_core.model.schema import Child, Table
from millrace_core.privileges import Need, may
from millrace_core.wire import operations
from millrace_core.wire.topics import wal_topic
from millrace_wal import Message

COUNT_SECONDS = 5.0
"""The most seconds that a DELETE waits for the number of its rows."""


def insert(context: Context, session: Session, statement: Insert) -> Answer:
    """Write rows; they are durable before the answer. One WAL message for each table of the statement."""
    return affected(write(context, [_rows(session, part) for part in statement.tables], session.caller))


def _rows(session: Session, part: InsertTable) -> GivenRows:
    def cells(table: Table) -> Columns:
        return insert_rows(part, table, session.values(table.precision))

    using = None if part.using is None else using_of(session, part.using)
    return GivenRows(full_name(session, part.name), cells, using)


def delete(context: Context, session: Session, statement: Delete) -> Answer:
    """Delete the rows of a range of time, of one table or of all children. A user who may read them is told
    how many there were, if they can be counted soon.

    :raises MillraceError: among others QUERY_KILLED if somebody ends it while it counts; then nothing is
        deleted.
    """
    table, child = find_table(context.catalog, session, statement.name)
    check_stored(table, full_name(session, statement.name))
    first, last = delete_range(statement, table, session.values(table.precision))
    if first > last:
        return affected(0)
    names = _victims(context.catalog, table, child, statement)
    # a user who may write but not read must learn nothing about what was there
    counted = may(context.catalog, session.user, [Need("read", table.db, table=statement.name.name)])
    rows, note = _count(context, session, table, child, statement, first, last) if counted else (0, "")
    with context.gate.shared():
        current, _ = find_table(context.catalog, session, statement.name)
        if current.uid != table.uid:
            raise missing(full_name(session, statement.name))
        value = operations.encode_operation(operations.Delete(first, last))
        topic = wal_topic(table.db, table.name)
        context.append_rows([Message(topic, name.encode(), value) for name in names])
    return affected(rows, note)


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
) -> tuple[int, str]:  # fmt: skip
    """How many rows the range holds, as calc-svc sees them now. If it does not say: 0, and a note that the
    number means nothing, for a write must not depend on users' queries."""
    name = child.name if child is not None else table.name
    key = quote_name(table.key.name)
    where = f"{key} >= {first} AND {key} <= {last}"
    if statement.tables is not None:
        if not statement.tables:
            return 0, ""
        texts = ", ".join(
            "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'" for text in statement.tables
        )
        where += f" AND tbname IN ({texts})"
    # names and texts are quoted, and the bounds are numbers
    sql = f"SELECT count(*) FROM {quote_name(table.db)}.{quote_name(name)} WHERE {where}"  # noqa: S608
    position, ends = context.writer.position, context.written.ends()
    try:
        answer = context.calc.query(sql, session, position, ends, COUNT_SECONDS)
    except MillraceError as error:
        if error.code is ErrorCode.QUERY_KILLED:
            raise
        context.logger.warning("the rows of a DELETE could not be counted", reason=str(error))
        # clients expect an integer: with a NULL, they would take a delete that is done for an error
        return 0, f"the rows were deleted, but could not be counted: {error.message}"
    count = answer.rows[0][0] if answer.rows else 0
    return count if isinstance(count, int) else 0, ""

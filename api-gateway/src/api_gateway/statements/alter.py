"""ALTER TABLE and ALTER STABLE under running streams.

In each partition of the table's WAL topic, a new definition is in force from some offset on
(``Revision.until``), so that every service reads a message by the same definition
(docs/decisions/0015-altered-tables.md).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from api_gateway.answer import Answer, affected
from api_gateway.context import Context
from api_gateway.session import Session
from api_gateway.tables.find import find_table
from millrace_core.dialect.tdengine.alter import alter, check_kind, new_tags
from millrace_core.errors import CatalogError, ErrorCode, Position, SqlError
from millrace_core.held import column_holders
from millrace_core.language.statements import AlterTable, Remove, SetComment, SetTags
from millrace_core.model.expression import fields_of
from millrace_core.model.revisions import altered
from millrace_core.model.schema import Child, Column, Table
from millrace_core.privileges import stream_words
from millrace_core.wire import control
from millrace_core.wire import operations as wire
from millrace_core.wire.topics import wal_topic
from millrace_wal import Message

MARKERS = 16  # messages per try to reach every partition
TRIES = 64


def alter_table(context: Context, session: Session, statement: AlterTable) -> Answer:
    """Change columns or tags of a table, or the tags of a child.

    :raises MillraceError: if the table cannot be altered like that; then nothing has changed.
    """
    with context.writer.ddl:
        table, child = find_table(context.catalog, session, statement.name)
        change = statement.change
        if isinstance(change, SetTags):
            _set_tags(context, session, statement, change, table, child)
            return affected(0)
        if table.virtual:
            raise SqlError(
                ErrorCode.UNSUPPORTED,
                f"{statement.name} is a virtual table: virtual tables cannot be altered yet",
                statement.name.position,
            )
        check_kind(table, child, statement)
        if isinstance(change, SetComment):
            return affected(0)
        columns, tags = alter(table, statement)
        if isinstance(change, Remove):
            _check_held(context, session, table, change)
        if isinstance(change, Remove) and change.target == "tag":
            dropped = {tag.identity for tag in table.tags} - {tag.identity for tag in tags}
            where = {change.name.text: change.name.position}
            _check_grouping(context, session, table, None, dropped, "dropped", where)
        number = install(context, table, columns, tags)
    context.board.wait_applied(number, context.settings.accept_seconds)
    return affected(0)


def install(context: Context, table: Table, columns: tuple[Column, ...], tags: tuple[Column, ...]) -> int:
    """Put the new definition in force; returns the number of its control record. Hold ``writer.ddl``.

    First comes the control record, which is the intent (``recovery`` follows it after a crash), then the
    catalog, and at last the marks in the topic, which tell readers to wait for the catalog.
    """
    topic = wal_topic(table.db, table.name)
    with context.gate.alone():
        ends = context.log.end_offsets(topic)
        new = altered(table, columns, tags, ends)
        number = context.append_control([(f"{table.db}.{table.name}", control.ChangeTable(new))])
        write_altered(context, new)
        _mark(context, topic, len(ends), new.version)
    return number


def write_altered(context: Context, table: Table) -> None:
    """Write the table's record, and those of its children: their tags are in the order of the table's."""
    before = context.catalog.tables[table.db, table.name]
    children = list(context.catalog.children_of(table)) if before.tags != table.tags else []
    context.writer.write([table])
    # by now the catalog has reordered the tags; the older records would be reordered again at every start
    context.writer.write([context.catalog.children[child.db, child.name] for child in children])


def _mark(context: Context, topic: str, partitions: int, version: int) -> None:
    """Write the mark of the version into every partition. This takes tries: only the log knows which key
    leads to which partition."""
    value = wire.encode_operation(wire.Altered(version))
    reached: set[int] = set()
    for attempt in range(TRIES):
        keys = range(attempt * MARKERS, (attempt + 1) * MARKERS) if partitions > 1 else range(1)
        messages = [Message(topic, f"\0{key}".encode(), value) for key in keys]
        places = context.log.append(messages)
        context.written.note(messages, places)
        reached.update(partition for partition, _ in places)
        if len(reached) >= partitions:
            return
    context.logger.warning(
        "the marker of an ALTER has not reached all partitions", topic=topic, version=version
    )


def _set_tags(
    context: Context, session: Session, statement: AlterTable, change: SetTags, table: Table,
    child: Child | None,
) -> None:  # fmt: skip
    """Change tags of a child table: in the WAL, in order with its rows, then in the catalog."""
    name = statement.name
    if child is None:
        raise SqlError(
            ErrorCode.NOT_ALLOWED,
            f"{name} is not a child table: only child tables have tag values",
            name.position,
        )
    tags = new_tags(table, child, change.tags, session.values(table.precision))
    changed = {
        tag.identity
        for tag, old, new in zip(table.tags, child.tags, tags, strict=True)
        if (type(old), old) != (type(new), new)
    }
    positions = {assigned.text: assigned.position for assigned, _ in change.tags}
    _check_grouping(context, session, table, child, changed, "changed", positions)
    named = dict(zip((tag.name for tag in table.tags), tags, strict=True))
    value = wire.encode_operation(wire.Retag(named))
    with context.gate.alone():
        context.append_rows([Message(wal_topic(table.db, table.name), child.name.encode(), value)])
        context.writer.write([msgspec.structs.replace(child, tags=tags, version=table.version)])


def _check_held(context: Context, session: Session, table: Table, change: Remove) -> None:
    """:raises CatalogError: HELD_BY_STREAM for a column that a stream which holds its columns uses."""
    for entry in column_holders(table, change.name.text, context.catalog):
        stream = stream_words(context.catalog, session.user, entry)
        raise CatalogError(
            ErrorCode.HELD_BY_STREAM,
            f"the {change.target} {change.name.text} cannot be dropped: {stream} uses it; drop the stream "
            "first",
            change.name.position,
        )


def _check_grouping(
    context: Context, session: Session, table: Table, child: Child | None, touched: set[str], how: str,
    positions: Mapping[str, Position],
) -> None:  # fmt: skip
    """:raises CatalogError: if a stream groups the rows of the child (None: of any child) by one of the tags
    with these identities."""
    for entry in list(context.catalog.streams.values()):
        source = entry.spec.source
        if source is None or source.table.uid != table.uid:
            continue
        if child is not None and source.child not in (None, child.name):
            continue
        names = set(entry.spec.partition).union(*(fields_of(key.expression) for key in entry.spec.keys))
        grouping = {tag.identity for tag in source.table.tags if tag.name in names}
        for tag in table.tags:
            if tag.identity in grouping & touched:
                stream = stream_words(context.catalog, session.user, entry)
                raise CatalogError(
                    ErrorCode.NOT_ALLOWED,
                    f"the tag {tag.name} cannot be {how}: {stream} groups by it",
                    positions[tag.name],
                )

"""Children of virtual super tables, and what trigger-svc is told of a virtual table's sources."""

from __future__ import annotations

import msgspec

from api_gateway.answer import Answer, affected
from api_gateway.context import Context
from api_gateway.session import Session
from api_gateway.statements.tables import using_of
from api_gateway.tables.children import conceive
from api_gateway.tables.find import full_name, taken
from millrace_core.language.statements import CreateVirtualChild
from millrace_core.language.virtual import members_of, origins_of_child, source_of, sources_of
from millrace_core.model.schema import Origin, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.wire import control
from millrace_core.wire.topics import slot_of, wal_topic
from millrace_core.wire.virtual import Link

LINKS_PER_RECORD = 5_000  # keeps a control record below a megabyte


def create_virtual_child(context: Context, session: Session, statement: CreateVirtualChild) -> Answer:
    """CREATE VTABLE … USING: only makes a catalog record, since nothing is ever written to the table."""
    definition = statement.child
    with context.writer.ddl:
        name = full_name(session, definition.name)
        using = using_of(session, definition)
        child, table = conceive(context.catalog, name, using, session.now, virtual=True)
        if context.catalog.find(child.db, child.name):
            if definition.if_not_exists:
                return affected(0)
            raise taken(name)
        origins = origins_of_child(statement, table, context.catalog, session.database)
        context.writer.write([msgspec.structs.replace(child, origins=origins)])
    return affected(0)


def origin_ends(context: Context, spec: StreamSpec) -> dict[str, control.Offsets]:
    """The present ends of the topics that a stream's virtual trigger table takes its rows from."""
    if spec.source is None or not spec.source.table.virtual:
        return {}
    topics = {wal_topic(*name) for name in sources_of(spec.source.table, context.catalog)}
    return {topic: context.log.end_offsets(topic) for topic in sorted(topics) if context.log.topics(topic)}


def origin_records(
    context: Context, spec: StreamSpec, ends: dict[str, control.Offsets]
) -> list[control.KnowOrigins]:
    """What the slots of the source tables must know, slot by slot. It is sent before the definition, so that
    rows that these slots send on find the stream already there. Children made later are not included (seed
    000). ``ends``: from :func:`origin_ends`."""
    if spec.source is None or not spec.source.table.virtual:
        return []
    table, slots = spec.source.table, context.settings.slots
    by_slot: dict[int, list[tuple[Link, Table]]] = {}
    for name, origins in members_of(table, spec.source.child, context.catalog):
        for link, source in _links(context, table, name, origins):
            slot = slot_of(link.topic, link.source.encode(), slots)
            by_slot.setdefault(slot, []).append((link, source))
    records: list[control.KnowOrigins] = []
    for slot, found in sorted(by_slot.items()):
        for begin in range(0, len(found), LINKS_PER_RECORD):
            part = found[begin : begin + LINKS_PER_RECORD]
            sources = {source.uid: source for _, source in part}
            topics = {wal_topic(source.db, source.name) for source in sources.values()}
            floors = {topic: ends[topic] for topic in sorted(topics) if topic in ends}
            links = tuple(link for link, _ in part)
            records.append(control.KnowOrigins(slot, spec.uid, table, tuple(sources.values()), floors, links))
    return records


def _links(
    context: Context, table: Table, name: str, origins: tuple[Origin | None, ...]
) -> list[tuple[Link, Table]]:
    """One link for each existing table that the virtual table ``name`` takes columns from."""
    by_source: dict[tuple[str, str], tuple[Table, list[tuple[str, str]]]] = {}
    for column, origin in zip(table.columns, origins, strict=False):
        source = source_of(origin, context.catalog) if origin is not None else None
        if origin is not None and source is not None:
            key = (wal_topic(source.db, source.name), origin.name)
            by_source.setdefault(key, (source, []))[1].append((origin.column, column.name))
    return [
        (Link(topic, source_name, name, tuple(columns)), source)
        for (topic, source_name), (source, columns) in by_source.items()
    ]

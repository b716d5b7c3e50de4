"""CREATE STREAM: accepted or refused as a whole. EXPLAIN CREATE STREAM: how it was understood."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from api_gateway.answer import Answer, affected, text_column
from api_gateway.context import Context, fresh_uid
from api_gateway.receivers import refuse_private
from api_gateway.session import Session
from api_gateway.statements.tables import add_table
from api_gateway.statements.virtual import origin_ends, origin_records
from millrace_core.catalog import Catalog, StreamEntry, key_of
from millrace_core.dialect.front_ends import FRONT_ENDS
from millrace_core.dialect.tdengine.explain import understood
from millrace_core.errors import CatalogError, ErrorCode, MillraceError, Position, SqlError
from millrace_core.language.names import QualifiedName
from millrace_core.language.statements import CreateLegacyStream, CreateStream, ExplainStream
from millrace_core.language.virtual import sources_of
from millrace_core.model.expression import fields_of
from millrace_core.model.schema import Child, Table, cut_name
from millrace_core.model.stream import ResultColumn, StreamSpec
from millrace_core.plan import OutputPlaces, plan_output
from millrace_core.timeline.precision import milliseconds
from millrace_core.trigger.stream import compiled, essence
from millrace_core.trigger.types import type_of
from millrace_core.wire import control
from millrace_core.wire.topics import slot_of, wal_topic

NewStream = CreateStream | CreateLegacyStream
ITEM, VALUE = 64, 16_384
"""The lengths of EXPLAIN's columns."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A stream that could be made: checked against the catalog as it was at ``position``."""

    spec: StreamSpec
    position: int


def create_stream(context: Context, session: Session, statement: NewStream) -> Answer:
    """Define a stream, and wait a while for trigger-svc to take it up (Init until then), unless it is made in
    the background.

    :raises MillraceError: if it is refused; then nothing has changed.
    """
    if _exists(context.catalog, session, statement):
        return affected(0)
    while True:
        draft = _draft(context, session, statement)
        with context.writer.ddl:
            # the calculation was described without the lock, so the catalog may have changed
            if context.writer.position != draft.position and _draft_changed(
                context, session, statement, draft
            ):
                continue
            if _exists(context.catalog, session, statement):
                return affected(0)
            number = _install(context, session, statement, draft.spec)
        break
    if not (isinstance(statement, CreateLegacyStream) and statement.in_background):
        context.board.wait_applied(number, context.settings.accept_seconds)
    return affected(0)


def _exists(catalog: Catalog, session: Session, statement: NewStream) -> bool:
    """Whether the name is taken although that is no error; :raises CatalogError: STREAM_EXISTS if it is."""
    if isinstance(statement, CreateLegacyStream):
        key = "", statement.name.text
    else:
        key = session.db_of(statement.name), statement.name.name
    if (found := catalog.streams.get(key)) is None:
        return False
    if statement.if_not_exists:
        return True
    raise CatalogError(
        ErrorCode.STREAM_EXISTS, f"the stream {found.spec.full_name} already exists", statement.name.position
    )


def _draft(context: Context, session: Session, statement: NewStream) -> Draft:
    """Do all checks; calc-svc says what columns the calculation gives."""
    position = context.writer.position
    front = FRONT_ENDS[session.dialect]
    spec = front.lower(statement, context.catalog, session.database, session.timezone)
    refuse_private(statement, context.settings.reach, context.resolve)
    _check_trigger(spec, statement)
    check_output(spec, statement, context.catalog)
    result: tuple[ResultColumn, ...] = ()
    if (written := _query_of(statement)) is not None:
        result = context.calc.describe(spec, position, written, session.user)
    spec = front.complete(spec, statement, result, context.catalog)
    _check_cycle(context.catalog, spec, statement)
    return Draft(spec, position)


def _query_of(statement: NewStream) -> Position | None:
    """Where the query stands in the text."""
    if isinstance(statement, CreateLegacyStream):
        return statement.query.text.position
    return statement.query.position if statement.query is not None else None


def _draft_changed(context: Context, session: Session, statement: NewStream, draft: Draft) -> bool:
    """Whether the statement means something else by now. Hold ``writer.ddl``."""
    front = FRONT_ENDS[session.dialect]
    again = front.lower(statement, context.catalog, session.database, session.timezone)
    again = front.complete(again, statement, draft.spec.result, context.catalog)
    _check_cycle(context.catalog, again, statement)
    return again != draft.spec


def _check_trigger(spec: StreamSpec, statement: NewStream) -> None:
    """Refuse what trigger-svc would refuse."""
    if isinstance(statement, CreateLegacyStream):
        where = (statement.query.window or statement.query.table).position
    else:
        where = statement.trigger.position
    try:
        compiled(essence(spec))
    except MillraceError as error:
        raise SqlError(error.code, error.message, error.position or where) from error


def check_output(spec: StreamSpec, statement: NewStream, catalog: Catalog) -> None:
    """:raises SqlError: for expressions that cannot give sub-tables' names or tags, and if one name for all
    groups is another table's."""
    if spec.output is None or not spec.output.grouped:
        return
    subtable = statement.subtable.position if statement.subtable else None
    tags = [statement.name.position] * len(spec.output.tags)
    if isinstance(statement, CreateStream) and statement.tags:
        # without TAGS, the grouping columns are the tags
        tags = [tag.value.position for tag in statement.tags]
    plan = plan_output(spec, catalog, OutputPlaces(subtable, tuple(tags)))
    if plan.constant:
        name = cut_name(plan.constant)
        found = catalog.find(spec.output.db, name)
        own = found is None or (found[1] is not None and found[0].name == spec.output.table)
        if not own or name == spec.output.table:
            raise SqlError(
                ErrorCode.TABLE_EXISTS,
                f"OUTPUT_SUBTABLE: {spec.output.db}.{name} already exists as another table",
                subtable,
            )


def _check_cycle(catalog: Catalog, spec: StreamSpec, statement: NewStream) -> None:
    """:raises CatalogError: if the stream's results would trigger it again through other streams."""
    if spec.source is None or spec.output is None or statement.into is None:
        return
    goal = (spec.source.table.db, spec.source.table.name)
    seen: set[tuple[str, str]] = set()
    path = [(spec.output.db, spec.output.table)]
    while path:
        table = path.pop()
        if table == goal:
            raise CatalogError(
                ErrorCode.BAD_STREAM,
                f"INTO {statement.into}: its rows would come back to the trigger table through other streams",
                statement.into.position,
            )
        if table in seen:
            continue
        seen.add(table)
        path += [
            (known.db, known.name)
            for known in list(catalog.tables.values())
            if known.virtual and table in sources_of(known, catalog)
        ]
        for entry in list(catalog.streams.values()):
            source, output = entry.spec.source, entry.spec.output
            if source and output and (source.table.db, source.table.name) == table:
                path.append((output.db, output.table))


def _install(context: Context, session: Session, statement: NewStream, draft: StreamSpec) -> int:
    """Make the stream; returns the number of its control record. Hold ``writer.ddl``.

    Its catalog record is written before its definition, so that calc-svc knows the stream before any trigger
    of it can come.
    """
    trigger = type_of(draft.trigger).at_home(draft.trigger, context.settings.timezone)
    spec = msgspec.structs.replace(
        draft,
        uid=fresh_uid(draft.db, draft.name),
        created=milliseconds(session.now),
        trigger=trigger,
    )
    _ensure_output(context, session, statement, spec)
    entry = StreamEntry(spec, "Running", 0, -1)
    context.writer.write([entry])
    try:
        number = send_definition(context, entry)
    except MillraceError:
        context.abandoned.add(spec.uid)
        context.writer.write(remove=[key_of(entry)])
        raise
    context.writer.write([msgspec.structs.replace(entry, control=number)])
    return number


def _ensure_output(context: Context, session: Session, statement: NewStream, spec: StreamSpec) -> None:
    """Make the output table, if there is none; an existing one was found to match."""
    make_output(context, spec, milliseconds(session.now), statement.into)


def make_output(context: Context, spec: StreamSpec, created: int, name: QualifiedName | None) -> None:
    """Make the output table of a stream, if there is no table of that name. Hold ``writer.ddl``."""
    output = spec.output
    if output is None or (output.db, output.table) in context.catalog.tables:
        return
    table = Table(
        output.db, output.table, "super" if output.grouped else "normal",
        fresh_uid(output.db, output.table), context.catalog.databases[output.db].precision, output.columns,
        tuple(tag.column for tag in output.tags), created,
    )  # fmt: skip
    add_table(context, table, name)


def send_definition(context: Context, entry: StreamEntry) -> int:
    """Tell trigger-svc of a stream that is live from now on; returns the last control record's number."""
    spec = entry.spec
    ends = origin_ends(context, spec)
    definition = control.DefineStream(spec, live_from(context, spec), entry.epoch, ends)
    defining: list[control.AnyControl] = [*origin_records(context, spec, ends), definition]
    records = [(spec.full_name, record) for record in defining]
    return context.append_control([*records, *children_records(context, spec)])


def children_records(context: Context, spec: StreamSpec) -> list[tuple[str, control.AnyControl]]:
    """The control records that follow a definition: it must come first, since it says what the slots keep."""
    found = known_children(spec, context.catalog, context.settings.slots)
    return [(spec.full_name, record) for record in found]


def live_from(context: Context, spec: StreamSpec) -> control.Offsets:
    """The present ends of the trigger table's topic: rows after them count. Empty if there is no table, or if
    it was dropped meanwhile."""
    if spec.source is None:
        return {}
    topic = wal_topic(spec.source.table.db, spec.source.table.name)
    return context.log.end_offsets(topic) if topic in context.log.topics(topic) else {}


def known_children(spec: StreamSpec, catalog: Catalog, slots: int) -> list[control.KnowChildren]:
    """What the slots cannot know about the trigger table's children from their names, slot by slot.

    That is the tags, if the stream reads tags; if not, how often a child was dropped before. PERIOD also
    fires for children without rows, so there the slots must be told of all children.
    """
    if spec.source is None or spec.source.table.kind != "super":
        return []
    table = spec.source.table
    children = list(catalog.family.get((table.db, table.name), {}).values())
    if spec.source.child is not None:
        children = [child for child in children if child.name == spec.source.child]
    if not _reads_tags(spec) and not (type_of(spec.trigger).by_clock and spec.partition):
        children = [child for child in children if child.incarnation]
    topic = wal_topic(table.db, table.name)
    by_slot: dict[int, list[Child]] = {}
    for child in children:
        by_slot.setdefault(slot_of(topic, child.name.encode(), slots), []).append(child)
    return [control.KnowChildren(slot, tuple(found)) for slot, found in sorted(by_slot.items())]


def _reads_tags(spec: StreamSpec) -> bool:
    if any(name != "tbname" for name in spec.partition):
        return True
    conditions = [spec.options.pre_filter, *type_of(spec.trigger).conditions(spec.trigger)]
    names = {name for condition in conditions if condition for name in condition.columns}
    names = names.union(*(fields_of(key.expression) for key in spec.keys))
    return spec.source is not None and any(spec.source.table.tag(name) for name in names)


def explain_stream(context: Context, session: Session, statement: ExplainStream) -> Answer:
    """How a stream was understood: rows of (item, value). Nothing is made.

    :raises SqlError: as CREATE STREAM itself would, as far as the catalog tells.
    """
    lower = FRONT_ENDS[session.dialect].lower
    spec = lower(statement.stream, context.catalog, session.database, session.timezone)
    check_output(spec, statement.stream, context.catalog)
    facts = understood(spec)
    return Answer((text_column("item", ITEM), text_column("value", VALUE)), [list(fact) for fact in facts])

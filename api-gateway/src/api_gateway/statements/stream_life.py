"""START, STOP and DROP STREAM."""

from __future__ import annotations

import msgspec

from api_gateway.answer import Answer, affected
from api_gateway.context import Context
from api_gateway.session import Session, unknown_database
from api_gateway.statements.streams import live_from
from api_gateway.statements.virtual import origin_ends
from millrace_core.catalog import StreamEntry, key_of
from millrace_core.dialect.names import QualifiedName
from millrace_core.dialect.statements import DropStream, RecalculateStream, StartStream, StopStream
from millrace_core.dialect.times import time_value
from millrace_core.errors import CatalogError, ErrorCode, MillraceError, SqlError
from millrace_core.trigger.types import type_of
from millrace_core.wire import control


def find_stream(
    context: Context, session: Session, name: QualifiedName, *, if_exists: bool = False
) -> StreamEntry | None:
    """The stream of that name; None if there is none and there need not be.

    :raises CatalogError: UNKNOWN_STREAM, UNKNOWN_DATABASE.
    """
    db = session.db_of(name)
    entry = context.catalog.streams.get((db, name.name))
    if entry is None and not if_exists:
        if db not in context.catalog.databases:
            raise unknown_database(db, name)
        raise CatalogError(
            ErrorCode.UNKNOWN_STREAM, f"the stream {db}.{name.name} does not exist", name.position
        )
    return entry


def start_stream(context: Context, session: Session, statement: StartStream) -> Answer:
    """Rows written while it was stopped are history (SEMANTICS: START): a stream that fills history treats
    them, unless IGNORE UNTREATED says otherwise; another one does not."""
    with context.writer.ddl:
        entry = find_stream(context, session, statement.name, if_exists=statement.if_exists)
        if entry is None or (entry.wanted == "Running" and not context.board.set_aside(entry)):
            return affected(0)
        number = _begin_anew(context, entry, untreated=not statement.ignore_untreated)
    context.board.wait_applied(number, context.settings.accept_seconds)
    return affected(0)


def _begin_anew(context: Context, entry: StreamEntry, untreated: bool) -> int:
    """Start a stream that is stopped, or that trigger-svc has set aside: the number of the control record."""
    spec, epoch = entry.spec, entry.epoch + 1
    fills = spec.options.fill_history is not None or spec.options.fill_history_first is not None
    record = control.StartStream(
        spec.uid, live_from(context, spec), epoch, origin_ends(context, spec), untreated=fills and untreated
    )
    number = context.append_control([(spec.full_name, record)])
    context.writer.write([StreamEntry(spec, "Running", epoch, number)])
    return number


def stop_stream(context: Context, session: Session, statement: StopStream) -> Answer:
    with context.writer.ddl:
        entry = find_stream(context, session, statement.name, if_exists=statement.if_exists)
        if entry is None:
            return affected(0)
        number = entry.control
        if entry.wanted != "Stopped":
            record = control.StopStream(entry.spec.uid, origin_ends(context, entry.spec))
            number = context.append_control([(entry.spec.full_name, record)])
            context.writer.write([msgspec.structs.replace(entry, wanted="Stopped", control=number)])
    _until_applied(context, number, f"the stream {entry.spec.full_name} is told to stop")
    return affected(0)


def recalculate_stream(context: Context, session: Session, statement: RecalculateStream) -> Answer:
    """Have the windows of a range of event time calculated again; the answer does not wait for that.

    :raises MillraceError: for a stream that does not recalculate, a bad time, or an end before the start.
    """
    entry = find_stream(context, session, statement.name)
    assert entry is not None, "a missing one is an error"
    spec = entry.spec
    type_ = type_of(spec.trigger)
    if type_.by_clock or spec.source is None:
        raise CatalogError(
            ErrorCode.NOT_ALLOWED,
            f"RECALCULATE STREAM {spec.full_name}: {type_.keyword} goes by the time of day, not by the times "
            "of rows",
            statement.name.position,
        )
    times = session.values(spec.source.table.precision)
    first = time_value(statement.start, times)
    last = None if statement.end is None else time_value(statement.end, times)
    if last is not None and last < first:
        assert statement.end is not None
        raise SqlError(
            ErrorCode.INVALID_VALUE,
            f"RECALCULATE STREAM {spec.full_name}: TO {statement.end.text} lies before FROM "
            f"{statement.start.text}",
            statement.end.position,
        )
    with context.writer.ddl:
        if entry.wanted == "Running" and context.board.set_aside(entry):
            _begin_anew(context, entry, untreated=True)
        context.append_control([(spec.full_name, control.RecalculateStream(spec.uid, first, last))])
    return affected(0)


def drop_stream(context: Context, session: Session, statement: DropStream) -> Answer:
    """The stream alone: what it wrote stays (seed 000)."""
    with context.writer.ddl:
        entry = find_stream(context, session, statement.name, if_exists=statement.if_exists)
        if entry is None:
            return affected(0)
        number = context.append_control([(entry.spec.full_name, control.DropStream(entry.spec.uid))])
        context.writer.write(remove=[key_of(entry)])
    _until_applied(context, number, f"the stream {entry.spec.full_name} is dropped")
    return affected(0)


def _until_applied(context: Context, number: int, what: str) -> None:
    """:raises MillraceError: TIMEOUT if rows written from now on might still be judged."""
    seconds = context.settings.apply_seconds
    if not context.board.wait_applied(number, seconds):
        raise MillraceError(
            ErrorCode.TIMEOUT,
            f"{what}, but trigger-svc has not confirmed it within {seconds:g} s; it takes effect when "
            "trigger-svc is back",
        )

"""START and STOP, PAUSE and RESUME, RECALCULATE and DROP STREAM."""

from __future__ import annotations

import msgspec

from api_gateway.answer import Answer, affected
from api_gateway.context import Context
from api_gateway.session import Session, unknown_database
from api_gateway.statements.streams import live_from
from api_gateway.statements.virtual import origin_ends
from millrace_core.catalog import StreamEntry, key_of
from millrace_core.errors import CatalogError, ErrorCode, MillraceError, SqlError
from millrace_core.language.names import QualifiedName
from millrace_core.language.statements import (
    DropStream,
    PauseStream,
    RecalculateStream,
    ResumeStream,
    StartStream,
    StopStream,
)
from millrace_core.language.times import time_value
from millrace_core.model.life import GLOBAL, OF_DATABASE, Life, life_of
from millrace_core.privileges import known_stream
from millrace_core.trigger.types import type_of
from millrace_core.wire import control


def find_stream(
    context: Context, session: Session, name: QualifiedName, *, if_exists: bool = False,
    global_first: bool = True,
) -> StreamEntry | None:  # fmt: skip
    """The stream of that name, if the user may know of it. A bare name means the global stream or that of the
    session's database. None if there is none and there need not be.

    :raises CatalogError: UNKNOWN_STREAM, UNKNOWN_DATABASE; NO_DATABASE for a bare name that is not global.
    """
    catalog = context.catalog
    entry = known_stream(
        catalog, session.user, name.db, session.database, name.name, global_first=global_first
    )
    if entry is None and not if_exists:
        db = session.db_of(name)
        if db not in catalog.databases:
            raise unknown_database(db, name)
        raise CatalogError(
            ErrorCode.UNKNOWN_STREAM, f"the stream {db}.{name.name} does not exist", name.position
        )
    return entry


def _of_life(
    context: Context, session: Session, statement: StartStream | StopStream | PauseStream | ResumeStream,
    life: Life, word: str,
) -> StreamEntry | None:  # fmt: skip
    """The stream, if this word applies to it; None if there is none and there need not be.

    :raises CatalogError: NOT_ALLOWED for a stream of the other dialect, naming the right word;
        UNKNOWN_STREAM.
    """
    name = statement.name
    bare = life is GLOBAL and name.db is None  # such a name needs no database
    there_need_be_none = statement.if_exists or bare
    entry = find_stream(context, session, name, if_exists=there_need_be_none, global_first=life is GLOBAL)
    if entry is None and not statement.if_exists:
        raise CatalogError(ErrorCode.UNKNOWN_STREAM, f"the stream {name} does not exist", name.position)
    if entry is not None and life_of(entry.spec) is not life:
        raise _wrong_word(entry, word, life_of(entry.spec), name)
    return entry


def _wrong_word(entry: StreamEntry, word: str, life: Life, name: QualifiedName) -> CatalogError:
    which = "older" if life is GLOBAL else "newer"
    right = {"STOP": life.stop, "PAUSE": life.stop}.get(word, life.start)
    return CatalogError(
        ErrorCode.NOT_ALLOWED,
        f"{word} STREAM {name}: {entry.spec.full_name} is a stream of the {which} dialect; use {right} "
        f"STREAM {entry.spec.full_name}",
        name.position,
    )


def start_stream(context: Context, session: Session, statement: StartStream) -> Answer:
    """Rows written while the stream was stopped are history (SEMANTICS: START): a stream that fills history
    evaluates them, unless IGNORE UNTREATED says otherwise; any other stream does not."""
    with context.writer.ddl:
        entry = _of_life(context, session, statement, OF_DATABASE, "START")
        number = _start(context, entry, untreated=not statement.ignore_untreated)
    return _until_started(context, number)


def resume_stream(context: Context, session: Session, statement: ResumeStream) -> Answer:
    """Rows written meanwhile are evaluated as if they came now, unless IGNORE UNTREATED says otherwise. For a
    running stream, nothing changes."""
    with context.writer.ddl:
        entry = _of_life(context, session, statement, GLOBAL, "RESUME")
        number = _start(context, entry, untreated=not statement.ignore_untreated)
    return _until_started(context, number)


def _start(context: Context, entry: StreamEntry | None, *, untreated: bool) -> int:
    """Start a stream; returns the number of the control record, or -1 if there is nothing to start."""
    if entry is None or (entry.wanted == "Running" and not context.board.set_aside(entry)):
        return -1
    return _begin_anew(context, entry, untreated)


def _until_started(context: Context, number: int) -> Answer:
    context.board.wait_applied(number, context.settings.accept_seconds)
    return affected(0)


def _begin_anew(context: Context, entry: StreamEntry, untreated: bool) -> int:
    """Start a stream that is stopped, or set aside by trigger-svc; returns the control record's number."""
    spec, epoch = entry.spec, entry.epoch + 1
    fills = spec.options.fill_history is not None or spec.options.fill_history_first is not None
    fills = fills or spec.emission.untreated == "live"
    record = control.StartStream(
        spec.uid, live_from(context, spec), epoch, origin_ends(context, spec), untreated=fills and untreated
    )
    number = context.append_control([(spec.full_name, record)])
    skipped = entry.skipped
    if spec.emission.untreated == "live" and not untreated and entry.wanted == "Stopped":
        ends = record.live_from.items()
        missed = [(partition, entry.stopped_at.get(partition, 0), end) for partition, end in ends]
        skipped += tuple(one for one in missed if one[1] < one[2])
    context.writer.write([StreamEntry(spec, "Running", epoch, number, skipped=skipped)])
    return number


def stop_stream(context: Context, session: Session, statement: StopStream) -> Answer:
    with context.writer.ddl:
        entry = _of_life(context, session, statement, OF_DATABASE, "STOP")
        number = _stop(context, entry)
    if entry is not None:
        _until_applied(context, number, f"the stream {entry.spec.full_name} was told to stop")
    return affected(0)


def pause_stream(context: Context, session: Session, statement: PauseStream) -> Answer:
    with context.writer.ddl:
        entry = _of_life(context, session, statement, GLOBAL, "PAUSE")
        number = _stop(context, entry)
    if entry is not None:
        _until_applied(context, number, f"the stream {entry.spec.full_name} was told to pause")
    return affected(0)


def _stop(context: Context, entry: StreamEntry | None) -> int:
    """Stop a stream; returns the number of the control record from which on it evaluates nothing."""
    if entry is None or entry.wanted == "Stopped":
        return entry.control if entry else -1
    record = control.StopStream(entry.spec.uid, origin_ends(context, entry.spec))
    number = context.append_control([(entry.spec.full_name, record)])
    stopped = msgspec.structs.replace(
        entry, wanted="Stopped", control=number, stopped_at=live_from(context, entry.spec)
    )
    context.writer.write([stopped])
    return number


def recalculate_stream(context: Context, session: Session, statement: RecalculateStream) -> Answer:
    """Have the windows of a range of event time calculated again; the answer does not wait for that.

    :raises MillraceError: for a stream that does not recalculate, a bad time, or an end before the start.
    """
    entry = find_stream(context, session, statement.name, global_first=False)
    assert entry is not None, "a missing one is an error"
    spec = entry.spec
    type_ = type_of(spec.trigger)
    if life_of(spec) is GLOBAL:
        raise CatalogError(
            ErrorCode.NOT_ALLOWED,
            f"RECALCULATE STREAM {spec.full_name}: a stream of the older dialect cannot be recalculated on "
            "request; it recalculates by itself (IGNORE EXPIRED 0, IGNORE UPDATE 0, TRIGGER "
            "CONTINUOUS_WINDOW_CLOSE) and supports PAUSE and RESUME",
            statement.name.position,
        )
    if type_.by_clock or spec.source is None:
        raise CatalogError(
            ErrorCode.NOT_ALLOWED,
            f"RECALCULATE STREAM {spec.full_name}: {type_.keyword} is triggered by the clock, not by the "
            "times of rows",
            statement.name.position,
        )
    times = session.values(spec.source.table.precision)
    first = time_value(statement.start, times)
    last = None if statement.end is None else time_value(statement.end, times)
    if last is not None and last < first:
        assert statement.end is not None
        raise SqlError(
            ErrorCode.INVALID_VALUE,
            f"RECALCULATE STREAM {spec.full_name}: TO {statement.end.text} is before FROM "
            f"{statement.start.text}",
            statement.end.position,
        )
    with context.writer.ddl:
        if entry.wanted == "Running" and context.board.set_aside(entry):
            _begin_anew(context, entry, untreated=True)
        context.append_control([(spec.full_name, control.RecalculateStream(spec.uid, first, last))])
    return affected(0)


def drop_stream(context: Context, session: Session, statement: DropStream) -> Answer:
    """Drop only the stream: what it wrote stays (seed 000)."""
    with context.writer.ddl:
        entry = find_stream(context, session, statement.name, if_exists=statement.if_exists)
        if entry is None:
            return affected(0)
        number = context.append_control([(entry.spec.full_name, control.DropStream(entry.spec.uid))])
        context.writer.write(remove=[key_of(entry)])
    _until_applied(context, number, f"the stream {entry.spec.full_name} was dropped")
    return affected(0)


def _until_applied(context: Context, number: int, what: str) -> None:
    """:raises MillraceError: TIMEOUT if rows written from now on might still be evaluated."""
    seconds = context.settings.apply_seconds
    if not context.board.wait_applied(number, seconds):
        raise MillraceError(
            ErrorCode.TIMEOUT,
            f"{what}, but trigger-svc did not confirm it within {seconds:g} s; it will take effect when "
            "trigger-svc is back",
        )

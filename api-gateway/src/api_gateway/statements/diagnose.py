"""DIAGNOSE STREAM: ask all slots what they know about a stream, and show it as rows."""

from __future__ import annotations

from api_gateway.answer import Answer, AnswerColumn, text_column
from api_gateway.context import Context
from api_gateway.session import Session
from api_gateway.statements.stream_life import find_stream
from api_gateway.watching.diagnosis_rows import Case, rows_of
from millrace_core.errors import ErrorCode, MillraceError, Position, SqlError
from millrace_core.language.statements import DiagnoseStream
from millrace_core.model.schema import Precision
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.wire import control, diagnosis
from millrace_core.wire.diagnosis import Diagnosis
from millrace_core.wire.topics import STATUS
from millrace_wal import Message

LIMIT, MOST = 1_000, 10_000
"""How many groups are described by default, and how many may be asked for."""


def diagnose_stream(context: Context, session: Session, statement: DiagnoseStream) -> Answer:
    """Why a stream did or did not fire: rows of (about, group, item, amount, ts, te, detail).

    :raises MillraceError: UNKNOWN_STREAM; INVALID_VALUE for a LIMIT out of range. Slots that do not answer
        are not an error: a row says so.
    """
    entry = find_stream(context, session, statement.name)
    assert entry is not None, "a missing one is an error"
    limit = checked_limit(statement.limit, statement.limit_position, LIMIT, MOST)
    spec = entry.spec
    with context.board.diagnoses.listening():
        asked = control.DiagnoseStream(spec.uid, limit)
        number = context.append_control([(spec.full_name, asked)])
        slots, seconds = context.settings.slots, context.settings.accept_seconds
        parts = context.board.diagnoses.wait(number, slots, seconds)
    _forget(context, parts)
    status, message = context.board.of(entry, context.catalog)
    precision: Precision = "ms" if spec.source is None else spec.source.table.precision
    case = Case(spec, status, message, parts, slots - len(parts), seconds, session.timezone, limit)
    return Answer(columns_of(precision), rows_of(case))


def checked_limit(limit: int | None, where: Position | None, usual: int, most: int) -> int:
    """:raises SqlError: INVALID_VALUE outside 1 to ``most``."""
    if limit is not None and not 1 <= limit <= most:
        raise SqlError(ErrorCode.INVALID_VALUE, f"LIMIT {limit}: must be from 1 to {most}", where)
    return usual if limit is None else limit


def columns_of(precision: Precision) -> tuple[AnswerColumn, ...]:
    return (
        text_column("about", 8), text_column("group", 256), text_column("item", 24),
        AnswerColumn("amount", DataType("BIGINT")), AnswerColumn("ts", TIMESTAMP, precision),
        AnswerColumn("te", TIMESTAMP, precision), text_column("detail", 1024),
    )  # fmt: skip


def _forget(context: Context, parts: list[Diagnosis]) -> None:
    """The answers have been read, so the topic need not keep them. If deleting them fails, the next ones
    replace them."""
    keys = [diagnosis.key(part.stream, part.slot) for part in parts]
    try:
        context.log.append([Message(STATUS.name, key, None) for key in keys])
    except MillraceError as error:
        context.logger.warning(
            "the answers of the slots could not be deleted from the topic", error=str(error)
        )

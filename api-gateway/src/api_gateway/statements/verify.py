"""VERIFY STREAM: have calc-svc run a stream's windows as one batch, and list how the output table differs."""

from __future__ import annotations

from api_gateway.answer import Answer
from api_gateway.context import Context
from api_gateway.session import Session
from api_gateway.statements.diagnose import checked_limit
from api_gateway.statements.stream_life import find_stream
from millrace_core.errors import CatalogError, ErrorCode, SqlError
from millrace_core.language.lexer import Lexer
from millrace_core.language.statements import VerifyStream
from millrace_core.language.times import time_value
from millrace_core.language.words import TokenKind
from millrace_core.recalc.judged import Judged, judged_of, refusal
from millrace_core.wire import control
from millrace_core.wire.topics import CONTROL
from millrace_wal import DeadLetters, replay

LIMIT, MOST = 1_000, 10_000
"""How many differences are listed by default, and how many may be asked for."""
VOLATILE = frozenset({"_tlocaltime", "now", "today", "rand"})
"""Words in a query whose results would differ the next time."""


def verify_stream(context: Context, session: Session, statement: VerifyStream) -> Answer:
    """Rows of (kind, tbname, ts, column, expected, found); no rows mean that the stream is right.

    :raises MillraceError: UNKNOWN_STREAM; NOT_ALLOWED for a stream whose results cannot be made again, with
        the reason; INVALID_VALUE for a bad time or LIMIT; the errors that calc-svc reports.
    """
    entry = find_stream(context, session, statement.name)
    assert entry is not None, "a missing one is an error"
    spec = entry.spec
    why = refusal(spec) or _volatile(spec.query or "")
    if why is not None or spec.source is None:
        message = f"VERIFY STREAM {spec.full_name}: {why}"
        raise CatalogError(ErrorCode.NOT_ALLOWED, message, statement.name.position)
    limit = checked_limit(statement.limit, statement.limit_position, LIMIT, MOST)
    times = session.values(spec.source.table.precision)
    first, last = time_value(statement.start, times), time_value(statement.end, times)
    if last < first:
        raise SqlError(
            ErrorCode.INVALID_VALUE,
            f"VERIFY STREAM {spec.full_name}: TO {statement.end.text} is before FROM {statement.start.text}",
            statement.end.position,
        )
    return context.calc.verify(
        spec.uid, (first, last), _judged(context, spec.uid), limit, session,
        f"VERIFY STREAM {spec.full_name}", context.writer.position, context.written.ends(),
    )  # fmt: skip


def _volatile(query: str) -> str | None:
    """Why a query's results cannot be made again; None if they can."""
    lexer = Lexer(query)
    while (token := lexer.next()).kind is not TokenKind.END:
        if token.kind is TokenKind.WORD and token.value in VOLATILE:
            return f"its query uses {token.text}, so its results depend on when they were calculated"
    return None


def _judged(context: Context, uid: int) -> Judged:
    """Which rows the stream has evaluated, according to its control records: those that matter for this are
    never deleted."""
    records = (r for r in replay(context.log, CONTROL.name) if not control.RECORDS.deletes(r.value))
    told = DeadLetters(context.log, None).understood(records, control.RECORDS.read)
    return judged_of(uid, (record for _, record in told))

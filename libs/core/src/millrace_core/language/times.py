"""Literals that are times: timestamp texts, ticks, ``now`` and ``today()``, with durations added."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import tzinfo

from millrace_core.errors import ErrorCode, MillraceError, SqlError
from millrace_core.language.lexer import Lexer, unquote
from millrace_core.language.statements import Delete, Literal
from millrace_core.language.words import TokenKind
from millrace_core.model.schema import Precision, Table
from millrace_core.model.stream import Duration
from millrace_core.timeline.calendar import add, local_midnight, zone
from millrace_core.timeline.precision import HIGHEST, LOWEST, check_range, from_ns
from millrace_core.timeline.text import parse_timestamp

INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_KEY_NAMES = frozenset({"_c0", "_rowts"})


@dataclass(frozen=True, slots=True)
class TimeContext:
    """What the meaning of a literal depends on.

    ``now``: nanoseconds since the epoch; ``where``: the session's time zone (its name, or the zone).
    """

    precision: Precision
    now: int
    where: tzinfo | str = "UTC"

    @property
    def zone(self) -> tzinfo:
        return zone(self.where) if isinstance(self.where, str) else self.where


def time_value(literal: Literal, session: TimeContext) -> int:
    """Ticks of a time: a timestamp string, ticks, ``now`` or ``today()``, with durations added.

    :raises SqlError: INVALID_VALUE, with its position.
    """
    try:
        return timestamp(literal.text.strip(), session)
    except MillraceError as error:
        raise SqlError(error.code, error.message, literal.position) from None


def delete_range(statement: Delete, table: Table, session: TimeContext) -> tuple[int, int]:
    """``(first, last)`` ticks, both included, of the times that DELETE names; first > last if there are none.

    :raises SqlError: for a condition on a column other than the time column, or a bad time.
    """
    first, last = LOWEST, HIGHEST
    for bound in statement.bounds:
        if bound.column.text != table.key.name and bound.column.text not in _KEY_NAMES:
            raise SqlError(
                ErrorCode.NOT_ALLOWED,
                # this is not SQL, but the text of an error
                f"DELETE FROM {statement.name}: a condition on {bound.column.text} is not allowed; "  # noqa: S608
                f"only the time column {table.key.name} (and tbname) can be used",
                bound.column.position,
            )
        value = time_value(bound.value, session)
        if bound.operator in ("=", ">=", ">"):
            first = max(first, value + (bound.operator == ">"))
        if bound.operator in ("=", "<=", "<"):
            last = min(last, value - (bound.operator == "<"))
    return first, last


def timestamp(cell: str, session: TimeContext) -> int:
    """Ticks of a time as written, without space around it.

    :raises MillraceError: INVALID_VALUE if it is not one, or out of range.
    """
    if cell[:1] in ("'", '"') and cell.find(cell[0], 1) == len(cell) - 1:
        return _time_text(unquote(cell), session)
    if INTEGER.fullmatch(cell):
        return check_range(int(cell))
    return _time_expression(cell, session)


def _time_text(text: str, session: TimeContext) -> int:
    lower = text.strip().lower()
    if lower in ("now", "now()"):  # the quoted word too, as in TDengine
        return from_ns(session.now, session.precision)
    return parse_timestamp(text, session.precision, session.where)


def _time_expression(cell: str, session: TimeContext) -> int:
    """``now``, ``now()``, ``today()``, a string or ticks, and durations added to it."""
    lexer = Lexer(cell)
    token = lexer.next()
    sign = 1
    if token.kind is TokenKind.OPERATOR and token.text in "+-":
        sign = 1 if token.text == "+" else -1
        token = lexer.next()
    if token.kind is TokenKind.INTEGER:
        value = check_range(sign * int(token.value, 0 if token.value[:2] in ("0x", "0b") else 10))
    elif token.kind is TokenKind.STRING:
        value = _time_text(token.value, session)
    elif token.kind is TokenKind.WORD and token.value in ("now", "today"):
        value = from_ns(session.now, session.precision)
        if token.value == "today":
            value = local_midnight(value, session.precision, session.zone)
        if lexer.peek().text == "(":
            lexer.next()
            if lexer.next().text != ")":
                raise _no_time(cell)
    else:
        raise _no_time(cell)
    while (token := lexer.next()).kind is not TokenKind.END:
        amount = lexer.next()
        if token.text not in ("+", "-") or amount.kind is not TokenKind.DURATION or "." in amount.text:
            raise _no_time(cell)
        length = int(amount.value[:-1]) * (1 if token.text == "+" else -1)
        value = add(value, Duration(length, amount.value[-1]), session.precision, session.zone)  # type: ignore[arg-type]
    return value


def _no_time(cell: str) -> MillraceError:
    return MillraceError(
        ErrorCode.INVALID_VALUE,
        f"{cell[:64]!r} is not a valid time; write '2026-01-31 23:59:59.000', a number of ticks, now() or "
        "today(), optionally with durations added or subtracted (now() - 10s)",
    )

"""Times and durations of IoTDB's SQL, in milliseconds: its default precision, and the only one here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from millrace_core.dialect.iotdb.codes import semantic, unsupported
from millrace_core.dialect.iotdb.cursor import MOST_DIGITS, Cursor
from millrace_core.errors import MillraceError, Position
from millrace_core.language.words import TokenKind
from millrace_core.timeline.precision import HIGHEST, LOWEST, NS_PER_MS, milliseconds
from millrace_core.timeline.text import parse_timestamp

_PART = re.compile(r"(\d+)([a-z]+)", re.IGNORECASE)
_NANOSECONDS = {
    "ns": 1, "us": 1_000, "ms": 1_000_000, "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9,
    "d": 86_400 * 10**9, "w": 7 * 86_400 * 10**9,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Moment:
    """A date and time as written in ``text`` (None: now), and the milliseconds that are added to it."""

    text: str | None
    offset: int
    position: Position


Time = Moment | int
"""A time in a statement: a moment that is resolved later, or milliseconds since the epoch."""


def duration(c: Cursor, what: str) -> int:
    """Milliseconds. :raises IotdbError: if it is not a whole number of them, and for months and years."""
    token = c.of_kind(TokenKind.DURATION, f"a duration such as 10s for {what}")
    where = c.position(token.start)
    total = 0
    for amount, unit in _PART.findall(token.text):
        if unit.lower() not in _NANOSECONDS:
            raise unsupported(f"{what}: months and years are not supported yet; use days instead", where)
        if len(amount) > MOST_DIGITS:
            raise semantic(f"{what}: {token.text[:32]}… is too long", where)
        total += int(amount) * _NANOSECONDS[unit.lower()]
    if total % NS_PER_MS:
        raise semantic(f"{what}: {token.text} is not a whole number of milliseconds", where)
    if milliseconds(total) > HIGHEST:
        raise semantic(f"{what}: {token.text} is too long", where)
    return milliseconds(total)


def time(c: Cursor, what: str) -> Time:
    """A date and time, milliseconds since the epoch, or ``now()``; each with durations added."""
    if c.at("now", "(") or c.peek().kind in (TokenKind.DATETIME, TokenKind.STRING):
        return moment(c, what)
    sign = -1 if c.take("-") else 1
    found = sign * c.integer(what)
    return found + _added(c, what)


def moment(c: Cursor, what: str) -> Moment:
    """``now()``, or a date and time, with durations added."""
    where = c.here()
    if c.take("now", "("):
        c.expect(")")
        return Moment(None, _added(c, what), where)
    if c.peek().kind is TokenKind.STRING:
        return Moment(c.next().value, _added(c, what), where)
    return Moment(c.of_kind(TokenKind.DATETIME, what).value, _added(c, what), where)


def _added(c: Cursor, what: str) -> int:
    """The sum of the durations that are added here; anything else that is added is left unread."""
    total = 0
    while True:
        place = c.place
        sign = 1 if c.take("+") else -1 if c.take("-") else 0
        if not sign or c.peek().kind is not TokenKind.DURATION:
            c.place = place
            return total
        total += sign * duration(c, what)


@dataclass(frozen=True, slots=True)
class TimeContext:
    """What times depend on: ``now``, in nanoseconds since the epoch, and the name of the time zone."""

    now: int
    timezone: str = "UTC"


def resolve(moment: Time, session: TimeContext) -> int:
    """Milliseconds since the epoch. :raises IotdbError: for a date that does not exist."""
    if isinstance(moment, int):
        return _in_range(moment, None)
    if moment.text is None:
        return _in_range(milliseconds(session.now) + moment.offset, moment.position)
    try:
        base = parse_timestamp(moment.text.replace("/", "-"), "ms", session.timezone)
    except MillraceError as error:
        raise semantic(error.message, moment.position) from None
    return _in_range(base + moment.offset, moment.position)


def _in_range(value: int, position: Position | None) -> int:
    if not LOWEST <= value <= HIGHEST:
        raise semantic(f"the time {value} is out of range", position)
    return value

"""Times as text in SQL: ISO 8601, and the formats of to_char.

Formats are read during planning, and become expressions over ticks. So they do not depend on the session's
time zone, and keep microseconds and nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.plan.functions.format_words import Word, words_of
from millrace_core.plan.spark.pieces import (
    as_int,
    as_text,
    chain,
    date_of,
    day_number,
    digits,
    in_day,
    text,
    when,
)
from millrace_core.plan.spark.zones import constant_offset, floor_div, local
from millrace_core.plan.types.typed import fail, floor_mod, number, wrap

OFFSET = re.compile(r"[zZ]|[+-]\d{2}(?::?\d{2})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Clock:
    """A wall clock, as expressions: its ``ticks``, days since 1970, ticks since midnight, seconds
    ahead of UTC."""

    ticks: exp.Expr
    precision: Precision
    ahead: exp.Expr

    @staticmethod
    def of(time: exp.Expr, precision: Precision, timezone: str) -> Clock:
        ticks = local(time, precision, timezone)
        constant = constant_offset(timezone)
        if constant is not None:
            return Clock(ticks, precision, number(constant))
        apart = exp.Paren(this=exp.Sub(this=wrap(ticks.copy()), expression=wrap(time.copy())))
        return Clock(ticks, precision, floor_div(apart, TICKS_PER_SECOND[precision]))

    @property
    def date(self) -> exp.Expr:
        return date_of(day_number(self.ticks.copy(), self.precision))

    def part(self, seconds: int, most: int) -> exp.Expr:
        """Hours, minutes or seconds: how often ``seconds`` have passed in the day, modulo ``most``."""
        unit = number(seconds * TICKS_PER_SECOND[self.precision])
        whole = exp.Paren(this=exp.IntDiv(this=in_day(self.ticks.copy(), self.precision), expression=unit))
        return exp.Paren(this=exp.Mod(this=whole, expression=number(most)))

    def fraction(self, width: int) -> exp.Expr:
        """The first ``width`` digits of the second's fraction, as a number."""
        per_second = TICKS_PER_SECOND[self.precision]
        ticks = floor_mod(self.ticks.copy(), per_second)
        wanted = 10**width
        if wanted >= per_second:
            return exp.Paren(this=exp.Mul(this=ticks, expression=number(wanted // per_second)))
        return exp.Paren(this=exp.IntDiv(this=ticks, expression=number(per_second // wanted)))


def iso8601(
    time: exp.Expr, precision: Precision, timezone: str, offset: str | None, node: exp.Expr
) -> exp.Expr:
    """``2026-01-01T00:00:00.000+0800``: in the query's zone, or at a given offset, which is written as it was
    given.

    :raises SqlError: INVALID_VALUE for an offset of another form.
    """
    if offset is not None and OFFSET.fullmatch(offset) is None:
        message = f"to_iso8601: the time zone must be Z, +hh, +hhmm or +hh:mm, not {offset!r}"
        raise fail(
            ErrorCode.INVALID_VALUE, message, node.expressions[1] if len(node.expressions) > 1 else node
        )
    clock = Clock.of(time, precision, offset or timezone)
    width = len(str(TICKS_PER_SECOND[precision])) - 1
    parts = [as_text(clock.date), text("T")]
    for i, (seconds, most) in enumerate(((3_600, 24), (60, 60), (1, 60))):
        parts += [text(":")] if i else []
        parts.append(digits(clock.part(seconds, most), 2))
    parts += [text("."), digits(clock.fraction(width), width)]
    return chain([*parts, text(offset) if offset is not None else _offset_text(clock.ahead)])


def _offset_text(ahead: exp.Expr) -> exp.Expr:
    """The offset as ``+0800``."""
    seconds = ahead.unnest()
    inner = seconds.this if isinstance(seconds, exp.Neg) else seconds
    if isinstance(inner, exp.Literal):
        minutes = int(inner.name) // 60
        return text(f"{'-' if isinstance(seconds, exp.Neg) else '+'}{minutes // 60:02d}{minutes % 60:02d}")
    minutes_ = exp.Paren(this=exp.IntDiv(this=exp.Abs(this=ahead.copy()), expression=number(60)))
    hours = exp.IntDiv(this=minutes_, expression=number(60))
    rest = exp.Mod(this=minutes_.copy(), expression=number(60))
    return chain([_sign(ahead), digits(hours, 2), digits(rest, 2)])


def _sign(value: exp.Expr) -> exp.Expr:
    below = exp.LT(this=wrap(value.copy()), expression=number(0))
    return when((below, text("-")), default=text("+"))


# -- to_char ------------------------------------------------------------------------------------------


def format_time(time: exp.Expr, precision: Precision, timezone: str, pattern: str) -> exp.Expr:
    """A time in a format; NULL if it is NULL."""
    clock = Clock.of(time, precision, timezone)
    parts = [
        text(word) if isinstance(word, str) else _WRITTEN[word.field](clock, word)
        for word in words_of(pattern)
    ]
    if all(isinstance(part, exp.Literal) for part in parts):
        known = exp.Not(this=exp.Is(this=wrap(time.copy()), expression=exp.Null()))
        return when((known, text("".join(part.name for part in parts))))
    return chain(parts) if len(parts) > 1 else parts[0]


def _year(clock: Clock, word: Word) -> exp.Expr:
    year = exp.Year(this=clock.date)
    if word.width == 4:
        # later years have no such text: five digits would not fit the type that all other times fit
        within = exp.LTE(this=year, expression=number(9999))
        return when((within, digits(year.copy(), 4)))
    return digits(exp.Paren(this=exp.Mod(this=year, expression=number(10**word.width))), word.width)


def _named(names: tuple[str, ...], index: Callable[[Clock], exp.Expr]) -> Callable[[Clock, Word], exp.Expr]:
    """The name at an index that counts from 1; long names are padded to nine characters."""

    def write(clock: Clock, word: Word) -> exp.Expr:
        width = word.width
        table = "".join(word.cased(name[:width]).ljust(width) for name in names)
        place = exp.Add(
            this=exp.Mul(this=exp.Paren(this=exp.Sub(this=index(clock), expression=number(1))),
                         expression=number(width)),
            expression=number(1),
        )  # fmt: skip
        return exp.Substring(this=text(table), start=as_int(exp.Paren(this=place)), length=number(width))

    return write


def _month(clock: Clock) -> exp.Expr:
    return exp.Month(this=clock.date)


def _day_of_week(clock: Clock) -> exp.Expr:
    """1 is Sunday."""
    days = exp.Paren(this=exp.Add(this=day_number(clock.ticks.copy(), clock.precision), expression=number(4)))
    return exp.Paren(this=exp.Add(this=floor_mod(days, 7), expression=number(1)))


def _hour12(clock: Clock, word: Word) -> exp.Expr:
    hour = clock.part(3_600, 12)
    none = exp.EQ(this=hour, expression=number(0))
    return digits(when((none, number(12)), default=hour.copy()), 2)


def _noon(clock: Clock, word: Word) -> exp.Expr:
    before = exp.LT(this=clock.part(3_600, 24), expression=number(12))
    return when((before, text(word.cased(word.noon[0]))), default=text(word.cased(word.noon[1])))


def _zone_hours(clock: Clock, word: Word) -> exp.Expr:
    hours = exp.IntDiv(this=exp.Abs(this=clock.ahead.copy()), expression=number(3_600))
    return chain([_sign(clock.ahead), digits(hours, 2)])


def _numeric(value: Callable[[Clock], exp.Expr]) -> Callable[[Clock, Word], exp.Expr]:
    return lambda clock, word: digits(value(clock), word.width)


MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
          "november", "december")  # fmt: skip
DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")

_WRITTEN: dict[str, Callable[[Clock, Word], exp.Expr]] = {
    "year": _year,
    "month": _numeric(_month),
    "month name": _named(MONTHS, _month),
    "day": _numeric(lambda clock: exp.Day(this=clock.date)),
    "day of year": _numeric(lambda clock: exp.DayOfYear(this=clock.date)),
    "day name": _named(DAYS, _day_of_week),
    "day of week": _numeric(_day_of_week),
    "hour": _numeric(lambda clock: clock.part(3_600, 24)),
    "hour of 12": _hour12,
    "minute": _numeric(lambda clock: clock.part(60, 60)),
    "second": _numeric(lambda clock: clock.part(1, 60)),
    "fraction": lambda clock, word: digits(clock.fraction(word.width), word.width),
    "noon": _noon,
    "zone": _zone_hours,
}

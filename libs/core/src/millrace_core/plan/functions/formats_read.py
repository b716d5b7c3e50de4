"""Texts as times in SQL: ISO 8601, and the formats of to_timestamp. A text that cannot be read is NULL.

A format becomes a regular expression with a group for each word, and arithmetic over the groups.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.plan.functions.format_words import Word, words_of
from millrace_core.plan.functions.formats import DAYS, MONTHS
from millrace_core.plan.spark.pieces import call, chain, days_of, digits, text, when
from millrace_core.plan.spark.zones import SECONDS_PER_DAY, instant
from millrace_core.plan.types.typed import BIGINT, fail, number, spark_type, wrap

ISO = (
    r"^\s*(\d{4}-\d{1,2}-\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?"
    r" ?(Z|z|[+-]\d{2}(?::?\d{2})?)?)?\s*$"
)
"""The texts that ``timeline.parse_timestamp`` reads."""
GREATEST = {3_600: 23, 60: 59, 1: 59}
"""The greatest allowed numbers of hours, minutes and seconds."""


def parse_iso(value: exp.Expr, precision: Precision, timezone: str) -> exp.Expr:
    """Ticks of a text such as ``2026-01-01T00:00:00Z`` (local time if it has no offset); NULL for
    other texts."""

    def group(i: int) -> exp.Expr:
        return call("REGEXP_EXTRACT", value.copy(), text(ISO), number(i))

    times = [(_number(group(2)), 3_600), (_number(group(3)), 60), (_number(group(4)), 1)]
    date = exp.TryCast(this=group(1), to=exp.DataType.build("DATE"))
    ticks = _clock(date, times, _fraction(group(5), precision), precision)
    return _instant(ticks, group(6), precision, timezone)


def _instant(ticks: exp.Expr, offset: exp.Expr, precision: Precision, timezone: str) -> exp.Expr:
    """The instant of a wall clock: by the offset if there is one, else by the zone."""
    given = exp.NEQ(this=offset, expression=text(""))
    away = exp.Sub(this=ticks, expression=_offset_ticks(offset, precision))
    return when((given, away), default=instant(ticks.copy(), precision, timezone))


def _number(value: exp.Expr, default: int = 0) -> exp.Expr:
    """The number in a text of digits; the default for the empty text."""
    found = exp.TryCast(this=value, to=spark_type(BIGINT))
    return exp.Coalesce(this=found, expressions=[number(default)])


def _clock(
    date: exp.Expr, times: list[tuple[exp.Expr, int]], fraction: exp.Expr, precision: Precision
) -> exp.Expr:
    """Ticks of a date, (value, seconds) parts of a day, and a fraction; NULL if a part is too great."""
    per_second = TICKS_PER_SECOND[precision]
    total: exp.Expr = exp.Mul(this=days_of(date), expression=number(SECONDS_PER_DAY * per_second))
    for value, seconds in times:
        valid = exp.LTE(this=wrap(value.copy()), expression=number(GREATEST[seconds]))
        ticks = exp.Mul(this=wrap(value.copy()), expression=number(seconds * per_second))
        total = exp.Add(this=total, expression=when((valid, ticks)))
    return exp.Paren(this=exp.Add(this=total, expression=fraction))


def _fraction(value: exp.Expr, precision: Precision) -> exp.Expr:
    """Ticks of the digits after the point of a second; digits beyond the precision are cut off."""
    places = number(len(str(TICKS_PER_SECOND[precision])) - 1)
    cut = exp.Substring(this=value, start=number(1), length=places)
    empty = exp.EQ(this=cut, expression=text(""))
    return _number(when((empty, text("0")), default=call("RPAD", cut.copy(), places.copy(), text("0"))))


def _offset_ticks(offset: exp.Expr, precision: Precision) -> exp.Expr:
    """By how many ticks a text such as +08:00, -3 or Z is ahead of UTC."""
    plain = call("REPLACE", offset.copy(), text(":"), text(""))
    hours = _number(exp.Substring(this=plain, start=number(2), length=number(2)))
    minutes = _number(exp.Substring(this=plain.copy(), start=number(4), length=number(2)))
    seconds = exp.Add(
        this=exp.Mul(this=hours, expression=number(3_600)),
        expression=exp.Mul(this=minutes, expression=number(60)),
    )
    first = exp.Substring(this=plain.copy(), start=number(1), length=number(1))
    tick = TICKS_PER_SECOND[precision]
    sign = when((exp.EQ(this=first, expression=text("-")), number(-tick)), default=number(tick))
    return exp.Paren(this=exp.Mul(this=exp.Paren(this=seconds), expression=sign))


# -- to_timestamp -------------------------------------------------------------------------------------

_NAMES = {"month name": MONTHS, "day name": DAYS}
_PATTERNS: dict[str, str] = {
    "year": r"\d{{1,{0}}}", "month": r"\d{{1,2}}", "day": r"\d{{1,2}}", "day of week": r"\d",
    "hour": r"\d{{1,2}}", "hour of 12": r"\d{{1,2}}", "minute": r"\d{{1,2}}", "second": r"\d{{1,2}}",
    "fraction": r"\d{{1,{0}}}", "noon": r"[AaPp]\.?[Mm]\.?", "zone": r"[+-]\d{{1,2}}",
}  # fmt: skip
"""What a word reads; {0} is its width. Numbers may lack leading zeros."""


@dataclass
class _Reading:
    """A format as a regular expression; for each field the numbers of its groups, with the words."""

    pattern: str
    groups: dict[str, list[tuple[int, Word]]] = field(default_factory=dict)


def _reading(words: list[Word | str]) -> _Reading:
    """Blanks do not matter; text between the words may be missing; the value may end before the
    format does."""
    found = _Reading("")
    pieces: list[str] = []
    between = ""
    for word in words:
        if isinstance(word, str):
            between += "".join(rf"\s*{re.escape(c)}?" for c in word if not c.isspace())
            continue
        numbers = found.groups.setdefault(word.field, [])
        numbers.append((sum(map(len, found.groups.values())) + 1, word))
        pieces.append(rf"{between}\s*({_pattern(word)})")
        between = ""
    pattern = pieces[-1] if pieces else ""
    for piece in reversed(pieces[:-1]):
        pattern = rf"{piece}(?:\s*$|{pattern})"
    found.pattern = f"^{pattern}"
    return found


def _pattern(word: Word) -> str:
    if word.field not in _NAMES:
        return _PATTERNS[word.field].format(word.width)
    return "(?i:" + "|".join(name[: word.width] for name in _NAMES[word.field]) + ")"


def parse_formatted(
    value: exp.Expr, precision: Precision, timezone: str, pattern: str, node: exp.Expr
) -> exp.Expr:
    """Ticks of a text in a format. Parts that the format leaves out are those of 1970-01-01 00:00:00.

    :raises SqlError: INVALID_VALUE for a format without words, or with words that do not go together.
    """
    words = words_of(pattern)
    _check(words, node)
    reading = _reading(words)

    def group(i: int) -> exp.Expr:
        return call("REGEXP_EXTRACT", value.copy(), text(reading.pattern), number(i))

    def last(*names: str) -> tuple[exp.Expr, Word] | None:
        """The text of the last of these words in the format: a later word overrides earlier ones."""
        found = max(
            (item for name in names for item in reading.groups.get(name, [])), default=None, key=_first
        )
        return (group(found[0]), found[1]) if found else None

    parts = [_year(last("year")), text("-"), _month(last("month", "month name")), text("-"),
             digits(_plain(last("day"), 1), 2)]  # fmt: skip
    day = exp.TryCast(this=chain(parts), to=exp.DataType.build("DATE"))
    times = [(_hour(last("hour", "hour of 12"), last("noon")), 3_600), (_plain(last("minute")), 60),
             (_plain(last("second")), 1)]  # fmt: skip
    fraction: exp.Expr = number(0)
    for i, _ in reading.groups.get("fraction", []):  # milliseconds, microseconds and nanoseconds are added up
        fraction = exp.Add(this=fraction, expression=_fraction(group(i), precision))
    ticks = _clock(day, times, exp.Paren(this=fraction), precision)
    zone = last("zone")
    there = (
        instant(ticks, precision, timezone) if zone is None else _instant(ticks, zone[0], precision, timezone)
    )
    return when((exp.RegexpLike(this=value.copy(), expression=text(reading.pattern)), there))


def _first(item: tuple[int, Word]) -> int:
    return item[0]


def _plain(found: tuple[exp.Expr, Word] | None, default: int = 0) -> exp.Expr:
    return number(default) if found is None else _number(found[0], default)


def _year(found: tuple[exp.Expr, Word] | None) -> exp.Expr:
    """A year of fewer than four digits means one near 2020, as in PostgreSQL."""
    if found is None:
        return text("1970")
    value, word = found
    year = _number(value, 1970)
    if word.width < 4:
        spans = ((70, 2000), (100, 1900), (520, 2000), (1000, 1000))
        near = [
            (
                exp.LT(this=year.copy(), expression=number(below)),
                exp.Add(this=year.copy(), expression=number(add)),
            )
            for below, add in spans
        ]
        year = when(*near, default=year.copy())
    return digits(year, 4)


def _month(found: tuple[exp.Expr, Word] | None) -> exp.Expr:
    if found is None:
        return text("01")
    value, word = found
    if word.field == "month":
        return digits(_number(value, 1), 2)
    width = word.width
    table = "".join(name[:width].ljust(width) for name in MONTHS)
    place = call("LOCATE", exp.Lower(this=value), text(table))
    number_ = exp.IntDiv(
        this=exp.Paren(this=exp.Add(this=place, expression=number(width - 1))), expression=number(width)
    )
    return digits(number_, 2)


def _hour(found: tuple[exp.Expr, Word] | None, noon: tuple[exp.Expr, Word] | None) -> exp.Expr:
    """On a clock of twelve hours 12 is the first; numbers outside of 1 to 12 are invalid."""
    if found is None or found[1].field == "hour":
        return _plain(found)
    hour = _number(found[0], 12)
    of_day: exp.Expr = exp.Mod(this=hour, expression=number(12))
    if noon is not None:
        first = exp.Upper(this=exp.Substring(this=noon[0], start=number(1), length=number(1)))
        late = when((exp.EQ(this=first, expression=text("P")), number(12)), default=number(0))
        of_day = exp.Add(this=exp.Paren(this=of_day), expression=late)
    valid = exp.Between(this=hour.copy(), low=number(1), high=number(12))
    return when((valid, of_day))


def _check(words: list[Word | str], node: exp.Expr) -> None:
    fields = {word.field for word in words if isinstance(word, Word)}
    problem = None
    if not fields:
        problem = "the format has no field such as yyyy"
    elif "day of year" in fields:
        problem = "the format field DDD is not supported here; use MM and DD"
    elif "noon" in fields and "hour" in fields:
        problem = "AM and PM can be used with HH or HH12, but not with HH24"
    if problem:
        raise fail(ErrorCode.INVALID_VALUE, f"to_timestamp: {problem}", node)

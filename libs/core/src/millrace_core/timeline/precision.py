"""Ticks: int64 counts of a database's precision (ms, us or ns) since 1970-01-01 UTC."""

from __future__ import annotations

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.model.stream import Duration

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
NS_PER_MS, NS_PER_SECOND = 1_000_000, 1_000_000_000

UNIT_NS: dict[str, int] = {
    "b": 1,
    "u": 1_000,
    "a": NS_PER_MS,
    "s": NS_PER_SECOND,
    "m": 60 * NS_PER_SECOND,
    "h": 3_600 * NS_PER_SECOND,
    "d": 86_400 * NS_PER_SECOND,
    "w": 7 * 86_400 * NS_PER_SECOND,
}
"""Nanoseconds of each unit of fixed length."""
CALENDAR_MONTHS: dict[str, int] = {"n": 1, "y": 12}
"""Months of each unit whose length depends on the calendar."""
_MONTH_NS = 28 * UNIT_NS["d"]  # the shortest


def tick_ns(precision: Precision) -> int:
    """Nanoseconds of one tick."""
    return NS_PER_SECOND // TICKS_PER_SECOND[precision]


def milliseconds(ns: int) -> int:
    """The whole milliseconds in ``ns`` nanoseconds."""
    return ns // NS_PER_MS


def check_range(value: int, what: str = "the time") -> int:
    """The value, if it is an int64; :raises MillraceError: INVALID_VALUE if not."""
    if not LOWEST <= value <= HIGHEST:
        raise MillraceError(ErrorCode.INVALID_VALUE, f"{what} {value} is outside the range of 64 bits")
    return value


def duration_ns(duration: Duration) -> int:
    """Nanoseconds of a duration of fixed length.

    :raises MillraceError: INVALID_VALUE for months and years.
    """
    if duration.unit not in UNIT_NS:
        raise MillraceError(
            ErrorCode.INVALID_VALUE,
            f"{duration}: months and years have no fixed length and are not allowed here",
        )
    return duration.value * UNIT_NS[duration.unit]


def ticks(duration: Duration, precision: Precision) -> int:
    """Ticks of a duration of fixed length.

    :raises MillraceError: INVALID_VALUE for months and years, for fractions of a tick, and beyond 64 bits.
    """
    whole, part = divmod(duration_ns(duration), tick_ns(precision))
    if part:
        raise MillraceError(
            ErrorCode.INVALID_VALUE,
            f"{duration} is not a whole number of {precision}, the database's precision",
        )
    return check_range(whole, f"the duration {duration} of")


def to_ns(value: int, precision: Precision) -> int:
    """Ticks to nanoseconds since the epoch (may exceed 64 bits)."""
    return value * tick_ns(precision)


def from_ns(value: int, precision: Precision) -> int:
    """Nanoseconds since the epoch to ticks, rounded down."""
    return value // tick_ns(precision)


def convert(value: int, source: Precision, target: Precision) -> int:
    """Ticks of one precision in another, rounded down.

    :raises MillraceError: INVALID_VALUE beyond 64 bits.
    """
    return check_range(from_ns(to_ns(value, source), target))


def shortest_ns(duration: Duration) -> int:
    """The least number of nanoseconds that a duration may have: a month counts as 28 days."""
    if duration.unit in CALENDAR_MONTHS:
        return duration.value * CALENDAR_MONTHS[duration.unit] * _MONTH_NS
    return duration.value * UNIT_NS[duration.unit]

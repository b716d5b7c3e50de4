"""Local time: time zones, midnights, and durations whose length depends on the calendar."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.model.stream import Duration
from millrace_core.timeline.precision import CALENDAR_MONTHS, check_range, ticks

EPOCH_DAY = date(1970, 1, 1).toordinal()
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=256)
def zone(name: str) -> tzinfo:
    """The zone of that name: one of the tz database (``Asia/Shanghai``) or an offset (``+08:00``, ``UTC+8``).

    :raises MillraceError: INVALID_VALUE for an unknown one.
    """
    if name.upper() in ("UTC", "Z", "GMT"):
        return UTC
    if match := _OFFSET.fullmatch(name):
        sign = -1 if match[1] == "-" else 1
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=sign * minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise MillraceError(ErrorCode.INVALID_VALUE, f"unknown time zone {name}") from error


def to_local(seconds: int, where: tzinfo) -> datetime:
    """The local wall clock at a Unix second.

    :raises MillraceError: INVALID_VALUE outside the years 1 to 9999.
    """
    try:
        return (_EPOCH + timedelta(seconds=seconds)).astimezone(where)
    except (OverflowError, ValueError) as error:
        raise MillraceError(ErrorCode.INVALID_VALUE, f"{seconds} s is outside the years 1 to 9999") from error


def from_local(local: datetime) -> int:
    """The Unix second of an aware local time; if a clock shows the time twice, the earlier one.

    A time that is skipped when clocks are put forward counts as if they had not been put forward yet.
    """
    offset = local.replace(fold=0).utcoffset() or timedelta()
    naive = local.replace(tzinfo=None) - offset
    return int((naive - _EPOCH.replace(tzinfo=None)) // timedelta(seconds=1))


def local_midnight(value: int, precision: Precision, where: tzinfo) -> int:
    """Ticks of the local midnight that begins the day of ``value``."""
    seconds = value // TICKS_PER_SECOND[precision]
    day = to_local(seconds, where).replace(hour=0, minute=0, second=0, microsecond=0)
    return check_range(from_local(day) * TICKS_PER_SECOND[precision])


def add_months(value: int, months: int, precision: Precision, where: tzinfo) -> int:
    """``value`` plus this many months on the local calendar; the 31st becomes the last day of a shorter
    month."""
    per_second = TICKS_PER_SECOND[precision]
    seconds, part = divmod(value, per_second)
    local = to_local(seconds, where)
    month = local.year * 12 + local.month - 1 + months
    year, month0 = divmod(month, 12)
    if not 1 <= year <= 9999:
        raise MillraceError(ErrorCode.INVALID_VALUE, f"the year {year} is outside 1 to 9999")
    moved = local.replace(year=year, month=month0 + 1, day=min(local.day, _days(year, month0 + 1)))
    return check_range(from_local(moved) * per_second + part)


def _days(year: int, month: int) -> int:
    following = date(year + month // 12, month % 12 + 1, 1) if (year, month) != (9999, 12) else None
    return (following - timedelta(days=1)).day if following else 31


def add(value: int, duration: Duration, precision: Precision, where: tzinfo = UTC) -> int:
    """``value`` plus a duration of any unit; months and years on the local calendar.

    :raises MillraceError: INVALID_VALUE beyond 64 bits, or outside the years 1 to 9999.
    """
    if months := CALENDAR_MONTHS.get(duration.unit):
        return add_months(value, duration.value * months, precision, where)
    return check_range(value + ticks(duration, precision))

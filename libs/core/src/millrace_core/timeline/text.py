"""Timestamps as text, as SQL and REST clients write and read them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

import numpy as np

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.timeline.calendar import EPOCH_DAY, from_local, zone
from millrace_core.timeline.precision import check_range

DIGITS: dict[Precision, int] = {"ms": 3, "us": 6, "ns": 9}
_LOWEST_SECOND = -(EPOCH_DAY - 1) * 86_400 + 86_400  # a day of room for the zone's offset
_HIGHEST_SECOND = 253_402_300_800 - 86_400 - 1
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?"
    r" ?(Z|z|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII,
)


def parse_timestamp(text: str, precision: Precision, tz: tzinfo | str = UTC) -> int:
    """Ticks of ``2026-01-01``, ``2026-01-01 00:00:01.000`` (local time) or ISO 8601 with T, Z or an offset.

    Digits of a second beyond the precision are cut off, as TDengine does.

    :raises MillraceError: INVALID_VALUE for any other text, and for times outside the range.
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise _bad(text)
    day, hour, minute, second, part, offset = match.groups()
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise _bad(text)
    where: tzinfo | str = offset.upper() if offset else tz
    try:
        midnight = _unix_day(day) * 86_400
        shift = _fixed_offset(where)
        clock = hours * 3_600 + minutes * 60 + seconds
        at = midnight + clock - shift if shift is not None else _in_zone(midnight + clock, where)
    except (ValueError, OverflowError) as error:
        raise _bad(text) from error
    digits = DIGITS[precision]
    fraction = int(part[:digits].ljust(digits, "0")) if part else 0
    return check_range(at * TICKS_PER_SECOND[precision] + fraction, "the time")


def _bad(text: str) -> MillraceError:
    return MillraceError(
        ErrorCode.INVALID_VALUE,
        f"{text!r} is not a timestamp; write '2026-01-31', '2026-01-31 23:59:59.000' or "
        "'2026-01-31T23:59:59Z'",
    )


@lru_cache(maxsize=4096)
def _unix_day(day: str) -> int:
    year, month, number = day.split("-")
    return date(int(year), int(month), int(number)).toordinal() - EPOCH_DAY


@lru_cache(maxsize=256)
def _fixed_offset(where: tzinfo | str) -> int | None:
    """Seconds east of Greenwich; None for a zone whose offset changes."""
    found = zone(where) if isinstance(where, str) else where
    if isinstance(found, timezone):
        return int(found.utcoffset(None).total_seconds())
    return None


def _in_zone(wall: int, where: tzinfo | str) -> int:
    found = zone(where) if isinstance(where, str) else where
    local = datetime(1970, 1, 1, tzinfo=found) + timedelta(seconds=wall)  # arithmetic on the wall clock
    return from_local(local)


def format_rfc3339(ticks: int, precision: Precision, tz: tzinfo | str = UTC) -> str:
    """``2026-01-01T00:00:01.000Z``, or with the zone's offset; 3, 6 or 9 digits by the precision."""
    return _format(ticks, precision, tz, "T", True)


def format_local(ticks: int, precision: Precision, tz: tzinfo | str = UTC) -> str:
    """``2026-01-01 00:00:01.000``: local time, without its offset."""
    return _format(ticks, precision, tz, " ", False)


def _format(ticks: int, precision: Precision, tz: tzinfo | str, separator: str, offset: bool) -> str:
    seconds, part = divmod(ticks, TICKS_PER_SECOND[precision])
    if not _LOWEST_SECOND <= seconds <= _HIGHEST_SECOND:
        # Python's calendar does not reach that far: use UTC, as NumPy counts it
        whole = str(np.datetime_as_string(np.datetime64(seconds, "s"))).replace("T", separator)
        return f"{whole}.{part:0{DIGITS[precision]}d}{'Z' if offset else ''}"
    shift = _fixed_offset(tz)
    if shift is None:
        found = zone(tz) if isinstance(tz, str) else tz
        local = datetime.fromtimestamp(seconds, found)
        shift = int((local.utcoffset() or timedelta()).total_seconds())
    day, clock = divmod(seconds + shift, 86_400)
    hour, rest = divmod(clock, 3_600)
    text = (
        f"{_day_text(day)}{separator}{hour:02d}:{rest // 60:02d}:{rest % 60:02d}.{part:0{DIGITS[precision]}d}"
    )
    return text + _offset_text(shift) if offset else text


@lru_cache(maxsize=4096)
def _day_text(day: int) -> str:
    return date.fromordinal(day + EPOCH_DAY).isoformat()


@lru_cache(maxsize=64)
def _offset_text(shift: int) -> str:
    if shift == 0:
        return "Z"
    minutes = abs(shift) // 60
    return f"{'-' if shift < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"

"""Ticks, durations, calendars, alignment and the texts of timestamps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.errors import MillraceError
from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.model.stream import Duration
from millrace_core.timeline import (
    add,
    format_local,
    format_rfc3339,
    local_midnight,
    parse_timestamp,
    ticks,
    zone,
)
from millrace_core.timeline.precision import convert, from_ns, to_ns

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
ZONES = ["UTC", "Asia/Shanghai", "America/New_York", "+05:30", "Australia/Lord_Howe"]
precisions = st.sampled_from(PRECISIONS)
zones = st.sampled_from(ZONES)
seconds = st.integers(-62_000_000_000, 250_000_000_000)
DAY = 86_400_000


@given(seconds, st.integers(0, 10**9 - 1), precisions, zones)
def test_rfc3339_round_trips(second: int, part: int, precision: Precision, tz: str) -> None:
    value = second * TICKS_PER_SECOND[precision] + part % TICKS_PER_SECOND[precision]
    if zone(tz) is not UTC and second < 0:
        return  # offsets of seconds, before the zones of today, have no RFC 3339 text
    if precision == "ns" and not -(2**63) <= value < 2**63:
        return
    text = format_rfc3339(value, precision, tz)
    assert parse_timestamp(text, precision, "Asia/Tokyo") == value
    assert parse_timestamp(text.replace("T", " "), precision) == value


@given(seconds, zones)
def test_local_text_is_the_wall_clock(second: int, tz: str) -> None:
    wall = datetime.fromtimestamp(second, zone(tz)) if second >= 0 else None
    text = format_local(second * 1000 + 7, "ms", tz)
    if wall is not None:
        assert text == wall.strftime("%Y-%m-%d %H:%M:%S.007").rjust(23, "0")
        if wall.fold == 0 and wall.astimezone(UTC).astimezone(zone(tz)) == wall:
            assert parse_timestamp(text, "ms", tz) == second * 1000 + 7


@pytest.mark.parametrize(
    ("text", "precision", "tz", "expected"),
    [
        ("2026-01-01", "ms", "UTC", 1_767_225_600_000),
        ("2026-1-1 0:0:1", "ms", "UTC", 1_767_225_601_000),
        ("2026-01-01 00:00", "ms", "UTC", 1_767_225_600_000),
        ("2026-01-01 08:00:00.1234567", "us", "Asia/Shanghai", 1_767_225_600_123_456),
        ("2026-01-01T00:00:00Z", "ns", "Asia/Shanghai", 1_767_225_600_000_000_000),
        ("2026-01-01T08:00:00.5+0800", "ms", "UTC", 1_767_225_600_500),
        ("2026-01-01 08:00:00+08", "ms", "UTC", 1_767_225_600_000),
        ("1969-12-31 23:59:59.999", "ms", "UTC", -1),
        # the clocks go forward: 02:30 does not exist; back: the first 01:30
        ("2026-03-08 02:30:00", "ms", "America/New_York", 1_772_955_000_000),
        ("2026-11-01 01:30:00", "ms", "America/New_York", 1_793_511_000_000),
    ],
)
def test_timestamps(text: str, precision: Precision, tz: str, expected: int) -> None:
    assert parse_timestamp(text, precision, tz) == expected


@pytest.mark.parametrize(
    "text",
    ["", "now", "20260101", "2026-01-32", "2026-02-29", "2026-01-01 24:00:00", "2026-01-01 00:60:00",
     "2026-01-01 00", "0000-01-01", "1", "2026-01-01T00:00:00+99:99", "2026-01-01 00:00:00.",
     "２０２６-01-01"],
)  # fmt: skip
def test_bad_timestamps(text: str) -> None:
    with pytest.raises(MillraceError, match=r"not a timestamp|unknown time zone"):
        parse_timestamp(text, "ms")


def test_timestamps_beyond_64_bits() -> None:
    with pytest.raises(MillraceError, match="64 bits"):
        parse_timestamp("2262-04-12", "ns")
    assert parse_timestamp("2262-04-11", "ns") > 0


def test_times_that_no_calendar_of_python_holds_have_a_text() -> None:
    assert format_rfc3339(2**63 - 1, "ms", "Asia/Shanghai") == "292278994-08-17T07:12:55.807Z"
    assert format_local(-(2**63), "ns") == "1677-09-21 00:12:43.145224192"


@pytest.mark.parametrize(
    ("value", "precision", "expected"),
    [("10s", "ms", 10_000), ("1u", "us", 1), ("1000u", "ms", 1), ("1b", "ns", 1), ("2w", "ms", 14 * DAY)],
)
def test_ticks(value: str, precision: Precision, expected: int) -> None:
    assert ticks(Duration(int(value[:-1]), value[-1]), precision) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("duration", "message"),
    [
        (Duration(1, "n"), "months and years"),
        (Duration(1, "y"), "months and years"),
        (Duration(1, "u"), "whole number of ms"),
        (Duration(10**12, "w"), "64 bits"),
    ],
)
def test_durations_without_ticks(duration: Duration, message: str) -> None:
    with pytest.raises(MillraceError, match=message):
        ticks(duration, "ms")


@given(st.integers(-(2**63), 2**63 - 1), precisions)
def test_nanoseconds_round_trip(value: int, precision: Precision) -> None:
    assert from_ns(to_ns(value, precision), precision) == value
    assert from_ns(to_ns(value, precision) - 1, precision) == value - 1


def test_convert() -> None:
    assert convert(-1, "us", "ms") == -1
    assert convert(5, "ms", "ns") == 5_000_000
    with pytest.raises(MillraceError, match="64 bits"):
        convert(2**60, "ms", "ns")


@given(st.integers(0, 4_000_000_000_000), zones)
def test_local_midnight(ts: int, tz: str) -> None:
    where = zone(tz)
    midnight = local_midnight(ts, "ms", where)
    wall = datetime.fromtimestamp(midnight / 1000, where)
    assert wall.date() == datetime.fromtimestamp(ts // 1000, where).date()
    assert 0 <= ts - midnight < DAY + 2 * 3_600_000
    assert (wall.hour, wall.minute, wall.second) == (0, 0, 0)


@pytest.mark.parametrize(
    ("start", "duration", "expected"),
    [
        ("2026-01-31 10:00:00.5", Duration(1, "n"), "2026-02-28 10:00:00.500"),
        ("2024-02-29", Duration(1, "y"), "2025-02-28 00:00:00.000"),
        ("2026-03-31", Duration(-1, "n"), "2026-02-28 00:00:00.000"),
        ("2026-12-31", Duration(2, "n"), "2027-02-28 00:00:00.000"),
        ("2026-01-01", Duration(1, "w"), "2026-01-08 00:00:00.000"),
    ],
)
def test_calendar_arithmetic(start: str, duration: Duration, expected: str) -> None:
    assert format_local(add(parse_timestamp(start, "ms"), duration, "ms"), "ms") == expected


def test_months_are_local() -> None:
    ny = ZoneInfo("America/New_York")
    before = parse_timestamp("2026-02-10 12:00:00", "ms", ny)
    assert format_local(add(before, Duration(1, "n"), "ms", ny), "ms", ny) == "2026-03-10 12:00:00.000"


def test_zones() -> None:
    assert zone("UTC+8").utcoffset(None) == timedelta(hours=8)
    with pytest.raises(MillraceError, match="unknown time zone Mars"):
        zone("Mars/Olympus")
    with pytest.raises(MillraceError, match="years 1 to 9999"):
        local_midnight(2**62, "ms", UTC)
    with pytest.raises(MillraceError, match="the year 10000 is outside"):
        add(parse_timestamp("9999-12-01", "ms"), Duration(1, "n"), "ms")

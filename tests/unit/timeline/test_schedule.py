"""The instants of PERIOD and SLIDING: the seed's examples, and a model that steps day by day."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.timeline import format_local, parse_timestamp, zone
from millrace_core.timeline.calendar import from_local
from millrace_core.timeline.schedule import Schedule

from ...conftest import examples

HOUR, DAY = 3_600_000, 86_400_000
ZONES = [
    "UTC",
    "+05:45",
    "Asia/Shanghai",
    "Europe/Berlin",
    "America/Sao_Paulo",
    "America/Havana",
    "Pacific/Apia",
]
zones = st.sampled_from(ZONES)
times = st.integers(0, 4_000_000_000_000) | st.integers(1_300_000_000_000, 1_330_000_000_000)
lengths = st.integers(HOUR // 2, 3 * DAY) | st.sampled_from([HOUR, 7 * HOUR, 23 * HOUR, DAY, 2 * DAY])

SEED = [
    ("2026-05-01 12:00:00", 5.5, 0, ["16:30", "22:00", "00:00", "05:30", "11:00", "16:30"]),
    ("2026-05-01 12:00:00", 5.5, 1 / 60, ["16:31", "22:01", "00:01", "05:31", "11:01", "16:31"]),
    ("2026-05-01 00:00:00", 5.5, 1 / 60, ["00:01", "05:31"]),
    ("2026-05-01 12:00:00", 25, 0, ["02 01:00", "03 02:00", "04 03:00", "05 04:00"]),
    ("2026-05-01 12:00:00", 25, 1 / 60, ["02 01:01", "03 02:01", "04 03:01", "05 04:01"]),
]


@pytest.mark.parametrize(("now", "every", "offset", "expected"), SEED)
@pytest.mark.parametrize("tz", ["UTC", "Asia/Shanghai"])
def test_instants_of_the_seed(tz: str, now: str, every: float, offset: float, expected: list[str]) -> None:
    at = origin = parse_timestamp(now, "ms", tz)
    schedule = Schedule(round(every * HOUR), round(offset * HOUR), "ms", zone(tz), origin)
    for text in expected:
        at = schedule.after(at)
        assert text in format_local(at, "ms", tz)


def model(schedule: Schedule, around: int) -> list[int]:
    """The instants of about nine days around a time, day by day."""
    local = datetime.fromtimestamp(around / 1000, schedule.where).date()

    def begin(day: date) -> int:
        return (
            from_local(datetime(day.year, day.month, day.day, tzinfo=schedule.where)) * 1000 + schedule.offset
        )

    if schedule.every >= DAY:
        base = begin(datetime.fromtimestamp(schedule.origin / 1000, schedule.where).date())
        first = (around - base) // schedule.every - 4
        return [base + (first + i) * schedule.every for i in range(9)]
    found: set[int] = set()
    for back in range(-5, 5):
        day = local + timedelta(days=back)
        here, following = begin(day), begin(day + timedelta(days=1))
        found |= set(range(here, following, schedule.every))
    return sorted(found)


schedules = st.builds(
    Schedule,
    every=lengths,
    offset=st.integers(0, DAY - 1) | st.just(0),
    precision=st.just("ms"),
    where=zones.map(zone),
    origin=st.integers(0, 4_000_000_000_000),
)


@settings(max_examples=examples(60))
@given(schedules, times, st.lists(st.integers(-3 * DAY, 3 * DAY), min_size=1, max_size=5))
def test_against_the_model(schedule: Schedule, around: int, steps: list[int]) -> None:
    instants = model(schedule, around)
    ts = np.array([around + step for step in steps], dtype=np.int64)
    if schedule.every >= DAY:
        ts = np.clip(ts, instants[1], instants[-2] - 1)
    after, before = schedule.after(ts), schedule.at_or_before(ts)
    for place, one in enumerate(ts.tolist()):
        assert after[place] == min(i for i in instants if i > one) == schedule.after(one)
        assert before[place] == max(i for i in instants if i <= one) == schedule.at_or_before(one)
        assert schedule.after(int(before[place])) == after[place]
    low, high = int(ts.min()), int(ts.max())
    assert schedule.between(low, high).tolist() == [i for i in instants if low < i <= high]
    assert abs(schedule.count(low, high) - len(schedule.between(low, high))) <= 2 * 3 * DAY / HOUR


@pytest.mark.parametrize(("precision", "scale"), [("us", 1_000), ("ns", 1_000_000)])
def test_other_precisions(precision: str, scale: int) -> None:
    ms = Schedule(7 * HOUR, 60_000, "ms", zone("Europe/Berlin"))
    fine = Schedule(7 * HOUR * scale, 60_000 * scale, precision, zone("Europe/Berlin"))  # type: ignore[arg-type]
    at = parse_timestamp("2026-03-28 20:00:00", "ms")
    assert (fine.between(at * scale, (at + 3 * DAY) * scale) // scale).tolist() == ms.between(
        at, at + 3 * DAY
    ).tolist()


def test_a_day_whose_clocks_change_has_more_or_fewer_instants() -> None:
    berlin = Schedule(HOUR, 0, "ms", zone("Europe/Berlin"))
    for day, hours in (("2026-03-29", 23), ("2026-10-25", 25), ("2026-07-01", 24)):
        begin = parse_timestamp(day, "ms", "Europe/Berlin")
        found = berlin.between(begin - 1, begin + hours * HOUR - 1)
        assert len(found) == hours == len(berlin.between(begin, berlin.after(begin + hours * HOUR - 1)))
        assert found[0] == begin


def test_few_instants_cost_little_however_many_a_day_has() -> None:
    for tz in ("UTC", "Europe/Berlin"):
        every_tick = Schedule(1, 0, "us", zone(tz))  # 86,400,000,000 instants a day
        begin = parse_timestamp("2026-03-29", "us", tz)
        assert every_tick.between(begin - 3, begin + 2).tolist() == [*range(begin - 2, begin + 3)]


def test_count_without_changed_clocks_is_exact() -> None:
    for every in (HOUR, 7 * HOUR, 11 * HOUR, DAY, 3 * DAY + 5):
        schedule = Schedule(every, 17, "ms", zone("+08:00"))
        for low, high in ((0, 5), (3, 40 * DAY), (17, 17 + every), (-9 * DAY, DAY)):
            assert schedule.count(low, high) == len(schedule.between(low, high))


def test_times_beyond_every_calendar() -> None:
    for tz in ("UTC", "Europe/Berlin"):
        for ts in (1 << 61, -(1 << 61)):
            schedule = Schedule(7 * HOUR, 0, "ms", zone(tz))
            assert (
                schedule.at_or_before(ts) <= ts < schedule.after(ts) <= schedule.at_or_before(ts) + 7 * HOUR
            )

"""SLIDING: arrays and row by row are the same; instants, shares, wild times; ids."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.errors import MillraceError
from millrace_core.model.stream import Duration
from millrace_core.timeline import Schedule, parse_timestamp, zone
from millrace_core.trigger.groups import Columns
from millrace_core.trigger.groups.watermark import Clock, ClockMemory
from millrace_core.trigger.types import Sliding
from millrace_core.trigger.types.sliding.windower import SlidingMemory, SlidingWindower
from millrace_core.trigger.types.windower import Windower
from millrace_core.wire.events import trigger_id

from ...conftest import examples
from .conftest import GROUPS, arrivals, as_arrivals, clocks, ordered

HOUR = 3_600_000
fine = st.builds(
    Schedule, every=st.sampled_from([5, 10, 13]), offset=st.integers(0, 7), precision=st.just("ms")
)
# one arrival's unit is an hour: days begin anew, and the clocks change
coarse = st.builds(
    Schedule,
    every=st.sampled_from([5, 7, 24, 30]).map(lambda hours: hours * HOUR),
    offset=st.just(HOUR),
    precision=st.just("ms"),
    where=st.sampled_from(["UTC", "Europe/Berlin"]).map(zone),
)
MARCH = parse_timestamp("2026-03-29", "ms")


@settings(max_examples=examples(25))
@given(
    clocks,
    st.tuples(fine, st.just(1), st.just(0)) | st.tuples(coarse, st.just(HOUR), st.just(MARCH)),
    st.booleans(),
    st.integers(1, 6),
    st.lists(arrivals, max_size=4),
)
def test_arrays_and_rows_are_the_same(
    clock: Clock,
    scale: tuple[Schedule, int, int],
    empty: bool,
    most: int,
    batches: list[list[tuple[int, int]]],
) -> None:
    schedule, unit, origin = scale
    windower = SlidingWindower(schedule, empty, most)
    clocked, fast, slow = Columns(ClockMemory), Columns(SlidingMemory), Columns(SlidingMemory)
    for columns in (clocked, fast, slow):
        columns.grow(GROUPS)
    for batch in batches:
        judged = clock.judge(clocked, as_arrivals(batch, unit, origin))
        one, other = windower.on_rows(fast, judged), Windower.on_rows(windower, slow, judged)
        assert ordered(one) == ordered(other)
        assert one.skipped == other.skipped
        assert [fast.get(g) for g in range(GROUPS)] == [slow.get(g) for g in range(GROUPS)]


@settings(max_examples=examples(10))
@given(fine, st.lists(st.integers(-30, 90), min_size=1, max_size=20))
def test_every_row_is_in_one_share(schedule: Schedule, times: list[int]) -> None:
    """Rows in order, one group: the instants from the first row's to T, each with the rows behind the one
    before it."""
    times = sorted(set(times))
    clocked, memory = Columns(ClockMemory), Columns(SlidingMemory)
    for columns in (clocked, memory):
        columns.grow(1)
    windower = SlidingWindower(schedule)
    found: list[tuple[int, int, int]] = []
    for ts in times:
        judged = Clock().judge(clocked, as_arrivals([(0, ts)], 1, 0))
        some = windower.on_rows(memory, judged)
        found += sorted(zip(some.end.tolist(), some.start.tolist(), some.rownum.tolist(), strict=True))
    instants = [t for t in range(times[0], times[-1] + 1) if schedule.at_or_before(t) == t]
    assert [end for end, _, _ in found] == instants
    for end, start, rows in found:
        assert rows == sum(start < ts <= end for ts in times)
        assert schedule.after(start) == end


def test_a_wild_time_fires_the_last_instants_only(kit: Any) -> None:
    spec = kit.stream(trigger={"Sliding": {"sliding": {"value": 10, "unit": "s"}}})
    cluster = kit.Cluster()
    cluster.define(spec)
    cluster.write("c1", [5_000])
    cluster.write("c1", [1 << 61])
    cluster.run()
    fired = [event for batch in cluster.triggers for event in batch.events]
    assert len(fired) == 100_001
    assert fired[0].end == 10_000, "an instant with rows fires wherever it is"
    assert fired[0].rownum == 1
    # both counted and fired: all instants behind the first row
    assert cluster.totals()["empty_windows"] + len(fired) == (1 << 61) // 10_000


def test_the_id_is_that_of_the_instant(kit: Any) -> None:
    cluster = kit.Cluster()
    cluster.define(kit.stream(trigger={"Sliding": {"sliding": 10}}))
    cluster.write("c1", [3, 20])
    cluster.run()
    fired = [event for batch in cluster.triggers for event in batch.events]
    assert [(event.kind, event.start, event.end, event.next) for event in fired] == [
        ("ON_TIME", 0, 10, 20),
        ("ON_TIME", 10, 20, 30),
    ]
    assert [event.id for event in fired] == [trigger_id(1, fired[0].group.id, at) for at in (10, 20)]
    assert fired[0].localtime == 2_000_000, "the second message caused it"


def test_slides_of_days_are_counted_from_the_servers_midnight_of_each_groups_first_row(kit: Any) -> None:
    """Seed 000's example of a day and an hour (PERIOD's, in event time), from 12:00 on."""
    cluster = kit.Cluster()
    trigger = {"Sliding": {"sliding": {"value": 25, "unit": "h"}, "timezone": "Asia/Shanghai"}}
    cluster.define(kit.stream(trigger=trigger))

    def at(text: str) -> int:
        return parse_timestamp(f"2026-05-{text}", "ms", "Asia/Shanghai")

    cluster.write("c1", [at("01 12:00")])
    cluster.write("c2", [at("02 03:00")])
    cluster.run()
    cluster.write("c1", [at("03 02:00")])
    cluster.run()  # the state goes through its bytes
    cluster.write("c1", [at("04 03:00")])
    cluster.write("c2", [at("05 00:00")])
    cluster.run()
    fired = [(e.group.table, e.start, e.end, e.next) for batch in cluster.triggers for e in batch.events]
    assert sorted(fired) == [
        ("c1", at("01 00:00"), at("02 01:00"), at("03 02:00")),
        ("c1", at("02 01:00"), at("03 02:00"), at("04 03:00")),
        ("c1", at("03 02:00"), at("04 03:00"), at("05 04:00")),
        ("c2", at("02 00:00"), at("03 01:00"), at("04 02:00")),
        ("c2", at("03 01:00"), at("04 02:00"), at("05 03:00")),
    ]


def test_an_offset_begins_the_count_of_days_later() -> None:
    windower = SlidingWindower.of(Sliding(Duration(2, "d"), Duration(1, "h"), "Asia/Shanghai"), "us", True)
    first = parse_timestamp("1970-01-01 00:30", "us", "Asia/Shanghai")
    origin = parse_timestamp("1970-01-01 01:00", "us", "Asia/Shanghai")
    assert windower.origin_at(first) == origin
    assert windower.after(first, origin) == origin, "a row before the offset belongs to the first instant"


def test_a_length_that_is_no_whole_number_of_ticks_is_refused() -> None:
    with pytest.raises(MillraceError, match="1500u is not a whole number of ms"):
        SlidingWindower.of(Sliding(Duration(1500, "u")), "ms", True)

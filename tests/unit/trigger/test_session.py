"""SESSION: arrays and row by row are the same; what is told is the definition; late rows; bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.trigger.groups import Columns
from millrace_core.trigger.groups.watermark import RANGE, Arrivals, Clock, ClockMemory
from millrace_core.trigger.slot import Slot
from millrace_core.trigger.types.occurrences import CLOSE, INVALID, LIVE, OPEN, RECALC, REDO, SoFar
from millrace_core.trigger.types.session.windower import SessionMemory, SessionWindower
from millrace_core.trigger.types.windower import Windower
from millrace_core.wire.events import trigger_id

from ...conftest import examples
from .conftest import GROUPS, OneGroup, Told, arrivals, as_arrivals, clocks, ordered, told

GAP = 5
Window = tuple[int, int]
batches = st.lists(arrivals, max_size=4)
rows = st.lists(st.integers(-40, 80), min_size=1, max_size=40)
cuts = st.lists(st.booleans(), min_size=40, max_size=40)


class One(OneGroup):
    """Rows are their times."""

    def __init__(self, gap: int = GAP, clock: Clock | None = None) -> None:
        super().__init__(SessionWindower(gap), clock)

    def write(self, *times: int) -> list[Told]:
        found = self.feed(times)
        assert ((found.cause == RECALC) >= (found.kind == REDO)).all()
        return told(found.take(np.argsort(found.step, kind="stable")))

    @property
    def remembered(self) -> SessionMemory:
        memory = self.memory.get(0)
        assert isinstance(memory, SessionMemory)
        return memory


@settings(max_examples=examples(40))
@given(clocks, st.sampled_from([0, 1, 5, 12]), batches)
def test_arrays_and_definition_are_the_same(
    clock: Clock, gap: int, some: list[list[tuple[int, int]]]
) -> None:
    windower = SessionWindower(gap)
    clocked, fast, slow = Columns(ClockMemory), Columns(SessionMemory), Columns(SessionMemory)
    for columns in (clocked, fast, slow):
        columns.grow(GROUPS)
    for batch in some:
        judged = clock.judge(clocked, as_arrivals(batch))
        assert ordered(windower.on_rows(fast, judged)) == ordered(Windower.on_rows(windower, slow, judged))
        assert [fast.get(group) for group in range(GROUPS)] == [slow.get(group) for group in range(GROUPS)]


def sessions_of(times: set[int], gap: int) -> list[Window]:
    """The definition."""
    found: list[Window] = []
    for ts in sorted(times):
        if found and ts - found[-1][1] <= gap:
            found[-1] = found[-1][0], ts
        else:
            found.append((ts, ts))
    return found


@settings(max_examples=examples(40))
@given(rows, cuts, st.sampled_from([0, 4, 15]), st.sampled_from([1, 5, 9]))
def test_what_was_told_is_the_definition(times: list[int], cut: list[bool], watermark: int, gap: int) -> None:
    """After any rows each true session was told under its true bounds, or a REDO reached it when all its rows
    had come; and what was told besides was cut again, or goes on."""
    one = One(gap, Clock(watermark))
    closed: dict[int, Window] = {}
    opened: dict[int, int] = {}
    redone: list[tuple[Window, set[int]]] = []
    arrived: set[int] = set()
    batch: list[int] = []
    for number, ts in enumerate(times):
        batch.append(ts)
        if not cut[number] and number + 1 < len(times):
            continue
        arrived.update(batch)
        for kind, start, end, _ in one.write(*batch):
            if kind == OPEN:
                opened[start] = opened.get(start, 0) + 1
            elif kind == CLOSE:
                opened[start] = opened.get(start, 0) - 1
                closed[start] = (start, end)
            elif kind == INVALID:
                opened[start] = opened.get(start, 0) - 1
                closed.pop(start, None)
            else:
                redone.append(((start, end), set(arrived)))
        batch = []
    t = max(times) - watermark
    judged = {ts for ts in arrived if ts <= t}
    true = sessions_of(judged, gap)
    over = {session for session in true if t > session[1] + gap}
    for first, last in over:
        mine = {ts for ts in judged if first <= ts <= last}
        again = any(r[0] <= last and first <= r[1] and mine <= known for r, known in redone)
        assert again or closed.get(first) == (first, last)
    for start, (_, end) in closed.items():
        if (start, end) in over:
            continue
        # what was told and is no session any more was cut again, or goes on
        covered = any(r[0] <= end and start <= r[1] for r, _ in redone)
        goes_on = any(first <= start and end <= last for first, last in set(true) - over)
        assert covered or goes_on
    told = {first for first, count in opened.items() if count > 0}
    check_open([session for session in true if session not in over], one.remembered, told)


def check_open(still_open: list[Window], memory: SessionMemory, told: set[int]) -> None:
    """The memory knows the session that is open, and its opening was told."""
    assert len(still_open) <= 1
    if still_open:
        ((start, end),) = still_open
        assert (memory.rows > 0, memory.last) == (True, end)
        assert memory.vague or memory.start == start
        assert told == (set() if memory.vague else {start})
    else:
        assert not memory.rows
        assert not told


def test_a_gap_of_exactly_the_limit_stays_inside() -> None:
    one = One()
    assert one.write(0, 5) == [(OPEN, 0, 0, 1)]
    assert sorted(one.write(11)) == [(CLOSE, 0, 5, 2), (OPEN, 11, 11, 1)]
    assert sorted(one.write(17)) == [(CLOSE, 11, 11, 1), (OPEN, 17, 17, 1)]


def test_with_a_watermark_t_alone_closes_a_session() -> None:
    one = One(clock=Clock(watermark=10))
    assert one.write(0) == []
    assert one.write(10) == [(OPEN, 0, 0, 1)]
    assert one.write(15) == [], "T is 5, not beyond 0 + 5"
    assert one.write(16) == [(CLOSE, 0, 0, 1)]


def test_disorder_within_the_watermark_is_none() -> None:
    one = One(clock=Clock(watermark=10))
    assert one.write(0, 4, 12) == [(OPEN, 0, 0, 1)]
    assert one.write(8) == []
    assert one.write(30) == [(CLOSE, 0, 12, 4)]
    assert one.write(45) == [(OPEN, 30, 30, 1)], "T is 35, not beyond 30 + 5"


@pytest.mark.parametrize(
    ("late", "told"),
    [
        (21, []),
        (20, []),
        (15, [(INVALID, 20, 22, -1), (OPEN, 15, 22, -1)]),
        (14, [(REDO, 9, 19, -1)]),
        (8, [(REDO, 3, 13, -1)]),
        (2, [(REDO, -3, 7, -1)]),
        (-9, [(REDO, -14, -4, -1)]),
    ],
)
def test_a_late_row_changes_the_open_session_or_has_closed_ones_cut_again(
    late: int, told: list[Told]
) -> None:
    one = One()
    one.write(0, 3, 20, 22)
    assert one.write(late) == told
    start = 15 if late == 15 else 20
    wanted = (CLOSE, start, 22, 2 if late < 15 else -1)
    assert sorted(one.write(40)) == [wanted, (OPEN, 40, 40, 1)]


def test_a_late_row_joins_the_closed_and_the_open_session() -> None:
    one = One()
    one.write(0, 3, 12, 14)
    assert list(one.windower.so_far(one.remembered)) == [SoFar(12, 14, 2)]
    assert one.write(8) == [(INVALID, 12, 14, -1), (OPEN, 0, 14, -1)]
    assert list(one.windower.so_far(one.remembered)) == [SoFar(0, 14, -1)]
    assert sorted(one.write(30)) == [(CLOSE, 0, 14, -1), (OPEN, 30, 30, 1)]


def test_closed_sessions_that_late_rows_changed_join_under_their_new_bounds() -> None:
    one = One()
    one.write(0, 3, 20)
    assert one.write(8) == [(REDO, 3, 13, -1)]
    assert one.write(12) == [(REDO, 7, 17, -1)]
    assert one.write(16) == [(INVALID, 20, 20, -1), (OPEN, 0, 20, -1)]


def test_a_session_of_late_rows_alone_is_the_one_next_before() -> None:
    one = One()
    one.write(0, 30)
    assert one.write(20) == [(REDO, 15, 25, -1)]
    assert one.write(25) == [(INVALID, 30, 30, -1), (OPEN, 20, 30, -1)]


def test_the_last_session_opens_again_if_a_late_row_keeps_it_from_being_over() -> None:
    one = One(clock=Clock(watermark=10))
    assert one.write(0, 3, 10) == [(OPEN, 0, 0, 1)]
    assert one.write(19) == [(CLOSE, 0, 3, 2)], "T is 9"
    assert one.write(8) == [(OPEN, 0, 8, -1)]
    assert one.write(26) == [(CLOSE, 0, 10, -1)]


def test_a_session_that_opened_again_and_then_begins_earlier_is_invalid_to_all() -> None:
    """Its closing was told before, unlike that of a session which is open for the first time."""
    windower, clock = SessionWindower(GAP), Clock(watermark=10)
    clocked, memory = Columns(ClockMemory), Columns(SessionMemory)
    clocked.grow(1)
    memory.grow(1)
    told: list[tuple[int, int, int]] = []
    for ts in (10, 13, 20, 29, 18, 6):
        arrived = Arrivals(np.zeros(1, dtype=np.int64), np.array([ts], dtype=np.int64))
        found = windower.on_rows(memory, clock.judge(clocked, arrived))
        arrays = (found.kind, found.start, found.cause)
        told += zip(*(array.tolist() for array in arrays), strict=True)
    assert told == [
        (OPEN, 10, LIVE),
        (CLOSE, 10, LIVE),
        (OPEN, 10, LIVE),
        (INVALID, 10, RECALC),
        (OPEN, 6, LIVE),
    ]


def test_a_new_session_may_begin_with_a_late_row() -> None:
    one = One(clock=Clock(watermark=10))
    one.write(0, 30)
    assert one.write(17) == [(OPEN, 17, 17, 1)], "T is 20: the session of 17 is not over"
    assert one.write(33) == [(CLOSE, 17, 17, -1)]


def test_a_vague_start_is_cut_again_from_the_stored_rows() -> None:
    """Late rows join the forgotten session of 0 with the one of 10, which then joins the open one."""
    one = One()
    one.write(0, 10, 20)
    assert one.write(5) == [(REDO, 0, 10, -1)]
    assert one.write(15) == [(INVALID, 20, 20, -1)], "its start may be before 5: nobody opens it"
    assert one.write(21) == []
    assert list(one.windower.so_far(one.remembered)) == [], "it cannot trigger before it is known"
    assert sorted(one.write(40)) == [(OPEN, 40, 40, 1), (REDO, 5, 21, -1)]
    assert one.remembered.closed_vague == 1


def test_a_start_beyond_what_is_remembered_is_vague() -> None:
    one = One()
    one.write(0, 10, 16, 30)
    assert one.write(21) == [(REDO, 16, 26, -1)]
    assert one.write(26) == [(INVALID, 30, 30, -1), (OPEN, 16, 30, -1)], "joined with 16 and 21"
    assert one.write(12) == [(INVALID, 16, 30, -1)], "and with the session of 10, which is forgotten"
    assert one.write(8) == []
    assert sorted(one.write(50)) == [(OPEN, 50, 50, 1), (REDO, 8, 30, -1)]


def test_the_first_session_of_a_group_has_nothing_before_it() -> None:
    one = One()
    one.write(20)
    assert one.write(16) == [(INVALID, 20, 20, -1), (OPEN, 16, 20, -1)]
    assert one.write(12) == [(INVALID, 16, 20, -1), (OPEN, 12, 20, -1)]
    assert sorted(one.write(30)) == [(CLOSE, 12, 20, -1), (OPEN, 30, 30, 1)]


def test_rows_with_equal_times_of_several_tables_go_over_arrays() -> None:
    """They are late by the clock, but change no session: no group is done by hand."""
    windower, clock = SessionWindower(GAP), Clock(shared=True)
    clocked, memory = Columns(ClockMemory), Columns(SessionMemory)
    clocked.grow(1)
    memory.grow(1)
    times = np.array([0, 0, 3, 3, 3, 9, 9], dtype=np.int64)
    judged = clock.judge(clocked, Arrivals(np.zeros(7, dtype=np.int64), times))
    assert judged.late.sum() == 4
    _, wild = windower._sessions(memory, judged)
    assert not wild.any()
    assert ordered(windower.on_rows(memory, judged)) == [
        (0, 0, 0, 0, OPEN, 1, LIVE, 0),
        (0, 5, 0, 3, CLOSE, -1, LIVE, 0),
        (0, 5, 9, 9, OPEN, 1, LIVE, 0),
    ]


def test_times_far_apart() -> None:
    one = One(gap=(1 << 63) - 1)
    far = RANGE - 1
    one.write(-far)
    assert sorted(one.write(far)) == [(CLOSE, -far, -far, 1), (OPEN, far, far, 1)]


def test_a_joined_session_has_the_id_of_its_start(kit: Any) -> None:
    cluster = kit.Cluster()
    kinds = ("WINDOW_OPEN", "WINDOW_CLOSE")
    cluster.define(kit.stream(trigger={"Session": {"gap": GAP}}, kinds=kinds))
    for times in ([0, 3, 12], [8], [30]):
        cluster.write("c1", times)
        cluster.run()
    events = [event for batch in cluster.triggers for event in batch.events]
    joined = [(event.kind, event.end) for event in events if event.id == trigger_id(1, events[0].group.id, 0)]
    assert joined == [("OPEN", 0), ("CLOSE", 3), ("OPEN", 12), ("CLOSE", 12)]


def test_a_group_remembers_two_sessions_however_many_there_were(kit: Any) -> None:
    cluster = kit.Cluster(slots=1)
    cluster.define(kit.stream(trigger={"Session": {"gap": GAP}}))
    sizes = []
    for begin in range(0, 100_000, 2_000):
        cluster.write("c1", range(begin, begin + 2_000, 7))
        cluster.write("c1", [begin - 3_003])
        cluster.run()
        sizes.append(len(cluster.blobs[0]))
    assert max(sizes[5:]) <= sizes[4] + 64
    (stream,) = Slot.restore(cluster.blobs[0]).contents.streams.values()
    assert not stream.memory.lists

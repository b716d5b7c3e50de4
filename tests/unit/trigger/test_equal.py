"""Arrays and row by row are the same: the clock against a model, INTERVAL against its definition."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from millrace_core.trigger.groups import Columns
from millrace_core.trigger.groups.watermark import NEVER, Clock, ClockMemory, Evaluated
from millrace_core.trigger.types.interval.grid import IntervalGrid
from millrace_core.trigger.types.interval.windower import IntervalMemory, IntervalWindower
from millrace_core.trigger.types.windower import Windower

from ...conftest import examples
from .conftest import GROUPS, arrivals, as_arrivals, clocks, ordered

batches = st.lists(arrivals, max_size=4)
grids = st.builds(
    IntervalGrid,
    interval=st.sampled_from([5, 10, 13]),
    sliding=st.sampled_from([3, 5, 10, 20]),
    offset=st.integers(0, 2),
)


class Model:
    """What the module's docstring says, row by row."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.newest = NEVER
        self.started = False
        self.waiting: list[int] = []
        self.judged: list[tuple[int, int, bool, bool]] = []
        self.moves: list[tuple[int, int, int]] = []
        self.dropped: dict[str, int] = {}

    def arrive(self, step: int, ts: int) -> None:
        clock, before = self.clock, self.newest
        if before != NEVER and clock.expired is not None and ts < before - clock.expired:
            self.drop("expired")
            return
        self.newest = max(before, ts)
        now, t = self.newest - clock.watermark, before - clock.watermark
        if before != NEVER and ts <= t and self.started:
            if clock.ignore_disorder and (ts < t or not clock.shared):
                self.drop("late")
            else:
                self.judged.append((step, ts, True, True))
            return
        if ts in self.waiting and not clock.shared:
            self.waiting.remove(ts)
        self.waiting.append(ts)
        ready = sorted(w for w in self.waiting if w <= now)
        self.waiting = [w for w in self.waiting if w > now]
        if ready:
            again = [i > 0 and ready[i] == ready[i - 1] for i in range(len(ready))]
            self.judged += [(step, w, False, a) for w, a in zip(ready, again, strict=True)]
            if not self.started:
                t = ready[0]
        self.started = self.started or bool(ready)
        if self.started and (now > t or ready):
            self.moves.append((step, t, now))

    def drop(self, cause: str) -> None:
        self.dropped[cause] = self.dropped.get(cause, 0) + 1


@given(clocks, batches)
def test_clock(clock: Clock, some: list[list[tuple[int, int]]]) -> None:
    memory = Columns(ClockMemory)
    memory.grow(GROUPS)
    models = [Model(clock) for _ in range(GROUPS)]
    for batch in some:
        rows = as_arrivals(batch)
        judged = clock.judge(memory, rows)
        for model in models:
            model.judged, model.moves, model.dropped = [], [], {}
        for step, (group, ts) in enumerate(zip(rows.group.tolist(), rows.ts.tolist(), strict=True)):
            models[group].arrive(step, ts)
        for group, model in enumerate(models):
            mine = judged.group == group
            found = zip(
                *(a[mine].tolist() for a in (judged.step, judged.ts, judged.late, judged.unsure)), strict=True
            )
            assert list(found) == model.judged
            moved = judged.moves.group == group
            steps = [a[moved].tolist() for a in (judged.moves.step, judged.moves.before, judged.moves.now)]
            # a move that goes nowhere closes nothing; the model may have fewer or more of them
            assert [m for m in zip(*steps, strict=True) if m[1] < m[2]] == [
                m for m in model.moves if m[1] < m[2]
            ]
            remembered = memory.get(group)
            assert [w.ts for w in remembered.waiting] == sorted(model.waiting)  # type: ignore[attr-defined]
            assert remembered.newest == model.newest  # type: ignore[attr-defined]
        total: dict[str, int] = {}
        for model in models:
            for cause, count in model.dropped.items():
                total[cause] = total.get(cause, 0) + count
        assert {cause: n for cause, n in judged.dropped.items() if n} == total


@settings(max_examples=examples(300))
@given(clocks, grids, st.booleans(), st.integers(1, 6), batches)
def test_interval(
    clock: Clock, grid: IntervalGrid, empty: bool, most: int, some: list[list[tuple[int, int]]]
) -> None:
    windower = IntervalWindower(grid, empty, most)
    clocked = Columns(ClockMemory)
    fast, slow = Columns(IntervalMemory), Columns(IntervalMemory)
    for columns in (clocked, fast, slow):
        columns.grow(GROUPS)
    for batch in some:
        judged: Evaluated = clock.judge(clocked, as_arrivals(batch))
        one = windower.on_rows(fast, judged)
        other = Windower.on_rows(windower, slow, judged)
        assert ordered(one) == ordered(other)
        assert one.skipped == other.skipped
        assert [fast.get(g) for g in range(GROUPS)] == [slow.get(g) for g in range(GROUPS)]

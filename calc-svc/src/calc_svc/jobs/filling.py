"""FILL of a stream (``millrace_core.calc.filling`` has the rules): what is stored around the windows of a
stage, and the query over whole stretches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from calc_svc.jobs.compute import Calculator
from calc_svc.jobs.counts import members_of
from calc_svc.jobs.outputs import StoredTimes
from calc_svc.jobs.recalc_rows import TriggerRows
from calc_svc.spark.session import Runs
from millrace_core.calc import filling
from millrace_core.calc.conversion import scale
from millrace_core.calc.filling import Rows, Stretch
from millrace_core.calc.job import Stage
from millrace_core.calc.outcome import Outcome
from millrace_core.calc.retraction import Ranges, Settled, settled
from millrace_core.model.schema import Table
from millrace_core.model.stream import StreamSpec
from millrace_core.plan import Plan
from millrace_core.store.search import Ints
from millrace_core.trigger.stream import compiled, essence
from millrace_core.trigger.types import Grid, type_of
from millrace_core.wire.events import Group, TriggerEvent

Outcomes = dict[int, Outcome]


@dataclass(frozen=True, slots=True)
class Filling:
    """``plan``: of the query over stretches. ``held``: what the output table ``output`` holds."""

    calculator: Calculator
    plan: Plan
    held: StoredTimes
    output: Table

    def of(
        self, spec: StreamSpec, stage: Stage, outcomes: Mapping[int, Outcome],
        name: Callable[[Group], str], lane: Runs,
    ) -> tuple[Stage, Outcomes]:  # fmt: skip
        """The stage and its outcomes with what is filled, and what is taken back. ``name``: of a group's
        sub-table."""
        assert spec.source is not None, "FILL is over a table"
        type_ = type_of(spec.trigger)
        assert type_.grid is not None, "FILL goes with INTERVAL"
        grid: Grid = type_.grid(spec.trigger, spec.source.table.precision)
        rows = TriggerRows(compiled(essence(spec)), self.calculator.store.readable(spec.source.table))
        bounds = rows.bounds()
        if spec.emission.when == "force_window_close":
            of_event = {id(event): _rows(spec, rows, event.group, bounds) for event in stage.asked}
            return self._closed_by_the_clock(spec, grid, stage, outcomes, of_event, lane)
        left = settled(spec, stage.events, outcomes)
        calculated = {key for key, outcome in outcomes.items() if outcome.error is None}
        taken_back: list[TriggerEvent] = []
        wanted: list[tuple[TriggerEvent, Ranges]] = []
        for events in filling.by_group(stage.events).values():
            told = filling.spans(grid, events, calculated)
            if not told:
                continue
            group = events[0].group
            around = filling.stretches(grid, told, _rows(spec, rows, group, bounds))
            shown = self._shown(spec, grid, around, left, group, name(group))
            for one in around:
                taken_back += filling.retractions(grid, one, events[0])
                starts = filling.filled(grid, one, shown)
                event = filling.over(grid, one, events[0]) if len(starts) else None
                if event is not None:
                    wanted.append((event, starts))
        over = [event for event, _ in wanted]
        found = self.calculator.calculate(filling.query_of(spec), self.plan, over, lane) if over else []
        results = dict(outcomes)
        for (event, starts), outcome in zip(wanted, found, strict=True):
            results[id(event)] = filling.only(outcome, starts)
        return Stage([*stage.events, *taken_back, *over], [*stage.asked, *over]), results

    def _closed_by_the_clock(
        self, spec: StreamSpec, grid: Grid, stage: Stage, outcomes: Mapping[int, Outcome],
        rows: Mapping[int, Rows], lane: Runs,
    ) -> tuple[Stage, Outcomes]:  # fmt: skip
        """The stage with the filled result of each window that was told of without rows; of these nobody is
        notified."""
        empty: list[TriggerEvent] = []
        over: list[TriggerEvent] = []
        for event in stage.asked:
            if (stretch := filling.closed_empty(grid, event, rows[id(event)])) is not None:
                empty.append(event)
                over.append(stretch)
        found = self.calculator.calculate(filling.query_of(spec), self.plan, over, lane) if over else []
        results = dict(outcomes)
        silent: dict[int, TriggerEvent] = {}
        for event, outcome in zip(empty, found, strict=True):
            own = Ranges()
            own.add(event.start, event.start)
            untold = silent[id(event)] = msgspec.structs.replace(event, cause="DELAY")
            results.pop(id(event), None)
            results[id(untold)] = filling.only(outcome, own)
        events, asked = (
            [silent.get(id(event), event) for event in some] for some in (stage.events, stage.asked)
        )
        return Stage(events, asked), results

    def _shown(
        self, spec: StreamSpec, grid: Grid, around: list[Stretch], left: Settled, group: Group, name: str
    ) -> set[int]:
        """The starts of the windows around that have a result: it is stored, or written now."""
        assert spec.source is not None
        up, down = scale(spec.source.table.precision, self.output.precision)
        starts = {grid.start(number) for one in around for number in one.bounds}
        asked = Ranges()
        for start in sorted(starts):
            asked.add(start * up // down, start * up // down)
        stored = set(self.held.of(self.output, {name: asked}).get(name, ()))
        gone = left.obsolete.get(group.id, Ranges())
        shown = {start for start in starts if start * up // down in stored and start not in gone}
        return shown | {event.start for event, _ in left.standing if event.group.id == group.id}


def _rows(spec: StreamSpec, rows: TriggerRows, group: Group, bounds: tuple[int, int]) -> Rows:
    """The rows of a group that count for the stream."""
    with rows.stored.lock:
        read = rows.reader(group, members_of(spec, rows.stored, group).tolist())

    def times(low: int, high: int) -> Ints:
        return np.asarray(read(low, high).rows.ts, dtype=np.int64)

    return Rows(times, *bounds)

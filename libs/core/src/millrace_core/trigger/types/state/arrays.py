"""STATE_WINDOW over arrays: as :meth:`state.StateWindower.on_row`, for all groups of a batch at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from millrace_core.trigger.groups.columns import OWNER, Array, Columns, Ints, objects, starts_of
from millrace_core.trigger.groups.watermark import Bools, Evaluated
from millrace_core.trigger.types.kept import Detail, first_reaching, keep, occurrences, sums
from millrace_core.trigger.types.occurrences import CLOSE, OPEN, Occurrences

STATE = "state"
"""The signal that a window's rows have in common."""
FIELDS = ("start", "last", "rows", "after", "told")


@dataclass(frozen=True, slots=True)
class StateRule:
    """``true_for`` in ticks. ``shared``: rows of equal times may be different rows. ``told``: somebody is
    told of the windows, with their states. ``openings``: somebody wants to know when one opens. ``retracts``:
    the result of a window that is open again is retracted."""

    extend: int = 0
    true_for: int = 0
    shared: bool = False
    told: bool = False
    openings: bool = True
    retracts: bool = False

    def opening(self, before: Any, state: Any) -> Detail:
        """Fields of WINDOW_OPEN (seed 000)."""
        return {"prevState": before, "curState": state} if self.told else None

    def closing(self, state: Any, after: Any) -> Detail:
        """Fields of WINDOW_CLOSE (seed 000)."""
        return {"curState": state, "nextState": after} if self.told else None


@dataclass(slots=True)
class Run:
    """Rows of one state: the window's ``start``, its ``first`` and ``last`` row."""

    state: Any
    start: int
    first: int
    last: int


@dataclass(slots=True)
class _Runs:
    """Runs of rows of one state, in order: the windows open before the batch (``open_row`` -1), and new ones.

    ``[begin, end)``: the run's rows in the batch, including those without a state after it. ``final``: the
    last one with a state, -1 for none. ``next``: whether the next run belongs to the same group, so that this
    one closes. ``rows`` and ``after`` as in StateMemory, ``earlier``: rows of the window before the batch.
    """

    group: Ints
    open_row: Ints
    begin: Ints
    end: Ints
    final: Ints
    next: Bools
    state: Array
    start: Ints
    last: Ints
    earlier: Ints
    rows: Ints
    after: Ints
    told: Bools

    @property
    def previous(self) -> Ints:
        """The places of the runs that are followed by another run of the same group."""
        return np.flatnonzero(self.next)


def in_order(rule: StateRule, most_kept: int, memory: Columns, evaluated: Evaluated) -> Occurrences:
    """Evaluate rows that come in order, none of which may be another version of an earlier one, and update
    the memories."""
    heads = starts_of(evaluated.group)
    valued = np.flatnonzero(evaluated.columns[STATE] != None)  # noqa: E711 - element by element
    runs = _runs(rule, memory, evaluated, heads, valued)
    opened = _open(rule, evaluated, runs, valued)
    found = [_told_open(rule, memory, evaluated, runs, opened), _told_close(rule, evaluated, runs)]
    _remember(most_kept, memory, evaluated, runs, valued, heads)
    return Occurrences.join(found)


def _places(
    memory: Columns, evaluated: Evaluated, heads: Ints, valued: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """The runs' ``group``, ``open_row``, ``begin``, ``end``."""
    group, states = evaluated.group, evaluated.columns["state"][valued]
    first = starts_of(group[valued])
    before = np.empty(len(valued), dtype=object)
    before[1:] = states[:-1]
    before[first] = memory.singles["state"][group[valued[first]]]
    fresh = valued[np.asarray(states != before, dtype=bool)]
    touched = group[heads]
    going = np.flatnonzero(memory.singles["state"][touched] != None)  # noqa: E711
    # a run that goes on is treated as if it began right before the group's first row
    place = np.concatenate((2 * heads[going] - 1, 2 * fresh))
    order = np.argsort(place, kind="stable")
    open_row = np.concatenate((np.full(len(going), -1), fresh))[order]
    mine = np.concatenate((touched[going], group[fresh]))[order]
    begin = np.concatenate((heads[going], fresh))[order]
    end = np.append(heads[1:], len(group))[np.searchsorted(heads, begin, side="right") - 1]
    end[:-1] = np.minimum(end[:-1], begin[1:])
    return mine, open_row, begin, end


def _runs(rule: StateRule, memory: Columns, evaluated: Evaluated, heads: Ints, valued: Ints) -> _Runs:
    group, open_row, begin, end = _places(memory, evaluated, heads, valued)
    at = np.searchsorted(valued, end) - 1
    final = np.append(valued, -1)[at]
    final = np.where(final >= begin, final, -1)
    next_ = np.append(group[1:] == group[:-1], False)[: len(group)]
    was = {name: memory.singles[name][group] for name in (*FIELDS, "state")}
    new, some = open_row >= 0, final >= 0
    last = np.where(some, evaluated.ts[final], was["last"])
    start = np.where(new, evaluated.ts[begin], was["start"])
    earlier = np.where(new, 0, sums(was["rows"], was["after"]))
    behind = end - np.where(some, final + 1, begin)
    after = np.where(some, behind, sums(was["after"], behind))
    if rule.extend == 2:
        before = np.flatnonzero(next_)
        start[before + 1] = np.minimum(last[before] + 1, start[before + 1])
        earlier[before + 1] = after[before]
    return _Runs(
        group, open_row, begin, end, final, next_,
        np.where(new, evaluated.columns["state"][begin], was["state"]), start, last, earlier,
        np.where(some, sums(earlier, final - begin + 1), was["rows"]), after, ~new & (was["told"] > 0),
    )  # fmt: skip


def _open(rule: StateRule, evaluated: Evaluated, runs: _Runs, valued: Ints) -> Ints:
    """The row with which each run lasts ``true_for``, -1 if there is none (or the run was told of before)."""
    if not rule.true_for:
        return runs.open_row
    rows = np.arange(len(evaluated.group)) if rule.extend == 1 else valued
    return first_reaching(rule.true_for, evaluated.ts, rows, (runs.begin, runs.end), runs.start, runs.told)


def _bounds(rule: StateRule, evaluated: Evaluated, runs: _Runs) -> tuple[Ints, Ints, Ints, Ints]:
    """The places, closing rows, ends and numbers of rows of the runs that close and are long enough."""
    place = runs.previous
    row = runs.begin[place + 1]
    end, rows = runs.last[place], runs.rows[place]
    if rule.extend == 1:
        end = np.maximum(end, evaluated.ts[row] - 1)
        rows = sums(rows, runs.after[place])
    long = end - runs.start[place] >= rule.true_for
    return place[long], row[long], end[long], rows[long]


def _told_close(rule: StateRule, evaluated: Evaluated, runs: _Runs) -> Occurrences:
    place, row, end, rows = _bounds(rule, evaluated, runs)
    detail = None
    if rule.told:
        states, after = runs.state[place].tolist(), runs.state[place + 1].tolist()
        detail = objects([rule.closing(one, two) for one, two in zip(states, after, strict=True)])
    where = runs.group[place], evaluated.step[row]
    return occurrences(CLOSE, where, runs.start[place], end, rows, detail)


def _told_open(
    rule: StateRule, memory: Columns, evaluated: Evaluated, runs: _Runs, opened: Ints
) -> Occurrences:
    """Openings, told with the row, or else with the closing, that makes the run long enough."""
    place = np.flatnonzero(opened >= 0)
    row = opened[place]
    end = evaluated.ts[row]
    rows = sums(runs.earlier[place], row - runs.begin[place] + 1)
    told = runs.told.copy()
    told[place] = True
    if rule.true_for and rule.extend == 1:
        closing, by, until, count = _bounds(rule, evaluated, runs)
        late = ~told[closing]
        place, row = np.concatenate((place, closing[late])), np.concatenate((row, by[late]))
        end, rows = np.concatenate((end, until[late])), np.concatenate((rows, count[late]))
    runs.told = told
    detail = None
    if rule.told:
        before = np.empty(len(runs.group), dtype=object)
        before[:] = memory.singles["closed"][runs.group]
        before[runs.previous + 1] = runs.state[runs.previous]
        states = zip(before[place].tolist(), runs.state[place].tolist(), strict=True)
        detail = objects([rule.opening(one, two) for one, two in states])
    return occurrences(OPEN, (runs.group[place], evaluated.step[row]), runs.start[place], end, rows, detail)


def _remember(
    most_kept: int, memory: Columns, evaluated: Evaluated, runs: _Runs, valued: Ints, heads: Ints
) -> None:
    touched = evaluated.group[heads]
    singles = memory.singles
    count = np.diff(np.append(heads, len(evaluated.group)))
    stateless = singles["state"][touched] == None  # noqa: E711
    stateless[np.isin(touched, runs.group)] = False
    idle = touched[stateless]
    singles["after"][idle] = sums(singles["after"][idle], count[stateless])
    last = np.flatnonzero(~runs.next)
    group = runs.group[last]
    anew = runs.open_row[last] >= 0
    closed = last[(last > 0) & runs.next[last - 1]]
    owner = runs.group[closed]
    singles["closed"][owner], singles["floor"][owner] = runs.state[closed - 1], runs.last[closed - 1]
    singles["closed_start"][owner] = runs.start[closed - 1]
    singles["state"][group] = runs.state[last]
    for name in FIELDS:
        singles[name][group] = getattr(runs, name)[last]
    if len(group):
        rows = _newest(valued, runs, last, most_kept)
        fresh = {OWNER: evaluated.group[rows], "ts": evaluated.ts[rows]}
        cut, floor = keep(memory, group, fresh, anew, most_kept)
        singles["floor"][cut] = floor


def _newest(valued: Ints, runs: _Runs, last: Ints, most: int) -> Ints:
    """The newest rows of the open windows: one more than are kept, so that the newest forgotten one is
    known."""
    low = np.searchsorted(valued, runs.begin[last])
    high = np.searchsorted(valued, runs.end[last])
    low = np.maximum(low, high - most - 1)
    sizes = high - low
    index = np.arange(int(sizes.sum())) + np.repeat(low - (np.cumsum(sizes) - sizes), sizes)
    found: Ints = valued[index]
    return found

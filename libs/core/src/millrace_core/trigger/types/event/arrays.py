"""EVENT_WINDOW over arrays: as :meth:`event.EventWindower.on_row`, for all groups of a batch at once.

After a row that meets the end condition no window is open, whatever came before. So the rows from one such
row (exclusive) to the next (inclusive) form an independent *stretch*: the first of them that meets the start
condition opens a window, and the stretch's last row closes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from millrace_core.trigger.groups.columns import OWNER, Array, Columns, Ints, objects, starts_of
from millrace_core.trigger.groups.watermark import NEVER, Bools, Evaluated
from millrace_core.trigger.types.kept import Detail, first_reaching, keep, occurrences, sums
from millrace_core.trigger.types.occurrences import CLOSE, OPEN, Occurrences

START, END = 1, 2
"""Flags of a row: the conditions that it meets."""
OPENED, CLOSED = 0, 1
"""conditionIndex of the opening and of the closing condition (seed 000)."""


@dataclass(frozen=True, slots=True)
class EventRule:
    """``true_for`` in ticks. ``shared``: rows of equal times may be different rows. ``told``: somebody is
    told of the windows, with the values of the conditions' columns (``opens``, ``closes``). ``openings``:
    somebody wants to know when one opens. ``retracts``: the result of a window that is open again is
    retracted."""

    true_for: int = 0
    shared: bool = False
    told: bool = False
    openings: bool = True
    opens: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    retracts: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns whose values are part of the notifications."""
        return tuple(dict.fromkeys((*self.opens, *self.closes))) if self.told else ()

    def opening(self, cells: Any) -> Detail:
        """Fields of WINDOW_OPEN (seed 000); ``cells``: the opening row's, None if they are not known."""
        return _condition(OPENED, self.opens, cells)

    def closing(self, cells: Any) -> Detail:
        """Fields of WINDOW_CLOSE (seed 000); ``cells``: the closing row's."""
        return _condition(CLOSED, self.closes, cells)


def _condition(index: int, names: tuple[str, ...], cells: Any) -> Detail:
    if cells is None:
        return None
    values = {name: cells[name] for name in names}
    return {"triggerCondition": {"conditionIndex": index, "fieldValue": values}}


@dataclass(slots=True)
class _Windows:
    """Windows that were open before the batch (``open_row`` -1) or open in it, in order.

    ``begin``: the first row in the batch; ``end``: one past the last; ``closes``: whether the last one closes
    the window. ``earlier``: the number of rows before the batch; ``cells``: those of the opening rows, if
    somebody is told.
    """

    group: Ints
    open_row: Ints
    begin: Ints
    end: Ints
    closes: Bools
    start: Ints
    earlier: Ints
    told: Bools
    cells: Array


def in_order(
    rule: EventRule, most_kept: int, memory: Columns, evaluated: Evaluated, columns: dict[str, Array]
) -> Occurrences:
    """Evaluate rows that come in order, none of which may be another version of an earlier one, and update
    the memories.

    ``columns``: the values of ``rule.names``.
    """
    # rows that waited for T have their flags as objects
    start, end = (np.asarray(evaluated.columns[name], dtype=bool) for name in ("start", "end"))
    flags = START * start + END * end.astype(np.int64)
    heads = starts_of(evaluated.group)
    windows = _windows(rule, memory, evaluated, flags, heads, columns)
    opened = _open(rule, evaluated, windows)
    found = [
        _told_open(rule, evaluated, windows, opened),
        _told_close(rule, evaluated, windows, columns),
    ]
    _remember(rule, most_kept, memory, evaluated, flags, windows, heads, columns)
    return Occurrences.join(found)


def _windows(
    rule: EventRule,
    memory: Columns,
    evaluated: Evaluated,
    flags: Ints,
    heads: Ints,
    columns: dict[str, Array],
) -> _Windows:
    group = evaluated.group
    ends, starts = np.flatnonzero(flags & END), np.flatnonzero(flags & START)
    touched = group[heads]
    going = heads[memory.singles["start"][touched] != NEVER]
    # a window that goes on is treated as if it began right before the group's first row
    place = np.concatenate((2 * going - 1, 2 * starts))
    order = np.argsort(place, kind="stable")
    row = np.concatenate((going, starts))[order]
    new = np.concatenate((np.zeros(len(going), dtype=bool), np.ones(len(starts), dtype=bool)))[order]
    # the first start row of each stretch opens a window
    stretch = np.searchsorted(ends, row)
    other = (stretch[1:] != stretch[:-1]) | (group[row[1:]] != group[row[:-1]])
    first = np.flatnonzero(np.append(True, other)[: len(row)])
    row, new, stretch = row[first], new[first], stretch[first]
    upto = np.append(heads[1:], len(group))[np.searchsorted(heads, row, side="right") - 1]
    by = np.append(ends, len(group))[stretch] if len(row) else row
    mine = group[row]
    cells = np.full(len(row), None, dtype=object)
    if rule.told:
        cells[~new] = memory.singles["cells"][mine[~new]]
        cells[new] = _cells(columns, row[new])
    return _Windows(
        mine, np.where(new, row, -1), row, np.minimum(by + 1, upto), by < upto,
        np.where(new, evaluated.ts[row], memory.singles["start"][mine]),
        np.where(new, 0, memory.singles["rows"][mine]),
        ~new & (memory.singles["told"][mine] > 0),
        cells,
    )  # fmt: skip


def _cells(columns: dict[str, Array], rows: Ints) -> Array:
    values = [column[rows].tolist() for column in columns.values()]
    return objects(
        [{name: column[i] for name, column in zip(columns, values, strict=True)} for i in range(len(rows))]
    )


def _open(rule: EventRule, evaluated: Evaluated, windows: _Windows) -> Ints:
    """The row with which each window lasts ``true_for``, -1 if there is none (or the window was told of
    before)."""
    if not rule.true_for:
        return windows.open_row
    rows, places = np.arange(len(evaluated.group)), (windows.begin, windows.end)
    return first_reaching(rule.true_for, evaluated.ts, rows, places, windows.start, windows.told)


def _told_open(rule: EventRule, evaluated: Evaluated, windows: _Windows, opened: Ints) -> Occurrences:
    place = np.flatnonzero(opened >= 0)
    row = opened[place]
    windows.told[place] = True
    rows = sums(windows.earlier[place], row - windows.begin[place] + 1)
    detail = None
    if rule.told:
        detail = objects([rule.opening(cells) for cells in windows.cells[place].tolist()])
    where = windows.group[place], evaluated.step[row]
    return occurrences(OPEN, where, windows.start[place], evaluated.ts[row], rows, detail)


def _told_close(
    rule: EventRule, evaluated: Evaluated, windows: _Windows, columns: dict[str, Array]
) -> Occurrences:
    place = np.flatnonzero(windows.closes & windows.told)
    row = windows.end[place] - 1
    rows = sums(windows.earlier[place], windows.end[place] - windows.begin[place])
    detail = None
    if rule.told:
        detail = objects([rule.closing(cells) for cells in _cells(columns, row).tolist()])
    where = windows.group[place], evaluated.step[row]
    return occurrences(CLOSE, where, windows.start[place], evaluated.ts[row], rows, detail)


def _remember(
    rule: EventRule, most_kept: int, memory: Columns, evaluated: Evaluated, flags: Ints, windows: _Windows,
    heads: Ints, columns: dict[str, Array],
) -> None:  # fmt: skip
    singles, touched = memory.singles, evaluated.group[heads]
    tails = np.append(heads[1:], len(evaluated.group))
    singles["last"][touched] = evaluated.ts[tails - 1]
    # if one group is assigned several times, the last window's value stays
    closed = np.flatnonzero(windows.closes)
    closed = closed[np.append(windows.group[closed][1:] != windows.group[closed][:-1], True)[: len(closed)]]
    owner = windows.group[closed]
    for name, fresh in (("start", NEVER), ("rows", 0), ("told", 0), ("cells", None)):
        singles[name][owner] = fresh
    singles["closed_start"][owner] = windows.start[closed]
    singles["floor"][owner] = evaluated.ts[windows.end[closed] - 1]
    open_ = np.flatnonzero(~windows.closes)
    owner = windows.group[open_]
    singles["start"][owner], singles["cells"][owner] = windows.start[open_], windows.cells[open_]
    singles["told"][owner] = windows.told[open_]
    rows = sums(windows.earlier[open_], windows.end[open_] - windows.begin[open_])
    singles["rows"][owner] = rows
    since = heads.copy()
    place = np.searchsorted(touched, windows.group[closed])
    since[place] = windows.end[closed]
    anew = np.zeros(len(touched), dtype=bool)
    anew[place] = True
    kept = _newest(np.flatnonzero(flags), since, tails, most_kept)
    cells = _cells(columns, kept) if rule.told else np.full(len(kept), None, dtype=object)
    fresh_rows = {
        OWNER: evaluated.group[kept],
        "ts": evaluated.ts[kept],
        "flags": flags[kept],
        "cells": cells,
    }
    cut, floor = keep(memory, touched, fresh_rows, anew, most_kept)
    singles["floor"][cut], singles["closed_start"][cut] = floor, NEVER


def _newest(rows: Ints, since: Ints, tails: Ints, most: int) -> Ints:
    """The last of these places in each ``[since, tail)``: one more than are kept, so that the newest
    forgotten one is known."""
    low, high = np.searchsorted(rows, since), np.searchsorted(rows, tails)
    low = np.maximum(low, high - most - 1)
    sizes = high - low
    index = np.arange(int(sizes.sum())) + np.repeat(low - (np.cumsum(sizes) - sizes), sizes)
    found: Ints = rows[index]
    return found

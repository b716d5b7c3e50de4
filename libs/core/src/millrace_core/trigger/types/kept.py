"""What STATE_WINDOW and EVENT_WINDOW share: rows that are kept for late ones, and telling of windows that are
cut again.

If a late row falls into the open window, the window is cut again from the rows that the memory has kept since
the last closed window. Both types keep at most :data:`MOST_KEPT` rows per group. Forgotten rows cannot be cut
again from the memory: a late row among them causes a cut from the stored rows (REDO) once the window closes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from millrace_core.trigger.groups.columns import OWNER, Array, Columns, Ints, Table, starts_of, take
from millrace_core.trigger.groups.watermark import Bools, Evaluated, Moves
from millrace_core.trigger.types.occurrences import (
    CLOSE,
    INVALID,
    LIVE,
    OPEN,
    RECALC,
    REDO,
    Occurrence,
    Occurrences,
)
from millrace_core.wire.diagnosis import Wait

MOST_KEPT = 256
"""The most rows that a group keeps: a thousand groups then cost a slot about a megabyte, and late rows seldom
lie further back."""
UNSURE = -1
"""In place of a number of rows that is not known; as ``rownum`` it means that the table must be asked."""
ALWAYS = (1 << 63) - 1
"""Later than any time: no late row waits for REDO."""

Detail = dict[str, object] | None


class Cut(NamedTuple):
    """A window that was cut again. ``opened``, ``closed``: details of its opening and its closing."""

    start: int
    end: int
    opened: Detail
    closed: Detail


def plus(count: int, more: int) -> int:
    """The sum of two numbers of rows, either of which may be UNSURE."""
    return UNSURE if count < 0 or more < 0 else count + more


def sums(*counts: Ints) -> Ints:
    """:func:`plus` over arrays."""
    unsure = np.logical_or.reduce([count < 0 for count in counts])
    total: Ints = np.where(unsure, UNSURE, sum(counts[1:], counts[0]))
    return total


def redo(first: int, last: int) -> Occurrence:
    """The closed windows that touch this range must be cut again from the stored rows."""
    return Occurrence(REDO, first, last, UNSURE, RECALC)


def tell_again(
    told: Mapping[int, int], closed: Sequence[Cut], open_: Cut | None, true_for: int
) -> Iterator[Occurrence]:
    """What to tell after a late row: ``closed`` windows close, ``open_`` is the one that goes on.

    ``told``: start -> last row of the windows whose opening was told. If no window of at least ``true_for``
    begins at such a start any more, the old one is told of as invalid. Windows that begin elsewhere are told
    as opened.
    """
    windows = [*closed, open_] if open_ is not None else [*closed]
    long = [cut for cut in windows if cut.end - cut.start >= true_for]
    starts = {cut.start for cut in long}
    for start, last in told.items():
        if start not in starts:
            yield Occurrence(INVALID, start, last, UNSURE)
    for cut in long:
        if cut.start not in told:
            yield Occurrence(OPEN, cut.start, cut.end, UNSURE, detail=cut.opened)
        if cut is not open_:
            yield Occurrence(CLOSE, cut.start, cut.end, UNSURE, detail=cut.closed)


def keep(memory: Columns, groups: Ints, fresh: Table, anew: Bools, most: int) -> tuple[Ints, Ints]:
    """Add ``fresh`` to the kept rows of ``groups``, or replace these rows with it where ``anew``
    (bool[groups]).

    Only the newest ``most`` rows of a group stay. Returns the groups that had to forget some, and the time of
    the newest row that each forgot.
    """
    goes_on = np.zeros(memory.count, dtype=bool)
    goes_on[groups] = ~anew
    table = memory.lists["kept"]
    old = take(table, goes_on[table[OWNER]])
    rows = {name: np.concatenate((values, fresh[name])) for name, values in old.items()}
    rows = take(rows, np.argsort(rows[OWNER], kind="stable"))
    upto = np.cumsum(np.bincount(rows[OWNER], minlength=memory.count))
    gone = upto[rows[OWNER]] - np.arange(len(rows[OWNER])) > most
    memory.replace("kept", groups, take(rows, ~gone))
    last = np.flatnonzero(gone)
    last = last[np.append(rows[OWNER][last][1:] != rows[OWNER][last][:-1], True)] if len(last) else last
    return rows[OWNER][last], rows["ts"][last]


def waits_for_true_for(true_for: int, start: int, last: int) -> list[Wait]:
    """The wait of an open window ``[start, last]`` that is still shorter than ``true_for``: whether it counts
    depends on that."""
    return [Wait("true_for", start + true_for)] if last - start < true_for else []


def split(evaluated: Evaluated, special: Bools) -> tuple[Evaluated, Evaluated]:
    """The rows of groups that can be evaluated in order, and those of ``special`` groups (bool[groups])."""
    mine = special[evaluated.group]
    if not mine.any():
        return evaluated, _part(evaluated, mine)
    return _part(evaluated, ~mine), _part(evaluated, mine)


def _part(evaluated: Evaluated, mask: Bools) -> Evaluated:
    none = np.empty(0, dtype=np.int64)
    columns = {name: values[mask] for name, values in evaluated.columns.items()}
    return Evaluated(
        evaluated.group[mask], evaluated.ts[mask], evaluated.step[mask], evaluated.late[mask],
        evaluated.unsure[mask], evaluated.before[mask], Moves(none, none, none, none), columns,
        open_only=evaluated.open_only, corrects=evaluated.corrects,
    )  # fmt: skip


def first_reaching(
    true_for: int, ts: Ints, rows: Ints, places: tuple[Ints, Ints], start: Ints, told: Bools
) -> Ints:
    """The first of ``rows`` with which each window lasts ``true_for``; -1 if there is none, or the window was
    told before.

    ``places``: the rows with which each window begins and ends (exclusive); ``start``: the time of its start.
    """
    begin, end = places
    found = np.full(len(begin), -1)
    window = np.searchsorted(begin, rows, side="right") - 1
    rows, window = rows[window >= 0], window[window >= 0]
    long = (rows < end[window]) & ~told[window]
    long &= ts[rows] - start[window] >= true_for
    rows, window = rows[long], window[long]
    first = starts_of(window)
    found[window[first]] = rows[first]
    return found


def occurrences(
    kind: int, where: tuple[Ints, Ints], start: Ints, end: Ints, rownum: Ints, detail: Array | None
) -> Occurrences:
    """Live occurrences; ``where``: group and step of each."""
    found = Occurrences.of(where[0], where[1], kind, start, end, rownum, LIVE)
    if detail is not None:
        found.detail = detail
    return found

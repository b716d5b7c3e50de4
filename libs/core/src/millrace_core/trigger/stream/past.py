"""What a stream does about rows older than its live ones: it holds the live ones until calc-svc has told the
past.

A stream that fills history, or treats what was written while it was stopped, evaluates no live row before
that: its groups must begin with the memories that the older rows leave (wire.recalc.Past). Meanwhile live
rows are held in the slot, in order of arrival; only few come in that time. Deletes and rewritten rows that
come meanwhile are noted. In the end, the rows that are left are evaluated in order of time, which gives the
windows of that moment. Where the order of arrival counts, rows and changes take effect in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from millrace_core.trigger.groups.columns import OWNER, Array, Columns, Ints, starts_of, take
from millrace_core.trigger.groups.spans import spans_of
from millrace_core.trigger.groups.watermark import NEVER, RANGE, Arrivals, Bools
from millrace_core.trigger.rows.signals import Signal, typed
from millrace_core.trigger.types.occurrences import CORRECT, REDO, Occurrences
from millrace_core.wire.control import Offsets
from millrace_core.wire.events import Group
from millrace_core.wire.recalc import Part, Past


class HeldRow(msgspec.Struct, array_like=True):
    """A live row that waits; ``written``: Kafka's timestamp of its message, ms. ``changes``: how many changes
    had been noted before it came. ``flags``: LOST if only its time counts, because a version came that may
    have taken what was there out of the group; PARTIAL if it does not name all columns that the trigger
    reads.
    """

    ts: int
    written: int
    changes: int = 0
    flags: int = 0


LOST, PARTIAL = 1, 2


@dataclass(frozen=True, slots=True)
class Held:
    """Rows that were held, in order of arrival within each group; ``written``, ``changes``, ``lost``,
    ``partial``: of each, as in :class:`HeldRow`."""

    rows: Arrivals
    written: Ints
    changes: Ints
    lost: Bools
    partial: Bools

    def only(self, wanted: Bools | Ints) -> Held:
        return Held(
            self.rows.only(wanted), self.written[wanted], self.changes[wanted], self.lost[wanted],
            self.partial[wanted],
        )  # fmt: skip


class HeldMemory(msgspec.Struct, array_like=True):
    """``fed``: the time up to which rows before the live ones have been told."""

    fed: int = NEVER
    rows: list[HeldRow] = []


class HeldChange(msgspec.Struct, array_like=True, frozen=True):
    """Rows in ``[first, last]`` were deleted while rows were held. Of one ``group`` (its id); or, if that is
    None, of all groups of a ``table`` (empty: of any table). ``rewritten``: they were rewritten, and what was
    there may have left its group."""

    group: int | None
    first: int
    last: int
    table: bytes = b""
    rewritten: bool = False


def stretches(since: Offsets, ends: Offsets) -> dict[int, tuple[int, int]]:
    """The stretches between offsets of one topic: partition -> [from, to), without empty ones."""
    found = {partition: (since.get(partition, 0), end) for partition, end in ends.items()}
    return {partition: span for partition, span in found.items() if span[0] < span[1]}


def hold(memory: Columns, rows: Arrivals, written: Ints, changes: int, *, lost: bool = False) -> None:
    """Keep rows, after those that their groups already hold; ``changes``: how many changes are noted;
    ``lost``: all of them are LOST (see :class:`HeldRow`), and then need no columns."""
    groups = np.unique(rows.group)
    table = memory.lists["rows"]
    mine = np.isin(table[OWNER], groups)
    noted = np.full(len(rows.ts), changes, dtype=np.int64)
    flags = np.full_like(noted, LOST if lost else 0)
    if rows.partial is not None:
        flags += PARTIAL * rows.partial
    own = {"ts": rows.ts, "written": written, "changes": noted, "flags": flags}
    fresh: dict[str, Array] = {OWNER: rows.group, **own, **rows.columns}
    if lost:
        fresh |= dict.fromkeys(table.keys() - fresh.keys(), np.full(len(noted), None))
    kept = {name: np.concatenate((values[mine], fresh[name])) for name, values in table.items()}
    memory.replace("rows", groups, kept)


class Gone(NamedTuple):
    """Rows in ``[first, last]`` of the group at ``place`` are gone, or have been ``rewritten``, by a change
    before which ``before`` others had been noted."""

    before: int
    place: int
    first: int
    last: int
    rewritten: bool


def release(memory: Columns, signals: Sequence[Signal]) -> Held:
    """Stop holding rows. Returns all that were held."""
    table = memory.lists["rows"]
    memory.lists["rows"] = take(table, np.empty(0, dtype=np.int64))
    columns = {signal.name: typed(signal, table[signal.name]) for signal in signals}
    lost, partial = (table["flags"] & flag != 0 for flag in (LOST, PARTIAL))
    return Held(
        Arrivals(table[OWNER], table["ts"], columns), table["written"], table["changes"], lost, partial
    )


def between_changes(held: Held) -> Iterator[tuple[int, Held]]:
    """What came between two changes together, in that order, with the number of changes before it."""
    held = held.only(np.argsort(held.changes, kind="stable"))
    bounds = [*starts_of(held.changes).tolist(), len(held.changes)]
    for begin, end in pairwise(bounds):
        yield int(held.changes[begin]), held.only(np.arange(begin, end))


def arrivals_of(
    pasts: Sequence[tuple[int, Past]], fed: Callable[[int], int], signals: Sequence[Signal]
) -> Arrivals:
    """The rows to evaluate among these (group, what is told of it), without those that were told before."""
    pasts = sorted(pasts, key=lambda item: item[0])
    fresh = [np.array(past.ts, dtype=np.int64) > fed(group) for group, past in pasts]
    group = np.repeat([group for group, _ in pasts], [int(mask.sum()) for mask in fresh])
    ts = [np.array(past.ts, dtype=np.int64)[mask] for (_, past), mask in zip(pasts, fresh, strict=True)]
    columns = {}
    for signal in signals:
        cells = [
            cell
            for (_, past), mask in zip(pasts, fresh, strict=True)
            for cell, wanted in zip(past.columns[signal.name], mask.tolist(), strict=True)
            if wanted
        ]
        columns[signal.name] = typed(signal, cells)
    return Arrivals(group.astype(np.int64), np.concatenate([np.empty(0, dtype=np.int64), *ts]), columns)


Openings = Callable[[int], tuple[bool, bool]]
"""Says of a group whether its open windows are requested too, and whether only the stored rows know them."""


def parts_of(
    found: Occurrences, group: Callable[[int], Group], until: Ints, origin: Callable[[int], int | None],
    openings: Openings,
) -> list[Part]:  # fmt: skip
    """What REDO and CORRECT request: the ranges of each group, with touching ones put together.
    ``until[group]``: its T; ``origin(group)``: as :meth:`Windower.origin_of`."""
    asked = found.kind == REDO
    spans = zip(*(a[asked].tolist() for a in (found.group, found.start, found.end)), strict=True)
    merged: list[tuple[int, int, int]] = []
    for place, first, last in sorted(spans):
        if merged and merged[-1][0] == place and first <= merged[-1][2] + 1:
            merged[-1] = (place, merged[-1][1], max(last, merged[-1][2]))
        else:
            merged.append((place, first, last))
    parts: list[Part] = []
    for place, first, last in merged:
        t, (asked_open, lost) = int(until[place]), openings(place)
        end = min(last, RANGE if asked_open else t)
        parts.append(Part(group(place), max(first, -RANGE), end, t, origin(place), asked_open, lost))
    return parts + list(_corrections(found, group, until, origin, openings))


def _corrections(
    found: Occurrences, group: Callable[[int], Group], until: Ints, origin: Callable[[int], int | None],
    openings: Openings,
) -> Iterator[Part]:  # fmt: skip
    """The rows that may have rewritten others, each with the range that it affects; if there are very many,
    several share a range."""
    found = found.take(found.kind == CORRECT)
    for place in np.unique(found.group).tolist():
        mine = found.take(found.group == place)
        back, ahead = int((mine.next - mine.start).max()), int((mine.end - mine.next).max())
        t, (asked_open, lost) = int(until[place]), openings(place)
        for first, last in spans_of(mine.next):
            end = min(last + ahead, RANGE if asked_open else t)
            begin = max(first - back, -RANGE)
            yield Part(group(place), begin, end, t, origin(place), asked_open, lost, (first, last))

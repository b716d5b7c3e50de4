"""SLIDING: instants at fixed distances of event time (seed 000; SEMANTICS, "Windows").

An instant fires when T reaches it, and owns the rows after the instant before it up to its own time. A group
begins with its first evaluated row: if that lies on an instant, the instant fires at once. From there on
instants without rows fire too. Slides of a day or more are counted from the midnight of that row's day, so
each group has its own instants: any one of them (its *origin*) determines all others.

Late rows have no effect: the clock drops and counts them. Only a row at T itself, in a group of several
tables, may be another row: it counts as long as its instant has not fired.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import overload

import msgspec
import numpy as np

from millrace_core.model.schema import Precision
from millrace_core.timeline import Schedule, ticks, zone
from millrace_core.trigger.groups.columns import OWNER, Columns, Ints, Table, first_not_less, starts_of, take
from millrace_core.trigger.groups.watermark import NEVER, Bools, Evaluated
from millrace_core.trigger.types.occurrences import ON_TIME, Occurrence, Occurrences, Row
from millrace_core.trigger.types.sliding.reach import SlidingReach
from millrace_core.trigger.types.sliding.spec import Sliding
from millrace_core.trigger.types.windower import NEVER_CALM, WAITS_FOR_ROW, Span, Windower
from millrace_core.wire.diagnosis import OpenWindow, Wait

MOST_EMPTY = 100_000
"""When T moves, instants without rows fire only within this many periods before its new position; further
ones are left out and counted. One row with a wrong time, years ahead, must not fire billions of them."""


class Share(msgspec.Struct, array_like=True):
    """The rows that a future instant owns so far; ``unsure``: ``rows`` may count one row twice."""

    instant: int
    rows: int
    unsure: int


class SlidingMemory(msgspec.Struct, array_like=True):
    """``past``: the last instant that T has reached (at first the one before the first row's instant).
    ``shares``: those of later instants, in order."""

    past: int = NEVER
    shares: list[Share] = []


@dataclass(slots=True)
class _Fired:
    """Instants that fire."""

    group: Ints
    step: Ints
    instant: Ints


class SlidingWindower(Windower):
    """Instants of a :class:`Schedule` in ticks of event time. ``origin``: where all groups begin to count
    slides of a day or more; None: each group begins with its first row's day."""

    memory = SlidingMemory

    def __init__(
        self, schedule: Schedule, empty: bool = True, most_empty: int = MOST_EMPTY, origin: int | None = None
    ) -> None:
        """``empty``: instants without rows fire too (IGNORE_NODATA_TRIGGER switches that off)."""
        self.schedule = schedule
        self.empty = empty
        self.most_empty = most_empty
        self.origin = origin

    @staticmethod
    def of(trigger: Sliding, precision: Precision, empty: bool) -> SlidingWindower:
        """:raises MillraceError: if a length is not a whole number of ticks, or for an unknown time zone."""
        offset = ticks(trigger.offset, precision) if trigger.offset else 0
        every = ticks(trigger.sliding, precision)
        return SlidingWindower(Schedule(every, offset, precision, zone(trigger.timezone)), empty)

    # ------------------------------------------------------------------ whose instants

    @property
    def counts_by_group(self) -> bool:
        """Whether each group counts from its first row's day."""
        return not self.schedule.restarts and self.origin is None

    def origin_of(self, memory: SlidingMemory) -> int | None:
        return memory.past if self.counts_by_group and memory.past != NEVER else None

    def origin_at(self, first: int) -> int:
        """Where a group whose first row has this time begins to count."""
        return int(self.schedule.day_of(np.array([first]))[0])

    def of_group(self, origin: int | None, first: Callable[[], int]) -> SlidingWindower:
        if not self.counts_by_group:
            return self
        begin = self.origin_at(first()) if origin is None else origin
        return SlidingWindower(self.schedule, self.empty, self.most_empty, begin)

    @overload
    def at_or_before(self, ts: int, origin: int | None = None) -> int: ...
    @overload
    def at_or_before(self, ts: Ints, origin: Ints | None = None) -> Ints: ...
    def at_or_before(self, ts: int | Ints, origin: int | Ints | None = None) -> int | Ints:
        """The last instant that is not after ``ts``, given that there is one at ``origin``."""
        if self.schedule.restarts:
            return self.schedule.at_or_before(ts)
        begin = self._from(origin)
        return begin + (ts - begin) // self.schedule.every * self.schedule.every

    @overload
    def after(self, ts: int, origin: int | None = None) -> int: ...
    @overload
    def after(self, ts: Ints, origin: Ints | None = None) -> Ints: ...
    def after(self, ts: int | Ints, origin: int | Ints | None = None) -> int | Ints:
        """The first instant after ``ts``, given that there is one at ``origin``."""
        if self.schedule.restarts:
            return self.schedule.after(ts)
        begin = self._from(origin)
        return begin + ((ts - begin) // self.schedule.every + 1) * self.schedule.every

    def _from(self, origin: int | Ints | None) -> int | Ints:
        begin = self.origin if origin is None else origin
        assert begin is not None, "groups count from days of their own"
        return begin

    def _between(self, after: int, upto: int) -> Ints:
        """All instants in ``(after, upto]``, both of them instants themselves."""
        if self.schedule.restarts:
            return self.schedule.between(after, upto)
        return np.arange(after + self.schedule.every, upto + 1, self.schedule.every, dtype=np.int64)

    def _number(self, after: int, upto: int) -> int:
        """How many instants :meth:`_between` would give."""
        if self.schedule.restarts:
            return self.schedule.count(after, upto)
        return (upto - after) // self.schedule.every

    # ------------------------------------------------------------------ the definition, group by group

    def on_row(self, memory: SlidingMemory, row: Row) -> Iterator[Occurrence]:
        if memory.past == NEVER:
            origin = self.origin_at(row.ts) if self.origin is None else self.origin
            memory.past = self.at_or_before(row.ts - 1, origin)
        self._count(memory, self.after(row.ts - 1, memory.past), row.unsure)
        yield from ()

    def on_late(self, memory: SlidingMemory, row: Row, before: int) -> Iterator[Occurrence]:
        instant = self.after(row.ts - 1, memory.past)
        if instant > memory.past:
            self._count(memory, instant, row.unsure)
        yield from ()

    def on_time(self, memory: SlidingMemory, before: int, now: int) -> Iterator[Occurrence]:
        reached = self.at_or_before(now, memory.past)
        due = [share for share in memory.shares if share.instant <= reached]
        memory.shares = memory.shares[len(due) :]
        rows = {share.instant: -1 if share.unsure else share.rows for share in due}
        if self.empty:
            for instant in self._between(self._floor(memory.past, reached), reached).tolist():
                rows.setdefault(instant, 0)
        memory.past = max(memory.past, reached)
        for instant in sorted(rows):
            previous, following = self.at_or_before(instant - 1, instant), self.after(instant, instant)
            yield Occurrence(ON_TIME, previous, instant, rows[instant], next=following)

    def waits(self, memory: SlidingMemory, watermark: int) -> tuple[list[OpenWindow], list[Wait]]:
        """What a group waits for: the next instant, or with IGNORE_NODATA_TRIGGER the next one that owns
        rows."""
        share = memory.shares[0] if memory.shares else None
        if memory.past == NEVER or (share is None and not self.empty):
            return [], [WAITS_FOR_ROW]
        instant = self.after(memory.past, memory.past)
        if share is not None and not self.empty:
            instant = share.instant
        rows = 0
        if share is not None and share.instant == instant:
            rows = -1 if share.unsure else share.rows
        previous = self.at_or_before(instant - 1, instant)
        open_ = OpenWindow(previous, instant, rows, [Wait("row_at", instant + watermark)])
        return [open_], [WAITS_FOR_ROW]

    def calm(self, memory: Columns, seen: Bools, until: Ints) -> Span:
        """A span exists only while all groups wait for the same instant."""
        past = memory.singles["past"][seen]
        only = int(past[0])
        if (past != only).any():
            return NEVER_CALM
        return Span(only + 1, int(self.schedule.after(only)) - 1)

    def reach(self, origin: int | None = None) -> SlidingReach:
        return SlidingReach(self.at_or_before, self.after, self.empty)

    def skipped(self, memory: SlidingMemory, before: int, now: int) -> int:
        reached = self.at_or_before(now, memory.past)
        floor = self._floor(memory.past, reached)
        if not self.empty or floor <= memory.past:
            return 0
        return self._number(memory.past, floor) - sum(s.instant <= floor for s in memory.shares)

    def _floor(self, past: int, reached: int) -> int:
        """The instant up to which those without rows do not fire when T goes from ``past`` to ``reached``."""
        return max(past, reached - self.most_empty * self.schedule.every)

    def _count(self, memory: SlidingMemory, instant: int, unsure: bool) -> None:
        place = bisect_left(memory.shares, instant, key=lambda share: share.instant)
        if place < len(memory.shares) and memory.shares[place].instant == instant:
            memory.shares[place].rows += 1
            memory.shares[place].unsure |= unsure
            return
        memory.shares = [*memory.shares[:place], Share(instant, 1, int(unsure)), *memory.shares[place:]]

    # ------------------------------------------------------------------ the same over arrays

    def on_rows(self, memory: Columns, evaluated: Evaluated) -> Occurrences:
        touched = np.zeros(memory.count, dtype=bool)
        touched[evaluated.group] = True
        touched[evaluated.moves.group] = True
        self._begin(memory, evaluated)
        origin = memory.singles["past"][evaluated.group]
        instant = self.after(evaluated.ts - 1, origin)
        counts = ~evaluated.late
        if evaluated.late.any():
            # for a late row, T had reached all instants up to T itself
            counts |= instant > self.at_or_before(evaluated.before, origin)
        shares = take(memory.lists["shares"], touched[memory.lists["shares"][OWNER]])
        shares = _merged(shares, evaluated, instant, counts)
        fired, skipped = self._fired(memory, evaluated, shares)
        memory.replace("shares", np.flatnonzero(touched), self._left(memory, shares))
        return self._occurrences(fired, shares, skipped)

    def _begin(self, memory: Columns, evaluated: Evaluated) -> None:
        """Groups that had evaluated nothing begin at the instant before that of their first row."""
        past = memory.singles["past"]
        group, first = np.unique(evaluated.group, return_index=True)
        fresh = past[group] == NEVER
        ts = evaluated.ts[first[fresh]]
        origin = self.schedule.day_of(ts) if self.origin is None else np.full_like(ts, self.origin)
        past[group[fresh]] = self.at_or_before(ts - 1, origin)

    def _fired(self, memory: Columns, evaluated: Evaluated, shares: Table) -> tuple[_Fired, int]:
        """What the moves of T fire, and how many instants are left out. Updates the memory's ``past``."""
        moves = evaluated.moves
        past = memory.singles["past"]
        since = past[moves.group]
        reached = self.at_or_before(moves.now, since)
        follows = np.flatnonzero(moves.group[1:] == moves.group[:-1]) + 1
        since[follows] = reached[follows - 1]
        some = reached > since
        group, step, since, reached = moves.group[some], moves.step[some], since[some], reached[some]
        np.maximum.at(past, group, reached)
        if not self.empty:
            return self._full(group, step, since, reached, shares), 0
        one = self.after(since, since) == reached
        parts = [_Fired(group[one], step[one], reached[one])]
        skipped = 0
        spans, place = np.unique(np.stack((since[~one], reached[~one])), axis=1, return_inverse=True)
        for number, (low, high) in enumerate(spans.T.tolist()):
            mine = np.flatnonzero(~one)[place.ravel() == number]
            floor = self._floor(low, high)
            found = self._between(floor, high)
            parts.append(_Fired(
                np.repeat(group[mine], len(found)), np.repeat(step[mine], len(found)),
                np.tile(found, len(mine)),
            ))  # fmt: skip
            if floor > low:
                old = self._full(group[mine], step[mine], since[mine], np.full(len(mine), floor), shares)
                parts.append(old)
                skipped += self._number(low, floor) * len(mine) - len(old.group)
        return _joined(parts), skipped

    def _full(self, group: Ints, step: Ints, since: Ints, reached: Ints, shares: Table) -> _Fired:
        """Instants with rows in ``(since, reached]`` of each move."""
        owner, instant = shares[OWNER], shares["instant"]
        move = first_not_less(owner, instant, group, reached)
        known = np.flatnonzero(move < len(group))
        at = move[known]
        inside = (group[at] == owner[known]) & (since[at] < instant[known])
        known, at = known[inside], at[inside]
        return _Fired(owner[known], step[at], instant[known])

    def _left(self, memory: Columns, shares: Table) -> Table:
        return take(shares, shares["instant"] > memory.singles["past"][shares[OWNER]])

    def _occurrences(self, fired: _Fired, shares: Table, skipped: int) -> Occurrences:
        instant = fired.instant
        previous, following = self.at_or_before(instant - 1, instant), self.after(instant, instant)
        rownum = _rows_of(fired, shares)
        found = Occurrences.of(fired.group, fired.step, ON_TIME, previous, instant, rownum)
        found.next = following
        found.skipped = skipped
        return found


def _merged(shares: Table, evaluated: Evaluated, instant: Ints, counts: Bools) -> Table:
    """The shares, with the rows that count added to them, by (group, instant)."""
    owner = np.concatenate((shares[OWNER], evaluated.group[counts]))
    instants = np.concatenate((shares["instant"], instant[counts]))
    rows = np.concatenate((shares["rows"], np.ones(int(counts.sum()), dtype=np.int64)))
    unsure = np.concatenate((shares["unsure"], evaluated.unsure[counts].astype(np.int64)))
    order = np.lexsort((instants, owner))
    owner, instants = owner[order], instants[order]
    if not len(owner):
        return {OWNER: owner, "instant": instants, "rows": rows, "unsure": unsure}
    heads = starts_of(owner, instants)
    return {
        OWNER: owner[heads],
        "instant": instants[heads],
        "rows": np.add.reduceat(rows[order], heads),
        "unsure": np.maximum.reduceat(unsure[order], heads),
    }


def _rows_of(fired: _Fired, shares: Table) -> Ints:
    """How many rows each instant owns; -1 where that is unsure."""
    place = first_not_less(fired.group, fired.instant, shares[OWNER], shares["instant"])
    if not len(shares[OWNER]):
        return np.zeros(len(fired.group), dtype=np.int64)
    at = np.minimum(place, len(shares[OWNER]) - 1)
    owned = (shares[OWNER][at] == fired.group) & (shares["instant"][at] == fired.instant)
    return np.where(owned, np.where(shares["unsure"][at] > 0, -1, shares["rows"][at]), 0)


def _joined(parts: list[_Fired]) -> _Fired:
    group, step, instant = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("group", "step", "instant")
    )
    return _Fired(group, step, instant)

"""The clock of a group: event time, watermark, expiry; when rows are evaluated, and which are disorder.

T = newest event time seen - WATERMARK; it never goes back. A row with ts <= T is evaluated at once; a later
one waits, in order of time, until T reaches it. A row is *late* if T had already reached its ts before it
came, in a group that has evaluated something. All of this is done for many groups in one pass over arrays
(SEMANTICS, "Time").
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt

from millrace_core.model.schema import Table
from millrace_core.model.stream import Emission, Options
from millrace_core.timeline import ticks
from millrace_core.trigger.groups.columns import OWNER, Array, Columns, Ints, first_not_less, starts_of, take
from millrace_core.trigger.groups.columns import Table as Records

Bools = npt.NDArray[np.bool_]
Log = tuple[Ints, Ints]
"""Partitions and offsets."""
NEVER = -(1 << 63)
"""The newest time of a group that has seen no row."""
RANGE = 1 << 62
"""Times beyond +-RANGE cannot be evaluated (sums with durations would leave int64); such rows are counted."""


class Waiting(msgspec.Struct, array_like=True):
    """A row that waits for T."""

    ts: int


class ClockMemory(msgspec.Struct, array_like=True):
    """``started``: whether the group has evaluated a row."""

    newest: int = NEVER
    started: int = 0
    waiting: list[Waiting] = []


@dataclass(slots=True)
class Arrivals:
    """Rows in order of arrival within each group; ``group`` ascends. ``columns``: what the trigger reads.
    ``log``: partition and offset of each row's message, if that is asked for. ``partial``: bool[rows], those
    that do not name all columns that the trigger reads, if that counts."""

    group: Ints
    ts: Ints
    columns: dict[str, Array] = field(default_factory=dict)
    log: Log | None = None
    partial: Bools | None = None

    def only(self, wanted: Bools | Ints) -> Arrivals:
        log = None if self.log is None else (self.log[0][wanted], self.log[1][wanted])
        partial = None if self.partial is None else self.partial[wanted]
        return Arrivals(self.group[wanted], self.ts[wanted], take(self.columns, wanted), log, partial)


@dataclass(slots=True)
class Moves:
    """T of a group moved from ``before`` to ``now`` at ``step``.

    The first move of a group that had evaluated nothing begins at the time of its first evaluated row.
    """

    group: Ints
    step: Ints
    before: Ints
    now: Ints


@dataclass(slots=True)
class Evaluated:
    """What became of a batch of rows. A *step* is the place, among the arrivals, of the row that caused
    something.

    Rows are sorted by (group, step, ts), moves by (group, step); at one step rows are evaluated first, then T
    moves. ``late`` rows come with ``before``, T at their arrival. ``unsure``: the row may be another version
    of one that was evaluated before. ``dropped``: numbers of rows that count for nothing, by cause.
    ``open_only``: late rows count in windows that are still open, and nowhere else. ``corrects``:
    nevertheless, late rows that have rewritten another row change closed windows.
    """

    group: Ints
    ts: Ints
    step: Ints
    late: Bools
    unsure: Bools
    before: Ints
    moves: Moves
    columns: dict[str, Array] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    open_only: bool = False
    corrects: bool = False

    def part(self, groups: Bools) -> Evaluated:
        """What became of the rows of some groups (bool[groups]), without the counts of dropped rows."""
        mine, moved = groups[self.group], groups[self.moves.group]
        moves = Moves(
            self.moves.group[moved], self.moves.step[moved], self.moves.before[moved], self.moves.now[moved]
        )
        columns = {name: values[mine] for name, values in self.columns.items()}
        return Evaluated(
            self.group[mine], self.ts[mine], self.step[mine], self.late[mine], self.unsure[mine],
            self.before[mine], moves, columns, open_only=self.open_only,
            corrects=self.corrects,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Clock:
    """Lengths in ticks. ``shared``: rows with equal times may be different rows (of several tables, or with a
    composite key); otherwise a time that comes again is the same row, written again. ``open_only``,
    ``corrects``: as in :class:`Evaluated`."""

    watermark: int = 0
    expired: int | None = None
    ignore_disorder: bool = False
    shared: bool = False
    open_only: bool = False
    corrects: bool = False

    @staticmethod
    def of(options: Options, table: Table, single: bool, emission: Emission) -> Clock:
        """:raises MillraceError: for a length that is not a whole number of ticks, or of months or years."""
        precision = table.precision
        return Clock(
            ticks(options.watermark, precision) if options.watermark else 0,
            min(
                (ticks(one, precision) for one in (options.expired_time, emission.forget) if one),
                default=None,
            ),
            options.ignore_disorder,
            not single or table.has_composite_key,
            emission.late == "dropped",
            emission.corrects_closed and not options.ignore_disorder,
        )

    def judge(self, memory: Columns, rows: Arrivals) -> Evaluated:
        """Take in rows. Updates the memory and returns the rows that are evaluated now."""
        group, ts = rows.group, rows.ts
        step = np.arange(len(ts))
        inside = (ts > -RANGE) & (ts < RANGE)
        dropped: dict[str, int] = {}
        if not inside.all():
            dropped["out_of_range"] = int((~inside).sum())
            group, ts, step = group[inside], ts[inside], step[inside]
        if not len(ts):
            return _nothing(dropped, rows)
        first = starts_of(group)
        before, newest = running_newest(ts, first, memory.singles["newest"][group[first]])
        if self.expired is not None:
            expired = self._too_old(ts, before)
            if expired.any():
                dropped["expired"] = int(expired.sum())
                live = ~expired
                group, ts, step = group[live], ts[live], step[live]
                before, newest = before[live], newest[live]
        if not len(ts):
            return _nothing(dropped, rows)
        columns = {name: values[step] for name, values in rows.columns.items()}
        seen = before != NEVER
        before_t = np.where(seen, before, self.watermark) - self.watermark
        arrived = _Arrived(group, ts, step, seen, before_t, newest - self.watermark, columns)
        evaluated = self._at_once(memory, arrived) if not self.watermark else self._by_turn(memory, arrived)
        evaluated.dropped = dropped
        evaluated.open_only, evaluated.corrects = self.open_only, self.corrects
        ends = np.append(starts_of(group)[1:], len(group)) - 1
        memory.singles["newest"][group[ends]] = newest[ends]
        memory.singles["started"][evaluated.group] = 1
        return self._without_disorder(evaluated)

    def expired_among(self, memory: Columns, rows: Arrivals) -> Bools:
        """bool[rows]: those that were too old when they came."""
        if self.expired is None or not len(rows.ts):
            return np.zeros(len(rows.ts), dtype=bool)
        first = starts_of(rows.group)
        before, _ = running_newest(rows.ts, first, memory.singles["newest"][rows.group[first]])
        return self._too_old(rows.ts, before)

    def _too_old(self, ts: Ints, before: Ints) -> Bools:
        """``before``: the newest time of each row's group before it."""
        found: Bools = (before != NEVER) & (ts < np.where(before == NEVER, 0, before) - (self.expired or 0))
        return found

    def _at_once(self, memory: Columns, rows: _Arrived) -> Evaluated:
        """No watermark: every row is evaluated at its own step."""
        late = rows.seen & (rows.ts <= rows.before)
        moving = ~late
        moves = Moves(
            rows.group[moving],
            rows.step[moving],
            np.where(rows.seen, rows.before, rows.ts)[moving],
            rows.now[moving],
        )
        return Evaluated(rows.group, rows.ts, rows.step, late, late, rows.before, moves, rows.columns)

    def _by_turn(self, memory: Columns, rows: _Arrived) -> Evaluated:
        """Rows wait until T reaches them."""
        last = np.append(starts_of(rows.group)[1:], len(rows.group)) - 1
        touched, final = rows.group[last], rows.now[last]
        early = rows.seen & (rows.ts <= rows.before)  # T was there before them: evaluated at their own step
        queue, again = self._queue(memory, touched, rows, ~early)
        ready = queue["ts"] <= final[np.searchsorted(touched, queue[OWNER])]
        memory.replace("waiting", touched, take(queue, ~ready))
        out, again = take(queue, ready), again[ready]
        reached = first_not_less(out[OWNER], out["ts"], rows.group, rows.now)
        group = np.concatenate((out[OWNER], rows.group[early]))
        step = np.concatenate((rows.step[reached], rows.step[early]))
        ts = np.concatenate((out["ts"], rows.ts[early]))
        before = np.concatenate((out["ts"], rows.before[early]))
        late = np.concatenate((np.zeros(len(reached), dtype=bool), np.ones(int(early.sum()), dtype=bool)))
        unsure = np.concatenate((again, late[len(reached) :]))
        order = np.lexsort((ts, step, group))
        group, step, ts, late = group[order], step[order], ts[order], late[order]
        unsure, before = unsure[order], before[order]
        columns = {
            name: np.concatenate((out[name], values[early]))[order] for name, values in rows.columns.items()
        }
        closes = self.open_only and not self.ignore_disorder
        moves = _first_moves(memory, rows, group, step, ts, late, unsure, closes)
        return Evaluated(group, ts, step, late, unsure, before, moves, columns)

    def _queue(self, memory: Columns, touched: Ints, rows: _Arrived, timely: Bools) -> tuple[Records, Bools]:
        """Rows that wait or have just come, sorted by (group, ts); and which of them repeat the time of the
        row before."""
        waiting = memory.lists["waiting"]
        mine = np.isin(waiting[OWNER], touched)
        fresh: Records = {OWNER: rows.group[timely], "ts": rows.ts[timely]}
        fresh |= {name: values[timely] for name, values in rows.columns.items()}
        queue = {  # waiting values are kept as objects, whatever their type
            name: np.concatenate((waiting[name][mine].astype(values.dtype), values))
            for name, values in fresh.items()
        }
        queue = take(queue, np.lexsort((queue["ts"], queue[OWNER])))  # stable: the last of equal times last
        repeats = np.zeros(len(queue["ts"]), dtype=bool)
        repeats[1:] = (queue["ts"][1:] == queue["ts"][:-1]) & (queue[OWNER][1:] == queue[OWNER][:-1])
        if self.shared or not repeats.any():
            return queue, repeats
        newest = np.append(~repeats[1:], True)
        return take(queue, newest), np.zeros(int(newest.sum()), dtype=bool)

    def _without_disorder(self, evaluated: Evaluated) -> Evaluated:
        """IGNORE_DISORDER: late rows are dropped, except at T itself in a shared group: there it may be
        another row."""
        if not self.ignore_disorder or not evaluated.late.any():
            return evaluated
        gone = evaluated.late & ((evaluated.ts < evaluated.before) | (not self.shared))
        evaluated.dropped["late"] = int(gone.sum())
        keep = ~gone
        for name in ("group", "ts", "step", "late", "unsure", "before"):
            setattr(evaluated, name, getattr(evaluated, name)[keep])
        evaluated.columns = {name: values[keep] for name, values in evaluated.columns.items()}
        return evaluated


@dataclass(slots=True)
class _Arrived:
    """Rows that take part. ``before``/``now``: T before and after each; ``seen``: whether the group had a row
    before."""

    group: Ints
    ts: Ints
    step: Ints
    seen: Bools
    before: Ints
    now: Ints
    columns: dict[str, Array]


def _nothing(dropped: dict[str, int], rows: Arrivals) -> Evaluated:
    none, no = np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
    columns = {name: values[:0] for name, values in rows.columns.items()}
    return Evaluated(none, none, none, no, no, none, Moves(none, none, none, none), columns, dropped)


def running_newest(ts: Ints, first: Ints, known: Ints) -> tuple[Ints, Ints]:
    """The newest time before and after each row, per group; ``first``: where groups begin."""
    newest = ts.copy()
    newest[first] = np.maximum(newest[first], known)
    falling = newest[1:] < newest[:-1]
    falling[first[1:] - 1] = False
    if falling.any():
        # only groups that have disorder pay for it
        ends = np.append(first[1:], len(ts))
        for segment in np.unique(np.searchsorted(first, np.flatnonzero(falling), side="right") - 1):
            part = newest[first[segment] : ends[segment]]
            np.maximum.accumulate(part, out=part)
    before = np.empty_like(newest)
    before[1:] = newest[:-1]
    before[first] = known
    return before, newest


def _first_moves(
    memory: Columns, rows: _Arrived, group: Ints, step: Ints, ts: Ints, late: Bools, unsure: Bools,
    closes: bool,
) -> Moves:  # fmt: skip
    """How T moved. In a group that had evaluated nothing, it begins with the first evaluated row.

    That row is not late, even if T was there before it, since there was nothing to be late for. The exception
    is where T alone ``closes`` windows, even those that nobody has opened. (``late``, ``unsure``: of the
    evaluated rows, corrected in place.)
    """
    moving = (rows.now > rows.before) | ~rows.seen
    before = rows.before.copy()
    fresh = memory.singles["started"][rows.group] == 0
    if fresh.any():
        heads = starts_of(group)
        heads = heads[memory.singles["started"][group[heads]] == 0]
        if not closes:
            late[heads], unsure[heads] = False, False
        begin = np.full(memory.count, np.iinfo(np.int64).max)
        begin[group[heads]] = step[heads]
        opening = np.zeros(memory.count, dtype=np.int64)
        opening[group[heads]] = ts[heads]
        at = fresh & (rows.step == begin[rows.group])
        before[at] = opening[rows.group[at]]
        moving = np.where(fresh, at | (moving & (rows.step > begin[rows.group])), moving)
    return Moves(rows.group[moving], rows.step[moving], before[moving], rows.now[moving])

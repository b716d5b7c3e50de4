"""SESSION: rows that lie no further apart than a gap (seed 000; SEMANTICS, "Windows").

A session opens with its first row and closes when T > last row + gap: a row that lies exactly the gap after
it still belongs to it. Its end is its last row.

Late rows. A late row that touches the open session joins it: the session's start may move, or the closed
session before it may be merged with it. If a late row touches only closed sessions, or makes a new one among
them, the sessions within a gap of it are cut again from the stored rows (REDO). For this a group remembers
its open session and the closed session right before it. If late rows reach further back than that, the start
of a session is *vague*: a forgotten session may belong to it. A vague session is not told as opened, nor by
MAX_DELAY, and instead of closing it is cut again from the stored rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from millrace_core.trigger.groups.columns import Columns, Ints
from millrace_core.trigger.groups.watermark import NEVER, RANGE, Bools, Evaluated, Moves
from millrace_core.trigger.types.occurrences import (
    CLOSE,
    INVALID,
    LIVE,
    OPEN,
    RECALC,
    REDO,
    RETRACT,
    Occurrence,
    Occurrences,
    Row,
    SoFar,
)
from millrace_core.trigger.types.session.reach import SessionReach
from millrace_core.trigger.types.windower import WAITS_FOR_ROW, Span, Windower
from millrace_core.wire.diagnosis import OpenWindow, Wait


class SessionMemory(msgspec.Struct, array_like=True):
    """The open session ``[start, last]``; ``rows`` 0: none is open.

    ``again``: it has closed before, with this start. ``unsure``: ``rows`` may count one row twice.
    ``closed``: whether ``[closed_start, closed_end]`` is the closed session right before the open one.
    ``older``: whether there were closed sessions before these.
    """

    start: int = 0
    last: int = 0
    rows: int = 0
    unsure: int = 0
    vague: int = 0
    again: int = 0
    closed: int = 0
    closed_start: int = 0
    closed_end: int = 0
    closed_vague: int = 0
    older: int = 0


@dataclass(slots=True)
class _Sessions:
    """Sessions of many groups, in order within each; ``step``: what opened it, -1 if it was open before."""

    group: Ints
    start: Ints
    last: Ints
    rows: Ints
    unsure: Ints
    vague: Ints
    step: Ints


class SessionWindower(Windower):
    """Sessions with a gap in ticks."""

    memory = SessionMemory

    def __init__(self, gap: int, retracts: bool = False) -> None:
        """``retracts``: the result of a session that is open again is retracted."""
        # no two times lie further apart than RANGE, and a time plus the gap stays within 64 bits
        self.gap = min(gap, RANGE)
        self.retracts = retracts

    # ------------------------------------------------------------------ the definition, group by group

    def on_row(self, memory: SessionMemory, row: Row) -> Iterator[Occurrence]:
        if memory.rows and row.ts <= memory.last + self.gap:
            memory.last = row.ts
            memory.rows += 1
            memory.unsure |= int(row.unsure)
            return
        yield from self._close(memory)
        yield self._open(memory, row)

    def on_time(self, memory: SessionMemory, before: int, now: int) -> Iterator[Occurrence]:
        if now > memory.last + self.gap:
            yield from self._close(memory)

    def on_late(self, memory: SessionMemory, row: Row, before: int) -> Iterator[Occurrence]:
        if memory.rows and row.ts >= memory.start - self.gap:
            yield from self._into_open(memory, row.ts)
        elif not memory.rows and row.ts + self.gap >= before:
            yield from self._at_the_edge(memory, row)
        else:
            self._among_closed(memory, row.ts)
            yield Occurrence(REDO, row.ts - self.gap, row.ts + self.gap, -1, RECALC)

    def is_over(self, memory: SessionMemory, row: Row, before: int) -> bool:
        return row.ts < memory.start - self.gap if memory.rows else row.ts + self.gap < before

    def on_delete(self, memory: SessionMemory, first: int, last: int) -> Iterator[Occurrence]:
        if memory.closed and last >= memory.closed_start:
            memory.closed_vague = 1
        if memory.rows and last >= memory.start:
            memory.vague = 1
        yield Occurrence(REDO, first - self.gap, last + self.gap, -1, RECALC)

    def on_unknown(self, memory: SessionMemory, ts: int, now: int) -> Iterator[Occurrence]:
        """Treated as if the row existed, except that nobody is told: sessions that it opens or touches are
        vague."""
        touches = memory.rows and ts >= memory.start - self.gap
        if not touches and (memory.rows or ts + self.gap < now):
            self._among_closed(memory, ts)
            memory.closed_vague = memory.closed
        else:
            if not touches:
                memory.start, memory.last, memory.rows, memory.again = ts, ts, 0, 0
            if memory.closed and ts <= memory.closed_end + self.gap:
                memory.start, memory.closed, memory.again = memory.closed_start, 0, 1
            memory.start, memory.last = min(memory.start, ts), max(memory.last, ts)
            memory.rows, memory.unsure, memory.vague = memory.rows + 1, 1, 1
        yield Occurrence(REDO, ts - self.gap, ts + self.gap, -1, RECALC)

    def so_far(self, memory: SessionMemory) -> Iterator[SoFar]:
        if memory.rows and not memory.vague:
            yield SoFar(memory.start, memory.last, _rownum(memory))

    def vague(self, memory: SessionMemory) -> Span | None:
        return Span(memory.start, RANGE) if memory.rows and memory.vague else None

    def waits(self, memory: SessionMemory, watermark: int) -> tuple[list[OpenWindow], list[Wait]]:
        if not memory.rows:
            return [], [WAITS_FOR_ROW]
        # T must lie after last + gap: a row exactly there still belongs to the session
        waits = [Wait("row_at", memory.last + self.gap + 1 + watermark)]
        if memory.vague:
            waits.append(Wait("again"))
        return [OpenWindow(memory.start, memory.last, _rownum(memory), waits)], [WAITS_FOR_ROW]

    def calm(self, memory: Columns, seen: Bools, until: Ints) -> Span:
        """The span after all that has closed and within a gap of each open session's last row. It is no wider
        than a gap, so that not even a new table can close a session of its own."""
        now = {name: array[seen] for name, array in memory.singles.items()}
        is_open = now["rows"] > 0
        first = int(np.where(is_open, now["start"], until + 1).max())
        closed = now["closed"] > 0
        if closed.any():
            first = max(first, int(now["closed_end"][closed].max()) + self.gap + 1)
        last = first + self.gap
        if is_open.any():
            last = min(last, int(now["last"][is_open].min()) + self.gap)
        return Span(first, last)

    def reach(self, origin: int | None = None) -> SessionReach:
        return SessionReach(self.gap)

    def _open(self, memory: SessionMemory, row: Row) -> Occurrence:
        memory.start = memory.last = row.ts
        memory.rows, memory.unsure, memory.vague, memory.again = 1, int(row.unsure), 0, 0
        return Occurrence(OPEN, row.ts, row.ts, 1)

    def _close(self, memory: SessionMemory) -> Iterator[Occurrence]:
        if not memory.rows:
            return
        if memory.vague:
            yield Occurrence(REDO, memory.start, memory.last, -1, RECALC)
        else:
            yield Occurrence(CLOSE, memory.start, memory.last, _rownum(memory))
        memory.rows = 0
        memory.older |= memory.closed
        memory.closed = 1
        memory.closed_start, memory.closed_end = memory.start, memory.last
        memory.closed_vague = memory.vague

    def _into_open(self, memory: SessionMemory, ts: int) -> Iterator[Occurrence]:
        """A late row joins the open session. T <= last + gap while a session is open, so the row cannot lie
        too far after it."""
        start, vague, again = memory.start, memory.vague, memory.again
        if memory.closed and ts <= memory.closed_end + self.gap:
            start, vague, again = memory.closed_start, memory.closed_vague, 1
            memory.closed = 0
            yield from self._taken_back(start)
        elif ts < start:
            start, again = ts, 0
            vague |= memory.older & ~memory.closed
        if start < memory.start:
            if not memory.vague:
                cause = RECALC if memory.again else LIVE
                yield Occurrence(INVALID, memory.start, memory.last, -1, cause)
            if not vague:
                yield Occurrence(OPEN, start, max(memory.last, ts), -1)
        memory.start, memory.vague, memory.again = start, vague, again
        memory.last = max(memory.last, ts)
        memory.rows += 1
        memory.unsure = 1

    def _at_the_edge(self, memory: SessionMemory, row: Row) -> Iterator[Occurrence]:
        """No session is open, but the one of this row is not over: the row opens a session, or the last one
        again."""
        again = memory.closed and row.ts <= memory.closed_end + self.gap
        opened = self._open(memory, row)
        if not again:
            yield opened
            return
        memory.start, memory.vague = memory.closed_start, memory.closed_vague
        memory.unsure, memory.again, memory.closed = 1, 1, 0
        yield from self._taken_back(memory.start)
        if not memory.vague:
            yield Occurrence(OPEN, memory.start, row.ts, -1)

    def _taken_back(self, start: int) -> Iterator[Occurrence]:
        """The session that begins there had closed, and is open again."""
        if self.retracts:
            yield Occurrence(RETRACT, start, start, -1)

    def _among_closed(self, memory: SessionMemory, ts: int) -> None:
        """Update the memory of the closed session right before the open one with this row."""
        if not memory.closed:
            if not memory.older:
                memory.closed, memory.closed_start, memory.closed_end, memory.closed_vague = 1, ts, ts, 0
        elif ts > memory.closed_end + self.gap:
            memory.closed_start = memory.closed_end = ts
            memory.closed_vague, memory.older = 0, 1
        elif ts < memory.closed_start - self.gap:
            memory.older = 1
        else:
            if ts < memory.closed_start:
                memory.closed_vague |= memory.older
            memory.closed_start = min(memory.closed_start, ts)
            memory.closed_end = max(memory.closed_end, ts)

    # ------------------------------------------------------------------ the same over arrays

    def on_rows(self, memory: Columns, evaluated: Evaluated) -> Occurrences:
        """Evaluate groups in which a late row changes a session by the definition, the others over arrays."""
        sessions, wild = self._sessions(memory, evaluated)
        if not wild.any():
            return self._close_all(memory, sessions, evaluated.moves)
        by_hand = Windower.on_rows(self, memory, evaluated.part(wild))
        rest = evaluated.part(~wild)
        sessions, _ = self._sessions(memory, rest)
        return Occurrences.join((by_hand, self._close_all(memory, sessions, rest.moves)))

    def _sessions(self, memory: Columns, evaluated: Evaluated) -> tuple[_Sessions, Bools]:
        """The sessions of the groups with rows or moves, and, by group, whether a late row changes a
        session."""
        timely = ~evaluated.late
        every = timely.all()
        rows = slice(None) if every else np.flatnonzero(timely)
        group, ts, step, unsure = (
            evaluated.group[rows],
            evaluated.ts[rows],
            evaluated.step[rows],
            evaluated.unsure[rows],
        )
        # a session that was open is placed before its group's rows, as if it were a row
        touched = np.zeros(memory.count, dtype=bool)
        touched[evaluated.group] = True
        touched[evaluated.moves.group] = True
        before = {name: array[touched] for name, array in memory.singles.items()}
        was = before["rows"] > 0
        known = np.flatnonzero(touched)[was]
        place = np.searchsorted(group, known)
        group = np.insert(group, place, known)
        ts = np.insert(ts, place, before["last"][was])
        heads = np.flatnonzero(_begins(group, ts, self.gap))
        ends = np.append(heads, len(group))[1:] - 1
        step = np.insert(step, place, -1)[heads]
        unsure = np.insert(unsure, place, before["unsure"][was] > 0)
        repeated = np.logical_or.reduceat(unsure, heads) if len(heads) else unsure
        found = _Sessions(
            group[heads], ts[heads], ts[ends], ends - heads + 1, repeated.astype(np.int64),
            np.zeros(len(heads), dtype=np.int64), step,
        )  # fmt: skip
        old = step < 0
        found.start[old], found.vague[old] = before["start"][was], before["vague"][was]
        found.rows[old] += before["rows"][was] - 1
        wild = np.zeros(memory.count, dtype=bool)
        if not every and not len(heads):
            wild[evaluated.group] = True
        elif not every:
            late = np.flatnonzero(evaluated.late)
            above = (
                late - np.arange(len(late)) + np.searchsorted(known, evaluated.group[late], side="right") - 1
            )
            session = np.searchsorted(heads, above, side="right") - 1
            last = np.where((above >= 0) & (group[above] == evaluated.group[late]), ts[above], NEVER)
            inside = self._inside(evaluated, late, found.start[session], last)
            found.rows += np.bincount(session[inside], minlength=len(heads))
            found.unsure[session[inside]] = 1
            wild[evaluated.group[late[~inside]]] = True
        return found, wild

    def _inside(self, evaluated: Evaluated, late: Ints, start: Ints, last: Ints) -> Bools:
        """Which of the ``late`` rows (given by place) lie inside the session before them, if it is open when
        they come.

        ``last``: the session's last row at that time, NEVER if the group has had no session.
        """
        time, t = evaluated.ts[late], evaluated.before[late]
        inside: Bools = (last != NEVER) & (start <= time) & (time <= last) & (t <= last + self.gap)
        return inside

    def _close_all(self, memory: Columns, found: _Sessions, moves: Moves) -> Occurrences:
        """Openings and closings of these sessions; the memory is updated with them."""
        move, closing = _first_beyond(moves, found.group, found.last + self.gap)
        fresh = found.step >= 0
        begun = found.start[fresh]
        opened = Occurrences.of(found.group[fresh], found.step[fresh], OPEN, begun, begun, 1)
        closed = Occurrences.of(
            found.group[closing], moves.step[move[closing]], CLOSE, found.start[closing], found.last[closing],
            np.where(found.unsure > 0, -1, found.rows)[closing],
        )  # fmt: skip
        vague = found.vague[closing] > 0
        closed.kind[vague], closed.cause[vague], closed.rownum[vague] = REDO, RECALC, -1
        _remember(memory, found, closing)
        return Occurrences.join((opened, closed))


def _rownum(memory: SessionMemory) -> int:
    return -1 if memory.unsure else memory.rows


def _begins(group: Ints, ts: Ints, gap: int) -> Bools:
    """Which rows begin a session; rows by (group, ts)."""
    begins = np.ones(len(group), dtype=bool)
    begins[1:] = (group[1:] != group[:-1]) | (ts[1:] - ts[:-1] > gap)
    return begins


def _first_beyond(moves: Moves, group: Ints, limit: Ints) -> tuple[Ints, Bools]:
    """The first move of each group that takes T beyond the limit, and whether there is one.

    A binary search for all groups at once: within a group T only grows.
    """
    low = np.searchsorted(moves.group, group, side="left")
    high = end = np.searchsorted(moves.group, group, side="right")
    while (open_ := low < high).any():
        middle = (low + high) // 2
        beyond = open_ & (moves.now[np.minimum(middle, len(moves.now) - 1)] > limit)
        high = np.where(beyond, middle, high)
        low = np.where(open_ & ~beyond, middle + 1, low)
    return low, low < end


def _remember(memory: Columns, found: _Sessions, closing: Bools) -> None:
    """Keep the last session of each group, and the last one that closed."""
    if not len(found.group):
        return
    singles = memory.singles
    last = np.append(found.group[1:] != found.group[:-1], True)
    group = found.group[last]
    for name in ("start", "last", "unsure", "vague"):
        singles[name][group] = getattr(found, name)[last]
    singles["rows"][group] = np.where(closing, 0, found.rows)[last]
    singles["again"][group] &= found.step[last] < 0
    # all sessions of a group close, except perhaps the last one
    nearest = closing & np.append((found.group[1:] != found.group[:-1]) | ~closing[1:], True)
    group = found.group[nearest]
    several = np.bincount(found.group[closing], minlength=memory.count)[group] > 1
    singles["older"][group] |= singles["closed"][group] | several
    singles["closed"][group] = 1
    singles["closed_start"][group] = found.start[nearest]
    singles["closed_end"][group] = found.last[nearest]
    singles["closed_vague"][group] = found.vague[nearest]

"""STATE_WINDOW: runs of rows of one state (seed 000; SEMANTICS, "Windows").

A window begins with a row whose state differs from that of the row before, and closes with the next such row.
Rows without a state (NULL) neither open nor close a window. Between two rows of the same state they belong to
its window; between two states they belong to neither window (extend 0), to the earlier (1) or to the later
one (2). Extend 1: the window ends one tick before the first row of the next. Extend 2: it starts one tick
after the end of the one before. TRUE_FOR drops windows whose end - start is shorter; a window is told as
opened with the row that makes it long enough.

Late rows. The memory keeps the times of the open window's rows that have a state (all other rows since have
none), so that the window can be cut again for a late row. If the open window vanishes then, the one before it
is open again. A late row at or before the last row of the closed window changes closed windows: REDO.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

import msgspec

from millrace_core.model.expression import Field
from millrace_core.trigger.groups.columns import Columns
from millrace_core.trigger.groups.watermark import NEVER, RANGE, Evaluated
from millrace_core.trigger.rows.signals import Signal
from millrace_core.trigger.types.kept import (
    ALWAYS,
    MOST_KEPT,
    UNSURE,
    Cut,
    Detail,
    plus,
    redo,
    split,
    tell_again,
    waits_for_true_for,
)  # fmt: skip
from millrace_core.trigger.types.occurrences import CLOSE, OPEN, RETRACT, Occurrence, Occurrences, Row, SoFar
from millrace_core.trigger.types.state.arrays import STATE, Run, StateRule, in_order
from millrace_core.trigger.types.state.reach import StateReach
from millrace_core.trigger.types.windower import WAITS_FOR_ROW, Span, Windower
from millrace_core.wire.diagnosis import OpenWindow, Wait


class StateRow(msgspec.Struct, array_like=True):
    """A row of the open window's state."""

    ts: int


class StateMemory(msgspec.Struct, array_like=True):
    """The open window: its ``state`` (None: none is open), its ``start``, its ``last`` row with the state,
    the number of ``rows`` from the start to that row, the number of rows without a state ``after`` it, and
    whether the window was ``told`` of.

    ``closed``, ``closed_start``: the window before it (NEVER: late rows changed it; its start, or whether it
    was told of, is not known). ``floor``: rows up to this time are not in ``kept``: it is the time of the
    closed window's last row, or of the open window's newest forgotten one. ``redo``: the earliest late row
    among the forgotten ones. An open window whose start is NEVER was closed before, and is cut again from the
    stored rows when it closes.
    """

    state: Any = None
    start: int = 0
    last: int = 0
    rows: int = 0
    after: int = 0
    told: int = 0
    closed: Any = None
    closed_start: int = NEVER
    floor: int = NEVER
    redo: int = ALWAYS
    kept: list[StateRow] = []


class StateWindower(Windower):
    """Windows of a :class:`StateRule` over the column ``column``."""

    memory = StateMemory

    def __init__(self, column: str, rule: StateRule, most_kept: int = MOST_KEPT) -> None:
        self.signals = (Signal(STATE, Field(column)),)
        self.rule, self.most_kept = rule, most_kept

    # ------------------------------------------------------------------ rows in order

    def on_row(self, memory: StateMemory, row: Row) -> Iterator[Occurrence]:
        state, one = row.cells[STATE], UNSURE if row.unsure else 1
        if state is None:
            memory.after = plus(memory.after, one)
            if self.rule.extend == 1 and not self._unknown(memory):
                yield from self._reach(memory, row.ts, plus(memory.rows, memory.after))
            return
        if self._unknown(memory):
            yield redo(memory.redo, row.ts)
            memory.state, memory.last = state, row.ts
        elif memory.state is None or state != memory.state:
            yield from self._next(memory, state, row.ts, one)
        else:
            memory.last = row.ts
            memory.rows = plus(plus(memory.rows, memory.after), one)
        memory.after = 0
        yield from self._reach(memory, row.ts, memory.rows)
        self._keep(memory, [*memory.kept, StateRow(row.ts)])

    def _next(self, memory: StateMemory, state: Any, ts: int, one: int) -> Iterator[Occurrence]:
        """A row with another state: the open window closes, the next one begins."""
        start, rows = ts, one
        if memory.state is not None:
            yield from self._close(memory, state, ts)
            if self.rule.extend == 2:
                start, rows = min(memory.last + 1, ts), plus(memory.after, one)
            memory.closed, memory.floor = memory.state, memory.last
            memory.closed_start = memory.start
        memory.state, memory.start, memory.last, memory.rows = state, start, ts, rows
        memory.told, memory.kept = 0, []

    def _close(self, memory: StateMemory, state: Any, ts: int) -> Iterator[Occurrence]:
        """The open window closes with a row of ``state`` at ``ts``."""
        extended = self.rule.extend == 1
        end = max(memory.last, ts - 1) if extended else memory.last
        rows = plus(memory.rows, memory.after) if extended else memory.rows
        if memory.start != NEVER and end - memory.start >= self.rule.true_for:
            if not memory.told:
                yield Occurrence(OPEN, memory.start, end, rows, detail=self._opened(memory))
            detail = self.rule.closing(memory.state, state)
            yield Occurrence(CLOSE, memory.start, end, rows, detail=detail)
        if memory.redo != ALWAYS:
            yield redo(memory.redo, end)
            memory.start, memory.redo = NEVER, ALWAYS

    def _reach(self, memory: StateMemory, ts: int, rows: int) -> Iterator[Occurrence]:
        """The open window reaches ``ts``: it is told as opened if it is now long enough."""
        if memory.state is None or memory.told or ts - memory.start < self.rule.true_for:
            return
        memory.told = 1
        yield Occurrence(OPEN, memory.start, ts, rows, detail=self._opened(memory))

    def _opened(self, memory: StateMemory) -> Detail:
        return self.rule.opening(memory.closed, memory.state)

    def _keep(self, memory: StateMemory, kept: list[StateRow]) -> None:
        """Keep the newest of these rows of the open window."""
        gone = max(0, len(kept) - self.most_kept)
        if gone:
            memory.floor = kept[gone - 1].ts
        memory.kept = kept[gone:]

    # ------------------------------------------------------------------ late rows, deleted rows

    def is_over(self, memory: StateMemory, row: Row, before: int) -> bool:
        if self._unknown(memory):
            return row.ts < memory.redo
        if memory.state is not None and NEVER < memory.start <= row.ts:
            return False
        # only a row with the open window's state can make that window begin earlier
        other = memory.state is not None and memory.start != NEVER and row.cells[STATE] != memory.state
        return row.ts <= memory.floor or other

    def on_delete(self, memory: StateMemory, first: int, last: int) -> Iterator[Occurrence]:
        if memory.state is None and memory.closed is None and memory.redo == ALWAYS:
            memory.closed_start = NEVER
            yield redo(first, last)
        else:
            yield from self._change(memory, first, last)

    def on_unknown(self, memory: StateMemory, ts: int, now: int) -> Iterator[Occurrence]:
        yield from self._change(memory, ts, ts)

    def _change(self, memory: StateMemory, first: int, last: int) -> Iterator[Occurrence]:
        """Rows in ``[first, last]`` changed."""
        yield redo(first, last)
        before = memory.closed is not None and memory.closed_start != NEVER and last < memory.closed_start
        memory.closed_start = NEVER
        if not before:
            self._lose(memory, first, last)

    def _lose(self, memory: StateMemory, first: int, last: int) -> None:
        """Rows in ``[first, last]`` changed: from now on only the stored rows know which window is open."""
        since = min(first, memory.start) if memory.state is not None and memory.start != NEVER else first
        memory.redo = min(memory.redo, since)
        memory.floor, memory.closed_start = max(memory.floor, memory.last, last), NEVER
        memory.state, memory.closed, memory.start, memory.kept = None, None, NEVER, []
        memory.rows, memory.after, memory.told = UNSURE, UNSURE, 1

    def _unknown(self, memory: StateMemory) -> bool:
        """Whether a window is open of which nothing is known."""
        return memory.state is None and memory.redo != ALWAYS

    def on_late(self, memory: StateMemory, row: Row, before: int) -> Iterator[Occurrence]:
        ts, state = row.ts, row.cells[STATE]
        if self._unknown(memory) or (memory.state is not None and memory.start == NEVER):
            yield redo(ts, ts)
            self._lose(memory, ts, ts)
            return
        older = memory.state is not None and memory.start <= memory.floor
        # if the closed window's last row was rewritten, all that is known before the open window is that one
        # ends there
        shut = older or memory.closed is not None or memory.floor == NEVER
        if ts <= memory.floor:
            if older:
                yield from self._forgotten(memory, ts, state)
                return
            yield redo(ts, ts)
            if not shut:
                self._lose(memory, ts, ts)
                return
            if ts < memory.floor or self.rule.shared or state == memory.closed:
                if state not in (None, memory.closed) or ts <= memory.closed_start:
                    memory.closed_start = NEVER
                return
            if memory.closed_start in (NEVER, ts) or self.rule.extend == 2:
                # perhaps it was the closed window's only row: then the window before that may continue in the
                # open one
                self._lose(memory, ts, ts)
                return
            # the closed window's last row has another state now: treat it like the rows after it
            memory.closed, memory.closed_start, memory.floor = None, NEVER, ts - 1
        yield from self._within(memory, ts, state, shut)

    def _within(self, memory: StateMemory, ts: int, state: Any, shut: bool) -> Iterator[Occurrence]:
        """A late row after ``floor``; ``shut``: a window that lies before cannot continue in what begins
        here."""
        times = [kept.ts for kept in memory.kept]
        place = bisect_left(times, ts)
        known = not self.rule.shared and place < len(times) and times[place] == ts
        if state is None and not known:
            yield from self._count(memory, ts)
            return
        rows = [(time, memory.state) for time in times]
        if known:
            del rows[place]
        if state is not None:
            rows.insert(bisect_right([time for time, _ in rows], ts), (ts, state))
        if not shut and (not rows or rows[0][1] != memory.state):
            # the window before may continue in what begins here now
            yield redo(ts, ts)
            self._lose(memory, ts, ts)
            return
        yield from self._cut_again(memory, rows, ts)

    def _forgotten(self, memory: StateMemory, ts: int, state: Any) -> Iterator[Occurrence]:
        """A late row among the open window's rows that are not kept."""
        if ts == memory.floor and state != memory.state:
            # the newest forgotten row has another state now: it is not known where the window ends and the
            # next begins
            yield redo(ts, ts)
            self._lose(memory, ts, ts)
            return
        memory.rows = UNSURE
        if ts <= memory.start or state not in (None, memory.state):
            memory.redo = min(memory.redo, ts)

    def _count(self, memory: StateMemory, ts: int) -> Iterator[Occurrence]:
        """A late row without a state, which may be another version of a row without a state."""
        if memory.state is None or ts > memory.last:
            memory.after = UNSURE
            if self.rule.extend == 1:
                yield from self._reach(memory, ts, UNSURE)
        elif ts >= memory.start:
            memory.rows = UNSURE
        elif self.rule.extend == 1 and memory.closed is not None:
            yield redo(memory.floor, ts)

    def _cut_again(self, memory: StateMemory, rows: list[tuple[int, Any]], late: int) -> Iterator[Occurrence]:
        """Cut the open window again from these (time, state) after ``floor``."""
        known = memory.state is not None and memory.start <= memory.floor
        before: Run | None = None
        if known:
            before = Run(memory.state, memory.start, memory.start, memory.floor)
        elif memory.closed is not None:
            before = Run(memory.closed, memory.closed_start, memory.closed_start, memory.floor)
        runs = self._runs(before, rows)
        heard = self.rule.openings and memory.told and memory.start != NEVER
        told = {memory.start: memory.last} if heard else {}
        if before is not None and not known and len(runs) == 1:
            yield from tell_again(told, [], None, self.rule.true_for)
            yield from self._reopen(memory, runs[0], rows)
            return
        if before is not None and not known:
            yield from self._change_closed(memory, before, runs[1].first, late)
            runs = runs[1:]
        yield from self._tell(memory, told, runs)
        self._remember(memory, runs, rows)

    def _runs(self, before: Run | None, rows: list[tuple[int, Any]]) -> list[Run]:
        runs = [] if before is None else [before]
        for ts, state in rows:
            if runs and runs[-1].state == state:
                runs[-1].last = ts
                continue
            start = min(runs[-1].last + 1, ts) if runs and self.rule.extend == 2 else ts
            runs.append(Run(state, start, ts, ts))
        return runs

    def _change_closed(self, memory: StateMemory, closed: Run, first: int, late: int) -> Iterator[Occurrence]:
        """The closed window got a late row, or another row (``first``) comes next after it."""
        long = self._was_long(memory.start, memory)
        if closed.last > memory.floor:
            yield redo(memory.floor, closed.last)
            memory.floor = closed.last
        elif self.rule.extend == 1 and min(late, first) <= memory.start:
            yield redo(memory.floor, max(memory.floor, first - 1))
        if self._was_long(first, memory) != long:
            # its length now no longer shows whether its opening was told
            memory.closed_start = NEVER

    def _was_long(self, next_: int, memory: StateMemory) -> bool:
        """Whether the closed window was long enough, where the next one begins at ``next_``."""
        ended = max(memory.floor, next_ - 1) if self.rule.extend == 1 else memory.floor
        return ended - memory.closed_start >= self.rule.true_for

    def _reopen(self, memory: StateMemory, run: Run, rows: list[tuple[int, Any]]) -> Iterator[Occurrence]:
        """The open window has vanished: the closed one before it is open again."""
        if run.start == NEVER:
            memory.redo = min(memory.redo, memory.floor)
        elif self.rule.retracts:
            yield Occurrence(RETRACT, run.start, run.start, UNSURE)
        # its opening was told at first, if it was long enough before it closed
        memory.told = int(self._was_long(memory.start, memory))
        memory.closed, memory.closed_start = None, NEVER
        memory.state, memory.start, memory.last = run.state, run.start, run.last
        memory.rows = memory.after = UNSURE
        self._keep(memory, [StateRow(ts) for ts, _ in rows])
        yield from self._reach(memory, run.last, UNSURE)

    def _tell(self, memory: StateMemory, told: dict[int, int], runs: list[Run]) -> Iterator[Occurrence]:
        """Tell what has changed if the windows are now those of ``runs``, of which the last one is open."""
        cuts: list[Cut] = []
        state = memory.closed
        following: list[Run | None] = [*runs[1:], None]
        for run, later in zip(runs, following[: len(runs)], strict=True):
            end = run.last
            if later is not None and self.rule.extend == 1:
                end = max(end, later.first - 1)
            closing = self.rule.closing(run.state, later.state) if later is not None else None
            cuts.append(Cut(run.start, end, self.rule.opening(state, run.state), closing))
            state = run.state
        known = [cut for cut in cuts if cut.start != NEVER]
        open_ = known[-1] if known and cuts[-1] is known[-1] else None
        yield from tell_again(told, known[:-1] if open_ else known, open_, self.rule.true_for)
        if len(cuts) > 1 and memory.redo != ALWAYS:
            yield redo(memory.redo, cuts[-2].end)
            runs[-2].start, memory.redo = NEVER, ALWAYS
        if cuts:
            memory.told = int(cuts[-1].end - cuts[-1].start >= self.rule.true_for)

    def _remember(self, memory: StateMemory, runs: list[Run], rows: list[tuple[int, Any]]) -> None:
        memory.rows = UNSURE
        if not runs or memory.state is None or runs[-1].last != memory.last:
            memory.after = UNSURE
        if not runs:
            memory.state, memory.told, memory.kept = None, 0, []
            return
        if len(runs) > 1:
            before = runs[-2]
            memory.closed, memory.closed_start, memory.floor = before.state, before.start, before.last
        open_ = runs[-1]
        memory.state, memory.start, memory.last = open_.state, open_.start, open_.last
        self._keep(memory, [StateRow(ts) for ts, _ in rows if ts > memory.floor])

    def on_time(self, memory: StateMemory, before: int, now: int) -> tuple[Occurrence, ...]:
        return ()

    def so_far(self, memory: StateMemory) -> Iterator[SoFar]:
        if memory.state is not None and memory.start != NEVER:
            yield SoFar(memory.start, memory.last, memory.rows)

    def vague(self, memory: StateMemory) -> Span | None:
        known = memory.redo == ALWAYS and (memory.state is None or memory.start != NEVER)
        return None if known else Span(max(min(memory.redo, memory.floor), -RANGE), RANGE)

    def waits(self, memory: StateMemory, watermark: int) -> tuple[list[OpenWindow], list[Wait]]:
        if memory.state is None:
            return [], [WAITS_FOR_ROW]
        waits = [Wait("state", words=msgspec.json.encode(memory.state).decode())]
        if memory.start == NEVER:
            return [OpenWindow(None, memory.last, -1, [*waits, Wait("again")])], [WAITS_FOR_ROW]
        waits += waits_for_true_for(self.rule.true_for, memory.start, memory.last)
        return [OpenWindow(memory.start, memory.last, memory.rows, waits)], [WAITS_FOR_ROW]

    def reach(self, origin: int | None = None) -> StateReach:
        return StateReach()

    # ------------------------------------------------------------------ over arrays

    def on_rows(self, memory: Columns, evaluated: Evaluated) -> Occurrences:
        """Evaluate groups without late rows all at once, the others row by row."""
        special = (memory.singles["redo"] != ALWAYS) | (memory.singles["start"] == NEVER)
        special[evaluated.group[evaluated.unsure]] = True
        plain, odd = split(evaluated, special)
        parts = [in_order(self.rule, self.most_kept, memory, plain)] if len(plain.group) else []
        if len(odd.group) or not parts:
            parts.append(super().on_rows(memory, odd))
        return Occurrences.join(parts)

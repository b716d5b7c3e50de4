"""The windows of rows that are older than a stream, cut while the rows are read, and what is left for the
live path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.recalc.cut import Cutter
from millrace_core.trigger.groups.columns import Array, Ints
from millrace_core.trigger.groups.watermark import NEVER, RANGE, Bools
from millrace_core.trigger.types.occurrences import CLOSE, HISTORY, OPEN, Occurrences
from millrace_core.trigger.types.reach import Rows
from millrace_core.trigger.types.windower import Windower
from millrace_core.wire.events import Group
from millrace_core.wire.recalc import Opened, Past


class History:
    """The history of many groups at once. Rows come in slices of time, each slice later than the one before.

    ``most``: how many windows may close; None: any number.
    """

    def __init__(self, windower: Windower, watermark: int, groups: int, most: int | None = None) -> None:
        self._most, self._closed = most, 0
        self._cutter = Cutter(windower, groups)
        self._watermark = watermark
        self._newest = np.full(groups, NEVER, dtype=np.int64)
        self._closed_at = np.full(groups, NEVER, dtype=np.int64)
        self._opened: Occurrences | None = None
        self._waiting: Rows | None = None

    def take(self, rows: Rows) -> Occurrences:
        """What the next slice opens and closes. As on the live path, T lies WATERMARK behind the newest row.

        :raises MillraceError: TOO_LARGE if there are more windows than permitted.
        """
        rows = rows.only((rows.ts > -RANGE) & (rows.ts < RANGE))
        np.maximum.at(self._newest, rows.group, rows.ts)
        if self._waiting is not None and len(self._waiting):
            rows = _joined(self._waiting, rows)
        ready = self._ready(rows)
        self._waiting = rows.only(~ready)
        return self._as_history(self._cutter.feed(rows if ready.all() else rows.only(ready)))

    def _ready(self, rows: Rows) -> Bools:
        found: Bools = rows.ts <= self._newest[rows.group] - self._watermark
        return found

    def finish(self) -> Occurrences:
        """What T closes once all rows have been read.

        :raises MillraceError: as :meth:`take`.
        """
        return self._as_history(self._cutter.advance(self.until))

    @property
    def until(self) -> Ints:
        """T of each group after the rows that have been taken."""
        found: Ints = np.maximum(self._newest, -RANGE) - self._watermark
        return found

    def _as_history(self, found: Occurrences) -> Occurrences:
        self._closed += int((found.kind == CLOSE).sum())
        if self._most is not None and self._closed > self._most:
            raise MillraceError(
                ErrorCode.TOO_LARGE,
                f"FILL_HISTORY: there are more than {self._most} windows before the stream",
            )
        found.cause = np.full(len(found), HISTORY, dtype=np.int64)
        self._note_openings(found)
        return found

    def _note_openings(self, found: Occurrences) -> None:
        """Remember the openings of windows that may still be open. The windows of a group close in the order
        of their starts."""
        closed, opened = found.take(found.kind == CLOSE), found.take(found.kind == OPEN)
        np.maximum.at(self._closed_at, closed.group, closed.start)
        if self._opened is not None:
            opened = Occurrences.join((self._opened, opened))
        self._opened = opened.take(opened.start > self._closed_at[opened.group])

    def left_open(self) -> dict[int, list[Opened]]:
        """By group: the windows that history opened and did not close, as they were when they opened. The
        live path tells how they go on, so it also tells of their opening: the order of events from two
        sources would not be certain."""
        found: dict[int, list[Opened]] = {}
        if self._opened is None:
            return found
        arrays = (
            getattr(self._opened, name).tolist() for name in ("group", "start", "end", "rownum", "detail")
        )
        for group, *window in zip(*arrays, strict=True):
            found.setdefault(group, []).append(Opened(*window))
        windower, memory = self._cutter.windower, self._cutter.memory
        for group, windows in found.items():
            still = {window.start for window in windower.so_far(memory.get(group))}
            found[group] = [window for window in windows if window.start in still]
        return {group: windows for group, windows in found.items() if windows}

    def pasts(self, groups: Sequence[Group]) -> Iterator[tuple[int, Past]]:
        """What is handed to the slot for each group that has rows, by the group's number."""
        opened = self.left_open()
        for place in np.flatnonzero(self._newest != NEVER).tolist():
            newest = int(self._newest[place])
            memory = None
            if self._cutter.last[place] != NEVER:
                memory = msgspec.msgpack.encode(self._cutter.memory.get(place))
            ts, columns = rows_of(self._waiting, place)
            yield place, Past(groups[place], ts, columns, newest, newest, memory, opened.get(place, []))


def rows_of(rows: Rows | None, group: int) -> tuple[list[int], dict[str, list[object]]]:
    """A group's rows as a message holds them: times and cells."""
    if rows is None:
        return [], {}
    low, high = np.searchsorted(rows.group, (group, group + 1))
    return rows.ts[low:high].tolist(), {n: a[low:high].tolist() for n, a in rows.columns.items()}


def _joined(one: Rows, other: Rows) -> Rows:
    group: Ints = np.concatenate((one.group, other.group))
    ts: Ints = np.concatenate((one.ts, other.ts))
    order = np.lexsort((ts, group))
    columns: dict[str, Array] = {
        name: np.concatenate((values, other.columns[name]))[order] for name, values in one.columns.items()
    }
    return Rows(group[order], ts[order], columns)

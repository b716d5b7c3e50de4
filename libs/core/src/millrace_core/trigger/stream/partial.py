"""Rows that name only some columns, while the keys of groups read others.

Such a row keeps the stored values of the other cells, or has none: nothing in it says which group it belongs
to, and possibly no group knows it. So the slot requests the row as it is stored (a request ROWS), and
evaluates the answer as a whole row. If the row is written or deleted meanwhile, that takes the place of the
answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from millrace_core.timeline.precision import NS_PER_MS
from millrace_core.trigger.groups.groups import Groups
from millrace_core.trigger.groups.watermark import Arrivals
from millrace_core.trigger.rows.signals import typed
from millrace_core.trigger.stream.changes import Changes
from millrace_core.trigger.stream.history import History
from millrace_core.trigger.stream.routes import Routes
from millrace_core.trigger.stream.state import PartialRow, StreamState
from millrace_core.trigger.stream.telling import Output, Telling
from millrace_core.trigger.stream.versions import Unnamed
from millrace_core.wire.control import Offsets
from millrace_core.wire.recalc import Asked, Handover, StoredRows


class Partial:
    """``history`` or ``routes`` take the rows as they take live ones; ``changes`` is told which groups the
    rows have left."""

    def __init__(
        self, state: StreamState, telling: Telling, history: History, changes: Changes, routes: Routes
    ) -> None:
        self.state, self.telling = state, telling
        self.history, self.changes, self.routes = history, changes, routes

    def ask(
        self, rows: Sequence[Unnamed], whole: Collection[tuple[bytes, int]], seen: Offsets
    ) -> Iterator[Output]:
        """Request these rows. ``whole``: rows (table, time) that have come whole and need no longer be
        requested."""
        waiting = self.state.life.partial
        for table, ts in whole:
            waiting.get(table, {}).pop(ts, None)
        asked: dict[bytes, dict[int, int]] = {}
        for row in rows:
            asked.setdefault(row.table, {})[row.ts] = row.offset
            kept = PartialRow(row.written, row.partition, row.offset)
            waiting.setdefault(row.table, {})[row.ts] = kept
        if asked:
            yield self._request(asked, seen, max(row.written for row in rows) * NS_PER_MS)

    def ask_again(self, seen: Offsets, at: int) -> Iterator[Output]:
        """Repeat the requests: answers that came while the stream was stopped were not heard. ``at``: ns."""
        waiting = {name: rows for name, rows in self.state.life.partial.items() if rows}
        if waiting:
            asked = {name: {ts: row.offset for ts, row in rows.items()} for name, rows in waiting.items()}
            yield self._request(asked, seen, at)

    def _request(self, asked: dict[bytes, dict[int, int]], seen: Offsets, at: int) -> Output:
        names: Asked = {name.decode(): rows for name, rows in asked.items()}
        return self.telling.ask(replace(self.telling.request("ROWS", [], seen, at), rows=names))

    def take(self, message: Handover, at: int, seen: Offsets) -> Iterator[Output]:
        """Take an answer: what is stored at the requested times; ``at``: when that was told (ms)."""
        waiting = self.state.life.partial
        taken: dict[bytes, dict[int, PartialRow]] = {}
        for name, offsets in message.asked.items():
            mine = waiting.get(name.encode(), {})
            for ts, offset in offsets.items():
                # the answer may not include what came after the requested message
                if ts in mine and mine[ts].offset == offset:
                    taken.setdefault(name.encode(), {})[ts] = mine.pop(ts)
        own: dict[tuple[bytes, int], set[int]] = {}
        for found in message.rows:
            yield from self._evaluate(found, taken.get(found.table.encode(), {}), own, seen)
        if self.state.definition.withdraws_rewritten:
            for table, rows in taken.items():
                yield from self._lose_elsewhere(table, sorted(rows), own, at, seen)
        self.state.passing = Groups()
        for table in [table for table, rows in waiting.items() if not rows]:
            del waiting[table]

    def _evaluate(
        self, found: StoredRows, taken: dict[int, PartialRow], own: dict[tuple[bytes, int], set[int]],
        seen: Offsets,
    ) -> Iterator[Output]:  # fmt: skip
        """Evaluate rows, and add to ``own`` the groups that have a row of a table at a time."""
        state, table = self.state, found.table.encode()
        wanted = [row for row, ts in enumerate(found.ts) if ts in taken]
        place = state.place_of_part(table, found.group) if wanted else -1
        if place < 0:
            return
        ts = np.array([found.ts[row] for row in wanted], dtype=np.int64)
        columns = {
            signal.name: typed(signal, [found.columns[signal.name][row] for row in wanted])
            for signal in state.definition.windower.signals
        }
        rows = Arrivals(np.full(len(ts), place, dtype=np.int64), ts, columns)
        told = [taken[one] for one in ts.tolist()]
        written, partition, offset = (
            np.array(cells, dtype=np.int64)
            for cells in zip(*((one.written, one.partition, one.offset) for one in told), strict=True)
        )
        if state.definition.drops_late:
            rows.log = partition, offset
        for one in ts.tolist():
            own.setdefault((table, one), set()).add(place)
        if state.definition.home:
            yield from self.history.take(rows, written, seen)
        else:
            yield from self.routes.send_on(rows, written, seen, lambda _: table)

    def _lose_elsewhere(
        self, table: bytes, times: Sequence[int], own: dict[tuple[bytes, int], set[int]], at: int,
        seen: Offsets,
    ) -> Iterator[Output]:  # fmt: skip
        """Every other group of the table may have had the row before."""
        state = self.state
        one_each = not state.definition.table.has_composite_key
        for place in state.parts_of(table) + state.strangers():
            lost = [ts for ts in times if not one_each or place not in own.get((table, ts), ())]
            if lost:
                yield from self.changes.lose_at([place], table, np.array(lost, dtype=np.int64), at, seen)

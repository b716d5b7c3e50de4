"""Output tables as they are now, made again if they were dropped; and what they hold where a stream takes
results back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from calc_svc.jobs.waits import Waits
from calc_svc.store.catalog import CatalogView
from calc_svc.store.tables import TableStore
from millrace_core.calc.outcome import Outcome
from millrace_core.calc.results import check_output
from millrace_core.calc.retraction import Ranges
from millrace_core.calc.waiting import Wanted
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Table
from millrace_core.model.stream import StreamSpec
from millrace_core.wire.registrations import OutputWanted
from millrace_core.wire.topics import wal_topic

ASK_SECONDS = 10.0
"""Seconds between two requests for an output table."""


@dataclass(slots=True)
class OutputTables:
    """One thread at a time asks for the table of one stream; different streams may ask side by side."""

    catalog: CatalogView
    store: TableStore
    ask: Callable[[OutputWanted], None] | None = None
    """Asks the gateway for an output table that was dropped (None: nobody can)."""
    _asked: dict[int, float] = field(default_factory=dict)
    """When a stream's output table was asked for."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Stop waiting."""
        self._stop.set()

    def of(self, spec: StreamSpec, waits: Waits) -> Table:
        """The output table of a stream that has one.

        :raises MillraceError: UNAVAILABLE if it was dropped and has not been made again yet, TIMEOUT if it
            has not been opened yet, UNKNOWN_TABLE if it cannot be made again.
        """
        assert spec.output is not None
        name = (spec.output.db, spec.output.table)
        table = self.catalog.tables().get(name)
        if table is None and self.ask is not None and self._may_be_made(*name):
            # dropped under the stream: the next result makes it again (seed 000)
            table = self._made_again(spec, name, waits)
        if table is None:
            raise MillraceError(
                ErrorCode.UNKNOWN_TABLE, f"the output table {'.'.join(name)} no longer exists"
            )
        check_output(spec, table)
        # its topic may be there before the store has opened it
        self.store.reach(Wanted(opened=wal_topic(table.db, table.name)), waits.seconds)
        return table

    def _may_be_made(self, db: str, name: str) -> bool:
        with self.catalog.lock:
            catalog = self.catalog.catalog
            return db in catalog.databases and catalog.find(db, name) is None

    def _made_again(self, spec: StreamSpec, name: tuple[str, str], waits: Waits) -> Table:
        """Ask the gateway for the output table, and wait for it."""
        assert self.ask is not None
        now = time.monotonic()
        if now - self._asked.get(spec.uid, -ASK_SECONDS) >= ASK_SECONDS:
            self.ask(OutputWanted(spec.uid))
            self._asked[spec.uid] = now
        while not self._stop.is_set():
            if (table := self.catalog.tables().get(name)) is not None:
                del self._asked[spec.uid]
                return table
            if waits.seconds == 0:
                break
            self._stop.wait(0.05)
        message = (
            f"the output table {'.'.join(name)} was dropped, and the gateway has not created it again yet"
        )
        raise MillraceError(ErrorCode.UNAVAILABLE, message)


@dataclass(slots=True)
class StoredTimes:
    """The times of rows of output tables, for one job: rows that are stored, and rows that the job's own
    earlier stages write. ``last``: by group, the start of its last window, and that window's result."""

    store: TableStore
    last: dict[int, tuple[int, Outcome]] = field(default_factory=dict)
    _pending: dict[str, set[int]] = field(default_factory=dict)

    def of(self, table: Table, wanted: Mapping[str, Ranges]) -> dict[str, list[int]]:
        """By the name of a sub-table, the times, in order, of its rows in these ranges (ticks)."""
        found = {
            name: [time for time in times if time in wanted[name]]
            for name, times in self._pending.items()
            if name in wanted
        }
        stored = self.store.table(table)
        with stored.lock:
            numbers = stored.family.numbers
            known = [
                (name, numbers[name]) for name, ranges in wanted.items() if name in numbers and len(ranges)
            ]
        if known:
            spans = [(name, number, *span) for name, number in known for span in wanted[name]]
            _, child, first, last = (np.array(column) for column in zip(*spans, strict=True))
            first, last = first.astype(np.int64), last.astype(np.int64)
            view = stored.view(int(first.min()), int(last.max()))
            data, owner, _ = view.slices.between(child.astype(np.int32), first, last)
            times = data[table.key.name].to_list()
            for place, time in zip(owner.tolist(), times, strict=True):
                found.setdefault(spans[place][0], []).append(time)
        return {name: sorted(set(times)) for name, times in found.items()}

    def row(self, table: Table, name: str, time: int) -> dict[str, object] | None:
        """The row that a sub-table has stored at a time."""
        stored = self.store.table(table)
        with stored.lock:
            number = stored.family.numbers.get(name)
        if number is None:
            return None
        child, at = np.array([number], dtype=np.int32), np.array([time], dtype=np.int64)
        data, _, _ = stored.view(time, time).slices.between(child, at, at)
        return data.row(-1, named=True) if len(data) else None

    def add(self, written: Mapping[str, Sequence[int]]) -> None:
        """A stage writes these rows."""
        for name, times in written.items():
            self._pending.setdefault(name, set()).update(times)

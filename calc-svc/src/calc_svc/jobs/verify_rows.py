"""The rows that a stream has evaluated, and those that its output table holds: what VERIFY STREAM reads."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl

from calc_svc.jobs.recalc_rows import TriggerRows
from calc_svc.store.table import StoredTable, View
from millrace_core.model.schema import Column
from millrace_core.recalc.groups import numbered
from millrace_core.recalc.judged import Judged
from millrace_core.recalc.reach import Read
from millrace_core.recalc.verify import Cells, Key
from millrace_core.store.run import Children
from millrace_core.store.search import Ints
from millrace_core.trigger.types.reach import Stretch
from millrace_core.wire.events import Group
from millrace_core.wire.rows.decoder import RowDecoder
from millrace_wal import Message


class JudgedRows(TriggerRows):
    """The rows of a stored trigger table."""

    def judged(self, group: Group, children: Sequence[int], judged: Judged) -> Read:
        """Reads one group: the rows of these tables that count for the stream."""
        stored = self.stored
        assert isinstance(stored, StoredTable), "streams on virtual tables are refused"
        oldest, _ = self.bounds()
        numbers = np.array(children, dtype=np.int32)
        only = numbered(self.definition, {group: list(children)})

        def read(low: int, high: int) -> Stretch:
            view = stored.view(low, high)
            data, child = _counted(view, numbers, (low, high), judged)
            rows = self._rows(view, data, child, only)
            return Stretch(rows, low, high, low <= oldest)

        return read


def _counted(
    view: View, numbers: Children, span: tuple[int, int], judged: Judged
) -> tuple[pl.DataFrame, Children]:
    """The rows of ``span`` that were written late enough to count, and all rows of times that count whole."""
    low, high = span

    def between(first: int, last: int, *, all_: bool) -> tuple[pl.DataFrame, Children]:
        slices = view.slices if all_ else view.slices.written(judged.spans)
        size = len(numbers)
        data, _, child = slices.between(numbers, np.full(size, first), np.full(size, last))
        return data, child

    parts = []
    begin = low
    for oldest, newest in judged.whole:
        first, last = max(oldest, low), min(newest, high)
        if first > last:
            continue
        if begin < first:
            parts.append(between(begin, first - 1, all_=False))
        parts.append(between(first, last, all_=True))
        begin = last + 1
    if begin <= high or not parts:  # an empty span has no rows, but it still has columns
        parts.append(between(begin, high, all_=False))
    if len(parts) == 1:
        return parts[0]
    return pl.concat([data for data, _ in parts]), np.concatenate([child for _, child in parts])


def rows_of_messages(
    messages: Sequence[Message], columns: Sequence[Column], decoder: RowDecoder
) -> dict[Key, Cells]:
    """The rows that WAL messages of an output table write, as they will be once they are stored."""
    if not messages:
        return {}
    decoded = decoder.decode([message.value or b"" for message in messages])
    names = [(message.key or b"").decode() for message in messages]
    tables = [names[place] for place in decoded.message.tolist()]
    return _keyed(decoded.frame, tables, columns)


def stored_rows(
    stored: StoredTable, tables: Collection[str], span: tuple[int, int], columns: Sequence[Column]
) -> dict[Key, Cells]:
    """The rows that the output table holds in these tables and times (both ends included)."""
    view = stored.view(*span)
    with stored.lock:
        numbers: Ints = np.sort(
            stored.family.numbers_of([name for name in tables if name in stored.family.numbers])
        )
        names = {number: name for name, number in stored.family.numbers.items()}
    size = len(numbers)
    data, _, child = view.slices.between(
        numbers.astype(np.int32), np.full(size, span[0]), np.full(size, span[1])
    )
    return _keyed(data, [names[number] for number in child.tolist()], columns)


def _keyed(frame: pl.DataFrame, tables: Sequence[str], columns: Sequence[Column]) -> dict[Key, Cells]:
    key, *others = columns
    second = next((column.name for column in others if column.composite_key), None)
    cells = frame.select([column.name for column in columns]).rows(named=True)
    return {
        (table, row[key.name], None if second is None else row[second]): row
        for table, row in zip(tables, cells, strict=True)
    }

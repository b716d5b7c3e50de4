"""The rows that the measures write, and what must come of them. Pure: times are ms of event time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

BASE = 1_767_225_600_000
"""2026-01-01 00:00:00 UTC: event time begins here."""

Window = tuple[str, int]
"""A child table and the start of a window."""


@dataclass(frozen=True, slots=True)
class SteadyRow:
    """One row of a steady load. ``closes``: the start of the window that this row closes, None if none."""

    table: str
    ts: int
    closes: int | None


def steady(tables: int, rate: int, seconds: int, width: int, together: bool = False) -> list[SteadyRow]:
    """Rows of all tables in turn, in the order in which they are due, ``rate`` of all a second. Each table's
    event time runs as fast as the clock; their phases differ, so that windows close spread over time, unless
    they are to close ``together``."""
    step = 1000 * tables // rate
    rows = []
    window: dict[int, int] = {}
    for number in range(rate * seconds):
        table, turn = number % tables, number // tables
        ts = BASE + turn * step + (0 if together else table * width // tables)
        start = ts - (ts - BASE) % width
        before = window.get(table)
        window[table] = start
        rows.append(SteadyRow(f"d{table}", ts, before if before is not None and before < start else None))
    return rows


def counts(rows: Sequence[SteadyRow], width: int) -> dict[Window, int]:
    """Rows in each window of each table."""
    return dict(Counter((row.table, row.ts - (row.ts - BASE) % width) for row in rows))


@dataclass(frozen=True)
class Block:
    """Rows of a filled topic: every table has one row a second, from ``first`` to before ``last`` (seconds
    since BASE), ``per_message`` of them in each message; in Arrow or JSON."""

    tables: int
    first: int
    last: int
    per_message: int
    arrow: bool = False

    @property
    def rows(self) -> int:
        return self.tables * (self.last - self.first)

    @property
    def messages(self) -> int:
        return self.rows // self.per_message

    def values(self) -> Iterator[bytes]:
        """The value that every table's next message has, in order of time."""
        for begin in range(self.first, self.last, self.per_message):
            seconds = range(begin, begin + self.per_message)
            if self.arrow:
                ts = pa.array([BASE + second * 1000 for second in seconds], pa.int64())
                yield arrow_value({"ts": ts, "v": pa.array([second % 97 for second in seconds], pa.int32())})
                continue
            rows = [row_text(second) for second in seconds]
            yield (rows[0] if self.per_message == 1 else f"[{','.join(rows)}]").encode()


def arrow_value(columns: Mapping[str, pa.Array[Any]]) -> bytes:
    """Columns as an Arrow IPC stream of one batch, as producers write it."""
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def row_text(second: int) -> str:
    """The row of a second as JSON."""
    return f'{{"ts":{BASE + second * 1000},"v":{second % 97}}}'


def windows(last: int, width: int) -> dict[int, int]:
    """Start of each window that rows at seconds 0 … last-1 lie in -> number of rows of one table; ``width``
    in seconds."""
    return {BASE + start * 1000: min(start + width, last) - start for start in range(0, last, width)}


def closed(last: int, width: int) -> int:
    """How many windows of one table are closed once its row of second ``last - 1`` is judged."""
    return (last - 1) // width


def rows_of(value: bytes | None) -> list[dict[str, Any]]:
    """The rows of a WAL message: a row, an array of rows, tagged rows, columns, or Arrow; none of an
    operation."""
    if not value or value[:1] == b"\x00":
        return []
    if value[:1] == b"\xff":
        return pl.read_ipc_stream(value).to_dicts()
    data = json.loads(value)
    if isinstance(data, list):
        return data
    if isinstance(data.get("rows"), list):
        return [dict(row) for row in data["rows"]]
    if isinstance(data.get("ts"), list):
        return [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]
    return [data]


@dataclass(frozen=True)
class Readings:
    """Rows for the calculation: ``groups`` tables, each with ``windows`` windows of ``each`` rows."""

    groups: int
    windows: int
    each: int
    width: int = 10_000

    def rows(self, group: int, window: int) -> list[dict[str, int]]:
        """The rows of one window of one group."""
        start = BASE + window * self.width
        step = self.width // self.each
        values = self._values(group, window)
        return [{"ts": start + number * step, "v": value} for number, value in enumerate(values)]

    def _values(self, group: int, window: int) -> list[int]:
        return [(group * 31 + window * 7 + number * 13) % 1000 for number in range(self.each)]

    def message(self, group: int) -> bytes:
        """All rows of a group, and one that closes its last window."""
        rows = [row for window in range(self.windows) for row in self.rows(group, window)]
        rows.append({"ts": BASE + self.windows * self.width, "v": 0})
        return json.dumps(rows, separators=(",", ":")).encode()

    def expected(self) -> dict[Window, tuple[float, int, int]]:
        """(avg, max, count) of each window of each group."""
        found = {}
        for group in range(self.groups):
            for window in range(self.windows):
                values = self._values(group, window)
                start = BASE + window * self.width
                found[f"d{group}", start] = (sum(values) / self.each, max(values), self.each)
        return found

    @property
    def total(self) -> int:
        return self.groups * (self.windows * self.each + 1)

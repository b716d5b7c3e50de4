"""The rows of a crash round, and what must come of them, by plain Python. Pure. Times: event time in ms."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.workload import BASE

GAP, LENGTH, COUNT = 6_000, 10_000, 7
"""Of the session, interval and count windows."""
STEP = 1_000

Row = tuple[int, int]
"""Time and value."""
Figures = tuple[int, int, int]
"""Last time, rows, sum of the values of a window."""
Windows = dict[tuple[str, int], Figures]
"""Child table and start -> figures."""


@dataclass(slots=True)
class Load:
    """Rows by child table. ``past``: of the streams that fill history: before they are made, and after.
    ``old``, ``live``, ``late``, ``closing``: of the stream that recalculates: before it is made, behind that,
    out of order, and behind all others."""

    past: dict[str, list[Row]] = field(default_factory=dict)
    future: dict[str, list[Row]] = field(default_factory=dict)
    old: dict[str, list[Row]] = field(default_factory=dict)
    live: dict[str, list[Row]] = field(default_factory=dict)
    late: dict[str, list[Row]] = field(default_factory=dict)
    closing: dict[str, list[Row]] = field(default_factory=dict)


def load(rng: random.Random, tables: int, rows: int) -> Load:
    """``rows`` of each of ``tables`` child tables before the streams are made, about half as many after."""
    made = Load()
    for number in range(tables):
        name = f"p{number}"
        walk = list(_walk(rng, rows + rows // 8))
        made.past[name] = walk[:rows]
        # the last one lies so far behind that every session before it is closed
        made.future[name] = [*walk[rows:], (walk[-1][0] + 10 * GAP, 1)]
        name = f"q{number}"
        begin, middle, end = BASE, BASE + rows * STEP, BASE + (rows + rows // 2) * STEP
        made.old[name] = [(ts, rng.randrange(100)) for ts in range(begin, middle, STEP)]
        made.live[name] = [(ts, rng.randrange(100)) for ts in range(middle, end, STEP)]
        moments = sorted(rng.sample(range(middle, end - LENGTH, STEP), rows // 10))
        # new rows between others, and new values of old ones
        made.late[name] = [(ts + rng.choice((0, STEP // 2)), rng.randrange(100)) for ts in moments]
        made.closing[name] = [(end + step * LENGTH, rng.randrange(100)) for step in range(3)]
    return made


def _walk(rng: random.Random, rows: int) -> Iterator[Row]:
    """Rows with gaps, one in ten longer than a session allows."""
    ts = BASE
    for _ in range(rows):
        ts += rng.randrange(GAP + 1, 4 * GAP) if rng.random() < 0.1 else rng.randrange(1, GAP)
        yield ts, rng.randrange(100)


def sessions(tables: dict[str, list[Row]]) -> Windows:
    """All but the last session of each table, which no row behind it closes."""
    found: Windows = {}
    for name, rows in tables.items():
        window: list[Row] = []
        for row in sorted(rows):
            if window and row[0] - window[-1][0] > GAP:
                found[name, window[0][0]] = _figures(window)
                window = []
            window.append(row)
    return found


def counts(tables: dict[str, list[Row]]) -> Windows:
    """Whole windows of COUNT rows."""
    found: Windows = {}
    for name, rows in tables.items():
        ordered = sorted(rows)
        for begin in range(0, len(ordered) - COUNT + 1, COUNT):
            window = ordered[begin : begin + COUNT]
            found[name, window[0][0]] = _figures(window)
    return found


def intervals(tables: dict[str, list[Row]]) -> Windows:
    """The windows that end no later than the newest row; the last row of a time counts."""
    found: Windows = {}
    for name, rows in tables.items():
        by_window: dict[int, list[Row]] = {}
        for ts, value in dict(rows).items():
            by_window.setdefault(ts - ts % LENGTH, []).append((ts, value))
        newest = max(ts for ts, _ in rows)
        for start, window in by_window.items():
            if start + LENGTH <= newest:
                found[name, start] = (start + LENGTH, *_figures(window)[1:])
    return found


def _figures(window: Sequence[Row]) -> Figures:
    return window[-1][0], len(window), sum(value for _, value in window)


def joined(*parts: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Rows of several parts, in their order, by table."""
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}


def differences(expected: Windows, found: Sequence[tuple[str, int, int, int, int]]) -> list[str]:
    """One line for each window that is missing, doubled, not expected, or has other figures."""
    lines: list[str] = []
    seen: set[tuple[str, int]] = set()
    for name, start, *figures in found:
        window = (name, start)
        if window in seen:
            lines.append(f"{name} {start - BASE}: appears twice")
        elif window not in expected:
            lines.append(f"{name} {start - BASE}: not in the data: {tuple(figures)}")
        elif tuple(figures) != expected[window]:
            lines.append(f"{name} {start - BASE}: {tuple(figures)} instead of {expected[window]}")
        seen.add(window)
    return lines + [
        f"{name} {start - BASE}: missing" for name, start in expected if (name, start) not in seen
    ]

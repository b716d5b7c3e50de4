"""The same daily figures, computed by DuckDB straight from the CSV files, and the comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import duckdb


class Day(NamedTuple):
    """The figures of one city and day."""

    low: float
    mean: float
    high: float


Key = tuple[str, int]  # child table, start of the day in ms since 1970

# A time that occurs twice counts once, with its last value, as in Millrace's tables.
_DAILY = """
WITH numbered AS (
  SELECT CAST("date" AS TIMESTAMP) AS ts, temp, row_number() OVER () AS line
  FROM read_csv(?, types = {'temp': 'DOUBLE'})
),
latest AS (SELECT ts, arg_max(temp, line) AS temp FROM numbered GROUP BY ts)
SELECT epoch_ms(date_trunc('day', ts)) AS day, min(temp), avg(temp), max(temp)
FROM latest GROUP BY day ORDER BY day
"""


def daily(files: Mapping[str, Path]) -> tuple[dict[Key, Day], dict[Key, Day]]:
    """The figures per child table and day: first of the closed days, then of each city's last day. The last
    day is still open: only a row of a later day closes its window."""
    closed: dict[Key, Day] = {}
    still_open: dict[Key, Day] = {}
    with duckdb.connect() as connection:
        for city, file in files.items():
            rows = connection.execute(_DAILY, [str(file)]).fetchall()
            for number, (day, low, mean, high) in enumerate(rows, 1):
                (still_open if number == len(rows) else closed)[(city, day)] = Day(low, mean, high)
    return closed, still_open


def differences(expected: Mapping[Key, Day], found: Iterable[tuple[Key, Day]]) -> list[str]:
    """One line for each day that is missing, doubled, not expected, or differs (relative tolerance 1e-9)."""
    lines: list[str] = []
    seen: set[Key] = set()
    for key, day in found:
        if key in seen:
            lines.append(f"{_name(key)}: appears twice")
        elif key not in expected:
            lines.append(f"{_name(key)}: not in the data")
        elif not all(map(_close, day, expected[key])):
            lines.append(f"{_name(key)}: Millrace has {tuple(day)}, DuckDB has {tuple(expected[key])}")
        seen.add(key)
    return lines + [f"{_name(key)}: missing" for key in expected if key not in seen]


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def _name(key: Key) -> str:
    return f"{key[0]} day {key[1] // 86_400_000} (from {key[1]})"

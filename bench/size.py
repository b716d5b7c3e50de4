"""How much is measured: in full, or a little to see that the bench itself works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """``rows``: rows of the filled topic by rows a message; ``warm_rows``: rows before them that do not
    count; ``arrow_rows``, ``arrow_warm_rows``: the same in Arrow, many rows a message; times in seconds."""

    rows: dict[int, int]
    warm_rows: dict[int, int]
    arrow_rows: int
    arrow_warm_rows: int
    tables: int
    steady_seconds: int
    steady_warm: int
    groups: int
    windows: int
    one_by_one_windows: int
    children: int
    idle_seconds: int
    notified: int
    subscribers: int
    subscribed_seconds: int


FULL = Size(
    rows={1: 1_000_000, 100: 4_000_000},
    warm_rows={1: 100_000, 100: 400_000},
    arrow_rows=20_000_000,
    arrow_warm_rows=3_000_000,
    tables=1000,
    # two JVMs compile for about a minute
    steady_seconds=120,
    steady_warm=70,
    groups=1000,
    windows=20,
    one_by_one_windows=1,
    children=100_000,
    idle_seconds=30,
    notified=1_000_000,
    subscribers=1000,
    subscribed_seconds=30,
)
QUICK = Size(
    rows={1: 20_000, 100: 40_000},
    warm_rows={1: 4_000, 100: 8_000},
    arrow_rows=200_000,
    arrow_warm_rows=40_000,
    tables=20,
    steady_seconds=12,
    steady_warm=4,
    groups=50,
    windows=4,
    one_by_one_windows=1,
    children=2_000,
    idle_seconds=5,
    notified=20_000,
    subscribers=20,
    subscribed_seconds=6,
)

"""Results of a peer against what must come of the rows, row by row. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from bench.peers.jobs import KEY
from bench.stage import BenchError

CLOSE = 1e-9
"""Averages may differ by this share: engines add up in different orders."""


def due(expected: pl.DataFrame, last: int) -> pl.DataFrame:
    """The results that rounds up to ``last`` close."""
    return expected.filter(pl.col("closed") <= last)


def distinct(found: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Each result once, when it came first. :raises BenchError: if one came twice with different figures."""
    once = found.unique(subset=[*KEY, *columns], keep="first", maintain_order=True)
    if twice := len(once) - once.select(KEY).n_unique():
        raise BenchError(f"{twice} results arrived twice, with different figures")
    return once


def check(found: pl.DataFrame, expected: pl.DataFrame, last: int, columns: Sequence[str]) -> None:
    """``found``: distinct results with KEY and ``columns``. :raises BenchError: unless all that rounds up to
    ``last`` close are there, and nothing that is not expected, each with the right figures."""
    both = expected.join(found, on=KEY, how="full", suffix="_found", coalesce=True)
    ours, theirs = pl.col("closed"), pl.col("came")
    both = both.join(found.select(*KEY, came=pl.lit(True)), on=KEY, how="left")
    missing = both.filter(theirs.is_null() & (ours <= last))
    strange = both.filter(ours.is_null())
    differs = pl.any_horizontal(pl.lit(False), *map(_differ, columns))  # a peer may tell no column
    wrong = both.filter(ours.is_not_null() & theirs.is_not_null() & differs)
    for what, rows in (("missing", missing), ("not expected", strange), ("wrong", wrong)):
        if len(rows):
            raise BenchError(
                f"{len(rows)} of {len(expected)} results are {what}, first {rows.row(0, named=True)}"
            )


def _differ(column: str) -> pl.Expr:
    wanted, found = pl.col(column).cast(pl.Float64), pl.col(f"{column}_found").cast(pl.Float64)
    return ((wanted - found).abs() > CLOSE * wanted.abs()).fill_null(True)

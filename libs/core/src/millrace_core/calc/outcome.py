"""What the query of one trigger gave."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from millrace_core.errors import MillraceError

NOTIFY = "_notify"
"""The column that says whether to notify of a row; only where NOTIFY has a condition of columns."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a trigger's query gave: ``rows`` with the plan's result columns by position (``r0``, ``r1``, …)
    and :data:`NOTIFY`, or the error that stopped it. ``partial``: the error that stopped some of the query's
    partitions; the rows are those of the others."""

    rows: pl.DataFrame
    error: MillraceError | None = None
    partial: MillraceError | None = None

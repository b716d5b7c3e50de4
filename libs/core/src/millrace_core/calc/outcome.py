"""What the query of one trigger gave."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from millrace_core.errors import ErrorCode, MillraceError, PlanError
from millrace_core.plan import Plan
from millrace_core.plan.analytics.anomaly import FAILED

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


def outcome_of(rows: pl.DataFrame, plan: Plan) -> Outcome:
    """What a trigger's rows say: some may tell what went wrong instead of a result."""
    if not plan.failed:
        return Outcome(rows)
    errors = rows[FAILED].drop_nulls()
    found = rows.filter(pl.col(FAILED).is_null()).drop(FAILED)
    if not len(errors):
        return Outcome(found)
    more = f" (and in {len(errors) - 1} other partitions)" if len(errors) > 1 else ""
    error = PlanError(ErrorCode.INVALID_VALUE, f"{errors[0]}{more}")
    return Outcome(found, partial=error) if len(found) else Outcome(found, error)

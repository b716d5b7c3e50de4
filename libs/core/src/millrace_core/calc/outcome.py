"""What the queries of triggers gave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec
import numpy as np
import polars as pl

from millrace_core.errors import ErrorCode, MillraceError, PlanError
from millrace_core.plan import Plan
from millrace_core.plan.windows.anomaly import FAILED
from millrace_core.store.search import Ints, expand

NOTIFY = "_notify"
"""The column that says whether to notify of a row; present only if NOTIFY has a condition over columns."""


class Outcome(msgspec.Struct, frozen=True):  # thousands a job: ten times as fast as a dataclass
    """What a trigger's query gave: rows with the plan's result columns by position (``r0``, ``r1``, …) and
    :data:`NOTIFY`, or the error that stopped it. ``partial``: the error that stopped some of the query's
    partitions; the rows are those of the others.

    ``found``: what a job gave for all its triggers; ``own``: which rows of it belong to this trigger, as
    [first, end) (None: all). A job may have thousands of triggers of one row each: a frame for each of them
    would cost more than the query.
    """

    found: pl.DataFrame
    error: MillraceError | None = None
    partial: MillraceError | None = None
    own: tuple[int, int] | None = None

    @property
    def rows(self) -> pl.DataFrame:
        """The trigger's rows."""
        return self.found if self.own is None else self.found[self.own[0] : self.own[1]]

    @property
    def bounds(self) -> tuple[int, int]:
        """Where in ``found`` its rows are."""
        return (0, len(self.found)) if self.own is None else self.own

    @property
    def count(self) -> int:
        """How many rows it has."""
        first, end = self.bounds
        return end - first


def outcome_of(rows: pl.DataFrame, plan: Plan) -> Outcome:
    """The outcome in a trigger's rows: some of them may hold an error instead of a result."""
    if not plan.failed:
        return Outcome(rows)
    errors = rows[FAILED].drop_nulls()
    found = rows.filter(pl.col(FAILED).is_null()).drop(FAILED)
    if not len(errors):
        return Outcome(found)
    more = f" (and in {len(errors) - 1} other partitions)" if len(errors) > 1 else ""
    error = PlanError(ErrorCode.INVALID_VALUE, f"{errors[0]}{more}")
    return Outcome(found, partial=error) if len(found) else Outcome(found, error)


def outcomes_of(rows: pl.DataFrame, tids: Ints, wanted: Ints, plan: Plan) -> list[Outcome]:
    """The outcomes of the triggers ``wanted``. ``tids``: the trigger of each row; those of one trigger keep
    their order."""
    if (tids[1:] < tids[:-1]).any():
        order = np.argsort(tids, kind="stable")
        tids, rows = tids[order], rows[order]
    begins = np.searchsorted(tids, wanted, "left").tolist()
    ends = np.searchsorted(tids, wanted, "right").tolist()
    bounds = zip(begins, ends, strict=True)
    if plan.failed:
        return [outcome_of(rows[begin:end], plan) for begin, end in bounds]
    return [Outcome(rows, own=own) for own in bounds]


def rows_of(outcomes: Sequence[Outcome]) -> pl.DataFrame:
    """The rows of all of them, in their order, in one frame."""
    frames = {id(outcome.found): outcome.found for outcome in outcomes}
    if len(frames) != 1:
        return pl.concat([_rows_of_one(part) for part in _runs(outcomes)])
    return _rows_of_one(outcomes)


def _runs(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    """The outcomes, in order, split into runs that share one frame."""
    parts: list[list[Outcome]] = []
    for outcome in outcomes:
        if not parts or parts[-1][0].found is not outcome.found:
            parts.append([])
        parts[-1].append(outcome)
    return parts


def _rows_of_one(outcomes: Sequence[Outcome]) -> pl.DataFrame:
    """As :func:`rows_of`, for outcomes that lie in one frame."""
    found = outcomes[0].found
    bounds = chain.from_iterable(outcome.bounds for outcome in outcomes)
    begins, ends = np.fromiter(bounds, np.int64, 2 * len(outcomes)).reshape(-1, 2).T
    if (begins[1:] == ends[:-1]).all():
        return found[int(begins[0]) : int(ends[-1])]
    positions, _ = expand(begins, ends)
    return found[positions]

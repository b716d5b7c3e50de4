"""What the rows of a query tell: results, and what went wrong in some of its partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import polars as pl

from millrace_core.calc.outcome import outcome_of
from millrace_core.plan import Plan


@dataclass
class Told:
    failed: bool = True


PLAN = cast(Plan, Told())
SCHEMA: dict[str, Any] = {"r0": pl.Int64, "_failed": pl.String}


def rows(*cells: tuple[int, str | None]) -> pl.DataFrame:
    return pl.DataFrame(list(cells), schema=SCHEMA, orient="row")


def test_a_query_without_failures_gives_its_rows() -> None:
    plain = cast(Plan, Told(failed=False))
    frame = pl.DataFrame({"r0": [1, 2]})
    assert outcome_of(frame, plain).rows.equals(frame)


def test_partitions_that_went_well_are_kept_beside_the_error_of_another() -> None:
    found = outcome_of(rows((1, None), (0, "too few rows"), (2, None)), PLAN)
    assert found.rows["r0"].to_list() == [1, 2]
    assert found.error is None
    assert str(found.partial) == "too few rows"


def test_several_failures_are_counted() -> None:
    found = outcome_of(rows((1, None), (0, "a"), (0, "b"), (0, "c")), PLAN)
    assert str(found.partial) == "a (and in 2 other partitions)"


def test_a_trigger_all_of_whose_partitions_failed_has_failed() -> None:
    found = outcome_of(rows((0, "too few rows")), PLAN)
    assert str(found.error) == "too few rows"
    assert not len(found.rows)


def test_no_rows_are_no_failure() -> None:
    found = outcome_of(rows(), PLAN)
    assert found.error is None
    assert found.partial is None

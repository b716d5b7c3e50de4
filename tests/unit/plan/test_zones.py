"""The clock of a zone with summer time, to the nanosecond and before 1970."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from sqlglot import exp

from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.plan.spark.zones import instant, local, months_later
from millrace_core.timeline import parse_timestamp

BERLIN = "Europe/Berlin"
TIMES: list[tuple[str, Precision, int]] = [
    # what UTC's clock shows at an instant, and the hours that Berlin's is ahead
    ("2026-01-15 12:00:00.123456789", "ns", 1),
    ("2026-07-15 12:00:00.123456789", "ns", 2),
    ("2026-07-15 12:00:00.999999999", "ns", 2),
    ("2026-07-15 12:00:00.000001000", "ns", 2),
    ("2026-03-29 00:59:59.999999999", "ns", 1),
    ("2026-03-29 01:00:00.000000001", "ns", 2),
    ("2026-10-24 23:59:59.999999999", "ns", 2),
    ("1969-12-31 12:00:00.123456789", "ns", 1),
    ("1969-12-31 12:00:00.000000001", "ns", 1),
    ("1969-12-31 12:00:00.999999999", "ns", 1),
    ("2026-07-15 12:00:00.123456", "us", 2),
    ("1969-12-31 12:00:00.123457", "us", 1),
    ("2026-07-15 12:00:00.123", "ms", 2),
    ("1969-12-31 12:00:00.001", "ms", 1),
]


def calculated(run: Any, value: int, of: exp.Expr) -> int:
    """An expression over the column ``t``, which has this value."""
    frame = pl.DataFrame({"t": pl.Series([value], dtype=pl.Int64)})
    ((found,),) = run(exp.select(of).from_("clocks"), {"clocks": frame})
    return int(found)


@pytest.mark.parametrize(("utc", "precision", "ahead"), TIMES)
def test_there_and_back(run: Any, utc: str, precision: Precision, ahead: int) -> None:
    time = parse_timestamp(utc, precision)
    clock = time + ahead * 3_600 * TICKS_PER_SECOND[precision]
    assert calculated(run, time, local(exp.column("t"), precision, BERLIN)) == clock
    assert calculated(run, clock, instant(exp.column("t"), precision, BERLIN)) == time


@pytest.mark.parametrize("utc", ["2026-07-15 12:00:00.123456789", "1969-12-31 12:00:00.123456789"])
def test_months_later_at_the_same_nanosecond(run: Any, utc: str) -> None:
    clock = parse_timestamp(utc, "ns")
    later = calculated(run, clock, months_later(exp.column("t"), 1, "ns"))
    assert later % 1_000_000_000 == clock % 1_000_000_000
    assert (later - clock) // (24 * 3_600 * 1_000_000_000) == 31

"""Values for series: what fits which type, and as what."""

from __future__ import annotations

import pytest

from millrace_core.dialect.iotdb.times import Moment, TimeContext
from millrace_core.dialect.iotdb.values import Unfit, fit, type_of
from millrace_core.errors import Position

SESSION = TimeContext(0)
DAY = Moment("2026-01-31", 0, Position(1, 1))


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        (1, "INT32", 1), (-(2**31), "INT32", -(2**31)), (" 7", "INT64", 7), (1, "DOUBLE", 1.0),
        ("1.5", "FLOAT", 1.5), (0, "BOOLEAN", False), ("1", "BOOLEAN", True), ("FALSE", "BOOLEAN", False),
        # what is no text is written as text
        (1, "TEXT", "1"), (1.5, "STRING", "1.5"), (True, "TEXT", "true"), ("", "TEXT", ""),
        (5, "TIMESTAMP", 5), ("5", "TIMESTAMP", 5), (DAY, "TIMESTAMP", 1_769_817_600_000),
        ("2026-01-31T00:00:01Z", "TIMESTAMP", 1_769_817_601_000),
        ("2026-01-31", "DATE", "2026-01-31"), (DAY, "DATE", "2026-01-31"),
        (b"\x0f\xa0", "BLOB", "0x0fa0"), ("0xAB", "BLOB", "0xab"), (b"", "BLOB", "0x"),
        (None, "DATE", None),
    ],
)  # fmt: skip
def test_what_fits(value: object, type_: str, expected: object) -> None:
    found = fit(value, type_, SESSION)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (2**31, "INT32"), (2**63, "INT64"), (1.0, "INT32"), (True, "INT32"), ("many", "INT32"),
        (4e38, "FLOAT"), ("x", "DOUBLE"), (float("nan"), "DOUBLE"), (True, "DOUBLE"), (2, "BOOLEAN"),
        ("yes", "BOOLEAN"), ("never", "TIMESTAMP"), ("2026-02-30", "DATE"), ("20260131", "DATE"), (5, "DATE"),
        (Moment(None, 0, Position(1, 1)), "DATE"), ("abc", "BLOB"), ("0xabc", "BLOB"), (7, "BLOB"),
        (b"x", "TEXT"), (DAY, "TEXT"), ("\0", "TEXT"), ("\ud800", "TEXT"), ("x" * 65_518, "TEXT"),
        (b"x" * 40_000, "BLOB"),
    ],
)  # fmt: skip
def test_what_does_not_fit(value: object, type_: str) -> None:
    with pytest.raises(Unfit, match=type_):
        fit(value, type_, SESSION)


def test_types_of_series_that_are_made_by_writing() -> None:
    values = [True, 1, 1.5, "x", "true", None, DAY, b"x"]
    assert [type_of(value) for value in values] == [
        "BOOLEAN", "DOUBLE", "DOUBLE", "TEXT", "TEXT", None, "TIMESTAMP", "BLOB",
    ]  # fmt: skip

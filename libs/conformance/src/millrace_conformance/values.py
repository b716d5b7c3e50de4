"""Decides whether an answer's rows are those that a case expects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from millrace_conformance.case import ExpectedRow
from millrace_core.errors import MillraceError
from millrace_core.timeline.text import format_local, parse_timestamp

ANY = "*"
TOLERANCE = 1e-6
_PRECISION_OF_DIGITS = {3: "ms", 6: "us", 9: "ns"}


@dataclass(frozen=True)
class Answer:
    """What the gateway answered: column names, their types as the REST protocol names them, and rows."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def local_text(text: Any, zone: tzinfo) -> Any:
    """A time in RFC 3339 as the case writes it: the zone's local time, with as many digits as came. Anything
    else stays as it is."""
    if not isinstance(text, str):
        return text
    _, _, fraction = text.partition(".")
    digits = len(fraction) - len(fraction.lstrip("0123456789"))
    precision = _PRECISION_OF_DIGITS.get(digits)
    if precision is None:
        return text
    try:
        # three digits are milliseconds, and so on: no digit is cut off
        ticks = parse_timestamp(text, precision, zone)  # type: ignore[arg-type]
        return format_local(ticks, precision, zone)  # type: ignore[arg-type]
    except MillraceError:
        return text


def localized(answer: Answer, timezone: str) -> tuple[ExpectedRow, ...]:
    """The rows with timestamps as a case of this time zone writes them."""
    zone = ZoneInfo(timezone)
    times = {number for number, name in enumerate(answer.types) if name.upper() == "TIMESTAMP"}
    return tuple(
        tuple(local_text(value, zone) if number in times else value for number, value in enumerate(row))
        for row in answer.rows
    )


def same(expected: Any, came: Any) -> bool:
    """Whether a value is the expected one. ``'*'`` matches anything. Integers and booleans must be
    equal; numbers match within a relative 1e-6 if one has a fraction; all else must be equal and of
    the same type."""
    if expected == ANY and isinstance(expected, str):
        return True
    if isinstance(expected, bool) or isinstance(came, bool):
        return isinstance(expected, bool) and isinstance(came, bool) and expected == came
    if isinstance(expected, int | float) and isinstance(came, int | float):
        if isinstance(expected, int) and isinstance(came, int):
            return expected == came
        return math.isclose(expected, came, rel_tol=TOLERANCE) or (math.isnan(expected) and math.isnan(came))
    return type(expected) is type(came) and bool(expected == came)


def same_row(expected: ExpectedRow, came: ExpectedRow) -> bool:
    return len(expected) == len(came) and all(map(same, expected, came))


def same_rows(expected: Sequence[ExpectedRow], came: Sequence[ExpectedRow], ordered: bool = True) -> bool:
    """Whether the rows are the expected ones, in the same order or in any order."""
    if len(expected) != len(came):
        return False
    if ordered:
        return all(map(same_row, expected, came))
    return _any_order(expected, came)


def _any_order(expected: Sequence[ExpectedRow], came: Sequence[ExpectedRow]) -> bool:
    """Looks for a perfect matching by augmenting paths, because ``'*'`` may match several rows."""
    taken: dict[int, int] = {}  # index of the row that came -> index of the expected row

    def place(index: int, tried: set[int]) -> bool:
        for number, row in enumerate(came):
            if number not in tried and same_row(expected[index], row):
                tried.add(number)
                if number not in taken or place(taken[number], tried):
                    taken[number] = index
                    return True
        return False

    return all(place(index, set()) for index in range(len(expected)))

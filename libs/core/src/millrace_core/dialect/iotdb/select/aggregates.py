"""IoTDB's aggregates: what the planner calculates for each device, and how the devices' parts are merged.

A part holds columns of SQL: for ``avg`` a count and a sum. So parts of several devices can be merged, which
GROUP BY LEVEL needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from millrace_core.dialect.iotdb.schema import TIME
from millrace_core.dialect.iotdb.select.sql import NUMBERS, Sql
from millrace_core.language.lexer import quote_name

Partial = tuple[object, ...]
"""The column values of one aggregate, for one device or merged from several."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``columns``: the SQL over an argument; ``row``: the part made from one value and its time;
    ``merge``: merges two parts; ``result``: the result of a part; ``type``: the type of the result (None:
    that of the argument); ``takes``: the types that its argument may have (None: all); ``counts``: over no
    rows it gives 0."""

    columns: Callable[[str], tuple[str, ...]]
    row: Callable[[Any, int], Partial]
    merge: Callable[[Partial, Partial], Partial]
    result: Callable[[Partial], object]
    type: str | None = None
    takes: frozenset[str] | None = None
    counts: bool = False

    def type_for(self, argument: Sql) -> str:
        return self.type or argument.type

    @property
    def empty(self) -> object:
        """The result if there are no rows."""
        return 0 if self.counts else None


def _least(a: object, b: object) -> object:
    return b if a is None else a if b is None else min(a, b)  # type: ignore[call-overload]


def _greatest(a: object, b: object) -> object:
    return b if a is None else a if b is None else max(a, b)  # type: ignore[call-overload]


def _plus(a: object, b: object) -> object:
    return b if a is None else a if b is None else a + b  # type: ignore[operator]


def _each(*merges: Callable[[object, object], object]) -> Callable[[Partial, Partial], Partial]:
    return lambda a, b: tuple(merge(x, y) for merge, x, y in zip(merges, a, b, strict=True))


def _only(part: Partial) -> object:
    return part[0]


def _average(part: Partial) -> object:
    count, total = part
    return total / count if count and total is not None else None  # type: ignore[operator]


def _spread(part: Partial) -> object:
    low, high = part
    return None if low is None else high - low  # type: ignore[operator]


def _extreme(part: Partial) -> object:
    """The value farthest from 0; of two equally far ones the positive one."""
    low, high = part
    if low is None:
        return None
    return high if abs(high) >= abs(low) else low  # type: ignore[arg-type]


def _by_time(part: Callable[[object, object], bool]) -> Callable[[Partial, Partial], Partial]:
    def merge(a: Partial, b: Partial) -> Partial:
        if a[1] is None or b[1] is None:
            return b if a[1] is None else a
        return b if part(b[1], a[1]) else a

    return merge


_WHEN = f"(CASE WHEN {{0}} IS NOT NULL THEN {quote_name(TIME)} END)"


def _time(function: str) -> Callable[[str], str]:
    return lambda x: f"{function}{_WHEN.format(x)}"


def _double(function: str) -> Callable[[str], str]:
    return lambda x: f"{function}(CAST({x} AS DOUBLE))"


def _call(function: str) -> Callable[[str], str]:
    return lambda x: f"{function}({x})"


def _all(*made: Callable[[str], str]) -> Callable[[str], tuple[str, ...]]:
    return lambda x: tuple(one(x) for one in made)


def _number(part: Callable[[float], Partial]) -> Callable[[Any, int], Partial]:
    return lambda value, _: part(float(value))


def _itself(value: object, _: int) -> Partial:
    return (value,)


def _at(value: object, time: int) -> Partial:
    return value, time


def _when(_: object, time: int) -> Partial:
    return (time,)


_NUMBERS = NUMBERS | {"TIMESTAMP"}
_ORDERED = _NUMBERS | {"STRING", "DATE"}
AGGREGATES: dict[str, Aggregate] = {
    "count": Aggregate(
        _all(_call("count")), lambda *_: (1,), _each(_plus), lambda part: part[0] or 0, "INT64", counts=True
    ),
    "sum": Aggregate(
        _all(_double("sum")), _number(lambda x: (x,)), _each(_plus), _only, "DOUBLE", _NUMBERS
    ),
    "avg": Aggregate(
        _all(_call("count"), _double("sum")), _number(lambda x: (1, x)), _each(_plus, _plus), _average,
        "DOUBLE", _NUMBERS,
    ),
    "max_value": Aggregate(_all(_call("max")), _itself, _each(_greatest), _only, None, _ORDERED),
    "min_value": Aggregate(_all(_call("min")), _itself, _each(_least), _only, None, _ORDERED),
    "first_value": Aggregate(
        _all(_call("first"), _time("min")), _at,
        _by_time(lambda new, old: new < old), _only,  # type: ignore[operator]
    ),
    "last_value": Aggregate(
        _all(_call("last"), _time("max")), _at,
        _by_time(lambda new, old: new >= old), _only,  # type: ignore[operator]
    ),
    "min_time": Aggregate(_all(_time("min")), _when, _each(_least), _only, "INT64"),
    "max_time": Aggregate(_all(_time("max")), _when, _each(_greatest), _only, "INT64"),
    "spread": Aggregate(
        _all(_double("min"), _double("max")), _number(lambda x: (x, x)), _each(_least, _greatest), _spread,
        "DOUBLE", _NUMBERS,
    ),
    "extreme": Aggregate(
        _all(_call("min"), _call("max")), lambda value, _: (value, value), _each(_least, _greatest), _extreme,
        None, _NUMBERS,
    ),
}  # fmt: skip


def check(name: str, argument: Sql) -> str | None:
    """Why the aggregate does not accept the argument; None: it does."""
    takes = AGGREGATES[name].takes
    if takes is None or argument.type in takes:
        return None
    what = "numbers" if takes == _NUMBERS else "numbers, STRING or DATE"
    return f"{name} needs {what}, not {argument.type}"


def merged(name: str, parts: Sequence[Partial]) -> object:
    """The result from the parts of all devices."""
    made = AGGREGATES[name]
    if not parts:
        return made.empty
    total = parts[0]
    for part in parts[1:]:
        total = made.merge(total, part)
    return made.result(total)

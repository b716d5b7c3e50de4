"""histogram: its bins, which are read from constants during planning, and their texts.

The rules for bins and the form of the texts are those of TDengine 3.3.7: a value lies in (lower, upper].
"""

from __future__ import annotations

import json
import math
from itertools import pairwise

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.plan.aggregates.base import Gathering, of_rows
from millrace_core.plan.functions.base import constant_choice, constant_text
from millrace_core.plan.spark.pieces import as_text, call, chain, text
from millrace_core.plan.types.typed import DOUBLE, cast, fail, number

MOST_BINS = 1000
KINDS = ("user_input", "linear_bin", "log_bin")


def histogram(it: Gathering) -> exp.Expr:
    """An array of texts, one for each bin: ``{"lower_bin":1, "upper_bin":3, "count":2}``.

    :raises SqlError: INVALID_VALUE for invalid bins, saying what is wrong.
    """
    kind = constant_choice(it.args[1], it.name, "the kind of bins", KINDS)
    try:
        borders = bin_borders(kind, constant_text(it.args[2], it.name, "the bins"))
    except ValueError as error:
        raise fail(ErrorCode.INVALID_VALUE, f"histogram: {error}", it.args[2]) from None
    shares = constant_choice(it.args[3], it.name, "normalized", ("0", "1")) == "1"
    value = cast(it.value, DOUBLE)
    bins = [(min(pair), max(pair)) for pair in pairwise(borders)]
    counts = [_count(value, lower, upper) for lower, upper in bins]
    total = _count(value, min(borders), max(borders))  # bins lie side by side
    texts: list[exp.Expr] = []
    for (lower, upper), count in zip(bins, counts, strict=True):
        head = text(f'{{"lower_bin":{_short(lower)}, "upper_bin":{_short(upper)}, "count":')
        texts.append(chain([head, _share(count, total) if shares else as_text(count.copy()), text("}")]))
    made = exp.Array(expressions=texts)
    made.meta["rows"] = len(bins)
    return made


def bin_borders(kind: str, description: str) -> list[float]:
    """The borders of the bins, two or more; :raises ValueError: if the description gives none."""
    try:
        found = json.loads(description)
    except ValueError as error:
        raise ValueError(f"the bins are not valid JSON: {error}") from None
    if kind == "user_input":
        if not isinstance(found, list) or not all(_is_number(item) for item in found):
            raise ValueError("user_input must be an array of numbers such as [1, 3, 5]")
        if len(found) < 2 or any(b <= a for a, b in pairwise(found)):
            raise ValueError("user_input must have at least two numbers in ascending order")
        return [float(item) for item in found]
    return _even_borders(kind, found)


def _even_borders(kind: str, found: object) -> list[float]:
    step = "width" if kind == "linear_bin" else "factor"
    names = {"start", step, "count", "infinity"}
    if not isinstance(found, dict) or set(found) != names or not isinstance(found["infinity"], bool):
        raise ValueError(
            f'{kind} must be an object with "start", "{step}", "count" and "infinity" (true or false)'
        )
    start, by, count = (found[name] for name in ("start", step, "count"))
    if not all(_is_number(item) for item in (start, by, count)):
        raise ValueError(f'"start", "{step}" and "count" must be numbers')
    if not (int(count) == count and 1 <= count <= MOST_BINS):
        raise ValueError(f'"count" must be an integer from 1 to {MOST_BINS}, not {count}')
    if kind == "linear_bin":
        if by == 0:
            raise ValueError('"width" must not be 0')
        borders = [start + i * by for i in range(int(count) + 1)]
    else:
        if start == 0 or by <= 0 or by == 1:
            raise ValueError('"start" must not be 0, and "factor" must be greater than 0 and not 1')
        borders = [start * _power(by, i) for i in range(int(count) + 1)]
    if not all(math.isfinite(border) for border in borders):
        raise ValueError("the bins exceed the range of a DOUBLE")
    if found["infinity"]:
        ends = (-math.inf, math.inf) if borders[0] <= borders[-1] else (math.inf, -math.inf)
        borders = [ends[0], *borders, ends[1]]
    return [float(border) for border in borders]


def _is_number(item: object) -> bool:
    return isinstance(item, (int, float)) and not isinstance(item, bool)


def _power(base: float, exponent: int) -> float:
    try:
        return float(base) ** exponent
    except OverflowError:
        return math.inf


def _count(value: exp.Expr, lower: float, upper: float) -> exp.Expr:
    sides: list[exp.Expr] = [exp.GT(this=value.copy(), expression=_real(lower))] if lower > -math.inf else []
    sides += [exp.LTE(this=value.copy(), expression=_real(upper))] if upper < math.inf else []
    condition = exp.and_(*sides, copy=False) if sides else None
    return of_rows(exp.Count(this=value.copy(), big_int=True), condition)


def _real(value: float) -> exp.Expr:
    return cast(text(repr(value)), DOUBLE)


def _share(count: exp.Expr, total: exp.Expr) -> exp.Expr:
    by = exp.Nullif(this=cast(total.copy(), DOUBLE), expression=number(0))
    share = exp.Coalesce(
        this=exp.Div(this=cast(count.copy(), DOUBLE), expression=by), expressions=[cast(number(0), DOUBLE)]
    )
    return call("FORMAT_STRING", text("%.6f"), share)


def _short(value: float) -> str:
    """The number as C's %g writes it."""
    return f"{value:g}"

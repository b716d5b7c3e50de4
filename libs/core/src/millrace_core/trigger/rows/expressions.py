"""The table of operators and functions over rows: name -> Polars expression.

They mean what Spark SQL means by them, with its types spelled out: the operands of an operation already have
the same type (``conditions`` sees to that), and nothing is converted implicitly. Types are BOOLEAN,
BIGINT (every integer column is one), DECIMAL (an integer of 128 bits, for unsigned BIGINT and for exact
comparisons with fractions), FLOAT, DOUBLE, STRING, BINARY.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from math import pi
from operator import and_, or_
from typing import Any

import numpy as np
import polars as pl

from millrace_core.model.expression import AnyExpression, Call, Constant, Field, nodes_of
from millrace_core.trigger.groups.columns import Array

Operation = Callable[..., pl.Expr]

# years 1 to 9999: those that Spark writes with four digits
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
REAL_TEXT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$"
WHOLE_TEXT = r"^([+-]?[0-9]+)(?:\.[0-9]*)?$"
INFINITIES = r"(?i)^[+-]?inf(inity)?$"


def _constant(value: int | float | str | bool | None) -> pl.Expr:
    if isinstance(value, int) and not isinstance(value, bool):
        return pl.lit(value, dtype=pl.Int64 if -(1 << 63) <= value < 1 << 63 else pl.Int128)
    return pl.lit(value)


# -- logic, comparisons, choices ------------------------------------------------------------------------


def _all(*sides: pl.Expr) -> pl.Expr:
    return pl.all_horizontal(sides) if len(sides) > 2 else reduce(and_, sides)


def _any(*sides: pl.Expr) -> pl.Expr:
    return pl.any_horizontal(sides) if len(sides) > 2 else reduce(or_, sides)


def _case(*parts: pl.Expr) -> pl.Expr:
    """condition, value, condition, value, …, default. A condition that is NULL is not met."""
    found = parts[-1]
    for i in range(len(parts) - 3, -1, -2):
        found = pl.when(parts[i]).then(parts[i + 1]).otherwise(found)
    return found


def _extreme(above: bool) -> Operation:
    def better(a: pl.Expr, b: pl.Expr) -> pl.Expr:
        wins = b > a if above else b < a
        return pl.when(a.is_null() | wins).then(b).otherwise(a)

    return better


def _nullif(value: pl.Expr, other: pl.Expr) -> pl.Expr:
    return pl.when(value == other).then(None).otherwise(value)


# -- numbers ------------------------------------------------------------------------------------------


def _wrapped(dtype: Any) -> Operation:
    """To an integer as in Java: a fractional number is truncated and bounded, a wider integer loses its high
    bits."""
    return lambda value: value.cast(dtype, wrap_numerical=True)


def _narrow(dtype: Any) -> Operation:
    return lambda value: value.cast(dtype, wrap_numerical=True).cast(pl.Int64)


def _plain(dtype: Any) -> Operation:
    return lambda value: value.cast(dtype)


CASTS: dict[str, Operation] = {
    "BOOLEAN": _plain(pl.Boolean),
    "TINYINT": _narrow(pl.Int8),
    "SMALLINT": _narrow(pl.Int16),
    "INT": _narrow(pl.Int32),
    "BIGINT": _wrapped(pl.Int64),
    "DECIMAL": _plain(pl.Int128),
    "FLOAT": _plain(pl.Float32),
    "DOUBLE": _plain(pl.Float64),
    "STRING": _plain(pl.String),
    "BINARY": _plain(pl.Binary),
}
"""Target type -> conversion; texts become numbers by ``parse_real`` and ``parse_whole`` only."""


def _divided(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    return pl.when(right != 0).then(left / right)


def _by_numpy(compute: Callable[[Array, Array], Array], dtype: Any) -> Operation:
    """A division; NULL if it is by zero.

    (With Polars' own operators each operand would occur several times, and hundreds of times in nested ones.)
    """

    def of_series(sides: Sequence[pl.Series]) -> pl.Series:
        left, right = sides
        nothing = left.is_null() | right.is_null() | (right == 0)
        by = right.fill_null(1).to_numpy()
        with np.errstate(invalid="ignore", over="ignore"):
            found = compute(left.fill_null(0).to_numpy(), np.where(by == 0, 1, by))
        return pl.select(pl.when(~nothing).then(pl.Series(found, dtype=dtype))).to_series()

    return lambda left, right: pl.map_batches(
        [left, right], of_series, return_dtype=dtype, is_elementwise=True
    )


def _ln(value: pl.Expr) -> pl.Expr:
    return pl.when(value > 0).then(value.log())


# -- texts --------------------------------------------------------------------------------------------


def _parse_real(text: pl.Expr) -> pl.Expr:
    """DOUBLE; NULL for a text that is not a number."""
    bare = text.str.strip_chars()
    infinite = pl.when(bare.str.starts_with("-")).then(float("-inf")).otherwise(float("inf"))
    digits = bare.str.replace(r"([0-9.])[dDfF]$", "$1").cast(pl.Float64, strict=False)
    return (
        pl.when(bare.str.contains(REAL_TEXT))
        .then(digits)
        .when(bare.str.contains(INFINITIES))
        .then(infinite)
        .when(bare.str.to_lowercase() == "nan")
        .then(float("nan"))
    )


def _parse_whole(text: pl.Expr) -> pl.Expr:
    """BIGINT, without the digits after a point; NULL for a text that is not a number, or one out of range."""
    digits = text.str.strip_chars().str.extract(WHOLE_TEXT, 1)
    return digits.str.strip_prefix("+").cast(pl.Int64, strict=False)


def _substring(text: pl.Expr, start: pl.Expr, length: pl.Expr | None = None) -> pl.Expr:
    """Places count from 1, negative ones from the end; places before the text count towards the length."""
    size = text.str.len_chars().cast(pl.Int64)
    first = pl.when(start > 0).then(start - 1).when(start < 0).then(size + start).otherwise(0)
    end = size if length is None else pl.min_horizontal(first + length, size)
    begin = pl.max_horizontal(first, 0)
    known = start.is_not_null() if length is None else start.is_not_null() & length.is_not_null()
    return pl.when(known).then(text.str.slice(begin, pl.max_horizontal(end - begin, 0)))


def _right(text: pl.Expr, count: pl.Expr) -> pl.Expr:
    empty = pl.when(text.is_not_null()).then(pl.lit(""))
    return pl.when(count <= 0).then(empty).otherwise(_substring(text, -count))


def _located(part: str, text: pl.Expr) -> pl.Expr:
    """The place of the first ``part``, counted from 1; 0 if there is none."""
    before = text.str.splitn(part, 2).struct.field("field_0").str.len_chars().cast(pl.Int64)
    return pl.when(text.str.contains(part, literal=True)).then(before + 1).otherwise(text.str.len_chars() * 0)


def _padded(text: pl.Expr, width: int, fill: str) -> pl.Expr:
    return text.str.pad_start(width, fill).str.slice(0, width)


def _day_text(days: pl.Expr) -> pl.Expr:
    """Days since the epoch as ``2026-01-31``; NULL outside the years that have four digits."""
    inside = pl.when(days.is_between(FIRST_DAY, LAST_DAY)).then(days)
    return inside.cast(pl.Int32).cast(pl.Date).dt.to_string("%Y-%m-%d")


# -- the table ----------------------------------------------------------------------------------------

OPERATIONS: dict[str, Operation] = {
    "and": _all,
    "or": _any,
    "not": lambda a: ~a,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "same": lambda a, b: a.eq_missing(b),
    "in": lambda a, *others: _any(*(a == other for other in others)),
    "is_null": lambda a: a.is_null(),
    "is_not_null": lambda a: a.is_not_null(),
    "case": _case,
    "coalesce": pl.coalesce,
    "nullif": _nullif,
    "greatest": _extreme(True),
    "least": _extreme(False),
    "cast": lambda a, kind: CASTS[kind](a),
    "scaled": lambda a, digits: a.cast(pl.Int128) * pl.lit(10**digits, dtype=pl.Int128),
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divided,
    "whole_div": _by_numpy(lambda a, b: (a - np.fmod(a, b)) // b, pl.Int64),
    "rest": _by_numpy(np.fmod, pl.Int64),
    "real_rest": _by_numpy(np.fmod, pl.Float64),
    "neg": lambda a: 0 - a,
    "abs": lambda a: a.abs(),
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "round": lambda a: a.round(0, mode="half_away_from_zero"),
    "ceil": lambda a: a.ceil().cast(pl.Int64, wrap_numerical=True),
    "floor": lambda a: a.floor().cast(pl.Int64, wrap_numerical=True),
    "sign": lambda a: a.sign(),
    "sqrt": lambda a: a.sqrt(),
    "pow": lambda a, b: a.pow(b),
    "exp": lambda a: a.exp(),
    "ln": _ln,
    "sin": lambda a: a.sin(), "cos": lambda a: a.cos(), "tan": lambda a: a.tan(),
    "asin": lambda a: a.arcsin(), "acos": lambda a: a.arccos(), "atan": lambda a: a.arctan(),
    "degrees": lambda a: a * (180 / pi), "radians": lambda a: a * (pi / 180),
    "concat": lambda *texts: pl.concat_str(texts),
    "concat_ws": lambda by, *texts: pl.concat_str(texts, separator=by, ignore_nulls=True),
    "bytes": lambda a: a.str.len_bytes().cast(pl.Int64),
    "chars": lambda a: a.str.len_chars().cast(pl.Int64),
    "translate": lambda a, old, new: a.str.replace_many(list(old), list(new)),
    "replace_matches": lambda a, pattern, new: a.str.replace_all(pattern, new),
    "first_match": lambda a, pattern: pl.when(a.is_not_null()).then(a.str.extract(pattern, 1).fill_null("")),
    "substring": _substring,
    "right": _right,
    "replace": lambda a, old, new: a.str.replace_all(old, new, literal=True),
    "locate": _located,
    "pad": _padded,
    "matches": lambda a, pattern: a.str.contains(pattern),
    "parse_real": _parse_real,
    "parse_whole": _parse_whole,
    "day_text": _day_text,
}  # fmt: skip

LITERAL: dict[str, frozenset[int]] = {
    "cast": frozenset({1}), "scaled": frozenset({1}),
    "concat_ws": frozenset({0}), "replace": frozenset({1}), "locate": frozenset({0}),
    "pad": frozenset({1, 2}), "matches": frozenset({1}),
    "translate": frozenset({1, 2}), "replace_matches": frozenset({1, 2}), "first_match": frozenset({1}),
}  # fmt: skip
"""Arguments that must be constants and are passed to the operation as they are."""

REPEATS: dict[str, Any] = {
    "nullif": None, "greatest": None, "least": None, "div": pl.Float64, "ln": pl.Float64, "in": pl.Boolean,
    "first_match": pl.String, "locate": pl.Int64, "substring": pl.String, "right": pl.String,
    "parse_real": pl.Float64, "day_text": pl.String,
}  # fmt: skip
"""Operations that contain an operand several times, and the type of their result (None: that of all
operands)."""
FOLDED = frozenset({"greatest", "least"})
"""Operations on two operands; with more, each further operand is combined with the result so far."""


def is_bound(call: Call) -> bool:
    """Whether the operands are computed before the operation, each once. Otherwise each level of nested calls
    would double the size, or worse."""
    literal = LITERAL.get(call.name, frozenset())
    computed = (isinstance(one, Call) for i, one in enumerate(call.arguments) if i not in literal)
    return call.name in REPEATS and any(computed)


def folded(call: Call) -> Call:
    """The call with two operands at a time, if it is an operation on two."""
    if call.name not in FOLDED or len(call.arguments) < 3:
        return call
    return Call(call.name, (Call(call.name, call.arguments[:-1]), call.arguments[-1]))


def _bound(name: str, operands: Sequence[Any], first: int) -> pl.Expr:
    """The operation on operands that are computed once. ``first``: the place of an operand that has a
    type."""
    literal = LITERAL.get(name, frozenset())
    places = [first, *(place for place in range(len(operands)) if place not in literal and place != first)]

    def of_series(sides: Sequence[pl.Series]) -> pl.Series:
        given = list(operands)
        for place, side in zip(places, sides, strict=True):
            given[place] = pl.lit(side)
        return pl.select(OPERATIONS[name](*given)).to_series()

    return pl.map_batches(
        [operands[place] for place in places], of_series, is_elementwise=True,
        return_dtype=REPEATS[name] or pl.self_dtype(),
    )  # fmt: skip


def _applied(call: Call, operands: Sequence[Any]) -> pl.Expr:
    if call.name in FOLDED and len(operands) > 2:
        found = _applied(Call(call.name, call.arguments[:2]), operands[:2])
        for operand in operands[2:]:
            found = _bound(call.name, (found, operand), 0)
        return found
    if not is_bound(call):
        return OPERATIONS[call.name](*operands)
    literal = LITERAL.get(call.name, frozenset())
    arguments = enumerate(call.arguments)
    return _bound(
        call.name, operands, next(i for i, one in arguments if isinstance(one, Call) and i not in literal)
    )


@lru_cache(maxsize=4096)
def polars(expression: AnyExpression) -> pl.Expr:
    """The expression over a frame that has its fields as columns; KeyError for an unknown operation."""
    made: dict[int, pl.Expr] = {}
    for node in reversed(nodes_of(expression)):
        match node:
            case Constant(value=value):
                made[id(node)] = _constant(value)
            case Field(name=name):
                made[id(node)] = pl.col(name)
            case Call(name=name, arguments=arguments):
                literal = LITERAL.get(name, frozenset())
                operands = [
                    one.value if i in literal and isinstance(one, Constant) else made[id(one)]
                    for i, one in enumerate(arguments)
                ]
                made[id(node)] = _applied(node, operands)
    return made[id(expression)]

"""Small parts of Spark SQL that the tables of functions are built of."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.plan.spark.zones import SECONDS_PER_DAY, floor_div
from millrace_core.plan.types.typed import BIGINT, cast, floor_mod, wrap


def call(name: str, *args: exp.Expr) -> exp.Anonymous:
    """Spark's own function of that name."""
    return exp.Anonymous(this=name, expressions=list(args))


def text(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def as_text(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType.build("STRING", dialect="spark"))


def as_int(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build("INT"))


def when(*branches: tuple[exp.Expr, exp.Expr], default: exp.Expr | None = None) -> exp.Expr:
    """``CASE WHEN condition THEN value … ELSE default END``."""
    ifs = [exp.If(this=condition, true=value) for condition, value in branches]
    return exp.Case(ifs=ifs, default=default)


def refused(before: str, value: exp.Expr, after: str) -> exp.Expr:
    """Ends the job when it is evaluated, with a sentence that contains a value."""
    return call("RAISE_ERROR", chain([text(before), as_text(value), text(after)]))


def chain(parts: list[exp.Expr]) -> exp.Expr:
    """``a || b || …``: NULL if one of them is NULL."""
    found = wrap(parts[0])
    for part in parts[1:]:
        found = exp.DPipe(this=found, expression=wrap(part))
    return exp.Paren(this=found)


def digits(value: exp.Expr, width: int) -> exp.Expr:
    """A whole number below ``10^width`` as text with leading zeros."""
    return call("LPAD", as_text(value), exp.Literal.number(width), text("0"))


def day_number(clock: exp.Expr, precision: Precision) -> exp.Expr:
    """Days since 1970-01-01, from a wall clock in ticks."""
    return floor_div(clock, SECONDS_PER_DAY * TICKS_PER_SECOND[precision])


def in_day(clock: exp.Expr, precision: Precision) -> exp.Expr:
    """Ticks since midnight, from a wall clock in ticks."""
    return floor_mod(clock, SECONDS_PER_DAY * TICKS_PER_SECOND[precision])


def date_of(days: exp.Expr) -> exp.Expr:
    """The date of a number of days since 1970-01-01."""
    return call("DATE_ADD", _epoch(), as_int(days))


def days_of(date: exp.Expr) -> exp.Expr:
    """Days from 1970-01-01 to a date."""
    return cast(exp.DateDiff(this=date, expression=_epoch()), BIGINT)


def _epoch() -> exp.Expr:
    return exp.Cast(this=text("1970-01-01"), to=exp.DataType.build("DATE"))

"""Wall clocks in SQL: an instant's ticks as ticks of a zone's clock, and back; months on the calendar.

Local ticks are those of the instant at which a clock in UTC shows what the zone's clock shows. The
expressions do not depend on the session's time zone.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache

from sqlglot import exp

from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.plan.types.typed import floor_mod, number, wrap
from millrace_core.timeline import zone

SECONDS_PER_DAY = 86_400
EPOCH_MONTHS = 1970 * 12
MOST_MS = 9_000_000_000_000_000


@lru_cache(maxsize=256)
def constant_offset(timezone: str) -> int | None:
    """Seconds that the zone is ahead of UTC; None if this has changed since 1970, or changes with
    the seasons."""
    where = zone(timezone)
    offsets = {
        (datetime(year, month, 1, tzinfo=where).utcoffset() or timedelta()).total_seconds()
        for year in range(1970, 2038)
        for month in range(1, 13)
    }
    return int(offsets.pop()) if len(offsets) == 1 else None


def local(time: exp.Expr, precision: Precision, timezone: str) -> exp.Expr:
    """The zone's clock at an instant."""
    return _moved(time, precision, timezone, "FROM_UTC_TIMESTAMP", 1)


def instant(clock: exp.Expr, precision: Precision, timezone: str) -> exp.Expr:
    """The instant at which the zone's clock shows this time; the earlier one if there are two.

    A time that the clock skips when it is put forward counts as if it had not been put forward yet.
    """
    return _moved(clock, precision, timezone, "TO_UTC_TIMESTAMP", -1)


def _moved(time: exp.Expr, precision: Precision, timezone: str, convert: str, sign: int) -> exp.Expr:
    per_second = TICKS_PER_SECOND[precision]
    offset = constant_offset(timezone)
    if offset is not None:
        shifted = exp.Add(this=wrap(time), expression=number(sign * offset * per_second))
        return exp.Paren(this=shifted) if offset else time
    unit, coarse = "MICROS", time
    if precision == "ms":
        # beyond some 285,000 years, Spark's microseconds would overflow and stop the job
        unit, coarse = "MILLIS", exp.Mod(this=wrap(time), expression=number(MOST_MS))
    elif precision == "ns":
        coarse = floor_div(time, 1_000)
    stamp = exp.Anonymous(this=f"TIMESTAMP_{unit}", expressions=[coarse])
    there = exp.Anonymous(this=convert, expressions=[stamp, exp.Literal.string(timezone)])
    moved = exp.Anonymous(this=f"UNIX_{unit}", expressions=[there])
    if precision != "ns":
        return moved
    whole = exp.Mul(this=moved, expression=number(1_000))
    return exp.Paren(this=exp.Add(this=whole, expression=floor_mod(time.copy(), 1_000)))


def floor_div(node: exp.Expr, divisor: int) -> exp.Expr:
    """``node`` divided by a positive constant, rounded down."""
    whole = exp.Paren(this=exp.Sub(this=wrap(node.copy()), expression=floor_mod(node.copy(), divisor)))
    return exp.Paren(this=exp.IntDiv(this=whole, expression=number(divisor)))


def month_of(clock: exp.Expr, precision: Precision) -> exp.Expr:
    """Months from January 1970 to the one that the clock shows."""
    date = _date(clock, precision)
    years = exp.Mul(this=exp.Anonymous(this="YEAR", expressions=[date]), expression=number(12))
    month = exp.Anonymous(this="MONTH", expressions=[date.copy()])
    found = exp.Sub(this=exp.Add(this=years, expression=month), expression=number(EPOCH_MONTHS + 1))
    return exp.Cast(this=exp.Paren(this=found), to=exp.DataType.build("BIGINT"))


def first_of(month: exp.Expr, precision: Precision) -> exp.Expr:
    """The clock at the midnight that begins a month, given as months from January 1970."""
    date = exp.Cast(this=exp.Literal.string("1970-01-01"), to=exp.DataType.build("DATE"))
    return _midnight(_months_on(date, month), precision)


def months_later(clock: exp.Expr, months: int, precision: Precision) -> exp.Expr:
    """The clock so many months later; the 31st becomes the last day of a shorter month."""
    day = SECONDS_PER_DAY * TICKS_PER_SECOND[precision]
    midnight = _midnight(_months_on(_date(clock, precision), number(months)), precision)
    return exp.Paren(this=exp.Add(this=midnight, expression=floor_mod(clock.copy(), day)))


def _date(clock: exp.Expr, precision: Precision) -> exp.Expr:
    days = floor_div(clock, SECONDS_PER_DAY * TICKS_PER_SECOND[precision])
    epoch = exp.Cast(this=exp.Literal.string("1970-01-01"), to=exp.DataType.build("DATE"))
    whole = exp.Cast(this=days, to=exp.DataType.build("INT"))
    return exp.Anonymous(this="DATE_ADD", expressions=[epoch, whole])


def _months_on(date: exp.Expr, months: exp.Expr) -> exp.Expr:
    whole = exp.Cast(this=months.copy(), to=exp.DataType.build("INT"))
    return exp.Anonymous(this="ADD_MONTHS", expressions=[date, whole])


def _midnight(date: exp.Expr, precision: Precision) -> exp.Expr:
    day = SECONDS_PER_DAY * TICKS_PER_SECOND[precision]
    days = exp.Cast(this=exp.Anonymous(this="UNIX_DATE", expressions=[date]), to=exp.DataType.build("BIGINT"))
    return exp.Paren(this=exp.Mul(this=days, expression=number(day)))

"""Scalar functions of times. Times are ticks; calendars and midnights follow the query's time zone."""

from __future__ import annotations

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.language.query.nodes import DurationLiteral
from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.model.types import DataType
from millrace_core.plan.functions.base import (
    Function,
    FunctionCall,
    constant_choice,
    constant_text,
    fixed,
    unit_ticks,
)
from millrace_core.plan.functions.formats import format_time, iso8601
from millrace_core.plan.functions.formats_read import parse_formatted, parse_iso
from millrace_core.plan.functions.text_lengths import to_char_type
from millrace_core.plan.spark.pieces import date_of, day_number
from millrace_core.plan.spark.zones import SECONDS_PER_DAY, first_of, floor_div, instant, local, month_of
from millrace_core.plan.types.typed import (
    BIGINT,
    TIMESTAMP,
    Typed,
    fail,
    floor_mod,
    number,
    rescale,
    typed,
    wrap,
)
from millrace_core.timeline.precision import CALENDAR_MONTHS

ISO_TEXT = DataType("VARCHAR", 64)


def _time(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    return Typed(TIMESTAMP, next((t.precision for t in types if t.timestamp), None) or precision)


def _own_time(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    return Typed(TIMESTAMP, precision)


def _unix_type(types: list[Typed], node: exp.Expr, precision: Precision) -> Typed:
    wanted = node.expressions[1] if len(node.expressions) > 1 else number(0)
    what = "the second argument"
    if constant_choice(wanted, "to_unixtimestamp", what, ("0", "1")) == "1":
        return Typed(TIMESTAMP, precision)
    return Typed(BIGINT)


def _now(it: FunctionCall) -> exp.Expr:
    return rescale(it.now.copy(), "ns", it.precision)


def _today(it: FunctionCall) -> exp.Expr:
    day = SECONDS_PER_DAY * TICKS_PER_SECOND[it.precision]
    return instant(_truncated(local(_now(it), it.precision, it.timezone), day), it.precision, it.timezone)


def _truncated(time: exp.Expr, unit: int) -> exp.Expr:
    return exp.Paren(this=exp.Sub(this=wrap(time), expression=floor_mod(time.copy(), unit)))


def _timetruncate(it: FunctionCall) -> exp.Expr:
    """Days, weeks (which begin on Thursdays, because 1970-01-01 was one), months and years follow the time
    zone, unless the third argument is 0."""
    time, unit, *rest = it.args
    if not isinstance(unit, DurationLiteral):
        raise fail(ErrorCode.INVALID_VALUE, "timetruncate: expected a time unit such as 1d", unit)
    what = "use_current_timezone"
    utc = bool(rest) and constant_choice(rest[0], it.name, what, ("0", "1")) == "0"
    zone = "UTC" if utc else it.timezone
    per = CALENDAR_MONTHS.get(unit.args["unit"])
    if per is not None:
        if unit.this <= 0:
            raise fail(ErrorCode.INVALID_VALUE, f"{it.name}: the time unit must be positive", unit)
        month = _truncated(month_of(local(time, it.ticks, zone), it.ticks), unit.this * per)
        return instant(first_of(month, it.ticks), it.ticks, zone)
    ticks = unit_ticks(unit, it.name, it.ticks)
    if unit.args["unit"] not in ("d", "w"):
        return _truncated(time, ticks)
    return instant(_truncated(local(time, it.ticks, zone), ticks), it.ticks, zone)


def _timediff(it: FunctionCall) -> exp.Expr:
    difference = exp.Sub(this=wrap(it.args[0]), expression=wrap(it.args[1]))
    if len(it.args) < 3 or typed(it.args[2]).null:
        return difference
    unit = unit_ticks(it.args[2], it.name, it.ticks)
    return exp.IntDiv(this=exp.Paren(this=difference), expression=number(unit))


def _to_iso8601(it: FunctionCall) -> exp.Expr:
    zone = constant_text(it.args[1], it.name, "the time zone") if len(it.args) > 1 else None
    return iso8601(it.args[0], it.ticks, it.timezone, zone, it.node)


def _to_char(it: FunctionCall) -> exp.Expr:
    pattern = constant_text(it.args[1], it.name, "the format")
    return format_time(it.args[0], it.ticks, it.timezone, pattern)


def _to_timestamp(it: FunctionCall) -> exp.Expr:
    pattern = constant_text(it.args[1], it.name, "the format")
    return parse_formatted(it.args[0], it.precision, it.timezone, pattern, it.args[1])


def _to_unixtimestamp(it: FunctionCall) -> exp.Expr:
    return parse_iso(it.args[0], it.precision, it.timezone)


# -- days and weeks -----------------------------------------------------------------------------------


def _days(it: FunctionCall) -> exp.Expr:
    return day_number(local(it.args[0], it.ticks, it.timezone), it.ticks)


def _plus(node: exp.Expr, value: int) -> exp.Expr:
    return exp.Paren(this=exp.Add(this=wrap(node), expression=number(value))) if value else node


def _date(it: FunctionCall) -> exp.Expr:
    return format_time(it.args[0], it.ticks, it.timezone, "yyyy-mm-dd")


def _dayofweek(it: FunctionCall) -> exp.Expr:
    """1: Sunday … 7: Saturday (1970-01-01 was a Thursday)."""
    return _plus(floor_mod(_plus(_days(it), 4), 7), 1)


def _weekday(it: FunctionCall) -> exp.Expr:
    """0: Monday … 6: Sunday."""
    return floor_mod(_plus(_days(it), 3), 7)


def _week(it: FunctionCall) -> exp.Expr:
    what = "the mode"
    modes = tuple("01234567")
    mode = int(constant_choice(it.args[1], it.name, what, modes)) if len(it.args) > 1 else 0
    return _week_number(_days(it), mode)


WEEK_MODES: tuple[tuple[bool, bool, bool], ...] = (
    (False, False, False), (True, False, True), (False, True, False), (True, True, True),
    (False, False, True), (True, False, False), (False, True, True), (True, True, False),
)  # fmt: skip
"""For each mode of week(): whether weeks begin on Monday (else Sunday); whether the days before week 1 belong
to the last week of the previous year (else to week 0); whether week 1 is the first with four days in the year
(else the first whole one). TDengine has the modes from MySQL."""


def _week_number(days: exp.Expr, mode: int) -> exp.Expr:
    monday, last_year, four_days = WEEK_MODES[mode]
    passed = floor_mod(_plus(days.copy(), 3 if monday else 4), 7)
    # one day of its week decides to which year, and to which week of it, the week belongs
    decides = exp.Sub(this=_plus(wrap(days.copy()), 3 if four_days else 0), expression=passed)
    if last_year:
        of_year = exp.DayOfYear(this=date_of(exp.Paren(this=decides)))
        return _plus(floor_div(_plus(of_year, -1), 7), 1)
    of_year = exp.DayOfYear(this=date_of(days.copy()))
    ahead = exp.Sub(this=_plus(of_year, (3 if four_days else 0) - 1), expression=passed.copy())
    return _plus(floor_div(exp.Paren(this=ahead), 7), 1)


TIME: dict[str, Function] = {
    "now": Function(0, 0, _time, _now),
    "today": Function(0, 0, _time, _today),
    "timetruncate": Function(2, 3, _time, _timetruncate, ("time", "duration", "integer")),
    "timediff": Function(2, 3, fixed(BIGINT), _timediff, ("time", "time", "duration")),
    "to_iso8601": Function(1, 2, fixed(ISO_TEXT), _to_iso8601, ("time", "text")),
    "to_char": Function(2, 2, to_char_type, _to_char, ("time", "text")),
    "to_timestamp": Function(2, 2, _own_time, _to_timestamp, ("text",)),
    "to_unixtimestamp": Function(1, 2, _unix_type, _to_unixtimestamp, ("text", "integer")),
    "dayofweek": Function(1, 1, fixed(BIGINT), _dayofweek, ("time",)),
    "date": Function(1, 1, fixed(DataType("VARCHAR", 10)), _date, ("time",)),
    "weekday": Function(1, 1, fixed(BIGINT), _weekday, ("time",)),
    "week": Function(1, 2, fixed(BIGINT), _week, ("time", "integer")),
    "weekofyear": Function(1, 1, fixed(BIGINT), lambda it: _week_number(_days(it), 3), ("time",)),
}  # fmt: skip

"""INTERVAL: where its windows lie, in ticks, on the local clock, or on the calendar.

A window's *position* is a whole number that grows by ``step`` from each window to the next: the start in
ticks, the start on the local clock, or months since January 1970. Rows are grouped by position, and FILL
counts with positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from millrace_core.errors import ErrorCode
from millrace_core.language.query import nodes
from millrace_core.model.schema import TICKS_PER_SECOND, Precision
from millrace_core.plan.functions.scalar import duration_ticks
from millrace_core.plan.spark.zones import (
    SECONDS_PER_DAY,
    constant_offset,
    first_of,
    instant,
    local,
    month_of,
    months_later,
)  # fmt: skip
from millrace_core.plan.types.constants import constant
from millrace_core.plan.types.typed import fail, floor_mod, number, wrap
from millrace_core.timeline import zone
from millrace_core.timeline.precision import CALENDAR_MONTHS
from millrace_core.timeline.schedule import utc_offset

MOST_OVERLAPS = 1000
LONGEST_MONTH, SHORTEST_MONTH = 31, 28
"""Days."""
StepUnit = Literal["ticks", "clock", "months"]


_TICK: dict[Precision, str] = {"ms": "a", "us": "u", "ns": "b"}
"""The unit in which a duration of 1 is one tick."""


def with_lengths(
    window: nodes.IntervalWindow, low: exp.Expr | None, precision: Precision, timezone: str
) -> None:
    """Turn the clause's lengths into durations: a whole number counts ticks; AUTO lets a window begin at
    ``low``, the first instant that WHERE allows (there is no offset without it).

    :raises SqlError: UNSUPPORTED for AUTO with months, or if ``low`` is not a constant.
    """
    for key in ("this", "offset", "sliding"):
        node = window.args.get(key)
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            window.set(key, _in_ticks(int(node.name), precision))
        elif isinstance(node, nodes.Auto):
            window.set(key, _auto(window, low, precision, timezone))


def _in_ticks(count: int, precision: Precision) -> exp.Expr:
    return nodes.DurationLiteral(this=count, unit=_TICK[precision])


def _auto(
    window: nodes.IntervalWindow, low: exp.Expr | None, precision: Precision, timezone: str
) -> exp.Expr | None:
    if low is None:
        return None
    interval = Length.of(window.this, precision)
    first = constant(low)
    if interval.months or first is None:
        message = "AUTO needs an INTERVAL of fixed length and a WHERE with a constant start time"
        raise fail(ErrorCode.UNSUPPORTED, message, window)
    if window.this.args["unit"] in ("d", "w"):
        per_second = TICKS_PER_SECOND[precision]
        first += utc_offset(zone(timezone), first // per_second) * per_second
    return _in_ticks(first % interval.ticks, precision)


@dataclass(frozen=True, slots=True)
class Length:
    """A duration: months of the calendar, or ticks."""

    months: int
    ticks: int

    @staticmethod
    def of(node: exp.Expr | None, precision: Precision) -> Length:
        """:raises SqlError: if it is not a duration, or not a whole number of ticks."""
        if node is None:
            return Length(0, 0)
        if isinstance(node, nodes.DurationLiteral) and (per := CALENDAR_MONTHS.get(node.args["unit"])):
            return Length(int(node.this) * per, 0)
        return Length(0, duration_ticks(node, precision))

    def bound(self, days: int, precision: Precision) -> int:
        """Its ticks, if every month had that many days."""
        return self.ticks + self.months * days * SECONDS_PER_DAY * TICKS_PER_SECOND[precision]


@dataclass(frozen=True, slots=True)
class IntervalWindows:
    """The windows of INTERVAL(interval, offset) SLIDING(step)."""

    positions: StepUnit
    interval: Length
    step: int
    offset: Length
    precision: Precision
    timezone: str

    @staticmethod
    def of(window: nodes.IntervalWindow, precision: Precision, timezone: str) -> IntervalWindows:
        """:raises SqlError: for lengths that do not go together."""
        interval = Length.of(window.this, precision)
        given = window.args.get("sliding")
        sliding = Length.of(given, precision) if given is not None else interval
        offset = Length.of(window.args.get("offset"), precision)
        _check(window, interval, sliding, offset, precision)
        if sliding.months:
            return IntervalWindows("months", interval, sliding.months, offset, precision, timezone)
        if interval.months:
            return IntervalWindows("clock", interval, sliding.ticks, offset, precision, timezone)
        if window.this.args["unit"] not in ("d", "w"):
            return IntervalWindows("ticks", interval, sliding.ticks, offset, precision, timezone)
        ahead = constant_offset(timezone)
        if ahead is None:
            return IntervalWindows("clock", interval, sliding.ticks, offset, precision, timezone)
        midnight = Length(0, offset.ticks - ahead * TICKS_PER_SECOND[precision])
        return IntervalWindows("ticks", interval, sliding.ticks, midnight, precision, timezone)

    @property
    def overlaps(self) -> int:
        """The most windows that a row can lie in."""
        if self.positions == "months":
            return -(-self.interval.months // self.step)
        return -(-self.interval.bound(LONGEST_MONTH, self.precision) // self.step)

    def position(self, time: exp.Expr) -> exp.Expr:
        """The position of the last window that begins at or before an instant."""
        if self.positions == "ticks":
            return self._last(time, self.offset.ticks)
        clock = local(time, self.precision, self.timezone)
        if self.positions == "clock":
            return self._last(clock, self.offset.ticks)
        return self._last(month_of(_plus(clock, -self.offset.ticks), self.precision), self.offset.months)

    def _last(self, value: exp.Expr, offset: int) -> exp.Expr:
        rest = floor_mod(_plus(value.copy(), -offset), self.step)
        return exp.Paren(this=exp.Sub(this=wrap(value), expression=rest))

    def start(self, position: exp.Expr) -> exp.Expr:
        """The first instant of a window."""
        if self.positions == "ticks":
            return position
        clock = position
        if self.positions == "months":
            clock = _plus(first_of(position, self.precision), self.offset.ticks)
        return instant(clock, self.precision, self.timezone)

    def end(self, position: exp.Expr) -> exp.Expr:
        """The first instant after a window."""
        if self.positions == "months":
            return self.start(_plus(position, self.interval.months))
        if self.interval.months:
            later = months_later(position, self.interval.months, self.precision)
            return instant(later, self.precision, self.timezone)
        return self.start(
            exp.Paren(this=exp.Add(this=wrap(position), expression=number(self.interval.ticks)))
        )


def _plus(node: exp.Expr, value: int) -> exp.Expr:
    return exp.Paren(this=exp.Add(this=wrap(node), expression=number(value))) if value else node


def _check(window: exp.Expr, interval: Length, sliding: Length, offset: Length, precision: Precision) -> None:
    """The rules of TDengine 3.3.7 for the three lengths."""

    def least(length: Length) -> int:
        return length.bound(SHORTEST_MONTH, precision)

    problem = None
    if least(interval) < TICKS_PER_SECOND[precision] // 100:
        problem = "INTERVAL must be at least 10a"
    elif sliding.months and not interval.months:
        problem = "SLIDING in months or years needs an INTERVAL in months or years"
    elif not 0 < least(sliding) <= least(interval):
        problem = "SLIDING must not be longer than INTERVAL"
    elif offset.months and not interval.months:
        problem = "an offset in months or years needs an INTERVAL in months or years"
    elif offset.months and not sliding.months:
        problem = "an offset in months or years needs a SLIDING in months or years"
    elif least(offset) >= least(interval):
        problem = "the offset must be shorter than INTERVAL"
    elif interval.bound(LONGEST_MONTH, precision) > least(sliding) * MOST_OVERLAPS:
        problem = f"a row would be in more than {MOST_OVERLAPS} windows"
    if problem is not None:
        raise fail(ErrorCode.INVALID_VALUE, problem, window)

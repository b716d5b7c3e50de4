"""The trigger of a stream: its arguments judged against the trigger table."""

from __future__ import annotations

from collections.abc import Callable

from millrace_core.conditions import condition
from millrace_core.dialect.arguments import bad, duration, integer, name, shortest_ns
from millrace_core.dialect.statements import Argument, TriggerClause
from millrace_core.errors import ErrorCode, Position
from millrace_core.model.rules import DurationRule, IntegerRule
from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import (
    AnyTrigger,
    Count,
    Duration,
    Event,
    Interval,
    Period,
    Session,
    Sliding,
    State,
)  # fmt: skip
from millrace_core.model.triggers import TRIGGERS, TRUE_FOR, TriggerRule
from millrace_core.timeline.precision import CALENDAR_MONTHS

STATE_TYPES = frozenset({"BOOL", "VARCHAR"})


def trigger(clause: TriggerClause, table: Table | None, timezone: str) -> AnyTrigger:
    """The trigger that a clause means; ``table`` None: a PERIOD without one; texts beside times are read in
    ``timezone``.

    :raises SqlError: for an argument that is missing, surplus, of the wrong kind or out of range.
    """
    rule = TRIGGERS[clause.keyword]
    if clause.true_for is not None and not rule.takes_true_for:
        allowed = " and ".join(r.keyword for r in TRIGGERS.values() if r.takes_true_for)
        where = clause.true_for_position or clause.position
        raise bad(f"TRUE_FOR goes with {allowed}, not with {clause.keyword}", where)
    return _READERS[clause.keyword](_Reader(clause, rule, table, timezone))


class _Reader:
    """The arguments of one clause, taken one after the other."""

    def __init__(self, clause: TriggerClause, rule: TriggerRule, table: Table | None, timezone: str) -> None:
        self.clause, self.rule, self._table, self.timezone = clause, rule, table, timezone
        self.left = list(clause.arguments)

    @property
    def table(self) -> Table:
        assert self._table is not None, "checked before: this trigger needs a table"
        return self._table

    def take(self, what: str) -> Argument:
        if not self.left:
            raise bad(f"{self.clause.keyword}: {what} is missing", self.clause.position)
        return self.left.pop(0)

    def duration(self, what: str) -> Duration:
        return self.as_duration(self.take(what), what)

    def optional_duration(self, what: str) -> Duration | None:
        return self.duration(what) if self.left else None

    def as_duration(self, argument: Argument, what: str) -> Duration:
        rule = self.rule.rules[what]
        assert isinstance(rule, DurationRule)
        precision = self._table.precision if self._table else None
        return duration(argument, f"{self.clause.keyword}: {what}", rule, precision)

    def integer(self, what: str) -> int:
        rule = self.rule.rules[what]
        assert isinstance(rule, IntegerRule)
        return integer(self.take(what), f"{self.clause.keyword}: {what}", rule)

    def column(self, what: str) -> tuple[Column, Position]:
        """An ordinary column of the trigger table, or its time column."""
        argument = self.take(what)
        found = name(argument, f"{self.clause.keyword}: {what}")
        column = self.table.column(found)
        if column is None:
            kind = "a tag" if self.table.tag(found) else "no column"
            raise bad(
                f"{self.clause.keyword}: {what} {found} is {kind} of {self.table.name}; a column is needed",
                argument.position,
                ErrorCode.BAD_STREAM if self.table.tag(found) else ErrorCode.UNKNOWN_COLUMN,
            )
        return column, argument.position

    def true_for(self) -> Duration | None:
        if self.clause.true_for is None:
            return None
        return duration(self.clause.true_for, "TRUE_FOR: duration_time", TRUE_FOR, self.table.precision)

    def done(self) -> None:
        if self.left:
            raise bad(
                f"{self.clause.keyword}: {self.left[0].text} is one argument too many", self.left[0].position
            )


def _period(r: _Reader) -> Period:
    found = Period(r.duration("period_time"), r.optional_duration("offset_time"))
    r.done()
    return found


def _sliding(r: _Reader) -> Sliding:
    found = Sliding(r.duration("sliding_val"), r.optional_duration("offset_time"))
    r.done()
    return found


def _interval(r: _Reader) -> Interval:
    interval = r.duration("interval_val")
    at = r.left[0].position if r.left else r.clause.position
    offset = r.optional_duration("interval_offset")
    r.done()
    if offset is not None and shortest_ns(offset) >= shortest_ns(interval):
        raise bad(f"INTERVAL: interval_offset {offset} is not less than the interval {interval}", at)
    argument, *surplus = r.clause.sliding
    if surplus:
        raise bad(
            "SLIDING: with INTERVAL it takes one argument; an offset is INTERVAL's", surplus[0].position
        )
    sliding = r.as_duration(argument, "sliding_val")
    if (interval.unit in CALENDAR_MONTHS) != (sliding.unit in CALENDAR_MONTHS):
        raise bad(
            f"SLIDING: sliding_val {sliding} does not go with INTERVAL({interval}): months and years go "
            "with months and years only",
            argument.position,
        )
    return Interval(interval, sliding, offset)


def _session(r: _Reader) -> Session:
    column, where = r.column("ts_col")
    if column.name != r.table.key.name:
        raise bad(f"SESSION: ts_col {column.name} is not the time column {r.table.key.name}", where)
    found = Session(r.duration("session_val"))
    r.done()
    return found


def _state(r: _Reader) -> State:
    column, where = r.column("col")
    if column.name == r.table.key.name or not (
        (column.type.info.integer and column.type.name != "TIMESTAMP") or column.type.name in STATE_TYPES
    ):
        raise bad(
            f"STATE_WINDOW: col {column.name} is {column.type}; a whole number, BOOL or VARCHAR is allowed",
            where,
        )
    extend = r.integer("extend") if r.left else 0
    r.done()
    return State(column.name, extend, r.true_for())


def _event(r: _Reader) -> Event:
    start, end = (
        condition(argument, f"EVENT_WINDOW: {what}", r.table, r.timezone)
        for what, argument in zip(("start_condition", "end_condition"), r.left, strict=True)
    )
    return Event(start, end, r.true_for())


def _count(r: _Reader) -> Count:
    count = r.integer("count_val")
    sliding = count
    if r.left and r.left[0].text[:1] in "0123456789+-":
        argument = r.left[0]
        sliding = r.integer("sliding_val")
        if sliding > count:
            raise bad(
                f"COUNT_WINDOW: sliding_val {sliding} is larger than count_val {count}", argument.position
            )
    columns: list[str] = []
    while r.left:
        column, where = r.column("col")
        if column.name in columns:
            raise bad(f"COUNT_WINDOW: the column {column.name} is given twice", where)
        columns.append(column.name)
    return Count(count, sliding, tuple(columns))


_READERS: dict[str, Callable[[_Reader], AnyTrigger]] = {
    "PERIOD": _period, "SLIDING": _sliding, "INTERVAL": _interval, "SESSION": _session,
    "STATE_WINDOW": _state, "EVENT_WINDOW": _event, "COUNT_WINDOW": _count,
}  # fmt: skip

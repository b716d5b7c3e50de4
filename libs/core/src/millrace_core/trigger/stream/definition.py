"""A stream as trigger-svc keeps it: the part of its definition that says when, and what is made of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.expression import fields_of
from millrace_core.model.schema import Table
from millrace_core.model.stream import (
    Count,
    Event,
    Interval,
    Notify,
    Options,
    Period,
    Places,
    Session,
    Sliding,
    State,
    StreamSpec,
    Trigger,
)  # fmt: skip
from millrace_core.model.triggers import TRIGGERS
from millrace_core.timeline import Schedule, ticks
from millrace_core.trigger.count import CountWindower
from millrace_core.trigger.event import EventWindower
from millrace_core.trigger.event_arrays import EventRule
from millrace_core.trigger.grid import Grid
from millrace_core.trigger.groups.watermark import Clock
from millrace_core.trigger.interval import IntervalWindower
from millrace_core.trigger.period import PeriodWindower, schedule_of
from millrace_core.trigger.rows.signals import Signal
from millrace_core.trigger.session import SessionWindower
from millrace_core.trigger.sliding import SlidingWindower
from millrace_core.trigger.state import StateWindower
from millrace_core.trigger.state_arrays import StateRule
from millrace_core.trigger.stream.delay import Delay, delay_of
from millrace_core.trigger.stream.emission import Emission
from millrace_core.trigger.windower import Windower
from millrace_core.wire import regroup
from millrace_core.wire.topics import REGROUP, slot_of, wal_topic


def _interval(trigger: Interval, table: Table, options: Options, notify: Notify | None) -> Windower:
    return IntervalWindower(Grid.of(trigger, table.precision), not options.ignore_nodata_trigger)


def _session(trigger: Session, table: Table, options: Options, notify: Notify | None) -> Windower:
    return SessionWindower(ticks(trigger.gap, table.precision))


def _count(trigger: Count, table: Table, options: Options, notify: Notify | None) -> Windower:
    return CountWindower(trigger.count, trigger.sliding, trigger.columns)


def _sliding(trigger: Sliding, table: Table, options: Options, notify: Notify | None) -> Windower:
    return SlidingWindower.of(trigger, table.precision, not options.ignore_nodata_trigger)


def _period(trigger: Period, table: Table, options: Options, notify: Notify | None) -> Windower:
    return PeriodWindower()


def _state(trigger: State, table: Table, options: Options, notify: Notify | None) -> Windower:
    true_for = ticks(trigger.true_for, table.precision) if trigger.true_for else 0
    told = notify is not None, _tells_openings(options, notify)
    return StateWindower(trigger.column, StateRule(trigger.extend, true_for, _shared(table), *told))


def _event(trigger: Event, table: Table, options: Options, notify: Notify | None) -> Windower:
    true_for = ticks(trigger.true_for, table.precision) if trigger.true_for else 0
    told = notify is not None, _tells_openings(options, notify)
    rule = EventRule(true_for, _shared(table), *told, trigger.start.columns, trigger.end.columns)
    return EventWindower(trigger.start, trigger.end, rule)


def _tells_openings(options: Options, notify: Notify | None) -> bool:
    return "WINDOW_OPEN" in (*options.event_types, *(notify.events if notify else ()))


def _shared(table: Table) -> bool:
    """Whether rows of one table with equal times may be different rows."""
    return any(column.composite_key for column in table.columns)


WINDOWERS: dict[type[Trigger], Callable[..., Windower]] = {
    Interval: _interval,
    Period: _period,
    Sliding: _sliding,
    Session: _session,
    State: _state,
    Event: _event,
    Count: _count,
}
"""Trigger type -> how its windower is made of (trigger, table, options, NOTIFY)."""

RECALCULATES = {rule.type: rule.recalculates for rule in TRIGGERS.values()}
"""Whether disorder means anything to a trigger type; where it does not, late rows are dropped and counted."""

NO_TABLE = Table("", "", "normal", 0, "ns", ())
"""The trigger table of a PERIOD stream that has none: no topic is its."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A stream's definition, compiled. ``single``: the name of the one table that triggers it, if it is one.

    ``home``: its rows are judged where its tables are; else in the slot of their group (see wire.regroup).
    ``delay``: of MAX_DELAY; ``schedule``: of PERIOD; ``filter``: of PRE_FILTER, the rows that count at all.
    """

    spec: StreamSpec
    table: Table
    topic: str
    single: str | None
    home: bool
    clock: Clock
    windower: Windower
    emission: Emission
    delay: Delay | None = None
    schedule: Schedule | None = None
    filter: Signal | None = None

    @property
    def signals(self) -> tuple[Signal, ...]:
        """What it reads of each row."""
        return self.windower.signals if self.filter is None else (*self.windower.signals, self.filter)

    @property
    def child(self) -> bytes | None:
        """The key of the messages that trigger it, if it is one child table's."""
        return self.single.encode() if self.single is not None and self.table.kind != "normal" else None

    @property
    def reads_tags(self) -> bool:
        """Whether a group's key has tag values, or a condition reads some."""
        names = {name for signal in self.signals for name in fields_of(signal.expression)}
        return any(self.table.tag(name) for name in names.union(self.spec.partition))

    @property
    def fills_history(self) -> bool:
        """Whether rows of before the stream, or of a stop, trigger it."""
        options = self.spec.options
        return options.fill_history is not None or options.fill_history_first is not None

    def concerns(self, slot: int, slots: int) -> bool:
        """Whether it can trigger in this slot."""
        if not self.topic:
            return self.ungrouped_slot(slots) == slot
        return self.single is None or slot_of(self.topic, self.single.encode(), slots) == slot

    def ungrouped_slot(self, slots: int) -> int:
        """The slot of the one group of a stream without grouping that is not judged at its table's."""
        return slot_of(REGROUP.name, regroup.key(self.spec.uid, 0), slots)


def essence(spec: StreamSpec) -> bytes:
    """The part of a definition that the slots keep, encoded."""
    notify = Notify((), spec.notify.events) if spec.notify else None
    kept = msgspec.structs.replace(
        spec, sql="", query=None, result=(), output=None, notify=notify, places=Places()
    )
    return msgspec.msgpack.encode(kept)


class _Head(msgspec.Struct):
    """What every version of a definition has."""

    uid: int


@lru_cache(maxsize=4096)
def uid_of(definition: bytes) -> int:
    """The stream of an :func:`essence`, whatever else it holds."""
    return msgspec.msgpack.decode(definition, type=_Head).uid


@lru_cache(maxsize=4096)
def compiled(definition: bytes) -> Definition:
    """What an :func:`essence` means.

    :raises MillraceError: UNSUPPORTED for a trigger type or option that is not there yet; INVALID_VALUE for a
        length that is no whole number of ticks.
    """
    spec = msgspec.msgpack.decode(definition, type=StreamSpec)
    make = WINDOWERS.get(type(spec.trigger))
    period = isinstance(spec.trigger, Period)
    if make is None or (spec.source is None and not period):
        name = type(spec.trigger).__name__.upper()
        raise MillraceError(ErrorCode.UNSUPPORTED, f"stream {spec.full_name}: {name} is not supported yet")
    table, child = (spec.source.table, spec.source.child) if spec.source else (NO_TABLE, None)
    single = table.name if table.kind == "normal" and spec.source else child
    home = single is not None or "tbname" in spec.partition
    options = spec.options
    if not RECALCULATES[type(spec.trigger)]:
        options = msgspec.structs.replace(options, ignore_disorder=True)
    windower = make(spec.trigger, table, spec.options, spec.notify)
    every = delay_of(spec)
    return Definition(
        spec,
        table,
        wal_topic(table.db, table.name) if spec.source else "",
        single,
        home,
        Clock.of(options, table, home),
        windower,
        Emission.of(spec),
        Delay(every, windower) if every else None,
        schedule_of(spec) if period else None,
        _filter(spec),
    )


def _filter(spec: StreamSpec) -> Signal | None:
    condition = spec.options.pre_filter
    if condition is None:
        return None
    if condition.expression is None:
        raise MillraceError(
            ErrorCode.UNSUPPORTED, f"stream {spec.full_name}: PRE_FILTER({condition.sql}) has no expression"
        )
    return Signal("PRE_FILTER", condition.expression, "flag")

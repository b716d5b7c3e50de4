"""A stream as trigger-svc keeps it: the part of its definition that says when, and what is compiled from
it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import msgspec

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.expression import fields_of
from millrace_core.model.schema import Table
from millrace_core.model.stream import Notify, Places, StreamSpec
from millrace_core.model.triggers import read_trigger
from millrace_core.timeline import Schedule
from millrace_core.timeline.precision import duration_ns
from millrace_core.trigger.groups.watermark import Clock
from millrace_core.trigger.rows.signals import Signal
from millrace_core.trigger.stream.delay import LONGEST, Delay, delay_of
from millrace_core.trigger.stream.emission import Emission
from millrace_core.trigger.types import type_of
from millrace_core.trigger.types.forced import Forced
from millrace_core.trigger.types.setting import Setting
from millrace_core.trigger.types.shown import Showing
from millrace_core.trigger.types.windower import Windower
from millrace_core.wire import regroup
from millrace_core.wire.topics import REGROUP, slot_of, wal_topic

NO_TABLE = Table("", "", "normal", 0, "ns", ())
"""The trigger table of a PERIOD stream that has none: it has no topic."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A stream's definition, compiled. ``single``: the name of the table that triggers it, if it is a single
    one.

    ``home``: rows are evaluated in the slot of their table; otherwise in the slot of their group (see
    wire.regroup). ``delay``: for MAX_DELAY. ``schedule``: for PERIOD. ``filter``: for PRE_FILTER, which rows
    count at all. ``keys``: what divides the rows of a table among groups. ``forced``: handles the windows if
    the clock closes them. ``put_off``: the interval, in ns, at which changed closed windows are cut again;
    None: at once. ``showing``: handles windows that are shown before they close.
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
    keys: tuple[Signal, ...] = ()
    forced: Forced | None = None
    put_off: int | None = None
    showing: Showing | None = None

    @property
    def signals(self) -> tuple[Signal, ...]:
        """What it reads from each row."""
        first = self.windower.signals if self.filter is None else (*self.windower.signals, self.filter)
        return (*first, *self.keys)

    @property
    def timer(self) -> Delay | Forced | None:
        """What handles windows that wait for processing time."""
        return self.forced or self.delay

    @property
    def waits_for_time(self) -> bool:
        """Whether anything about its windows may be due at a processing time."""
        return self.timer is not None or self.showing is not None or self.put_off is not None

    @property
    def by_table(self) -> bool:
        """Whether all rows of a table belong to one group, which is then found by the table's name; otherwise
        groups are found by their ids."""
        return self.home and not self.keys

    @property
    def child(self) -> bytes | None:
        """The key of the messages that trigger it, if a single child table does."""
        return self.single.encode() if self.single is not None and self.table.kind != "normal" else None

    @property
    def reads_tags(self) -> bool:
        """Whether a group's key has tag values, or a condition reads tags."""
        names = {name for signal in self.signals for name in fields_of(signal.expression)}
        return any(self.table.tag(name) for name in names.union(self.spec.partition))

    @property
    def loses_rewritten(self) -> bool:
        """Whether a row may leave its group when it is written again."""
        return bool(self.keys or self.filter is not None) and not self.table.virtual

    @property
    def withdraws_rewritten(self) -> bool:
        """Whether the old version of a rewritten row is taken out of its group."""
        return not self.clock.ignore_disorder and self.spec.emission.rewritten != "counted"

    @property
    def drops_late(self) -> bool:
        """Whether rows that are written after a window was closed do not count in it, and the log of the
        table shows which rows those are."""
        if not self.home or self.table.virtual:
            return False
        # otherwise a rewritten row that corrects no window would be in none
        followed = self.clock.corrects or self.spec.emission.rewritten == "counted"
        return self.forced is not None or (self.clock.open_only and followed)

    @property
    def drops_disorder(self) -> bool:
        """Whether nothing that comes late counts, not even a delete. Where deletes do, one may take out a row
        that waits for T, and so may a version of it."""
        return self.clock.ignore_disorder and not self.spec.options.delete_recalc

    @property
    def heeds_arrival(self) -> bool:
        """Whether it matters in which order rows came, or a slot cannot tell which of them a delete takes
        out."""
        clock = self.clock
        return clock.shared or clock.ignore_disorder or clock.open_only or self.forced is not None

    @property
    def fills_history(self) -> bool:
        """Whether rows from before the stream, or from a stop, trigger it."""
        options = self.spec.options
        return options.fill_history is not None or options.fill_history_first is not None

    def concerns(self, slot: int, slots: int) -> bool:
        """Whether it can trigger in this slot."""
        if not self.topic:
            return self.ungrouped_slot(slots) == slot
        return self.single is None or slot_of(self.topic, self.single.encode(), slots) == slot

    def ungrouped_slot(self, slots: int) -> int:
        """The slot of the single group of a stream without grouping, if it is not evaluated in its table's
        slot."""
        return slot_of(REGROUP.name, regroup.key(self.spec.uid, 0), slots)


def windower_of(spec: StreamSpec) -> Windower:
    """What turns a stream's rows into windows.

    :raises MillraceError: as :func:`compiled`.
    """
    table = spec.source.table if spec.source else NO_TABLE
    return type_of(spec.trigger).windower(
        spec.trigger, Setting(table, spec.options, spec.notify, spec.emission)
    )


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
    """The uid of the stream in an :func:`essence`, whatever else that holds."""
    return msgspec.msgpack.decode(definition, type=_Head).uid


@lru_cache(maxsize=4096)
def compiled(definition: bytes) -> Definition:
    """What an :func:`essence` means.

    :raises MillraceError: UNSUPPORTED for a trigger type or option that does not exist yet; INVALID_VALUE for
        a length that is not a whole number of ticks.
    """
    spec = msgspec.msgpack.decode(definition, type=StreamSpec, dec_hook=read_trigger)
    type_ = type_of(spec.trigger)
    if spec.source is None and not type_.by_clock:
        raise MillraceError(
            ErrorCode.UNSUPPORTED, f"stream {spec.full_name}: {type_.keyword} needs a trigger table"
        )
    table, child = (spec.source.table, spec.source.child) if spec.source else (NO_TABLE, None)
    single = table.name if table.kind == "normal" and spec.source else child
    home = single is not None or "tbname" in spec.partition
    options = spec.options
    if not type_.recalculates:
        # disorder means nothing to it: late rows are dropped and counted
        options = msgspec.structs.replace(options, ignore_disorder=True)
    windower = windower_of(spec)
    every = delay_of(spec)
    return Definition(
        spec,
        table,
        wal_topic(table.db, table.name) if spec.source else "",
        single,
        home,
        Clock.of(options, table, home, spec.emission),
        windower,
        Emission.of(spec),
        Delay(every, windower) if every else None,
        type_.schedule(spec) if type_.schedule else None,
        _filter(spec),
        tuple(Signal(f"KEY{i}", key.expression) for i, key in enumerate(spec.keys, 1)),
        _forced(spec, table),
        duration_ns(spec.emission.every)
        if spec.emission.when == "continuous_window_close" and spec.emission.every
        else None,
        _showing(spec, windower),
    )


def _forced(spec: StreamSpec, table: Table) -> Forced | None:
    if spec.emission.when != "force_window_close":
        return None
    type_ = type_of(spec.trigger)
    if type_.grid is None:
        raise MillraceError(
            ErrorCode.UNSUPPORTED, f"stream {spec.full_name}: {type_.keyword} cannot be closed by the clock"
        )
    grid = type_.grid(spec.trigger, table.precision)
    return Forced(grid, table.precision, spec.emission.fill is not None)


def _showing(spec: StreamSpec, windower: Windower) -> Showing | None:
    type_, emission = type_of(spec.trigger), spec.emission
    if not type_.window or type_.by_row:
        return None  # instants have no windows, and neither have rows that trigger by themselves
    if emission.when == "max_delay" and emission.every is not None:
        return Showing(min(duration_ns(emission.every), LONGEST), windower)
    return Showing(0, windower) if emission.when == "at_once" else None


def _filter(spec: StreamSpec) -> Signal | None:
    condition = spec.options.pre_filter
    if condition is None:
        return None
    if condition.expression is None:
        raise MillraceError(
            ErrorCode.UNSUPPORTED, f"stream {spec.full_name}: PRE_FILTER({condition.sql}) has no expression"
        )
    return Signal("PRE_FILTER", condition.expression, "flag")

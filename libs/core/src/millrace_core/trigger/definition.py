"""A stream as trigger-svc keeps it: the part of its definition that says when, and what is made of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Table
from millrace_core.model.stream import Interval, Notify, Options, StreamSpec, Trigger
from millrace_core.trigger.emission import Emission
from millrace_core.trigger.grid import Grid
from millrace_core.trigger.interval import IntervalWindower
from millrace_core.trigger.watermark import Clock
from millrace_core.trigger.windower import Windower
from millrace_core.wire.topics import slot_of, wal_topic


def _interval(trigger: Interval, table: Table, options: Options) -> Windower:
    return IntervalWindower(Grid.of(trigger, table.precision), not options.ignore_nodata_trigger)


WINDOWERS: dict[type[Trigger], Callable[..., Windower]] = {Interval: _interval}
"""Trigger type -> how its windower is made of (trigger, table, options)."""

NOT_YET: tuple[tuple[str, str], ...] = (
    ("pre_filter", "PRE_FILTER"),
    ("max_delay", "MAX_DELAY"),
    ("delete_recalc", "DELETE_RECALC"),
    ("fill_history", "FILL_HISTORY"),
    ("fill_history_first", "FILL_HISTORY_FIRST"),
)
"""Options that no windower honours yet: a stream with one is refused rather than run wrongly."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A stream's definition, compiled. ``single``: the name of the one table that triggers it, if it is one.

    ``home``: its rows are judged where its tables are; else in the slot of their group (see wire.regroup).
    """

    spec: StreamSpec
    table: Table
    topic: str
    single: str | None
    home: bool
    clock: Clock
    windower: Windower
    emission: Emission

    @property
    def reads_tags(self) -> bool:
        """Whether a group's key has tag values."""
        return any(name != "tbname" for name in self.spec.partition)

    def concerns(self, slot: int, slots: int) -> bool:
        """Whether rows that trigger it can be in this slot."""
        return self.single is None or slot_of(self.topic, self.single.encode(), slots) == slot


def essence(spec: StreamSpec) -> bytes:
    """The part of a definition that the slots keep, encoded."""
    notify = Notify((), spec.notify.events) if spec.notify else None
    kept = msgspec.structs.replace(spec, sql="", query=None, result=(), output=None, notify=notify)
    return msgspec.msgpack.encode(kept)


@lru_cache(maxsize=4096)
def compiled(definition: bytes) -> Definition:
    """What an :func:`essence` means.

    :raises MillraceError: UNSUPPORTED for a trigger type or option that is not there yet; INVALID_VALUE for a
        length that is no whole number of ticks.
    """
    spec = msgspec.msgpack.decode(definition, type=StreamSpec)
    make = WINDOWERS.get(type(spec.trigger))
    if make is None or spec.source is None:
        name = type(spec.trigger).__name__.upper()
        raise MillraceError(ErrorCode.UNSUPPORTED, f"stream {spec.full_name}: {name} is not supported yet")
    for option, name in NOT_YET:
        if getattr(spec.options, option) not in (None, False):
            raise MillraceError(
                ErrorCode.UNSUPPORTED, f"stream {spec.full_name}: {name} is not supported yet"
            )
    table = spec.source.table
    single = table.name if table.kind == "normal" else spec.source.child
    home = single is not None or "tbname" in spec.partition
    return Definition(
        spec,
        table,
        wal_topic(table.db, table.name),
        single,
        home,
        Clock.of(spec.options, table, home),
        make(spec.trigger, table, spec.options),
        Emission.of(spec),
    )

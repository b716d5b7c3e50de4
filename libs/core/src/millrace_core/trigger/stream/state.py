"""What a stream keeps in a slot: its life (running, stopped, epoch), its groups and their memories, its
counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from millrace_core.errors import WireError
from millrace_core.model.schema import Column, stable_hash
from millrace_core.trigger.groups.columns import Columns, Ints
from millrace_core.trigger.groups.family import Family
from millrace_core.trigger.groups.groups import Groups, Handle, part_of
from millrace_core.trigger.groups.watermark import RANGE, ClockMemory
from millrace_core.trigger.stream.definition import Definition, compiled
from millrace_core.trigger.stream.delay import DelayMemory
from millrace_core.trigger.stream.past import HeldChange, HeldMemory
from millrace_core.trigger.types.forced import PendingMemory
from millrace_core.trigger.types.shown import ShownMemory
from millrace_core.trigger.types.windower import Span
from millrace_core.wire import regroup
from millrace_core.wire.control import Offsets
from millrace_core.wire.events import Group
from millrace_core.wire.reading import name_of

STEADY = frozenset(
    {"rows_read", "rows_used", "late_used", "events_sent", "requests_sent", "recalculated", "last_trigger"}
)
"""Counters that grow with every batch: they are told when a tick comes, not with each message."""
EPOCH_BITS = 32
"""Regrouped messages of one epoch are numbered within this many bits."""


class PartialRow(msgspec.Struct, array_like=True, frozen=True):
    """When a part of a row was ``written`` (ms), and where."""

    written: int
    partition: int
    offset: int


class Life(msgspec.Struct, array_like=True):
    """What a stream in a slot is, apart from its groups. It is kept as it is.

    ``number``, ``sent``: trigger batches and regrouped messages sent so far. ``received``: the last number of
    regrouped messages, by partition of the regroup topic and sending slot. ``seen``: WAL offsets behind the
    regrouped rows. ``totals``: counters of ``wire.counters``.

    ``slots``: the number of slots in the deployment. ``holding``: live rows wait for what lies before them.
    ``stopped_at``: up to where it had evaluated when it was stopped. ``changed``: what was deleted or
    rewritten while it held rows, in that order.

    ``origins``: for a virtual table, ``live_from`` of its sources, by topic. ``origins_stopped``: about where
    these were when it was stopped; ``taken``: what had come from them, exactly (see wire.recalc.Request).
    ``awaited``: deletes that T has not reached: (group id, first, last). ``newest``: the newest time of each
    table whose rows are sent on, if PRE_FILTER may hide an update (see trigger.stream.versions).

    ``untold``: the totals have grown since they were told. ``unknown``: rows (group id, ts) that only the
    stored rows know, and that T has not reached or that came while rows were held. ``divided``: for each
    table whose rows are sent on by their keys, the ids of the groups.

    ``missed_from``: from where on deletes and rewritten rows count although the stream was stopped;
    ``missed``: deletes that came during the stop: (table, first, last); ``rewritten``: times of rows, by
    table, that were rewritten during the stop and may be in another group. ``held_to``: how far the live rows
    reach that it held when it was stopped again.

    ``dirty``: closed windows that changed and are cut again at ``dirty_until`` (ns), as in ``awaited``;
    ``doubtful``: windows that changed only if rows were overwritten (group id, first, last, first and last of
    the rows). ``partial``: rows of tables, by time, that were requested and have not come.

    ``lost``, ``replaced``: as ``changed``, in states that did not keep the order: (table, first, last) and
    (group id, ts).
    """

    definition: bytes
    epoch: int
    live_from: Offsets
    running: bool = True
    gone: bool = False
    number: int = 0
    sent: int = 0
    received: dict[int, dict[int, int]] = {}
    seen: Offsets = {}
    totals: dict[str, int] = {}
    holding: bool = False
    stopped_at: Offsets = {}
    changed: list[HeldChange] = []
    slots: int = 1
    origins: dict[str, Offsets] = {}
    origins_stopped: dict[str, Offsets] = {}
    taken: dict[str, dict[str, int]] = {}
    awaited: list[tuple[int, int, int]] = []
    untold: bool = False
    newest: dict[bytes, int] = {}
    unknown: list[tuple[int, int]] = []
    divided: dict[bytes, set[int]] = {}
    lost: list[tuple[bytes, int, int]] = []
    dirty: list[tuple[int, int, int]] = []
    dirty_until: int = 0
    missed_from: Offsets = {}
    missed: list[tuple[bytes, int, int]] = []
    held_to: Offsets = {}
    rewritten: dict[bytes, set[int]] = {}
    replaced: list[tuple[int, int]] = []
    doubtful: list[tuple[int, int, int, int, int]] = []
    partial: dict[bytes, dict[int, PartialRow]] = {}

    def __post_init__(self) -> None:
        self.changed += [HeldChange(None, first, last, table) for table, first, last in self.lost]
        self.changed += [HeldChange(id_, ts, ts, rewritten=True) for id_, ts in self.replaced]
        self.lost, self.replaced = [], []


class StreamState:
    """One stream in one slot. ``held``: live rows that wait for what lies before them (``stream.past``);
    ``passing``: tables of this batch whose rows are sent on."""

    def __init__(self, life: Life, slot: int) -> None:
        self.life = life
        self.slot = slot
        self.definition: Definition = compiled(life.definition)
        self.uid = self.definition.spec.uid
        self.passing = Groups()
        self._begin()
        self._told = dict(life.totals)

    def _begin(self) -> None:
        windower = self.definition.windower
        self.groups = Groups()
        self.clock = Columns(ClockMemory, windower.columns)
        self.memory = Columns(windower.memory)
        self.delays = Columns(PendingMemory if self.definition.forced else DelayMemory)
        self.shown = Columns(ShownMemory)
        self.held = Columns(HeldMemory, windower.columns)

    # ------------------------------------------------------------------ life

    @property
    def live(self) -> bool:
        """Whether rows trigger it. A stream whose trigger table was dropped stays, but has no rows."""
        return self.life.running and not self.life.gone

    @property
    def all_due(self) -> Ints:
        """When the things that wait for processing time are due, ns, in no order."""
        timer = self.definition.timer
        showing, none = self.definition.showing, np.empty(0, dtype=np.int64)
        due = timer.all_due(self.delays) if timer is not None else none
        shown = showing.all_due(self.shown) if showing is not None else none
        dirty = [self.life.dirty_until] if self.dirty else none
        found: Ints = np.concatenate((due, shown, dirty)).astype(np.int64)
        return found

    @property
    def dirty(self) -> bool:
        """Whether closed windows are to be cut again, at :attr:`Life.dirty_until`."""
        return bool(self.life.dirty or self.life.doubtful)

    @property
    def waits(self) -> bool:
        """Whether something has been deleted or rewritten that T has not reached."""
        return bool(self.life.awaited or self.life.unknown)

    @property
    def doubts(self) -> dict[int, Span]:
        """By group, the times that T has not reached and for which only the stored rows know what there
        is."""
        if not self.waits:
            return {}
        places = self.groups.places()
        found: dict[int, Span] = {}
        for id_, first, last in [*self.life.awaited, *((id_, ts, ts) for id_, ts in self.life.unknown)]:
            if (place := places.get(id_)) is not None:
                span = self._reached(first, last)
                found[place] = span.hull(found.get(place, span))
        return found

    def _reached(self, first: int, last: int) -> Span:
        """Where the windows lie that may be different without the rows in this range."""
        windower, span = self.definition.windower, Span(first, last)
        for one in windower.on_delete(windower.memory(), first, last):
            span = span.hull(Span(one.start, one.end))
        return span

    def redefine(self, definition: bytes) -> None:
        """Go on with the same groups under another definition of the table."""
        self.life.definition = definition
        self.definition = compiled(definition)

    def lose_table(self) -> None:
        """The trigger table is gone, and its groups with it."""
        life = self.life
        life.gone = True
        life.holding, life.changed, life.awaited, life.unknown, life.newest = False, [], [], [], {}
        life.divided, life.dirty, life.missed = {}, [], []
        life.rewritten, life.doubtful, life.partial = {}, [], {}
        self._begin()

    def resume(self, live_from: Offsets, epoch: int) -> None:
        """It runs (again), for rows behind ``live_from``."""
        self.life.running, self.life.live_from, self.life.epoch = True, live_from, epoch
        # a stream that was set aside may have sent more than it remembers; receivers pass over old numbers
        self.life.sent = max(self.life.sent, epoch << EPOCH_BITS)

    # ------------------------------------------------------------------ groups

    @property
    def until(self) -> Ints:
        """T of each group; meaningless for one that has seen no row."""
        found: Ints = np.maximum(self.clock.singles["newest"], -RANGE) - self.definition.clock.watermark
        return found

    def origin(self, place: int) -> int | None:
        """The group's origin, as :meth:`Windower.origin_of` gives it."""
        return self.definition.windower.origin_of(self.memory.get(place))

    @property
    def places(self) -> Groups:
        """The groups by table, in which a table's rows find their place."""
        return self.groups if self.definition.by_table else self.passing

    def place(self, name: bytes, family: Family) -> int:
        """The group of a table's rows, created if need be; -1 if the table is not known."""
        found = self.places.index.get(name)
        if found is not None:
            return found
        spec, table = self.definition.spec, self.definition.table
        try:
            text = name_of(name)
        except WireError:
            return -1  # calc-svc makes dead letters of messages with this key
        normal = table.kind == "normal"
        if name in family.dropped or (self.definition.reads_tags and name not in family.tags):
            return -1
        key = self._key(text, family.tags.get(name, ()), family.order or table.tags)
        if key is None:
            return -1
        if not spec.partition:
            id_ = 0
        elif "tbname" in spec.partition:
            id_ = table.uid if normal else family.uid(table.db, name)
        else:
            id_ = stable_hash(spec.uid, *key)
        return self.places.add(name, id_, key, name if self.definition.home else None)

    def _key(self, tbname: str, values: tuple[Any, ...], order: tuple[Column, ...]) -> tuple[Any, ...] | None:
        """The key of the group of a table with these tags; None if a tag of the grouping was dropped."""
        places = {tag.identity: place for place, tag in enumerate(order)}
        key: list[Any] = []
        for name in self.definition.spec.partition:
            tag = self.definition.table.tag(name)
            if name == "tbname" or tag is None:
                key.append(tbname)
            elif tag.identity in places:
                key.append(values[places[tag.identity]])
            else:
                return None
        return tuple(key)

    def place_of(self, group: Group) -> int:
        """The place of a group, created if need be; -1: its table has been replaced by a newer one of that
        name."""
        table = None if group.table is None else group.table.encode()
        handle: Handle = table if self.definition.by_table and table is not None else group.id
        found = self.groups.index.get(handle)
        if found is None:
            return self.groups.add(handle, group.id, group.key, table)
        return found if self.groups.ids[found] == group.id else -1

    def part_of(self, table: bytes, base: Group, values: tuple[Any, ...]) -> int:
        """The group of those rows of a table whose keys have these values, created if need be: its place
        among the groups evaluated here, or among those whose rows are sent on. ``base``: what the table is
        grouped as."""
        return self.place_of_part(table, part_of(base, self.uid, values))

    def place_of_part(self, table: bytes, group: Group) -> int:
        """As :meth:`part_of`, for a group that is known; -1: its table has been replaced by a newer one of
        that name."""
        if self.definition.home:
            return self.place_of(group)
        self.life.divided.setdefault(table, set()).add(group.id)
        found = self.passing.index.get(group.id)
        if found is not None and self.passing.keys[found] == group.key:  # not one that parts_of has added
            return found
        return self.passing.add(group.id, group.id, group.key, None)

    def parts_of(self, table: bytes) -> list[int]:
        """The groups that have had rows of a table, as far as this slot knows; places as :meth:`part_of`
        gives them. For groups whose rows are sent on, only the ids are known."""
        if self.definition.home:
            return self.groups.of_table(table)
        index, ids = self.passing.index, sorted(self.life.divided.get(table, ()))
        return [index[id_] if id_ in index else self.passing.add(id_, id_, (), None) for id_ in ids]

    def strangers(self) -> list[int]:
        """Stand-ins for groups whose rows come from history, of which this slot knows nothing: one for each
        slot that may have such groups; places as :meth:`parts_of` gives them."""
        definition = self.definition
        if definition.home or not definition.keys or not definition.fills_history:
            return []
        ids = [regroup.nobody_of(self.uid, slot, self.life.slots) for slot in range(self.life.slots)]
        index = self.passing.index
        return [index[id_] if id_ in index else self.passing.add(id_, id_, (), None) for id_ in ids]

    def end(self, table: bytes) -> None:
        """A table no longer exists, and neither does what belongs to it alone."""
        if self.definition.home and not self.definition.by_table:
            for place in self.groups.of_table(table):
                self.groups.end(self.groups.ids[place])
        self.places.end(table)
        self.life.newest.pop(table, None)
        self.life.divided.pop(table, None)
        self.life.partial.pop(table, None)

    @property
    def _columns(self) -> tuple[Columns, ...]:
        return self.clock, self.memory, self.delays, self.held, self.shown

    def grow(self) -> None:
        """Make room for all existing groups."""
        for columns in self._columns:
            columns.grow(len(self.groups))

    def sweep(self) -> None:
        """Forget the groups that ended."""
        count = len(self.groups)
        kept = self.groups.sweep()
        if kept is not None:
            for columns in self._columns:
                columns.grow(count)
                columns.keep(kept)

    # ------------------------------------------------------------------ counters

    def count(self, counter: str, more: int) -> None:
        """Add to one of the counters that ``wire.counters`` lists."""
        if more:
            self.life.totals[counter] = self.life.totals.get(counter, 0) + more

    def count_sent(self, events: int, at: int) -> None:
        """Count trigger events that are sent; ``at``: when the cause of the last one was written, ns."""
        self.count("events_sent", events)
        totals = self.life.totals
        totals["last_trigger"] = max(at, totals.get("last_trigger", at))

    def news(self, ticked: bool) -> dict[str, int] | None:
        """The totals, if they are to be told now. At a tick: if they have changed since they were last told.
        Otherwise: only if a counter has changed that does not change all the time."""
        life, told = self.life, self._told
        changed = {name for name, total in life.totals.items() if told.get(name) != total}
        life.untold = life.untold or bool(changed)
        if not life.untold or not (ticked or changed - STEADY):
            return None
        life.untold = False
        self._told = dict(life.totals)
        return self._told

    # ------------------------------------------------------------------ as bytes

    def dump(self, more: Any) -> list[Any]:
        """Plain data for msgpack; ``more``: what only this kind of stream keeps."""
        plain = self.definition.by_table and self.definition.spec.partition == ("tbname",)
        return [self.life, self.groups.dump(plain), self.clock.dump(), self.memory.dump(), more]

    @staticmethod
    def life_of(data: list[Any]) -> Life:
        """The life in what :meth:`dump` has made."""
        return msgspec.convert(data[0], Life)

    def load(self, data: list[Any], load_more: Callable[[Any], None]) -> None:
        """The inverse of :meth:`dump`, into a state with this life."""
        _, groups, clock, memory, *more = data
        self.groups.load(groups, self.definition.by_table)
        self.clock.load(clock)
        self.memory.load(memory)
        if more:
            load_more(more[0])

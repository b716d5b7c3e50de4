"""A stream in a slot: its life (running, stopped, epoch), its groups and their memories, its counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import msgspec
import numpy as np

from millrace_core.errors import WireError
from millrace_core.model.schema import Column, Table, stable_hash
from millrace_core.trigger.groups.columns import Columns, Ints, starts_of
from millrace_core.trigger.groups.family import Family
from millrace_core.trigger.groups.groups import Groups
from millrace_core.trigger.groups.watermark import Arrivals, ClockMemory
from millrace_core.trigger.rows.intake import Messages, TableRows, arrivals
from millrace_core.trigger.rows.signals import Signal
from millrace_core.trigger.stream.definition import Definition, compiled
from millrace_core.trigger.stream.delay import FAR, NS_PER_MS, DelayMemory
from millrace_core.trigger.windower import RECALC, Occurrences
from millrace_core.wire import events, regroup
from millrace_core.wire.control import Offsets, Tick
from millrace_core.wire.events import Group, TriggerBatch, TriggerEvent
from millrace_core.wire.reading import name_of
from millrace_core.wire.recalc import Taken
from millrace_core.wire.topics import REGROUP, TRIGGERS

EVENTS_PER_BATCH = 2_000  # keeps a trigger message below a few hundred kB
STEADY = frozenset(
    {"rows_read", "rows_used", "late_used", "events_sent", "requests_sent", "recalculated", "last_trigger"}
)
"""Counters that grow with every batch: they are told when a tick comes, not with each message."""
Output = tuple[str, bytes, bytes]
"""A message to send: topic, key, value."""


class Life(msgspec.Struct, array_like=True):
    """What a stream in a slot is, apart from its groups; kept as it is.

    ``number``, ``sent``: trigger batches and regrouped messages sent so far. ``received``: the last number of
    regrouped messages, by partition of the regroup topic and sending slot. ``seen``: WAL offsets behind the
    regrouped rows. ``totals``: counters of ``wire.counters``.

    ``slots``: of the deployment. ``holding``: live rows wait for what lies before them. ``stopped_at``: up to
    where it had judged when it was stopped. ``deleted``: deletes while it held rows: (group id, first, last).
    ``origins``: of a virtual table: ``live_from`` of its sources, by topic. ``origins_stopped``: about where
    these were when it was stopped; ``taken``: what had come from them, exactly (see wire.recalc.Request).
    ``awaited``: deletes that T has not reached, as in ``deleted``. ``newest``: time of each table whose rows
    are sent on, where PRE_FILTER may hide an update (see trigger.stream.versions).
    ``untold``: the totals have grown since they were told. ``unknown``: rows (group id, ts) of which only the
    stored rows know what they are, and which T has not reached, or that came while rows were held.
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
    deleted: list[tuple[int, int, int]] = []
    slots: int = 1
    origins: dict[str, Offsets] = {}
    origins_stopped: dict[str, Offsets] = {}
    taken: dict[str, dict[str, int]] = {}
    awaited: list[tuple[int, int, int]] = []
    untold: bool = False
    newest: dict[bytes, int] = {}
    unknown: list[tuple[int, int]] = []


class Stream:
    """One stream in one slot."""

    def __init__(self, life: Life, slot: int) -> None:
        self.life = life
        self.slot = slot
        self.definition: Definition = compiled(life.definition)
        self.uid = self.definition.spec.uid
        self.groups = Groups()
        self.passing = Groups()
        """Tables of this batch whose rows are sent on."""
        windower = self.definition.windower
        self.clock = Columns(ClockMemory, windower.columns)
        self.memory = Columns(windower.memory)
        self.delays = Columns(DelayMemory)
        self.expires = True
        """Whether rows may be too old: live ones may, those of history are not (seed 000)."""
        self._told = dict(life.totals)

    @property
    def live(self) -> bool:
        """Whether rows trigger it. A stream whose trigger table was dropped stays, without any."""
        return self.life.running and not self.life.gone

    @property
    def waits(self) -> bool:
        """Whether something has been deleted or rewritten that T has not reached."""
        return bool(self.life.awaited or self.life.unknown)

    def redefine(self, definition: bytes) -> None:
        """Go on with the same groups under another definition of the table."""
        self.life.definition = definition
        self.definition = compiled(definition)

    def lose_table(self) -> None:
        """The trigger table is gone, and its groups with it."""
        windower = self.definition.windower
        self.life.gone = True
        self.groups = Groups()
        self.clock, self.memory = Columns(ClockMemory, windower.columns), Columns(windower.memory)
        self.delays = Columns(DelayMemory)

    def begin(self, slots: int, at: int) -> None:
        """It was defined at processing time ``at`` (ns), in a deployment of so many slots."""

    def stop(self, seen: Offsets, origins: Mapping[str, Offsets], taken: Taken) -> None:
        """It judges no more. ``seen``: what its slot has seen of the trigger table; ``origins``: about where
        the sources of a virtual table are, ``taken``: what this slot has taken from them."""
        self.life.running = False

    def resume(self, live_from: Offsets, epoch: int, at: int) -> None:
        """It runs (again), for rows behind ``live_from``, since processing time ``at`` (ns)."""
        self.life.running, self.life.live_from, self.life.epoch = True, live_from, epoch

    def meet(self, name: bytes, family: Family) -> None:
        """A child table of this name is there."""

    def part(self, name: bytes) -> None:
        """The child table of this name is there no more."""
        self.places.end(name)

    def take_outgoing(self) -> list[Output]:
        """What it has to send besides what came of rows and ticks."""
        return []

    # ------------------------------------------------------------------ rows of tables in this slot

    def wants(self, messages: Messages) -> Any:
        """bool[messages]: those that trigger this stream."""
        begin = self.life.live_from
        if len(messages) and messages.partition[0] == messages.partition[-1]:
            mask = messages.offset >= begin.get(int(messages.partition[0]), 0)
        else:
            last = int(messages.partition.max(initial=0))
            floor = np.array([begin.get(partition, 0) for partition in range(last + 1)], dtype=np.int64)
            mask = messages.offset >= floor[messages.partition]
        single = self.definition.single
        if single is not None:
            # a normal table's messages may come without a key
            names = {None, single.encode()} if self.definition.table.kind == "normal" else {single.encode()}
            mask &= messages.keyed(names)
        return mask

    @property
    def places(self) -> Groups:
        """Where the rows of a table go."""
        return self.groups if self.definition.home else self.passing

    def place(self, name: bytes, family: Family) -> int:
        """The group of a table's rows, made if need be; -1 if the table is not known."""
        found = self.places.index.get(name)
        if found is not None:
            return found
        spec, table = self.definition.spec, self.definition.table
        try:
            text = name_of(name)
        except WireError:
            return -1  # calc-svc makes dead letters of its messages
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
        """The key of the group of a table with these tags; None where a tag of the grouping was dropped."""
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

    def judge_table(
        self, rows: TableRows, group: Ints, messages: Messages, seen: Offsets
    ) -> Iterator[Output]:
        """Rows of the stream's tables: judged here, or sent on to their groups' slots."""
        arrived, message = arrivals(rows, group, self.definition.windower.signals)
        written = messages.timestamp[message]
        if self.definition.home:
            yield from self._judge(arrived, written, seen)
        else:
            yield from self._send_on(arrived, written, seen, messages, message)

    def _send_on(
        self, rows: Arrivals, written: Ints, seen: Offsets, messages: Messages, message: Ints
    ) -> Iterator[Output]:
        if not len(rows.group):
            return
        begins = starts_of(rows.group).tolist()
        for begin, end in zip(begins, [*begins[1:], len(rows.group)], strict=True):
            group = self.passing.get(int(rows.group[begin]))
            name = messages.key_of(int(message[begin])) or b""
            self.life.sent += 1
            sent = regroup.Regrouped(
                self.uid, self.life.epoch, self.slot, self.life.sent, group, name.decode(), seen,
                int(written[begin:end].max()), rows.ts[begin:end].astype("<i8").tobytes(),
            )  # fmt: skip
            yield REGROUP.name, regroup.key(self.uid, group.id), regroup.encode(sent)

    # ------------------------------------------------------------------ regrouped rows

    def judge_regrouped(self, received: list[tuple[int, regroup.Regrouped]]) -> Iterator[Output]:
        """Rows that other slots sent: (partition of the regroup topic, message), in order.

        A message that was sent again after a restart has a number that was seen: within a partition of the
        topic the numbers of one sender only grow. Tables reach a group in no promised order, so the rows of a
        batch are put in the order of their times: the fewer are late.
        """
        fresh: list[regroup.Regrouped] = []
        for message in self._unseen(received):
            if message.epoch == self.life.epoch:
                fresh.append(message)
                for wal_partition, offset in message.seen.items():
                    self.life.seen[wal_partition] = max(offset, self.life.seen.get(wal_partition, 0))
        if not fresh:
            return
        parts = [np.frombuffer(message.ts, dtype="<i8") for message in fresh]
        sizes = [len(part) for part in parts]
        group = np.repeat([self._group(message.group) for message in fresh], sizes)
        ts = np.concatenate(parts).astype(np.int64)
        written = np.repeat([message.written for message in fresh], sizes)
        order = np.lexsort((ts, group))
        yield from self._judge(Arrivals(group[order], ts[order]), written[order], self.life.seen)

    def _unseen(self, received: list[tuple[int, regroup.Regrouped]]) -> Iterator[regroup.Regrouped]:
        """The messages that have not come before."""
        for partition, message in received:
            numbers = self.life.received.setdefault(partition, {})
            if message.number > numbers.get(message.slot, 0):
                numbers[message.slot] = message.number
                yield message

    def _group(self, group: Group) -> int:
        found = self.groups.index.get(group.id)
        return self.groups.add(group.id, group.id, group.key, None) if found is None else found

    # ------------------------------------------------------------------ both

    def _judge(self, rows: Arrivals, written: Ints, seen: Offsets) -> Iterator[Output]:
        definition = self.definition
        self.clock.grow(len(self.groups))
        self.memory.grow(len(self.groups))
        clock = definition.clock if self.expires else replace(definition.clock, expired=None)
        judged = clock.judge(self.clock, rows)
        found = definition.windower.on_rows(self.memory, judged)
        if definition.delay is not None:
            self.delays.grow(len(self.groups))
            touched = np.unique(np.concatenate((judged.group, judged.moves.group))).tolist()
            definition.delay.follow(self.delays, self.memory, touched, found, written)
        unused = definition.windower.unused(judged)
        for cause, count in (judged.dropped | unused).items():
            self.count(cause, count)
        self.count("empty_windows", found.skipped)
        self.count("rows_used", len(judged.group) - sum(unused.values()))
        self.count("late_used", int(judged.late.sum()))
        yield from self._tell(found, written, seen)

    def _tell(self, found: Occurrences, written: Ints, seen: Offsets) -> Iterator[Output]:
        """The events that somebody wants; ``written[step]``: Kafka's timestamp (ms) of a step's cause."""
        definition, life = self.definition, self.life
        found = definition.emission.arrange(found)
        self.count("recalculated", int((found.cause == RECALC).any()))
        if len(found):
            self._count_sent(len(found), int(written[found.step].max()) * NS_PER_MS)
        for begin in range(0, len(found), EVENTS_PER_BATCH):
            part = found.take(np.arange(begin, min(begin + EVENTS_PER_BATCH, len(found))))
            life.number += 1
            batch = TriggerBatch(
                self.uid, life.epoch, self.slot, life.number, seen,
                definition.emission.events(part, self.groups.get, written),
            )  # fmt: skip
            yield TRIGGERS.name, f"{self.uid}/{self.slot}".encode(), events.encode(batch)

    # ------------------------------------------------------------------ processing time

    @property
    def due(self) -> int:
        """The first processing time (ns) such that a tick that reaches it may mean something to it."""
        delay = self.definition.delay
        return FAR if delay is None or not self.live else delay.due(self.delays)

    def on_tick(self, tick: Tick, seen: Offsets) -> Iterator[Output]:
        """Processing time moved on; ``seen``: offsets of the trigger table that this slot has seen."""
        delay = self.definition.delay
        if delay is None or self.due > tick.reach:
            return
        found = delay.fire(self.delays, self.memory, tick.reach)
        seen = seen if self.definition.home else self.life.seen
        yield from self._tell(found, np.array([tick.now // NS_PER_MS]), seen)

    def farewells(self, seen: Offsets) -> Iterator[Output]:
        """DELETE_OUTPUT_TABLE: groups whose table was dropped in this batch, after all their events."""
        if not (self.groups.ended and self.definition.spec.options.delete_output_table):
            return
        ended = [self.groups.get(place) for place in self.groups.ended]
        gone = [TriggerEvent("", "GONE", "LIVE", group, 0, 0, 0, 0) for group in ended]
        self.life.number += 1
        batch = TriggerBatch(self.uid, self.life.epoch, self.slot, self.life.number, seen, gone)
        yield TRIGGERS.name, f"{self.uid}/{self.slot}".encode(), events.encode(batch)

    # ------------------------------------------------------------------ counters, state

    def count(self, counter: str, more: int) -> None:
        """Add to one of the counters that ``wire.counters`` lists."""
        if more:
            self.life.totals[counter] = self.life.totals.get(counter, 0) + more

    def _count_sent(self, events: int, at: int) -> None:
        """Trigger events go out; ``at``: when what caused the last of them was written, ns."""
        self.count("events_sent", events)
        totals = self.life.totals
        totals["last_trigger"] = max(at, totals.get("last_trigger", at))

    def news(self, ticked: bool) -> dict[str, int] | None:
        """The totals, if they are to be told now: at a tick if they have changed since they were told, else
        only if something has changed in this batch that does not change all the time."""
        life, told = self.life, self._told
        changed = {name for name, total in life.totals.items() if told.get(name) != total}
        life.untold = life.untold or bool(changed)
        if not life.untold or not (ticked or changed - STEADY):
            return None
        life.untold = False
        self._told = dict(life.totals)
        return self._told

    def sweep(self) -> None:
        """Forget the groups that ended."""
        count = len(self.groups)
        kept = self.groups.sweep()
        if kept is not None:
            for columns in (self.clock, self.memory, self.delays):
                columns.grow(count)
                columns.keep(kept)

    def dump(self) -> list[Any]:
        plain = self.definition.home and self.definition.spec.partition == ("tbname",)
        return [self.life, self.groups.dump(plain), self.clock.dump(), self.memory.dump(), self._dump_more()]

    def _dump_more(self) -> Any:
        return self.delays.dump() if self.definition.delay else None

    def _load_more(self, data: Any) -> None:
        if data is not None:
            self.delays.load(data)

    @classmethod
    def load(cls, data: list[Any], slot: int) -> Self:
        life, groups, clock, memory, *more = data
        stream = cls(msgspec.convert(life, Life), slot)
        stream.groups.load(groups, stream.definition.home)
        stream.clock.load(clock)
        stream.memory.load(memory)
        if more:
            stream._load_more(more[0])
        return stream


def signals_of(streams: list[Stream], table: Table) -> list[tuple[Table, list[Signal]]]:
    """What the streams read of a row, by the definition of the table in whose words they say it. All in the
    words of the table as it is: the usual case, one entry."""
    found: dict[Table, dict[Signal, None]] = {}
    for stream in streams:
        found.setdefault(stream.definition.table, {}).update(dict.fromkeys(stream.definition.signals))
    return [(words, list(signals)) for words, signals in found.items()] or [(table, [])]

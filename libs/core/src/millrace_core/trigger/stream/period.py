"""A PERIOD stream in a slot: which groups exist, and what a tick does for them.

Groups exist even without rows. The group of one table, or of each child table (PARTITION BY tbname), exists
in the table's slot from the creation of the table on. Groups by tags exist in the group's slot, as long as
some slot has a child table in the group; the slots of the tables report when their first child of a group
comes and when the last one goes (``change`` of :class:`Regrouped`). Without grouping there is one group, in
the slot of its key, from the definition on.

An instant fires on the first tick that is not before it, if the clock has been watching since before it. What
was planned while the service was away, or before the stream ran, no longer fires. ``%%trows`` is what was
written to the trigger table from the last tick that fired to this one, by offsets: each row once.

IGNORE_NODATA_TRIGGER: a row may reach its group after the tick that follows it, because it travels through
the regroup topic. So the last instant stays open for groups without rows: it fires when a row comes that was
written before the instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from millrace_core.timeline import Schedule
from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.groups.family import Family
from millrace_core.trigger.groups.groups import Groups
from millrace_core.trigger.rows.intake import Messages
from millrace_core.trigger.stream.delay import FAR
from millrace_core.trigger.stream.in_slot import StreamInSlot
from millrace_core.trigger.stream.routes import Received
from millrace_core.trigger.stream.state import Life
from millrace_core.trigger.stream.telling import Output
from millrace_core.trigger.stream.versions import Passed
from millrace_core.trigger.types.clock import News, NewsMemory
from millrace_core.wire.control import Offsets, Tick
from millrace_core.wire.events import Group, TriggerEvent, trigger_id
from millrace_core.wire.recalc import Taken

JOIN, LEAVE = 1, -1


class Progress(msgspec.Struct, array_like=True):
    """How far a stream has come. ``began``: since when it runs, ns. ``instant``: the last one that fired;
    ``before``: the one before it (0: none). ``ends``: the ends of the table's topic at that instant;
    ``since``: those at the one before.

    ``members``: the tables of this slot and their groups, if those belong to other slots. ``present``: for
    each group of this slot, the slots that have tables of it.
    """

    began: int = 0
    instant: int = 0
    before: int = 0
    since: Offsets = {}
    ends: Offsets = {}
    members: dict[bytes, int] = {}
    present: dict[int, list[int]] = {}


class PeriodStream(StreamInSlot):
    """See the module."""

    def __init__(self, life: Life, slot: int) -> None:
        super().__init__(life, slot)
        self.progress = Progress()
        self._outgoing: list[Output] = []
        self._in_group: Counter[int] = Counter()

    @property
    def lets_go(self) -> bool:
        """It holds no rows."""
        return False

    @property
    def schedule(self) -> Schedule:
        assert self.definition.schedule is not None, "it is a PERIOD stream"
        return self.definition.schedule

    @property
    def only_with_data(self) -> bool:
        return self.definition.spec.options.ignore_nodata_trigger

    # ------------------------------------------------------------------ life

    def begin(self, slots: int, at: int) -> None:
        """It was defined at processing time ``at`` (ns), in a deployment of that many slots."""
        self._start(at)
        definition = self.definition
        if definition.home and definition.single is not None:
            self.state.place(definition.single.encode(), Family())
        elif not definition.spec.partition and definition.ungrouped_slot(slots) == self.slot:
            self.state.place_of(Group(0, (), None))

    def stop(self, seen: Offsets, origins: Mapping[str, Offsets], taken: Taken) -> None:
        """It no longer fires; its position in the log does not matter."""
        self.life.running = False

    def resume(self, live_from: Offsets, epoch: int, at: int) -> None:
        """It runs (again), for rows behind ``live_from``, since processing time ``at`` (ns)."""
        self.state.resume(live_from, epoch)
        self._start(at)

    def _start(self, at: int) -> None:
        """Earlier rows, and instants up to now, do not concern it."""
        self.progress.began = at
        self.progress.since = self.progress.ends = dict(self.life.live_from)
        self.memory.grow(len(self.groups))
        self.memory.put({place: NewsMemory() for place in range(len(self.groups))})

    def lose_table(self) -> None:
        """The trigger table is gone, and its groups with it."""
        super().lose_table()
        self.progress.members, self.progress.present = {}, {}
        self._in_group.clear()

    # ------------------------------------------------------------------ which groups there are

    def meet(self, name: bytes, family: Family) -> None:
        """A child table of this name is there."""
        definition = self.definition
        if definition.single not in (None, name.decode("utf-8", "replace")):
            return
        found = self.state.place(name, family)
        if found >= 0 and not definition.home:
            self._join(name, self.passing.get(found))

    def part(self, name: bytes) -> None:
        """The child table of this name no longer exists."""
        self.state.places.end(name)
        self._leave(name)

    def _join(self, name: bytes, group: Group) -> None:
        members = self.progress.members
        if not group.key or members.get(name) == group.id:
            return
        self._leave(name)
        members[name] = group.id
        self._in_group[group.id] += 1
        if self._in_group[group.id] == 1:
            self._send(group, name, change=JOIN)

    def _leave(self, name: bytes) -> None:
        group = self.progress.members.pop(name, None)
        if group is not None:
            self._in_group[group] -= 1
            if not self._in_group[group]:
                self._send(Group(group, (), None), name, change=LEAVE)

    def _send(self, group: Group, name: bytes, change: int = 0, news: News | None = None) -> None:
        """To the group's slot."""
        self._outgoing.append(self.routes.send(group, name, {}, 0, change=change, news=news or {}))

    def take_outgoing(self) -> list[Output]:
        """What it has to send, other than the results of rows and ticks."""
        outgoing, self._outgoing = self._outgoing, []
        self.passing = Groups()
        return outgoing

    # ------------------------------------------------------------------ rows

    def wants(self, messages: Messages) -> Any:
        """The messages that matter. Rows show that their table exists and that there is data: they matter
        only if one of these is new."""
        mask = self.routes.wants(messages)
        if self.only_with_data:
            return mask
        if not self.definition.spec.partition:
            return np.zeros_like(mask)
        known = self.groups.index if self.definition.home else self.progress.members
        return mask & ~messages.keyed(known)

    def judge_versions(self, passed: Passed, messages: Messages, seen: Offsets) -> Iterator[Output]:
        """Note rows; other versions of theirs take nothing out of what has come."""
        for name, place in self.passing.index.items():  # empty if the groups belong to this slot
            assert isinstance(name, bytes), "tables are found by name"
            self._join(name, self.passing.get(place))
        if not self.only_with_data:
            return
        held, group, own = np.unique(passed.rows.message), passed.group, passed.messages
        held = held[group[held] >= 0]
        news = _news(group[held], own.partition[held], own.offset[held])
        if self.definition.home:
            yield from self._take_news(news)
            return
        names = {place: name for name, place in self.passing.index.items()}
        for place, mine in news.items():
            name = names[place]
            assert isinstance(name, bytes), "tables are found by name"
            self._send(self.passing.get(place), name, news=mine)

    def judge_regrouped(self, received: Received) -> Iterator[Output]:
        """Take reports from the tables' slots. Those sent before a START count too: offsets show what is
        old."""
        news: dict[int, News] = {}
        for message in self.routes.unseen(received):
            present = self.progress.present.get(message.group.id, [])
            if message.change == JOIN:
                self.progress.present[message.group.id] = sorted({*present, message.slot})
                self.state.place_of(message.group)
            elif message.change == LEAVE:
                left = [slot for slot in present if slot != message.slot]
                self.progress.present[message.group.id] = left
                if not left:
                    del self.progress.present[message.group.id]
                    self.groups.end(message.group.id)
            elif message.group.id in self.groups.index:
                place = self.groups.index[message.group.id]
                news[place] = _with(news.get(place, {}), message.news)
        yield from self._take_news(news)

    def _take_news(self, news: dict[int, News]) -> Iterator[Output]:
        """Messages with rows have come for these groups: the last instant may have waited for them."""
        self.memory.grow(len(self.groups))
        changed: dict[int, msgspec.Struct] = {}
        for place, mine in news.items():
            memory = self.memory.get(place)
            assert isinstance(memory, NewsMemory)
            told = self.life.live_from if memory.told is None else memory.told
            fresh = {p: (max(a, told.get(p, 0)), b) for p, (a, b) in mine.items() if b >= told.get(p, 0)}
            changed[place] = NewsMemory(memory.told, _with(memory.news or {}, fresh) or None)
        self.memory.put(changed)
        if self.progress.instant > self.progress.began:
            yield from self._tell_all(self._fire(sorted(news)))

    # ------------------------------------------------------------------ ticks

    @property
    def due(self) -> int:
        if not self.live:
            return FAR
        return self.schedule.after(max(self.progress.instant, self.progress.began))

    def on_tick(self, tick: Tick, seen: Offsets) -> Iterator[Output]:
        """Fire all planned instants up to now that the clock did not miss; the first one gets the rows."""
        topic = self.definition.topic
        ends = tick.ends.get(topic) if topic else {}
        progress = self.progress
        after = max(progress.instant, progress.began, tick.since)
        if ends is None or self.life.gone:
            return
        found: list[TriggerEvent] = []
        self.memory.grow(len(self.groups))
        for instant in self.schedule.between(after, tick.now).tolist():
            progress.before = progress.instant or self.schedule.at_or_before(instant - 1)
            progress.instant = instant
            progress.since, progress.ends = progress.ends, {**progress.ends, **ends}
            found += self._fire(range(len(self.groups)))
        yield from self._tell_all(found)

    def _fire(self, places: Iterable[int]) -> list[TriggerEvent]:
        """The events of the last instant for these groups, if they have one."""
        progress = self.progress
        if not self.only_with_data:
            return [self._event(place, progress.since) for place in places]
        found: list[TriggerEvent] = []
        changed: dict[int, msgspec.Struct] = {}
        for place in places:
            memory = self.memory.get(place)
            assert isinstance(memory, NewsMemory)
            news: News = memory.news or {}
            if any(first < progress.ends.get(p, 0) for p, (first, _) in news.items()):
                found.append(self._event(place, self.life.live_from if memory.told is None else memory.told))
                # other later messages may lie between, but only the last one is known
                rest = {p: (b, b) for p, (_, b) in news.items() if b >= progress.ends.get(p, 0)}
                changed[place] = NewsMemory(progress.ends, rest or None)
        self.memory.put(changed)
        return found

    def _event(self, place: int, since: Offsets) -> TriggerEvent:
        progress, group = self.progress, self.groups.get(place)
        written = {p: (min(since.get(p, 0), end), end) for p, end in progress.ends.items()}
        return TriggerEvent(
            trigger_id(self.uid, group.id, progress.instant), "ON_TIME", "LIVE", group, progress.before,
            progress.instant, 0, progress.instant, self.schedule.after(progress.instant),
            written=written if self.definition.topic else None,
        )  # fmt: skip

    def _tell_all(self, found: list[TriggerEvent]) -> Iterator[Output]:
        return self.telling.tell_all(found, self.progress.ends, self.progress.instant)

    # ------------------------------------------------------------------ the end of a batch, and state

    def _dump_more(self) -> Progress:
        return self.progress

    def _load_more(self, data: Any) -> None:
        self.progress = msgspec.convert(data, Progress)
        self._in_group = Counter(self.progress.members.values())


def _news(group: Ints, partition: Ints, offset: Ints) -> dict[int, News]:
    """Messages with rows by group."""
    found: dict[int, News] = {}
    for place, p, at in zip(group.tolist(), partition.tolist(), offset.tolist(), strict=True):
        found[place] = _with(found.get(place, {}), {p: (at, at)})
    return found


def _with(one: News, other: News) -> News:
    """Both together."""
    found = dict(one)
    for p, (first, last) in other.items():
        low, high = found.get(p, (first, last))
        found[p] = (min(low, first), max(high, last))
    return found

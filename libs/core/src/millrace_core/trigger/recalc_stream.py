"""A stream that can recalculate: what it asks calc-svc for, and what it is handed of the past.

It asks (topic ``recalc``) for closed windows that late rows, updates and deletes touched, for what
RECALCULATE STREAM names, and for history. While it waits for history, live rows are held (``trigger.past``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from millrace_core.model.stream import Count
from millrace_core.trigger.columns import Columns, Ints
from millrace_core.trigger.delay import NS_PER_MS
from millrace_core.trigger.family import Family
from millrace_core.trigger.groups import Groups
from millrace_core.trigger.intake import Messages
from millrace_core.trigger.past import (
    HeldMemory,
    arrivals_of,
    drop_held,
    hold,
    parts_of,
    release,
    stretches,
)  # fmt: skip
from millrace_core.trigger.stream import Life, Output, Stream
from millrace_core.trigger.versions import Versions, spans_of
from millrace_core.trigger.watermark import NEVER, RANGE, Arrivals
from millrace_core.trigger.windower import HISTORY, LIVE, REDO, Occurrences, as_arrays
from millrace_core.wire import recalc, regroup
from millrace_core.wire.control import Offsets
from millrace_core.wire.events import Group
from millrace_core.wire.recalc import Handover, Part, Past, Request, Taken, Why
from millrace_core.wire.topics import RECALC, REGROUP


class RecalcStream(Stream):
    """See the module."""

    def __init__(self, life: Life, slot: int) -> None:
        super().__init__(life, slot)
        self.held = Columns(HeldMemory, self.definition.windower.columns)
        self._outgoing: list[Output] = []
        self._cause = LIVE

    @property
    def until(self) -> Ints:
        """T of each group; meaningless for one that has seen no row."""
        found: Ints = np.maximum(self.clock.singles["newest"], -RANGE) - self.definition.clock.watermark
        return found

    def take_outgoing(self) -> list[Output]:
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    # ------------------------------------------------------------------ life

    def begin(self, slots: int, at: int) -> None:
        self.life.slots = slots
        self._ask_for_history(at)

    def resume(self, live_from: Offsets, epoch: int, at: int) -> None:
        super().resume(live_from, epoch, at)
        if self.definition.fills_history:
            self.life.newest = {}  # what was written meanwhile may be newer

    def part(self, name: bytes) -> None:
        super().part(name)
        self.life.newest.pop(name, None)

    def _history_from(self) -> int | None:
        options = self.definition.spec.options
        return options.fill_history if options.fill_history is not None else options.fill_history_first

    def _ask_for_history(self, at: int) -> None:
        start = self._history_from()
        if start is not None:
            self._wait(self._request("HISTORY", [], {}, at, (max(start, -RANGE), RANGE)), {}, {})

    def _wait(self, request: Request, since: Offsets, origins: Mapping[str, Offsets]) -> None:
        """Hold live rows until what lies between ``since`` (in a virtual table's sources: ``origins``) and
        them has been told."""
        life = self.life
        spans = {topic: stretches(origins.get(topic, {}), ends) for topic, ends in life.origins.items()}
        spans = {topic: span for topic, span in spans.items() if span}
        written = {} if self.definition.table.virtual else stretches(since, life.live_from)
        life.holding = bool(written or spans)
        if life.holding:
            request = msgspec.structs.replace(
                request, seen=dict(life.live_from), written=written, origins=spans
            )
            self._outgoing.append(self._sent(request))

    def stop(self, seen: Offsets, origins: Mapping[str, Offsets], taken: Taken) -> None:
        """``seen``: what its slot has seen of the trigger table; ``origins``: about where the sources of a
        virtual table are, ``taken``: what this slot has taken from them."""
        life, home = self.life, self.definition.home
        seen = seen if home else life.seen
        life.running = False
        partitions = life.live_from.keys() | seen.keys()
        life.stopped_at = {p: max(seen.get(p, 0), life.live_from.get(p, 0)) for p in partitions}
        # a group of several tables does not know what these have taken, in other slots
        life.origins_stopped = life.origins if home else dict(origins)
        wanted = home and self._history_from() is not None
        life.taken = {name: dict(offsets) for name, offsets in taken.items()} if wanted else {}

    def catch_up(self, untreated: bool, origins: Mapping[str, Offsets], at: int) -> None:
        """It has been started again; ``untreated``: what was written meanwhile is history; ``origins``: where
        it is live from in the sources of a virtual table."""
        life = self.life
        life.origins = dict(origins)
        if life.holding:
            self._ask_for_history(at)
        elif untreated and self._history_from() is not None:
            self.held.singles["fed"][:] = NEVER
            request = self._request("UNTREATED", [], {}, at, (-RANGE, RANGE), life.taken)
            self._wait(request, life.stopped_at, life.origins_stopped)
        life.taken = {}

    def lose_table(self) -> None:
        super().lose_table()
        self.held = Columns(HeldMemory, self.definition.windower.columns)
        self.life.holding, self.life.deleted, self.life.awaited, self.life.newest = False, [], [], {}

    # ------------------------------------------------------------------ what it asks for

    def _request(
        self, why: Why, parts: list[Part], seen: Offsets, at: int, rest: tuple[int, int] | None = None,
        taken: Taken | None = None,
    ) -> Request:  # fmt: skip
        life = self.life
        return Request(
            self.uid, life.epoch, self.slot, life.slots, why, dict(seen), at, parts, rest, taken=taken or {}
        )

    def _sent(self, request: Request) -> Output:
        self.count("requests_sent", 1)
        return RECALC.name, recalc.key(self.uid, self.slot), recalc.encode(request)

    def recalculate(self, first: int, last: int | None, seen: Offsets, at: int) -> Iterator[Output]:
        """RECALCULATE STREAM. Of COUNT_WINDOW only what lies behind all T is done again (seed 000)."""
        self._grow()
        started = self.clock.singles["newest"] != NEVER
        until = self.until.tolist()
        counting = isinstance(self.definition.spec.trigger, Count)
        parts = []
        for place in np.flatnonzero(started).tolist():
            if counting and (last is None or last > until[place]):
                continue
            end = until[place] if last is None else min(last, until[place])
            parts.append(Part(self.groups.get(place), first, end, until[place]))
        rest = None if counting else (first, RANGE if last is None else last)
        seen = seen if self.definition.home else self.life.seen
        if parts or rest is not None:
            yield self._sent(self._request("MANUAL", parts, seen, at, rest))

    def _tell(self, found: Occurrences, written: Ints, seen: Offsets) -> Iterator[Output]:
        asked = found.kind == REDO
        if asked.any():
            at = int(written[found.step[asked]].max()) * NS_PER_MS
            parts = parts_of(found, self.groups.get, self.until)
            parts = [part for part in parts if part.first <= part.last]
            yield self._sent(self._request("CHANGE", parts, seen, at))
        if self._cause != LIVE:
            found.cause = np.where(found.cause == LIVE, self._cause, found.cause)
        yield from super()._tell(found, written, seen)

    # ------------------------------------------------------------------ deletes

    def delete(
        self, name: bytes, span: tuple[int, int], written: int, seen: Offsets, family: Family
    ) -> Iterator[Output]:
        """Rows of a table are gone; ``written``: when that was (ms)."""
        if not self.definition.home:
            place = self.place(name, family)
            if place >= 0:
                yield self._send_delete(self.passing.get(place), name, span, written, seen)
            self.passing = Groups()
        elif (found := self.groups.index.get(name)) is not None:
            yield from self._delete(found, span, written, seen)

    def _send_delete(
        self, group: Group, name: bytes, span: tuple[int, int], written: int, seen: Offsets
    ) -> Output:
        self.life.sent += 1
        message = regroup.Regrouped(
            self.uid, self.life.epoch, self.slot, self.life.sent, group, name.decode(), seen, written, b"",
            deleted=span,
        )  # fmt: skip
        return REGROUP.name, regroup.key(self.uid, group.id), regroup.encode(message)

    def _delete(self, place: int, span: tuple[int, int], written: int, seen: Offsets) -> Iterator[Output]:
        self._grow()
        clock, (first, last) = self.definition.clock, span
        if self.life.holding:
            if not clock.shared:
                drop_held(self.held, place, first, last)
            self.life.deleted.append((self.groups.ids[place], first, last))
            return
        newest = int(self.clock.singles["newest"][place])
        if newest == NEVER:
            return
        reached = newest - clock.watermark
        if not clock.shared:
            drop_held(self.clock, place, first, last, "waiting")
        elif first <= newest and last > reached:
            # which of the rows that wait are this table's is not known: they are judged, and cut again
            self.life.awaited.append((self.groups.ids[place], max(first, reached + 1), min(last, newest)))
        first = max(first, -RANGE, NEVER if clock.expired is None else newest - clock.expired)
        if first <= min(last, reached) and self.clock.singles["started"][place]:
            yield from self._lose_rows(place, [(first, min(last, reached))], written, seen)

    def lose_versions(self, versions: Versions, messages: Messages, seen: Offsets) -> Iterator[Output]:
        """Rows were rewritten by what the trigger cannot judge: only the stored rows know what they are now,
        so it is as if they were deleted. What T has not reached waits for it, or leaves the queue."""
        if len(versions.ts):
            yield from (
                self._lose_here(versions, seen)
                if self.definition.home
                else self._send_lost(versions, messages, seen)
            )
        self.passing = Groups()

    def _send_lost(self, versions: Versions, messages: Messages, seen: Offsets) -> Iterator[Output]:
        """To the slots of the groups, as deletes."""
        tables = [messages.key_of(message) or b"" for message in versions.message.tolist()]
        rows: dict[tuple[int, bytes], list[int]] = {}
        for row, (place, name) in enumerate(zip(versions.group.tolist(), tables, strict=True)):
            rows.setdefault((place, name), []).append(row)
        for (place, name), mine in rows.items():
            written = int(versions.written[mine].max())
            for span in spans_of(versions.ts[mine]):
                yield self._send_delete(self.passing.get(place), name, span, written, seen)

    def _lose_here(self, versions: Versions, seen: Offsets) -> Iterator[Output]:
        self._grow()
        clock, until = self.definition.clock, self.until.tolist()
        for place, found in versions.by_group():
            if self.life.holding:
                for ts, *_ in found:
                    if not clock.shared:
                        drop_held(self.held, place, ts, ts)
                    self.life.deleted.append((self.groups.ids[place], ts, ts))
                continue
            newest = int(self.clock.singles["newest"][place])
            expired = NEVER if clock.expired is None else newest - clock.expired
            spans = [(ts, ts) for ts, *_ in found if expired <= ts <= until[place]]
            for ts, unnamed, _ in found:
                if not clock.shared and not unnamed:
                    drop_held(self.clock, place, ts, ts, "waiting")
                if ts > until[place] and (unnamed or clock.shared):
                    self.life.awaited.append((self.groups.ids[place], ts, ts))
                if unnamed:
                    self.count("expired" if ts < expired else "rows_used", 1)
                    self.count("late_used", int(expired <= ts <= until[place]))
            if spans and self.clock.singles["started"][place]:
                yield from self._lose_rows(place, spans, max(written for *_, written in found), seen)

    def _lose_rows(
        self, place: int, spans: list[tuple[int, int]], written: int, seen: Offsets
    ) -> Iterator[Output]:
        """The rows of a group in these ranges, which T has reached, are gone."""
        memory, windower = self.memory.get(place), self.definition.windower
        told = [(place, 0, one) for first, last in spans for one in windower.on_delete(memory, first, last)]
        self.memory.put({place: memory})
        found = as_arrays(told, 0)
        self._follow([place], found, np.array([written]))
        yield from self._tell(found, np.array([written]), seen)

    def _lose_awaited(self, written: int, seen: Offsets) -> Iterator[Output]:
        """T has moved on: deletes that lay before it take effect as far as it has come."""
        places = {id_: place for place, id_ in enumerate(self.groups.ids)}
        awaited = [(id_, *span) for id_, *span in self.life.awaited if id_ in places]
        self.life.awaited = []
        for id_, first, last in awaited:
            until = int(self.until[places[id_]])
            if until < last:
                self.life.awaited.append((id_, max(first, until + 1), last))
            if until >= first:
                yield from self._lose_rows(places[id_], [(first, min(last, until))], written, seen)

    def judge_regrouped(self, received: list[tuple[int, regroup.Regrouped]]) -> Iterator[Output]:
        """Deletes take effect between the rows that they lie between."""
        begin = 0
        for end, (_, message) in enumerate(received):
            if message.deleted is None:
                continue
            yield from super().judge_regrouped(received[begin:end])
            begin = end + 1
            for mine in self._unseen([received[end]]):
                found = self.groups.index.get(message.group.id)
                if mine.epoch == self.life.epoch and found is not None:
                    yield from self._delete(found, message.deleted, message.written, message.seen)
        yield from super().judge_regrouped(received[begin:])

    # ------------------------------------------------------------------ the past

    def _grow(self) -> None:
        for columns in (self.clock, self.memory, self.delays, self.held):
            columns.grow(len(self.groups))

    def _judge(self, rows: Arrivals, written: Ints, seen: Offsets) -> Iterator[Output]:
        if self.life.holding and self._cause == LIVE:
            self._grow()
            hold(self.held, rows, written)
            return
        yield from super()._judge(rows, written, seen)
        if self.life.awaited:
            yield from self._lose_awaited(int(written.max(initial=0)), seen)

    def take_past(self, message: Handover, at: int, seen: Offsets) -> Iterator[Output]:
        """What calc-svc tells at ``at`` (ms) of the time before its live rows; ``seen``: as in judging."""
        if not self.life.holding or message.epoch != self.life.epoch:
            return
        seen = seen if self.definition.home else self.life.seen
        pasts = [(place, past) for past in message.groups if (place := self._group_of(past)) is not None]
        self._grow()
        windower = self.definition.windower
        known = [(place, past) for place, past in pasts if past.memory is not None]
        for place, past in known:
            memory = msgspec.msgpack.decode(past.memory or b"", type=windower.memory)
            self.memory.put({place: memory})
            self.clock.singles["newest"][place] = past.newest
            self.clock.singles["started"][place] = 1
        fed = self.held.singles["fed"]
        rows = arrivals_of(pasts, lambda place: int(fed[place]), windower.signals)
        for place, past in pasts:
            fed[place] = max(fed[place], past.upto)
        times = np.full(len(rows.ts), at, dtype=np.int64)
        self._cause, self.expires = HISTORY, False
        yield from self._judge(rows, times, seen)
        self._cause, self.expires = LIVE, True
        self._follow([place for place, _ in known], as_arrays([], 0), np.array([at]))
        if message.done:
            yield from self._go_live(at, seen)

    def _group_of(self, past: Past) -> int | None:
        """Where a group is, made if need be; None for one of a table that has another successor by now."""
        group = past.group
        handle = group.id if group.table is None else group.table.encode()
        found = self.groups.index.get(handle)
        if found is None:
            return self.groups.add(handle, group.id, group.key, handle if isinstance(handle, bytes) else None)
        return found if self.groups.ids[found] == group.id else None

    def _go_live(self, at: int, seen: Offsets) -> Iterator[Output]:
        self.life.holding = False
        shared = self.definition.clock.shared
        if not shared:
            yield from self._lose_noted(at, seen)
        rows, written = release(self.held, self.definition.windower.signals)
        yield from self._judge(rows, written, seen)
        if shared:
            # which of the rows that were held they were is not known: all are judged, and cut again
            yield from self._lose_noted(at, seen)

    def _lose_noted(self, at: int, seen: Offsets) -> Iterator[Output]:
        """Deletes of the time in which rows were held."""
        deleted, self.life.deleted = self.life.deleted, []
        places = {id_: place for place, id_ in enumerate(self.groups.ids)}
        for id_, first, last in deleted:
            if id_ in places:
                yield from self._delete(places[id_], (first, last), at, seen)

    def _follow(self, places: list[int], found: Occurrences, written: Ints) -> None:
        """Windows of these groups may have opened, or be open no more, without a row."""
        delay = self.definition.delay
        if delay is not None and places:
            delay.follow(self.delays, self.memory, places, found, written)

    # ------------------------------------------------------------------ state

    def sweep(self) -> None:
        ended = list(self.groups.ended)
        self.held.grow(len(self.groups))
        if ended:
            kept = np.ones(len(self.groups), dtype=bool)
            kept[ended] = False
            self.held.keep(kept)
        super().sweep()

    def _dump_more(self) -> Any:
        return [super()._dump_more(), self.held.dump()]

    def _load_more(self, data: Any) -> None:
        if isinstance(data, list) and len(data) == 2:
            delays, held = data
            self.held.load(held)
        else:  # a state from before there was history
            delays = data
        super()._load_more(delays)

"""A stream of which closed windows may change: late rows, rows written again, deletes.

It asks (topic ``recalc``) to have what these touch cut again from the stored rows (decision 0017).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from millrace_core.trigger.groups.columns import Columns, Ints
from millrace_core.trigger.groups.family import Family
from millrace_core.trigger.groups.groups import Groups
from millrace_core.trigger.groups.watermark import NEVER, RANGE
from millrace_core.trigger.rows.intake import Messages
from millrace_core.trigger.stream.delay import NS_PER_MS
from millrace_core.trigger.stream.past import HeldMemory, drop_held, parts_of
from millrace_core.trigger.stream.stream import Life, Output, Stream
from millrace_core.trigger.stream.versions import Versions, spans_of
from millrace_core.trigger.windower import LIVE, REDO, Occurrences, as_arrays
from millrace_core.wire import recalc, regroup
from millrace_core.wire.control import Offsets
from millrace_core.wire.events import Group
from millrace_core.wire.recalc import Part, Request, Taken, Why
from millrace_core.wire.topics import RECALC, REGROUP


class ChangingStream(Stream):
    """See the module. ``held``: live rows that wait for what lies before them (``trigger.stream.past``)."""

    def __init__(self, life: Life, slot: int) -> None:
        super().__init__(life, slot)
        self.held = Columns(HeldMemory, self.definition.windower.columns)
        self._cause = LIVE

    @property
    def until(self) -> Ints:
        """T of each group; meaningless for one that has seen no row."""
        found: Ints = np.maximum(self.clock.singles["newest"], -RANGE) - self.definition.clock.watermark
        return found

    def _origin(self, place: int) -> int | None:
        return self.definition.windower.origin_of(self.memory.get(place))

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

    def _tell(self, found: Occurrences, written: Ints, seen: Offsets) -> Iterator[Output]:
        asked = found.kind == REDO
        if asked.any():
            at = int(written[found.step[asked]].max()) * NS_PER_MS
            parts = parts_of(found, self.groups.get, self.until, self._origin)
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
        """Rows were rewritten by what the trigger cannot judge. What PRE_FILTER leaves out is as if it were
        deleted. Of what names some columns only the stored rows know whether it is there, once T gets there;
        the version that waits for T stays, for it may be as it was."""
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
        clock, life, until, written = self.definition.clock, self.life, self.until.tolist(), 0
        for place, found in versions.by_group():
            id_, queue = self.groups.ids[place], self.held if life.holding else self.clock
            newest = int(self.clock.singles["newest"][place])
            expired = NEVER if clock.expired is None else newest - clock.expired
            written = max(written, *(at for *_, at in found))
            spans = list[tuple[int, int]]()
            for ts, unnamed, _ in found:
                if unnamed:
                    self._count_unnamed(ts, expired, until[place])
                    life.unknown += [(id_, ts)] if life.holding or ts >= expired else []
                    continue
                if not clock.shared:
                    drop_held(queue, place, ts, ts, "rows" if life.holding else "waiting")
                if life.holding:
                    life.deleted.append((id_, ts, ts))
                elif ts > until[place] and clock.shared:
                    life.awaited.append((id_, ts, ts))
                elif expired <= ts <= until[place]:
                    spans.append((ts, ts))
            if spans and self.clock.singles["started"][place]:
                yield from self._lose_rows(place, spans, written, seen)
        if life.unknown and not life.holding:
            yield from self._reach(written, seen)

    def _count_unnamed(self, ts: int, expired: int, until: int) -> None:
        if not self.life.holding:
            self.count("expired" if ts < expired else "rows_used", 1)
            self.count("late_used", int(expired <= ts <= until))

    def _lose_rows(
        self, place: int, spans: list[tuple[int, int]], written: int, seen: Offsets,
        unknown: Sequence[int] = (),
    ) -> Iterator[Output]:  # fmt: skip
        """The rows of a group in these ranges, which T has reached, are gone; those at the times ``unknown``
        are only known to the stored rows."""
        memory, windower, now = self.memory.get(place), self.definition.windower, int(self.until[place])
        told = [(place, 0, one) for first, last in spans for one in windower.on_delete(memory, first, last)]
        told += [(place, 0, one) for ts in unknown for one in windower.on_unknown(memory, ts, now)]
        self.memory.put({place: memory})
        found = as_arrays(told, 0)
        self._follow([place], found, np.array([written]))
        yield from self._tell(found, np.array([written]), seen)

    def _reach(self, written: int, seen: Offsets) -> Iterator[Output]:
        """T has moved on: deletes and unknown rows that lay before it take effect as far as it has come."""
        places = {id_: place for place, id_ in enumerate(self.groups.ids)}
        awaited = [(id_, *span) for id_, *span in self.life.awaited if id_ in places]
        self.life.awaited = []
        for id_, first, last in awaited:
            until = int(self.until[places[id_]])
            if until < last:
                self.life.awaited.append((id_, max(first, until + 1), last))
            if until >= first:
                yield from self._lose_rows(places[id_], [(first, min(last, until))], written, seen)
        unknown: dict[int, list[int]] = {}
        for id_, ts in self.life.unknown:
            unknown.setdefault(id_, []).append(ts)
        self.life.unknown = []
        for id_ in unknown.keys() & places.keys():
            yield from self._find(places[id_], sorted(unknown[id_]), written, seen)

    def _find(self, place: int, times: list[int], written: int, seen: Offsets) -> Iterator[Output]:
        """What a group has at these times only the stored rows know; what T has not reached waits."""
        until = int(self.until[place]) if self.clock.singles["newest"][place] != NEVER else NEVER
        self.life.unknown += [(self.groups.ids[place], ts) for ts in times if ts > until]
        if reached := [ts for ts in times if ts <= until]:
            self.clock.singles["started"][place] = 1
            yield from self._lose_rows(place, [], written, seen, reached)

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

    def _grow(self) -> None:
        for columns in (self.clock, self.memory, self.delays, self.held):
            columns.grow(len(self.groups))

    def _follow(self, places: list[int], found: Occurrences, written: Ints) -> None:
        """Windows of these groups may have opened, or be open no more, without a row."""
        delay = self.definition.delay
        if delay is not None and places:
            delay.follow(self.delays, self.memory, places, found, written)

"""Closed windows that change: late rows, rows written again, deletes.

What these touch is cut again from the stored rows, on request (decision 0017).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from millrace_core.trigger.groups.columns import OWNER, Ints, take
from millrace_core.trigger.groups.family import Family
from millrace_core.trigger.groups.groups import Groups, Handle
from millrace_core.trigger.groups.spans import spans_of
from millrace_core.trigger.groups.watermark import NEVER, RANGE, Arrivals
from millrace_core.trigger.rows.intake import Messages
from millrace_core.trigger.stream.delay import FAR
from millrace_core.trigger.stream.judging import Judging
from millrace_core.trigger.stream.past import Gone, HeldChange, hold
from millrace_core.trigger.stream.routes import Routes
from millrace_core.trigger.stream.state import StreamState
from millrace_core.trigger.stream.telling import Output, Telling
from millrace_core.trigger.stream.versions import Versions
from millrace_core.trigger.types.occurrences import CORRECT, REDO, as_arrays, nothing
from millrace_core.wire import regroup
from millrace_core.wire.control import Offsets
from millrace_core.wire.events import Group
from millrace_core.wire.regroup import Regrouped


class Changes:
    """``routes`` sends deletes to the slots of their groups; ``judging`` is told of windows that open or
    close without a row."""

    def __init__(self, state: StreamState, telling: Telling, judging: Judging, routes: Routes) -> None:
        self.state, self.telling, self.judging, self.routes = state, telling, judging, routes

    # ------------------------------------------------------------------ deletes

    def delete(
        self, name: bytes, span: tuple[int, int], written: int, seen: Offsets, family: Family,
        *, missed: bool = False,
    ) -> Iterator[Output]:  # fmt: skip
        """Rows of a table were deleted; ``written``: when that was (ms). ``missed``: the stream is stopped
        now, or was at that time."""
        state = self.state
        for ts in [ts for ts in state.life.partial.get(name, ()) if span[0] <= ts <= span[1]]:
            del state.life.partial[name][ts]
        if missed and not state.life.running:
            state.life.missed.append((name, *span))
            return
        # what was written during a stop, and is told now, is as a delete during the stop has left it
        holding = state.life.holding
        state.life.holding = holding and not missed
        yield from self._delete(name, span, written, seen, family)
        state.life.holding = holding

    def _delete(
        self, name: bytes, span: tuple[int, int], written: int, seen: Offsets, family: Family
    ) -> Iterator[Output]:
        state = self.state
        if state.definition.keys:
            yield from self._delete_by_keys(name, span, written, seen)
            return
        if not state.definition.home:
            place = state.place(name, family)
            if place >= 0:
                yield self.routes.send(state.passing.get(place), name, seen, written, deleted=span)
            state.passing = Groups()
            return
        place = self._place_of_deleted(name, lambda: state.place(name, family))
        if place >= 0:
            yield from self.delete_in(place, span, written, seen)

    def _delete_by_keys(
        self, name: bytes, span: tuple[int, int], written: int, seen: Offsets
    ) -> Iterator[Output]:
        """It is not known which groups the rows belonged to: any group of the table may have lost some."""
        state = self.state
        if state.definition.home:
            yield from self._delete_of_all(name, span, written, seen)
            return
        for place in state.parts_of(name):
            yield self.routes.send(state.passing.get(place), name, seen, written, deleted=span)
        if state.definition.fills_history:
            # groups may have rows of the table from history that this slot never sent them
            for slot in range(state.life.slots):
                nobody = Group(regroup.nobody_of(state.uid, slot, state.life.slots), (), None)
                yield self.routes.send(nobody, name, seen, written, deleted=span, everyone=True)
        state.passing = Groups()

    def _delete_of_all(
        self, table: bytes, span: tuple[int, int], written: int, seen: Offsets
    ) -> Iterator[Output]:
        """Delete rows from all groups of a table (empty: of any table), including those that history has yet
        to tell of."""
        state = self.state
        if state.life.holding:
            state.life.changed.append(HeldChange(None, *span, table))
            return
        for place in _places_of(self.state, table):
            yield from self.delete_in(place, span, written, seen)

    def apply(self, gone: Sequence[Gone], written: int, seen: Offsets) -> Iterator[Output]:
        """History has been told: what was noted meanwhile (``gone_of``) takes effect."""
        # what came several times takes effect once
        for place, first, last, rewritten in dict.fromkeys(one[1:] for one in gone):
            if rewritten:
                yield from self.lose(_lost_at([place], np.array([first]), written), seen)
            else:
                yield from self.delete_in(place, (first, last), written, seen)

    def delete_regrouped(self, message: Regrouped) -> Iterator[Output]:
        """Another slot says that rows of a group were deleted."""
        if message.deleted is None:
            return
        if message.everyone and message.ts:
            yield from self._lose_of_all(np.frombuffer(message.ts, dtype="<i8").astype(np.int64), message)
            return
        if message.everyone:
            yield from self._delete_of_all(b"", message.deleted, message.written, message.seen)
            return
        if self.state.definition.keys and message.group.id not in self.state.groups.index:
            return  # the sender knows only its id; deletes in groups of history come with ``everyone``
        place = self._place_of_deleted(message.group.id, lambda: self.state.place_of(message.group))
        if place >= 0 and message.ts:
            ts = np.frombuffer(message.ts, dtype="<i8").astype(np.int64)
            yield from self.lose(_lost_at([place], ts, message.written), message.seen)
        elif place >= 0:
            yield from self.delete_in(place, message.deleted, message.written, message.seen)

    def _lose_of_all(self, ts: Ints, message: Regrouped) -> Iterator[Output]:
        """Any group may have had rows at these times that belong elsewhere now, including groups that history
        has yet to tell of."""
        if self.state.life.holding:
            self.state.life.changed += [HeldChange(None, at, at, rewritten=True) for at in ts.tolist()]
            return
        yield from self.lose(_lost_at(_places_of(self.state, b""), ts, message.written), message.seen)

    def _place_of_deleted(self, handle: Handle, make: Callable[[], int]) -> int:
        """The group whose rows are deleted; -1: it has had no row. While rows are held the group is created
        if need be, because history may bring rows of a group that has had no live row."""
        return make() if self.state.life.holding else self.state.groups.index.get(handle, -1)

    def delete_in(self, place: int, span: tuple[int, int], written: int, seen: Offsets) -> Iterator[Output]:
        state = self.state
        state.grow()
        definition, (first, last) = state.definition, span
        clock = definition.clock
        if state.life.holding:
            state.life.changed.append(HeldChange(state.groups.ids[place], first, last))
            return
        newest = int(state.clock.singles["newest"][place])
        if newest == NEVER:
            return
        reached = newest - clock.watermark
        if not clock.shared:
            self._drop_waiting(place, first, last)
        elif first <= newest and last > reached:
            # it is not known which waiting rows belong to this table: they are evaluated, and then cut again
            state.life.awaited.append((state.groups.ids[place], max(first, reached + 1), min(last, newest)))
        first = max(first, -RANGE, NEVER if clock.expired is None else newest - clock.expired)
        if first <= min(last, reached) and state.clock.singles["started"][place]:
            yield from self._lose_rows(place, [(first, min(last, reached))], written, seen)
        if definition.showing is not None and last > reached:
            found = self.judging.lose(place, [(first, last)], nothing(), written)
            yield from self.telling.tell(found, np.array([written]), seen)

    def lose_versions(self, versions: Versions, messages: Messages, seen: Offsets) -> Iterator[Output]:
        """Rows were rewritten by versions that the trigger cannot evaluate. A version that PRE_FILTER leaves
        out counts as a delete. If a version names only some columns, only the stored rows know what there is
        once T gets there. The old version that waits for T is kept, because the row may still be as it
        was."""
        if len(versions.ts):
            yield from (
                self.lose(versions, seen)
                if self.state.definition.home
                else self._send_lost(versions, messages, seen)
            )

    def miss_versions(self, versions: Versions, messages: Messages, seen: Offsets) -> Iterator[Output]:
        """As :meth:`lose_versions`, for rows that were written while the stream was stopped. If it still is,
        the old versions are taken out once it runs, before what is then stored at their times is told."""
        life, own = self.state.life, self.state.definition.table.name.encode()
        if not life.running:
            keys = [messages.key_of(message) for message in versions.message.tolist()]
            names = [own if key is None else key for key in keys]
            for name, ts in zip(names, versions.ts.tolist(), strict=True):
                life.rewritten.setdefault(name, set()).add(ts)
        elif len(versions.ts):
            # what is told about the stop is as these rows have left it
            holding, life.holding = life.holding, False
            home = self.state.definition.home
            yield from self.lose(versions, seen) if home else self._send_lost(versions, messages, seen)
            life.holding = holding

    def lose_rewritten(
        self, name: bytes, times: Collection[int], written: int, seen: Offsets, family: Family
    ) -> Iterator[Output]:
        """Rows of a table came at these times while the stream was stopped: what was there before may have
        left its group, as far as the slot knows the groups. The rows themselves are evaluated later."""
        state, ts = self.state, np.array(sorted(times), dtype=np.int64)
        if state.definition.keys:
            places = state.parts_of(name) + state.strangers()
        elif state.definition.home:
            places = [state.groups.index.get(name, -1)]
        else:
            places = [state.place(name, family)]
        holding, state.life.holding = state.life.holding, False
        yield from self.lose_at([place for place in places if place >= 0], name, ts, written, seen)
        state.life.holding = holding
        state.passing = Groups()

    def lose_at(
        self, places: Sequence[int], table: bytes, ts: Ints, written: int, seen: Offsets
    ) -> Iterator[Output]:
        """Each of the groups may have lost rows of a table at these times, because they belong elsewhere
        now."""
        if self.state.definition.home:
            yield from self.lose(_lost_at(places, ts, written), seen)
        else:
            for place in places:
                yield self._send_rewritten(place, table, ts, seen, written)

    def _send_rewritten(self, place: int, name: bytes, ts: Ints, seen: Offsets, written: int) -> Output:
        times, span = np.unique(ts), (int(ts.min()), int(ts.max()))
        group = self.state.passing.get(place)
        return self.routes.send(
            group, name, seen, written, times.astype("<i8").tobytes(), deleted=span, everyone=group.id < 0
        )

    def _send_lost(self, versions: Versions, messages: Messages, seen: Offsets) -> Iterator[Output]:
        """Send the rewritten times to the slots of the groups."""
        tables = [messages.key_of(message) or b"" for message in versions.message.tolist()]
        rows: dict[tuple[int, bytes], list[int]] = {}
        for row, (place, name) in enumerate(zip(versions.group.tolist(), tables, strict=True)):
            rows.setdefault((place, name), []).append(row)
        for (place, name), mine in rows.items():
            yield self._send_rewritten(
                place, name, versions.ts[mine], seen, int(versions.written[mine].max())
            )

    def lose(self, versions: Versions, seen: Offsets) -> Iterator[Output]:
        """These groups, which are evaluated here, may have lost rows."""
        state = self.state
        state.grow()
        life, until, written = state.life, state.until.tolist(), 0
        if life.holding:
            self._hold_lost(versions)
            return
        for place, found in versions.by_group():
            written = max(written, *(at for *_, at in found))
            lost = [(ts, self._loses(place, ts, unnamed, until[place])) for ts, unnamed, _ in found]
            times = [ts for ts, how in lost if how == REDO]
            doubtful = [ts for ts, how in lost if how == CORRECT]
            spans = spans_of(np.array(times, dtype=np.int64)) if times else []
            if (spans or doubtful) and state.clock.singles["started"][place]:
                yield from self._lose_rows(place, spans, written, seen, doubtful=doubtful)
            waiting = [(ts, ts) for ts, *_ in found if ts > until[place]]
            if waiting and state.definition.showing is not None:
                shown = self.judging.lose(place, waiting, nothing(), written)
                yield from self.telling.tell(shown, np.array([written]), seen)
        if life.unknown:
            yield from self.reach(written, seen)

    def _loses(self, place: int, ts: int, unnamed: bool, until: int) -> int | None:
        """Whether windows must be cut again now without what was there at a time: REDO, or CORRECT (only if
        there was a row). What is to be done later is noted. ``until``: T of the group."""
        state, clock, life = self.state, self.state.definition.clock, self.state.life
        id_, newest = state.groups.ids[place], int(state.clock.singles["newest"][place])
        expired = NEVER if clock.expired is None else newest - clock.expired
        if unnamed:
            self._count_unnamed(ts, expired, until)
            life.unknown += [(id_, ts)] if ts >= expired else []
            return None
        if not clock.shared:
            self._drop_waiting(place, ts, ts)
        if ts > until and clock.shared:
            life.awaited.append((id_, ts, ts))
        elif clock.ignore_disorder:
            state.count("late", int(ts <= until))
        elif clock.open_only and ts < self._open_since(place):
            state.count("expired", 1)
            return CORRECT if clock.corrects and ts >= expired else None
        elif expired <= ts <= until:
            return REDO
        return None

    def _hold_lost(self, versions: Versions) -> None:
        """What versions may have taken out of their groups is held among the rows."""
        order = np.argsort(versions.group, kind="stable")
        rows = Arrivals(versions.group[order], versions.ts[order], partial=versions.unnamed[order])
        hold(self.state.held, rows, versions.written[order], len(self.state.life.changed), lost=True)

    def _drop_waiting(self, place: int, first: int, last: int) -> None:
        """Rows in ``[first, last]`` that wait for the group's T are gone."""
        waiting = self.state.clock.lists["waiting"]
        gone = (waiting[OWNER] == place) & (waiting["ts"] >= first) & (waiting["ts"] <= last)
        self.state.clock.lists["waiting"] = take(waiting, ~gone)

    def _open_since(self, place: int) -> int:
        """The time from which on rows may be in an open window; FAR if none is open."""
        open_, _ = self.state.definition.windower.waits(self.state.memory.get(place), 0)
        return min((NEVER if one.start is None else one.start for one in open_), default=FAR)

    def _count_unnamed(self, ts: int, expired: int, until: int) -> None:
        self.state.count("expired" if ts < expired else "rows_used", 1)
        self.state.count("late_used", int(expired <= ts <= until))

    def _lose_rows(
        self, place: int, spans: list[tuple[int, int]], written: int, seen: Offsets,
        unknown: Sequence[int] = (), doubtful: Sequence[int] = (),
    ) -> Iterator[Output]:  # fmt: skip
        """The rows of a group in these ranges, which T has reached, are gone. For the times ``unknown`` only
        the stored rows know what there is; rows at ``doubtful`` times are gone if there were any."""
        state = self.state
        memory, windower, now = state.memory.get(place), state.definition.windower, int(state.until[place])
        told = [(place, 0, one) for first, last in spans for one in windower.on_delete(memory, first, last)]
        told += [(place, 0, one) for ts in unknown for one in windower.on_unknown(memory, ts, now)]
        told += [(place, 0, one) for ts in doubtful for one in windower.on_rewritten(memory, ts)]
        state.memory.put({place: memory})
        spans = [*spans, *((ts, ts) for ts in (*unknown, *doubtful))]
        found = self.judging.lose(place, spans, as_arrays(told, 0), written)
        yield from self.telling.tell(found, np.array([written]), seen)

    def reach(self, written: int, seen: Offsets) -> Iterator[Output]:
        """T has moved on: deletes and unknown rows that lay ahead of it take effect as far as it has come."""
        state = self.state
        places = state.groups.places()
        awaited = [(id_, *span) for id_, *span in state.life.awaited if id_ in places]
        state.life.awaited = []
        for id_, first, last in awaited:
            until = int(state.until[places[id_]])
            if until < last:
                state.life.awaited.append((id_, max(first, until + 1), last))
            if until >= first:
                yield from self._lose_rows(places[id_], [(first, min(last, until))], written, seen)
        unknown: dict[int, list[int]] = {}
        for id_, ts in state.life.unknown:
            unknown.setdefault(id_, []).append(ts)
        state.life.unknown = []
        for id_ in unknown.keys() & places.keys():
            yield from self._find(places[id_], sorted(unknown[id_]), written, seen)

    def _find(self, place: int, times: list[int], written: int, seen: Offsets) -> Iterator[Output]:
        """Only the stored rows know what a group has at these times. Times that T has not reached wait."""
        state = self.state
        until = int(state.until[place]) if state.clock.singles["newest"][place] != NEVER else NEVER
        state.life.unknown += [(state.groups.ids[place], ts) for ts in times if ts > until]
        if reached := [ts for ts in times if ts <= until]:
            state.clock.singles["started"][place] = 1
            yield from self._lose_rows(place, [], written, seen, reached)


def gone_of(state: StreamState, changed: Sequence[HeldChange]) -> list[Gone]:
    """What noted changes mean to the groups that are known."""
    known = state.groups.places()
    return [
        Gone(number, place, one.first, one.last, one.rewritten)
        for number, one in enumerate(changed)
        for place in (_places_of(state, one.table) if one.group is None else [known.get(one.group, -1)])
        if place >= 0
    ]


def _places_of(state: StreamState, table: bytes) -> list[int]:
    """The groups of a table (empty: of any table)."""
    return state.groups.of_table(table) if table else list(state.groups.index.values())


def _lost_at(places: Sequence[int], ts: Ints, written: int) -> Versions:
    """At these times each of the groups may have lost a row."""
    group = np.repeat(np.array(places, dtype=np.int64), len(ts))
    none = np.zeros(len(group), dtype=np.int64)
    return Versions(group, np.tile(ts, len(places)), none.astype(bool), none + written, none)

"""Requests answered: windows cut again from the table store, history, what was written during a stop.

What a request asks for is computed on arrays in this process, slice by slice, with the windowers of the live
path: reading the rows dominates, and no Spark job reads them faster than the store does (decision 0017).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from calc_svc.jobs.recalc_rows import SLICE_ROWS, TriggerRows, slices
from calc_svc.jobs.spool import Spool
from calc_svc.store.catalog import CatalogView
from calc_svc.store.tables import TableStore
from millrace_core.calc.job_size import ROWS_PER_JOB
from millrace_core.calc.waiting import Wanted
from millrace_core.model.stream import StreamSpec
from millrace_core.recalc.answer import cut_again
from millrace_core.recalc.groups import Owners, numbered
from millrace_core.recalc.history import History, rows_of
from millrace_core.recalc.sending import (
    Output,
    Settled,
    Work,
    Writer,
    chunks,
    coalesced,
    handovers,
    retell,
)  # fmt: skip
from millrace_core.recalc.told import Told
from millrace_core.trigger.groups import RANGE
from millrace_core.trigger.groups.spans import spans_of
from millrace_core.trigger.stream import compiled, essence
from millrace_core.wire.events import Group, TriggerBatch
from millrace_core.wire.recalc import Handover, Part, Past, Request
from millrace_core.wire.topics import CATALOG, wal_topic

TIMES_PER_MESSAGE = 5_000
Later = Callable[[], Iterable[Request]]
"""Reads what has been asked up to now, after some requests in the log."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The groups; which group each table (by its number) belongs to; the tables of each group."""

    groups: Sequence[Group]
    owner: Owners
    tables: Mapping[Group, list[int]]


@dataclass(slots=True)
class Answers:
    """Answers requests; nothing is sent here. ``slice_rows``: how many rows are in memory at a time."""

    catalog: CatalogView
    store: TableStore
    told: Told
    slice_rows: int = SLICE_ROWS
    ends: Callable[[str], Mapping[int, int]] | None = None
    """How far a topic goes now: partition -> offset (None: all that is written is already stored)."""

    def answer(
        self, requests: Sequence[Request], place: tuple[int, int], work: Work, later: Later = tuple
    ) -> Iterator[Output]:
        """What to send for requests of one stream and epoch that all have the same reason (``why``).

        ``place``: partition and offset of the last request, so that a replay gives the batches the same
        numbers. ``later``: what was asked after them, of any stream; called once history has been told.

        What is :meth:`wanted` must have been read before.

        :raises MillraceError: UNKNOWN_TABLE where the trigger table is gone.
        """
        spec = self._spec(requests[0])
        if spec is None or spec.source is None:
            return
        definition = compiled(essence(spec))
        table = spec.source.table
        rows = TriggerRows(definition, self.store.readable(table))
        writer = Writer(requests[0], place, dict(rows.stored.positions), definition, work)
        match requests[0].why:
            case "HISTORY":
                yield from self._history(requests, rows, writer, later)
            case "UNTREATED":
                for request in requests:
                    yield from self._untreated(request, rows, work)
            case "ROWS":
                for request in requests:
                    yield from self._asked_for(request, rows, work)
            case _:
                yield from self._again(requests, rows, writer, self.told)

    def definitions(self) -> Wanted:
        """How far the catalog goes now: up to there it has the stream that asks, its table and the children
        that are meant, unless they were dropped.

        :raises MillraceError: if the log is away.
        """
        return Wanted(catalog=self.ends(CATALOG.name).get(0, 0) if self.ends is not None else 0)

    def wanted(self, requests: Sequence[Request], later: Iterable[Request] = ()) -> Wanted:
        """The rows that the requests are about, once their :meth:`definitions` have been read.

        :param later: what was asked after them, of any stream. Other streams' rows are not waited for.

        :raises MillraceError: if the log is away.
        """
        spec = self._spec(requests[0])
        if spec is None or spec.source is None:
            return Wanted()
        table = spec.source.table
        known = self.catalog.tables().get((table.db, table.name))
        if known is None or known.uid != table.uid:
            return Wanted()  # it was dropped; the answer says so
        own = wal_topic(table.db, table.name)
        wal: dict[str, dict[int, int]] = {own: {}}
        for request in (*requests, *_of_the_same(requests, later)):
            _raise(wal[own], request.seen)
            for topic, written in request.origins.items():
                _raise(wal.setdefault(topic, {}), {p: end for p, (_, end) in written.items()})
        if requests[0].why == "MANUAL" and self.ends is not None and not table.virtual:
            # whoever asks by hand means every row that was there at that time; the slots may not be that far
            _raise(wal[own], self.ends(own))
        return Wanted(wal=wal, uids={own: table.uid})

    def _spec(self, request: Request) -> StreamSpec | None:
        entry = self.catalog.stream(request.stream)
        past = request.why in ("HISTORY", "UNTREATED")
        if entry is None or (past and entry.epoch > request.epoch):
            return None  # it was dropped, or has been restarted since: then it asks again
        return entry.spec

    # ------------------------------------------------------------------ windows cut again

    def _again(
        self, requests: Sequence[Request], rows: TriggerRows, writer: Writer, told: Told
    ) -> Iterator[Output]:
        changed = requests[0].why == "CHANGE"
        groups: dict[Group, list[int]] = {}
        parts: list[Part] = []
        for request in requests:
            if changed and request.rest is None:
                mine = rows.tables_of(part.group for part in request.parts)
            else:
                mine = rows.groups(request.slot, request.slots)
            groups |= mine
            asked = [part for part in request.parts if changed or part.group in mine]
            asked = [part for part in asked if rows.rewritten(part, mine.get(part.group, ()))]
            if request.rest is not None:
                named = {part.group.id for part in asked}
                others = [group for group in mine if group.id not in named]
                asked += self._rest(rows, mine, others, request.rest)
            parts += asked if changed else writer.work.by_hand.take(request, asked)
        yield from self._cut(parts, groups, rows, writer, told, Settled(), changed=changed)

    def _cut(
        self, parts: Sequence[Part], groups: Mapping[Group, list[int]], rows: TriggerRows, writer: Writer,
        told: Told, settled: Settled, *, changed: bool,
    ) -> Iterator[TriggerBatch]:  # fmt: skip
        """``groups``: their tables, by number; ``told``, ``changed``: as in :func:`cut_again`. Adds to
        ``settled`` the windows that this has told of."""
        definition = rows.definition
        onward = changed and len(parts) > 1 and definition.windower.reach().onward
        parts = [part for part in coalesced(parts, onward=onward) if part.group in groups]
        told_of: dict[int, dict[int, int]] = {}
        done = 0
        for group, some in groupby(parts, key=lambda part: part.group):
            mine = list(some)
            read = rows.reader_for(group, groups[group], mine)
            if group.id not in told_of:
                told_of[group.id] = dict(told.of(definition.spec.uid, group.id))
            known = told_of[group.id]
            for part in mine:
                answer = cut_again(
                    definition.windower, part, read, changed=changed, told=known.items(),
                    retracts=definition.spec.emission.obsolete == "retracted",
                )  # fmt: skip
                retell(known, answer.found)
                if answer.starts is not None:
                    settled.add(group.id, answer.starts)
                writer.work.rows += answer.rows
                yield from writer.batches(answer.found, [group])
                done += 1
                writer.work.fraction = done / len(parts)
        yield from writer.flush()

    def _rest(
        self, rows: TriggerRows, groups: dict[Group, list[int]], others: list[Group], span: tuple[int, int]
    ) -> Iterator[Part]:
        """The parts of groups that no live row has reached: each group is as far as its newest stored row."""
        _, newest = rows.bounds()
        for group in others:
            ts = rows.reader(group, groups[group])(max(span[0], -RANGE), newest).rows.ts
            if len(ts):
                until = int(ts[-1]) - rows.definition.clock.watermark
                yield Part(group, span[0], min(span[1], until), until)

    # ------------------------------------------------------------------ history

    def _history(
        self, requests: Sequence[Request], rows: TriggerRows, writer: Writer, later: Later
    ) -> Iterator[Output]:
        """History knows less about a window than the live triggers do, and may be told later than theirs,
        above all where it is told again after a kill. So for windows that have changed since (because others
        asked for them, or through rows written since), history tells what they are now. For a window that is
        open again it tells nothing: how that one ends is told live, and may have been told already."""
        definition = rows.definition
        told = Told(self.catalog)
        known, slots = _numbered(requests, rows)
        groups, owner = known.groups, known.owner
        most = definition.spec.emission.most_history
        history = History(definition.windower, definition.clock.watermark, len(groups), most)
        live_first = definition.spec.options.fill_history is not None
        with Spool() as past, Spool() as changed:
            for batch in self._batches(history, requests, rows, owner, groups, writer):
                told.hear(batch, 0)
                past.add(batch)
            left = history.left_open().items()
            settled = Settled({(groups[place].id, one.start) for place, windows in left for one in windows})
            if live_first:
                yield from handovers(requests, history.pasts(groups), slots)
            parts = self._changed(requests, rows, known, history.until, later)
            for batch in self._cut(parts, known.tables, rows, writer, told, settled, changed=True):
                changed.add(batch)
            for batch in past.replay():
                yield settled.without(batch)
            yield from changed.replay()
            if not live_first:
                yield from handovers(requests, history.pasts(groups), slots)
        # others may have told of changes while this was being told
        since = [
            one for one in self._changed(requests, rows, known, history.until, later) if one not in parts
        ]
        yield from self._cut(since, known.tables, rows, writer, told, Settled(), changed=True)
        writer.work.fraction = 1.0

    def _changed(
        self, requests: Sequence[Request], rows: TriggerRows, known: _Known, until: np.ndarray, later: Later
    ) -> list[Part]:
        """What has changed in the past since it was read: what others asked for, and :meth:`_late`."""
        parts = [
            part
            for one in _of_the_same(requests, later())
            for part in one.parts
            if rows.rewritten(part, known.tables.get(part.group, ()))
        ]
        if not rows.definition.clock.ignore_disorder:
            parts += self._late(requests, rows, known, until)
        return parts

    def _late(
        self, requests: Sequence[Request], rows: TriggerRows, known: _Known, until: np.ndarray
    ) -> Iterator[Part]:
        """The parts touched by rows that were written since, although the watermark of history
        (``until[group]``) had already passed them. Rows that have expired by now are left out, as live rows
        would be."""
        groups, owner, tables = known.groups, known.owner, known.tables
        clock, (_, newest) = rows.definition.clock, rows.bounds()
        times: dict[int, list[int]] = {}
        first = min(request.rest[0] for request in requests if request.rest is not None)
        for low, high in slices(rows, first, int(until.max(initial=-RANGE)), self.slice_rows):
            part = rows.slice(low, high, owner, requests[0], since=True)
            late = part.ts <= until[part.group]
            for place, ts in zip(part.group[late].tolist(), part.ts[late].tolist(), strict=True):
                times.setdefault(place, []).append(ts)
        for place, late_times in times.items():
            group = groups[place]
            ts = rows.reader(group, tables[group])(int(until[place]), newest).rows.ts
            last = int(ts[-1]) if len(ts) else int(until[place]) + clock.watermark
            expired = -RANGE if clock.expired is None else last - clock.expired
            if fresh := [one for one in late_times if one >= expired]:
                for span in spans_of(np.array(fresh, dtype=np.int64)):
                    yield Part(group, *span, last - clock.watermark)

    def _batches(
        self, history: History, requests: Sequence[Request], rows: TriggerRows, owner: Owners,
        groups: Sequence[Group], writer: Writer,
    ) -> Iterator[TriggerBatch]:  # fmt: skip
        """What history opens and closes, slice by slice."""
        first = min(request.rest[0] for request in requests if request.rest is not None)
        oldest, newest = rows.bounds()
        begin, work = max(first, oldest), writer.work
        for low, high in slices(rows, first, RANGE, self.slice_rows):
            part = rows.slice(low, high, owner, requests[0])
            work.rows += len(part)
            yield from writer.batches(history.take(part), groups)
            # a job of windows of one slice reads the rows of one slice
            yield from writer.flush(ROWS_PER_JOB // 2)
            work.fraction = (high - begin + 1) / (newest - begin + 1)
        yield from writer.batches(history.finish(), groups)
        yield from writer.flush()

    def _untreated(self, request: Request, rows: TriggerRows, work: Work) -> Iterator[Output]:
        known, _ = _numbered([request], rows)
        groups, owner = known.groups, known.owner
        for low, high in slices(rows, -RANGE, RANGE, self.slice_rows):
            part = rows.slice(low, high, owner, request)
            work.rows += len(part)
            pasts = []
            for place in np.unique(part.group).tolist():
                ts, columns = rows_of(part, place)
                pasts.append(Past(groups[place], ts, columns, high))
            yield from chunks(request, pasts)
        yield Handover(request.stream, request.epoch, request.slot, done=True)

    def _asked_for(self, request: Request, rows: TriggerRows, work: Work) -> Iterator[Output]:
        """The rows that the request names, as they are stored; at most TIMES_PER_MESSAGE times a message."""
        for table, offsets in request.rows.items():
            every = sorted(offsets)
            for begin in range(0, len(every), TIMES_PER_MESSAGE):
                times = every[begin : begin + TIMES_PER_MESSAGE]
                found = rows.at(table, times)
                work.rows += sum(len(one.ts) for one in found)
                asked = {table: {ts: offsets[ts] for ts in times}}
                yield Handover(request.stream, request.epoch, request.slot, asked=asked, rows=found)


def _of_the_same(requests: Sequence[Request], others: Iterable[Request]) -> list[Request]:
    """Those of the other requests that are of the same stream, epoch and slots."""
    of = {(request.stream, request.epoch, request.slot) for request in requests}
    return [one for one in others if (one.stream, one.epoch, one.slot) in of]


def _raise(offsets: dict[int, int], others: Mapping[int, int]) -> None:
    """Raise these offsets at least to the others."""
    for partition, offset in others.items():
        offsets[partition] = max(offset, offsets.get(partition, 0))


def _numbered(requests: Sequence[Request], rows: TriggerRows) -> tuple[_Known, list[int]]:
    """The groups of these requests' slots, with the tables of each; and the slot of each group."""
    groups: dict[Group, list[int]] = {}
    slots: list[int] = []
    # a slot that was killed while it asked has asked twice
    for slot, count in dict.fromkeys((request.slot, request.slots) for request in requests):
        mine = rows.groups(slot, count)
        groups |= mine
        slots += [slot] * len(mine)
    return _Known(list(groups), numbered(rows.definition, groups), groups), slots

"""Virtual tables: nothing is stored for them; their rows are assembled from their sources when read.

There is a row at a time if any of the sources has one; sources without a row at that time give NULL.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import polars as pl

from calc_svc.store.catalog import CatalogView
from calc_svc.store.table import StoredTable, View
from millrace_core.errors import WireError
from millrace_core.language.virtual import Origins, members_of
from millrace_core.model.schema import Origin, Table, child_uid
from millrace_core.store.family import Family
from millrace_core.store.place import OFFSET_BITS, Spans, inside, nowhere, place_of
from millrace_core.store.run import Children, Run
from millrace_core.store.slices import Slices
from millrace_core.timeline.precision import HIGHEST, LOWEST
from millrace_core.wire import virtual
from millrace_core.wire.operations import OPERATION_MARK
from millrace_core.wire.rows.decoded import Bad, polars_type
from millrace_core.wire.topics import wal_topic
from millrace_wal import Record

MEMBER, TS, OWN, PLACE, FLOOR = "\x00member", "\x00ts", "\x00own", "\x00place", "\x00floor"
Columns = tuple[tuple[str, str], ...]
"""(identity in the source, own name) of each column that comes from one source table."""
Read = Callable[[str, Mapping[int, tuple[int, int]]], Sequence[Record]]
"""Reads stretches of a topic: partition -> [from, to) offsets."""


@dataclass(frozen=True, slots=True)
class Since:
    """Which rows of the sources count: those written last (with ``first``: last or first) in one of the
    ``spans`` of their topic, and after what the member has ``taken`` of them: member's name -> source
    (``wire.virtual.Origin.source``) -> offset."""

    spans: Mapping[str, Spans]
    taken: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    first: bool = False

    def floor(self, member: str, topic: str, uid: int, source: str) -> int:
        """The first place of a source's rows that counts for a member."""
        taken = self.taken.get(member)
        partitions = {first >> OFFSET_BITS for first, _ in self.spans.get(topic, ())} if taken else ()
        known = (
            place_of(partition, taken[name] + 1)
            for partition in partitions
            if taken and (name := virtual.Origin(topic, uid, source, partition, 0).source) in taken
        )
        return max(known, default=LOWEST)


class VirtualTable:
    """Reads as a :class:`~calc_svc.store.table.StoredTable` does. Thread-safe.

    ``stored``: the store's tables by WAL topic; ``read``: reads the table's own topic again.
    """

    def __init__(
        self, table: Table, catalog: CatalogView, stored: Mapping[str, StoredTable], read: Read
    ) -> None:
        self.table = table
        self.topic = wal_topic(table.db, table.name)
        self.lock = threading.RLock()
        self._catalog, self._stored, self._read = catalog, stored, read
        self._family = Family(table)
        self._origins: dict[int, Origins] = {}
        self._known_at = -1
        self.there: dict[int, int] = {}
        """What must have been read even if less is asked for: nothing, for a virtual table."""
        self._positions: dict[int, int] = {}
        self._waiting: dict[int, deque[tuple[int, list[virtual.Origin]]]] = {}
        self._queue = threading.Lock()

    # ------------------------------------------------------------------ how far its sources have been read

    def begin(self, ends: Mapping[int, int], sources: Mapping[str, Mapping[int, int]]) -> None:
        """Its topic is read from ``ends`` on. What was sent before that came from before the ends of the
        ``sources`` (topic -> offsets), which were asked for afterwards."""
        behind = [
            virtual.Origin(topic, table.uid, "", partition, end - 1)
            for table in self._catalog.tables().values()
            if (topic := wal_topic(table.db, table.name)) in sources
            for partition, end in sources[topic].items()
        ]
        with self._queue:
            self._positions = dict.fromkeys(ends, 0)
            self._waiting = {partition: deque([(end, behind)]) for partition, end in ends.items()}

    def take(self, records: Sequence[Record]) -> list[Bad]:
        """Take note of messages of its topic; returns those that no slot has sent."""
        bad: list[Bad] = []
        for index, record in enumerate(records):
            origins: list[virtual.Origin] = []
            value = record.value or b""
            if value[:1] != OPERATION_MARK:
                try:
                    origins = [virtual.decode(value).origin]
                except WireError as error:
                    bad.append(Bad(index, error))
            with self._queue:
                waiting = self._waiting.setdefault(record.partition, deque())
                waiting.append((record.offset + 1, origins))
        return bad

    @property
    def positions(self) -> dict[int, int]:
        """Partition -> the offset up to which (exclusive) the sources have read what its topic tells of."""
        with self._queue:
            for partition, waiting in self._waiting.items():
                while waiting and all(self._reached(origin) for origin in waiting[0][1]):
                    self._positions[partition] = waiting.popleft()[0]
            return dict(self._positions)

    @property
    def read_to(self) -> dict[int, int]:
        """Partition -> the offset up to which (exclusive) its topic has been read."""
        with self._queue:
            last = {partition: waiting[-1][0] for partition, waiting in self._waiting.items() if waiting}
            return self._positions | last

    def _reached(self, origin: virtual.Origin) -> bool:
        stored = self._stored.get(origin.topic)
        if stored is not None and stored.table.uid == origin.uid:
            return stored.positions.get(origin.partition, 0) > origin.offset
        # a source that is gone is not waited for, one that is not open yet is
        return all(table.uid != origin.uid for table in self._catalog.tables().values())

    # ------------------------------------------------------------------ members

    @property
    def family(self) -> Family:
        """Its members as the catalog lists them."""
        with self.lock:
            position = self._catalog.position
            if position != self._known_at:
                self._refresh()
                self._known_at = position
            return self._family

    def _refresh(self) -> None:
        if self.table.kind == "normal":
            self._origins = {0: self.table.origins}
            return
        family, children = self._family, self._catalog.children(self.table)
        living = {child.name: child.uid for child in children}
        for name, number in list(family.numbers.items()):
            if living.get(name) != family.uids[number]:
                family.drop(name)
        for child in children:
            family.register(child)
            if family.tags[family.numbers[child.name]] != child.tags:
                family.retag(child.name, child.tags)
        with self._catalog.lock:
            members = list(members_of(self.table, None, self._catalog.catalog))
        self._origins = {family.numbers[name]: origins for name, origins in members if name in family.numbers}

    # ------------------------------------------------------------------ rows

    def view(
        self,
        low: int = LOWEST,
        high: int = HIGHEST,
        members: Collection[int] | None = None,
        since: Since | None = None,
    ) -> View:
        """The rows with ``low <= ts <= high`` as they stand; only of these ``members``, by number, and only
        those that count by ``since``."""
        with self.lock:
            family = self.family
            origins, described = dict(self._origins), family.described()
        if members is not None:
            origins = {number: origins[number] for number in members if number in origins}
        reading = _Reading(low, high, members is not None, family.names, since)
        parts = [
            part
            for (topic, uid), by_columns in _by_source(self.table, origins).items()
            for part in self._parts(topic, uid, by_columns, reading)
        ]
        return View(self.table, self._slices(parts), described, family)

    def known_since(self, created: int) -> dict[str, int]:
        """The members, by name, that were there at ``created`` (ms): a stream on it ignores those made later
        (seed 000)."""
        with self.lock:
            numbers = dict(self.family.numbers)
        if self.table.kind == "normal":
            return numbers
        old = {child.name for child in self._catalog.children(self.table) if child.created <= created}
        return {name: number for name, number in numbers.items() if name in old}

    def sources(self) -> list[tuple[StoredTable, int]]:
        """The stored tables that it takes rows from; for each, how many members may take the same row."""
        with self.lock:
            origins = dict(self._origins) if self.family else {}
        found = []
        for (topic, uid), by_columns in _by_source(self.table, origins).items():
            stored = self._stored.get(topic)
            if stored is not None and stored.table.uid == uid:
                takers = Counter(origin.name for pairs in by_columns.values() for origin, _ in pairs)
                found.append((stored, max(takers.values())))
        return found

    def written(self, spans: Spans) -> View:
        """The rows that were last sent in one of these spans of its topic, whatever their times are."""
        stretches: dict[int, tuple[int, int]] = {}
        for first, end in spans:
            partition = first >> OFFSET_BITS
            stretches[partition] = (first - (partition << OFFSET_BITS), end - (partition << OFFSET_BITS))
        keys: set[tuple[int, int]] = set()
        family = self.family
        for record in self._read(self.topic, stretches) if stretches else ():
            number = family.numbers.get((record.key or self.table.name.encode()).decode(errors="replace"))
            try:
                rows = msgspec.json.decode(virtual.decode(record.value or b"").rows)
            except WireError:
                continue
            if number is not None:
                found = rows if isinstance(rows, list) else [rows]
                keys |= {(number, row[self.table.key.name]) for row in found}
        times = [ts for _, ts in keys]
        view = self.view(min(times, default=0), max(times, default=-1))
        runs = []
        for run in view.slices.runs:
            pairs = zip(run.child.tolist(), run.ts.tolist(), strict=True)
            runs.append(run.take(np.flatnonzero([pair in keys for pair in pairs])))
        return View(self.table, Slices(tuple(runs), view.slices.empty), view.described, view.family)

    def _parts(
        self, topic: str, uid: int, by_columns: Mapping[Columns, list[tuple[Origin, int]]], reading: _Reading
    ) -> list[pl.DataFrame]:
        """The rows of one stored table, a frame per selection of its columns: member, time, own columns."""
        stored = self._stored.get(topic)
        if stored is None or stored.table.uid != uid:
            return []
        view = stored.view(reading.low, reading.high)
        with stored.lock:
            numbers, uids = dict(stored.family.numbers), list(stored.family.uids)
        wanted = {numbers.get(origin.name, -1) for pairs in by_columns.values() for origin, _ in pairs}
        data, child = reading.rows(view, topic, wanted)
        key = view.table.key.name
        frame = data.with_columns(pl.Series(MEMBER, child), data[key].alias(TS))
        names = {column.identity: column.name for column in view.table.columns}
        types = {column.name: polars_type(column.type) for column in self.table.columns}
        parts: list[pl.DataFrame] = []
        for columns, members in by_columns.items():
            pairs = [
                (numbers[origin.name], member, reading.floor(member, topic, uid, origin.name))
                for origin, member in members
                if origin.name in numbers and uids[numbers[origin.name]] == _uid(view.table, origin)
            ]
            schema = {MEMBER: pl.Int32, OWN: pl.Int32, FLOOR: pl.Int64}
            mapping = pl.DataFrame(pairs, schema=schema, orient="row")
            cells = [
                pl.col(names[source]).cast(types[own], strict=False).alias(own)
                for source, own in columns
                if source in names
            ]
            rows = frame.join(mapping, MEMBER, "inner")
            if PLACE in rows.columns:
                rows = rows.filter(pl.col(PLACE) >= pl.col(FLOOR))
            parts.append(rows.select(pl.col(OWN).alias(MEMBER), TS, *cells))
        return parts

    def _slices(self, parts: Sequence[pl.DataFrame]) -> Slices:
        """One row for each member and time."""
        empty = pl.DataFrame(schema={c.name: polars_type(c.type) for c in self.table.columns})
        own = [column.name for column in self.table.columns[1:]]
        filled = [
            part.with_columns(
                pl.lit(None, empty.schema[name]).alias(name) for name in own if name not in part.columns
            ).select(MEMBER, TS, *own)
            for part in parts
            if len(part)
        ]
        if not filled:
            return Slices((), empty)
        rows = pl.concat(filled)
        if len(filled) > 1:
            rows = rows.group_by(MEMBER, TS).agg(pl.col(name).drop_nulls().first() for name in own)
        rows = rows.sort(MEMBER, TS)
        count = len(rows)
        run = Run(
            rows[MEMBER].to_numpy(), rows[TS].to_numpy(),
            rows.select(pl.col(TS).alias(self.table.key.name), *own),
            np.zeros(count, dtype=np.int32), np.zeros(count, dtype=bool), nowhere(count),
        )  # fmt: skip
        return Slices((run,), empty)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is read of the sources. ``few``: only some of a source's tables. ``names``: members by number."""

    low: int
    high: int
    few: bool
    names: Sequence[str]
    since: Since | None

    def rows(self, view: View, topic: str, wanted: set[int]) -> tuple[pl.DataFrame, Children]:
        """Rows of a source, and the table of each; with the column PLACE if places count."""
        slices = view.slices
        if self.since is not None:
            spans = self.since.spans.get(topic, ())
            slices = _placed(slices.written(spans, first=self.since.first), spans)
        if not self.few:
            return slices.within(self.low, self.high)
        these = np.array(sorted(wanted - {-1}), dtype=np.int32)
        data, _, child = slices.between(these, np.full(len(these), self.low), np.full(len(these), self.high))
        return data, child

    def floor(self, member: int, topic: str, uid: int, source: str) -> int:
        return LOWEST if self.since is None else self.since.floor(self.names[member], topic, uid, source)


def _placed(slices: Slices, spans: Spans) -> Slices:
    """The same rows with a column that says where in the spans each was written."""
    places = [np.where(inside(run.place, spans), run.place, run.began) for run in slices.runs]
    runs = (
        replace(run, data=run.data.with_columns(pl.Series(PLACE, place)))
        for run, place in zip(slices.runs, places, strict=True)
    )
    return Slices(tuple(runs), slices.empty.with_columns(pl.lit(None, pl.Int64).alias(PLACE)))


def _uid(table: Table, origin: Origin) -> int:
    """The uid of the table that an origin means."""
    if table.kind == "normal":
        return table.uid
    return child_uid(origin.db, origin.name, origin.incarnation)


def _by_source(
    table: Table, members: Mapping[int, Origins]
) -> dict[tuple[str, int], dict[Columns, list[tuple[Origin, int]]]]:
    """(WAL topic, uid) of each source -> the columns taken -> from which of its tables, for which members."""
    found: dict[tuple[str, int], dict[Columns, list[tuple[Origin, int]]]] = {}
    for number, origins in members.items():
        taken: dict[tuple[str, int, str, int], tuple[Origin, list[tuple[str, str]]]] = {}
        for column, origin in zip(table.columns, origins, strict=False):
            if origin is not None:
                key = (wal_topic(origin.db, origin.table), origin.uid, origin.name, origin.incarnation)
                taken.setdefault(key, (origin, []))[1].append((origin.column, column.name))
        for (topic, uid, _, _), (origin, columns) in taken.items():
            by_columns = found.setdefault((topic, uid), {})
            by_columns.setdefault(tuple(columns), []).append((origin, number))
    return found

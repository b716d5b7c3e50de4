"""AFTER INSERT: a trigger follows the log. Each trigger has its own reader and its own place: one that is
slow, or whose process ends again and again, holds up no other.

What the trigger keeps and where it stands go into one record, about every second. After a crash it goes on
from there: each row fires at least once, and what a class keeps has seen each row exactly once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from api_gateway import metrics
from api_gateway.context import Context
from api_gateway.firing import Firing, Spot
from api_gateway.insert_triggers import progress
from api_gateway.insert_triggers.depths import Depths
from api_gateway.insert_triggers.instance import Outcome
from api_gateway.insert_triggers.live import Live
from api_gateway.insert_triggers.outputs import store
from api_gateway.insert_triggers.progress import Done
from millrace_core.dialect.iotdb.schema import TABLE, Schema
from millrace_core.dialect.iotdb.triggers.life import Failure
from millrace_core.dialect.iotdb.triggers.progress import Deep, TriggerProgress
from millrace_core.dialect.iotdb.triggers.tablets import BatchTablet, Watched, batch_of
from millrace_core.errors import MillraceError, WireError
from millrace_core.model.schema import Table
from millrace_core.wire.reading import name_of
from millrace_core.wire.rows.revisions import TableDecoder
from millrace_core.wire.topics import wal_topic
from millrace_wal import BEGIN, Log, Reader, Record

POLL_SECONDS = 0.2
LIMIT = 5000
"""How many records are read per step."""
KEEP_SECONDS = 1.0
SETTLE_SECONDS = 30.0
MOST_DEEP = 50_000
REMEMBERED = 100_000
"""For how many messages failures and writes are kept, for requests that ask for them."""


@dataclass(slots=True)
class Fired:
    """What became of one message, if it is worth telling: the first failure, and where its writes lie."""

    failure: Failure | None = None
    spots: list[Spot] = field(default_factory=list)


class Follower:
    """A work of :class:`millrace_service.Life`. ``kept``: what is known from before; None for a new trigger;
    ``lowest``: up to where all triggers that read a topic's partition are done with it."""

    def __init__(
        self,
        log: Log,
        context: Context,
        live: Live,
        depths: Depths,
        kept: TriggerProgress | None,
        lowest: Callable[[str, int], int],
    ) -> None:
        self.name, self.stopping = f"trigger {live.record.name}", threading.Event()
        self._log, self._context, self._live, self._depths = log, context, live, depths
        self._lowest = lowest
        self._reader: Reader | None = None
        self._decoders: dict[str, TableDecoder] = {}
        self._tables: dict[str, Table] = {}
        self._catalog_at = -1
        self._done = progress.done_of(live.record.begins if kept is None else kept.places)
        self._state = None if kept is None else kept.state
        self._number = 0 if kept is None else kept.number
        self._deep: dict[tuple[str, int, int], int] = {}
        self.durable = self._done
        """How far it is durably done, whatever ends the process."""
        self._dirty, self._keep_at = False, 0.0
        self._changed = threading.Condition()
        self._fired: dict[tuple[str, int, int], Fired] = {}

    # -- life ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        # what came after the last known place is fired again, from what the trigger kept there
        self._live.instance.rewind(self._state)
        self._reader = self._log.reader({})
        self._tables, self._decoders, self._catalog_at = {}, {}, -1

    def step(self) -> None:
        assert self._reader is not None, "begin comes first"
        self._discover(self._reader)
        records = self._reader.poll(POLL_SECONDS, LIMIT) if self._tables else []
        if not self._tables:
            self.stopping.wait(POLL_SECONDS)
        if records:
            # the rows may be written by a definition that has come meanwhile
            self._discover(self._reader)
            self._depths.settle(SETTLE_SECONDS)
            for topic, some in groupby(sorted(records, key=_topic), key=_topic):
                self._take(topic, list(some))
        self._advance(self._reader)
        if self._dirty and (time.monotonic() >= self._keep_at):
            self._keep()

    def end(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self.stopping.is_set():
            with self._changed:
                self._changed.notify_all()

    def last(self) -> None:
        """Keep what is not kept yet, once the thread has ended."""
        if self._dirty:
            self._keep()

    def _discover(self, reader: Reader) -> None:
        """Read the topics of databases that may hold what is watched, from where this trigger stands."""
        at = self._context.writer.position
        if at == self._catalog_at:
            return
        schema, found = Schema(self._context.catalog), {}
        for db in schema.databases():
            table = schema.table(db) if self._live.may_watch(db) else None
            if table is not None:
                found[wal_topic(db, TABLE)] = table
        for topic in self._tables.keys() - found.keys():
            reader.remove(topic)
            self._done.pop(topic, None)
        for topic, table in found.items():
            if self._tables.get(topic) is not table:
                self._decoders[topic] = TableDecoder(table)
            known = self._tables.get(topic)
            if known is None or known.uid != table.uid:
                self._place(reader, topic, table)
        self._tables, self._catalog_at = found, at

    def _place(self, reader: Reader, topic: str, table: Table) -> None:
        uid, offsets = self._done.get(topic, (table.uid, {}))
        if uid != table.uid:
            offsets = {}
        partitions = self._log.end_offsets(topic)
        self._done[topic] = table.uid, offsets
        reader.add(topic, {partition: offsets.get(partition, BEGIN) for partition in partitions})

    # -- firing ----------------------------------------------------------------------------------------------

    def _take(self, topic: str, records: Sequence[Record]) -> None:
        table = self._tables.get(topic)
        if table is None:
            return
        watched = [self._watched(table, record) for record in records]
        if not any(one is not None and one.series for one in watched):
            return
        decoded = self._decoders[topic].decode(
            [record.value or b"" for record in records],
            np.array([record.partition for record in records], np.int64),
            np.array([record.offset for record in records], np.int64),
        )
        batch = batch_of(decoded, watched)
        if batch is None:
            return
        begin = time.monotonic()
        outcomes = self._live.instance.fire(batch, batch.parts)
        metrics.TRIGGER_FIRINGS.labels(self._live.record.name).inc(len(outcomes))
        metrics.TRIGGER_SECONDS.labels(self._live.record.name).observe(time.monotonic() - begin)
        self._settle(records, batch.parts, outcomes)

    def _watched(self, table: Table, record: Record) -> Watched | None:
        try:
            return self._live.watched(table.db, name_of(record.key or b""))
        except WireError:
            return None  # calc-svc makes a dead letter of it

    def _settle(
        self, records: Sequence[Record], parts: Sequence[BatchTablet], outcomes: Sequence[Outcome]
    ) -> None:
        """Store what the trigger wrote; remember what there is to tell, for requests."""
        told: dict[tuple[str, int, int], Fired] = {}
        by_depth: dict[int, list[tuple[Record, Outcome]]] = {}
        for part, outcome in zip(parts, outcomes, strict=True):
            record = records[part.message]
            if outcome.why:
                told[record[:3]] = Fired(self._live.failed(outcome.why, [part.device]))
            elif outcome.writes:
                depth = self._depths.of(*record[:3]) + 1
                by_depth.setdefault(depth, []).append((record, outcome))
        for depth, some in by_depth.items():
            if not self._store(depth, some, told) and len(some) > 1:
                for one in some:
                    self._store(depth, [one], told)
            elif len(some) == 1 and some[0][0][:3] not in told:
                told[some[0][0][:3]] = Fired()
        with self._changed:
            self._fired |= told
            while len(self._fired) > REMEMBERED:
                self._fired.pop(next(iter(self._fired)))

    def _store(
        self, depth: int, some: Sequence[tuple[Record, Outcome]], told: dict[tuple[str, int, int], Fired]
    ) -> bool:
        """Store what the trigger wrote for these tablets, all at once; returns whether that was accepted. If
        there is only one tablet, a refusal counts as its failure."""
        firing = Firing(depth, waits=False)
        writes = [write for _, outcome in some for write in outcome.writes]
        try:
            store(self._context, self._live.record, writes, firing)
        except MillraceError as error:
            if error.code.value.retry:
                raise
            if len(some) == 1:
                why = f"the rows that it writes were refused: {error.message}"
                told[some[0][0][:3]] = Fired(self._live.failed(why, []), firing.spots)
            return False
        for record, _ in some:
            told[record[:3]] = Fired(None, firing.spots)
        for spot in firing.spots:
            self._deep[spot[:3]] = depth
        return True

    # -- places ----------------------------------------------------------------------------------------------

    def _advance(self, reader: Reader) -> None:
        moved = False
        for topic, offsets in reader.positions().items():
            table = self._tables.get(topic)
            if table is None:
                continue
            known = self._done.get(topic, (table.uid, {}))[1]
            news = {p: at for p, at in offsets.items() if at >= 0 and at != known.get(p)}
            if news:
                with self._changed:
                    self._done[topic] = table.uid, {**known, **news}
                moved = True
        if moved:
            self._state = self._live.instance.state
            self._dirty = True
            with self._changed:
                self._changed.notify_all()

    def _keep(self) -> None:
        self._number += 1
        done: Done = {topic: (uid, dict(offsets)) for topic, (uid, offsets) in self._done.items()}
        record = self._live.record
        self._forget_deep()
        deep = tuple(Deep(*place, depth) for place, depth in self._deep.items())
        told = TriggerProgress(
            record.name, record.uid, self._number, progress.places_of(done), self._state, deep
        )
        self._log.append([progress.message(told)])
        self.durable, self._dirty = done, False
        self._keep_at = time.monotonic() + KEEP_SECONDS

    def _forget_deep(self) -> None:
        """Forget depths of messages that every trigger watching them has passed. If there are too many, only
        the last ones are kept: after a crash, the rows of the others do not count as a trigger's writes."""
        lowest: dict[tuple[str, int], int] = {}
        for topic, partition, offset in list(self._deep):
            if (topic, partition) not in lowest:
                lowest[topic, partition] = self._lowest(topic, partition)
            if offset < lowest[topic, partition] or len(self._deep) > MOST_DEEP:
                del self._deep[topic, partition, offset]

    # -- who waits -------------------------------------------------------------------------------------------

    def wait(self, spots: Sequence[Spot], until: float) -> list[Fired] | None:
        """What became of these messages, once they have fired; None if not by ``until`` (monotonic)."""

        def over() -> bool:
            return self.stopping.is_set() or all(map(self._passed, spots))

        with self._changed:
            if not self._changed.wait_for(over, max(until - time.monotonic(), 0)):
                return None
            found = (self._fired.pop(spot[:3], None) for spot in spots)
            return [one for one in found if one is not None]

    def behind(self, topic: str, ends: Mapping[int, int]) -> int:
        """How many messages of a topic before these ends have not fired yet."""
        _, offsets = self._done.get(topic, (0, {}))
        return sum(max(end - offsets.get(partition, 0), 0) for partition, end in ends.items())

    def _passed(self, spot: Spot) -> bool:
        _, offsets = self._done.get(spot.topic, (0, {}))
        return offsets.get(spot.partition, 0) > spot.offset


def _topic(record: Record) -> str:
    return record.topic

"""A slot: a fixed share of all tables and groups, and everything that triggers in it.

:meth:`Slot.on_batch` takes what reached the slot in one micro-batch and says what to send. It is a pure
function of the slot's state and the batch, so that a batch that runs again says the same again, with the same
numbers and ids. Within a batch control records go first, then the messages of the WAL topics by (topic,
partition, offset), then regrouped rows.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
import numpy as np

from millrace_core.errors import MillraceError
from millrace_core.model.revisions import revision_of
from millrace_core.model.schema import Child, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.trigger.definition import compiled, essence
from millrace_core.trigger.delay import FAR
from millrace_core.trigger.family import Family
from millrace_core.trigger.intake import Messages, members_of, read
from millrace_core.trigger.period_stream import PeriodStream
from millrace_core.trigger.placing import Tags, placed, with_operations
from millrace_core.trigger.recalc_slot import delete, deletes_in, on_handovers, on_record
from millrace_core.trigger.recalc_stream import RecalcStream
from millrace_core.trigger.stream import Life, Output, Stream, signals_of
from millrace_core.trigger.virtual import Feeds, Inbox
from millrace_core.wire import control, regroup, status
from millrace_core.wire.control import Offsets
from millrace_core.wire.topics import CLOCK, CONTROL, HANDOVER, REGROUP, STATUS, WAL_PREFIX, wal_topic

SERVICE = "trigger-svc"
VERSION = 2
"""1 had no time behind the version byte."""
_DUE = 8
NS_PER_MS = 1_000_000


class Slot:
    """``number`` of ``slots``. ``control``: offset of the last control record in force, -1 before any."""

    def __init__(self, number: int, slots: int) -> None:
        self.number = number
        self.slots = slots
        self.control = -1
        self.streams: dict[int, Stream] = {}
        self.failed: dict[int, str] = {}
        self.families: dict[str, Family] = {}
        self.tables: dict[str, Table] = {}
        """WAL topic -> the table as it is now, where it was altered under a stream."""
        self.seen: dict[str, Offsets] = {}
        self.feeds = Feeds()
        self.inbox = Inbox()

    # ------------------------------------------------------------------ state as bytes

    def snapshot(self) -> bytes:
        """The state, to be kept until the next batch: a version byte, :meth:`due`, then msgpack."""
        families = {topic: family.dump() for topic, family in self.families.items()}
        streams = [stream.dump() for stream in self.streams.values()]
        state = [self.number, self.slots, self.control, self.failed, families, self.seen, streams]
        state += [self.feeds.dump(), self.inbox.dump(), self.tables]
        due = min((stream.due for stream in self.streams.values()), default=FAR)
        return bytes([VERSION]) + due.to_bytes(_DUE, "little") + msgspec.msgpack.encode(state)

    @staticmethod
    def due(blob: bytes) -> int:
        """The first processing time (ns) at which a tick may mean something to the slot of this state."""
        return int.from_bytes(blob[1 : 1 + _DUE], "little") if blob[0] > 1 else 0

    @staticmethod
    def heeds(blob: bytes | None, messages: Messages) -> bool:
        """Whether these messages may mean something to the slot of this state (None: it has none yet)."""
        if any(topic != CLOCK.name for topic in messages.topic):
            return True
        ticks = (control.decode_tick(value) for value in messages.value if value is not None)
        return blob is not None and any(tick.now >= Slot.due(blob) for tick in ticks)

    @staticmethod
    def restore(blob: bytes) -> Slot:
        """The inverse of :meth:`snapshot`.

        :raises ValueError: if the state was written by a newer version.
        """
        if blob[0] > VERSION:
            raise ValueError(f"slot state of version {blob[0]}, this is version {VERSION}")
        begin = 1 + _DUE if blob[0] > 1 else 1
        state: list[Any] = msgspec.msgpack.decode(memoryview(blob)[begin:])
        slot = Slot(state[0], state[1])
        slot.control, slot.failed = state[2], state[3]
        slot.families = {topic: Family.load(family) for topic, family in state[4].items()}
        slot.seen = state[5]
        for data in state[6]:
            stream = hosted(data[0][0]).load(data, slot.number)
            slot.streams[stream.uid] = stream
        if len(state) > 7:  # a state from before there were virtual tables has neither
            slot.feeds.load(state[7])
            slot.inbox.load(state[8])
        if len(state) > 9:  # one from before tables could be altered has none
            slot.tables = msgspec.convert(state[9], dict[str, Table])
        for topic, table in slot.tables.items():
            slot._family(topic).order = table.tags
        return slot

    # ------------------------------------------------------------------ a batch

    def on_batch(self, messages: Messages) -> list[Output]:
        """Take in the messages of one micro-batch; what to send, in order."""
        out: list[Output] = []
        topics = messages.by_topic()
        if CONTROL.name in topics:
            self._on_control(topics[CONTROL.name], topics, out)
        for topic, mine in topics.items():
            if topic.startswith(WAL_PREFIX):
                self._on_rows(topic, mine, out)
        if REGROUP.name in topics:
            self._on_regrouped(topics[REGROUP.name], out)
        if HANDOVER.name in topics:
            out.extend(on_handovers(topics[HANDOVER.name], self.number, self.streams, self.seen))
        if CLOCK.name in topics:
            self._on_ticks(topics[CLOCK.name], out)
        for stream in self.streams.values():
            out.extend(stream.take_outgoing())
            out.extend(stream.farewells(dict(self.seen.get(stream.definition.topic, {}))))
            stream.sweep()
            totals = stream.news()
            if totals is not None:
                self._tell(status.Counters(SERVICE, stream.uid, self.number, totals), out)
        return out

    def _tell(self, news: status.AnyStatus, out: list[Output]) -> None:
        out.append((STATUS.name, status.key(news), status.encode(news)))

    # ------------------------------------------------------------------ control

    def _on_control(self, messages: Messages, topics: dict[str, Messages], out: list[Output]) -> None:
        before = self.control
        times = (messages.timestamp * NS_PER_MS).tolist()
        for offset, at, value in zip(messages.offset.tolist(), times, messages.value, strict=True):
            if offset > self.control and value is not None:
                record = control.decode_control(value)
                if isinstance(record, control.ChangeTable):
                    self._judge_before(record.table, topics, out)
                self._apply(record, at, out)
                self.control = offset
        if self.number == 0 and self.control > before:
            self._tell(status.Applied(self.control), out)

    def _judge_before(self, table: Table, topics: dict[str, Messages], out: list[Output]) -> None:
        """Rows of before an ALTER are judged by what the table was; they may have come with its record."""
        topic = wal_topic(table.db, table.name)
        if topic not in topics or not table.earlier:
            return
        mine = topics[topic]
        old = revision_of(table, mine.partition, mine.offset) < len(table.earlier)
        if old.any():
            self._on_rows(topic, mine.take(np.flatnonzero(old)), out)
            topics[topic] = mine.take(np.flatnonzero(~old))

    def _apply(self, record: control.AnyControl, at: int, out: list[Output]) -> None:
        """``at``: when the record was written, ns."""
        self.feeds.apply(record, self.number)
        match record:
            case control.DefineStream(spec=spec, live_from=live_from, epoch=epoch):
                self._define(spec, live_from, epoch, at, out)
            case control.StopStream(uid=uid) if uid in self.streams:
                self.streams[uid].life.running = False
            case control.StartStream(uid=uid, live_from=live_from, epoch=epoch) if uid in self.streams:
                self.streams[uid].resume(live_from, epoch, at)
            case control.DropStream(uid=uid):
                self.failed.pop(uid, None)
                if uid in self.streams:
                    self._forget_tags(self.streams.pop(uid).definition.topic)
            case control.ChangeTable(table=table):
                self._change(table)
            case control.DropTable(uid=uid, topic=topic):
                self._drop_table(uid, topic)
            case control.KnowChildren(slot=slot, children=children) if slot == self.number:
                for child in children:
                    self._know(child)
            case _:
                pass  # about a stream that is not here, or another slot's children
        out.extend(on_record(record, self.streams, self.seen, at))

    def _know(self, child: Child) -> None:
        topic = wal_topic(child.db, child.table)
        family, name = self._family(topic), child.name.encode()
        family.know(child)
        for stream in self.streams.values():
            if stream.definition.topic == topic and not stream.life.gone:
                stream.meet(name, family)

    def _define(self, spec: StreamSpec, live_from: Offsets, epoch: int, at: int, out: list[Output]) -> None:
        definition = essence(spec)
        try:
            meaning = compiled(definition)
        except MillraceError as error:
            self.failed[spec.uid] = error.message
            self.streams.pop(spec.uid, None)
            if self.number == 0:
                self._tell(status.StreamFailure(spec.uid, error.message), out)
            return
        if self.failed.pop(spec.uid, "") and self.number == 0:
            self._tell(status.StreamFailure(spec.uid, ""), out)
        if meaning.reads_tags:
            self._family(meaning.topic).keep_tags = True
        known = self.streams.get(spec.uid)
        if known is not None and known.definition.table.uid == meaning.table.uid:
            known.redefine(definition)
            known.resume(live_from, epoch, at)
        elif meaning.concerns(self.number, self.slots):
            stream = hosted(definition)(Life(definition, epoch, live_from), self.number)
            self.streams[spec.uid] = stream
            stream.begin(self.slots, at)

    def _change(self, table: Table) -> None:
        """Decode the table's messages by its new definition. Its streams keep their words: a column goes on
        under the name that it had when the stream was made."""
        topic = wal_topic(table.db, table.name)
        mine = [stream for stream in self.streams.values() if stream.definition.table.uid == table.uid]
        if mine:  # else a stream that comes later brings the table along
            self._family(topic).reorder(self._table(topic, mine).tags, table.tags)
            self.tables[topic] = table

    def _table(self, topic: str, streams: list[Stream]) -> Table:
        """The table of these streams as it is now."""
        return self.tables.get(topic) or streams[0].definition.table

    def _drop_table(self, uid: int, topic: str) -> None:
        self.seen.pop(topic, None)
        self.families.pop(topic, None)
        self.tables.pop(topic, None)
        self.inbox.forget(topic)
        for stream in self.streams.values():
            if stream.definition.table.uid == uid:
                stream.lose_table()

    def _forget_tags(self, topic: str) -> None:
        """Tags that no stream groups by any more are not kept."""
        mine = [stream for stream in self.streams.values() if stream.definition.topic == topic]
        if topic in self.families and not any(stream.definition.reads_tags for stream in mine):
            self.families[topic].keep_tags = False
            self.families[topic].tags.clear()

    def _family(self, topic: str) -> Family:
        return self.families.setdefault(topic, Family())

    # ------------------------------------------------------------------ rows of tables

    def _on_rows(self, topic: str, messages: Messages, out: list[Output]) -> None:
        out.extend(self.feeds.forward(topic, messages))
        self._on_wal(topic, messages, out)

    def _on_wal(self, topic: str, messages: Messages, out: list[Output]) -> None:
        streams = [
            stream
            for stream in self.streams.values()
            if stream.definition.topic == topic and not stream.life.gone
        ]
        if not streams:
            return
        live = [stream for stream in streams if stream.live]
        wanted: dict[int, Any]
        if streams[0].definition.table.virtual:
            messages, wanted = self._open(live, streams[0].definition.table, messages)
        else:
            wanted = {stream.uid: stream.wants(messages) for stream in live}
        needed = with_operations(streams, messages, list(wanted.values()))
        if live:
            seen = self.seen.setdefault(topic, {})
            for partition in np.unique(messages.partition).tolist():
                last = int(messages.offset[messages.partition == partition].max())
                seen[partition] = max(last + 1, seen.get(partition, 0))
        if not needed.any():
            return
        if not needed.all():
            wanted = {uid: mask[needed] for uid, mask in wanted.items()}
            messages = messages.take(np.flatnonzero(needed))
        begin = 0
        for place, span in deletes_in(live, messages):
            self._judge_part(topic, streams, wanted, messages, (begin, place), out)
            family = self._family(topic)
            out.extend(delete(live, messages, place, span, wanted, dict(self.seen[topic]), family))
            begin = place
        self._judge_part(topic, streams, wanted, messages, (begin, len(messages)), out)

    def _judge_part(
        self, topic: str, streams: list[Stream], wanted: dict[int, Any], messages: Messages,
        part: tuple[int, int], out: list[Output],
    ) -> None:  # fmt: skip
        begin, end = part
        if (begin, end) != (0, len(messages)):
            wanted = {uid: mask[begin:end] for uid, mask in wanted.items()}
            messages = messages.take(np.arange(begin, end))
        if end > begin:
            self._judge(topic, streams, wanted, messages, out)

    def _open(self, live: list[Stream], table: Table, messages: Messages) -> tuple[Messages, dict[int, Any]]:
        """The rows that the slots of a virtual table's sources sent, and which trigger which stream."""
        merge = any(stream.definition.signals for stream in live)
        messages, meant = self.inbox.open(table, messages, merge)
        nothing = np.zeros(len(messages), dtype=bool)
        return messages, {s.uid: s.wants(messages) & meant.get(s.uid, nothing) for s in live}

    def _judge(
        self, topic: str, streams: list[Stream], wanted: dict[int, Any], messages: Messages, out: list[Output]
    ) -> None:
        table = self._table(topic, streams)
        live = [stream for stream in streams if stream.uid in wanted]
        read_as = {words: read(table, messages, signals, words) for words, signals in signals_of(live, table)}
        rows = next(iter(read_as.values()))
        names = keyed(messages.key, table)
        family = self._family(topic)
        held = np.bincount(rows.message, minlength=len(messages))
        takes = {uid: mask & (held > 0) for uid, mask in wanted.items()}
        tags: list[Tags] | None = [] if any(part.pending for part in read_as.values()) else None
        groups = placed(streams, takes, names, rows.operations, family, table, tags)
        if tags is not None:
            for words, part in read_as.items():
                part.describe(members_of(table, words, names, tags))
        for stream in live:
            mask, rows = wanted[stream.uid], read_as[stream.definition.table]
            stream.count("undecodable", int(mask[rows.bad].sum()))
            group = groups[stream.uid]
            stream.count("unknown_table", int(held[takes[stream.uid] & (group < 0)].sum()))
            mine, passed = rows, stream.definition.filter
            if passed is not None:
                mine = rows.only(rows.signals[passed])
                before, after = (int((group[r.message] >= 0).sum()) for r in (rows, mine))
                stream.count("filtered", before - after)
            out.extend(stream.judge_table(mine, group, messages, dict(self.seen[topic])))

    # ------------------------------------------------------------------ regrouped rows

    def _on_regrouped(self, messages: Messages, out: list[Output]) -> None:
        received: dict[int, list[tuple[int, regroup.Regrouped]]] = {}
        for partition, value in zip(messages.partition.tolist(), messages.value, strict=True):
            if value is not None:
                message = regroup.decode(value)
                received.setdefault(message.stream, []).append((partition, message))
        for uid in sorted(received):
            stream = self.streams.get(uid)
            if stream is not None and stream.live:
                out.extend(stream.judge_regrouped(received[uid]))

    # ------------------------------------------------------------------ processing time

    def _on_ticks(self, messages: Messages, out: list[Output]) -> None:
        for value in messages.value:
            if value is not None:
                tick = control.decode_tick(value)
                for stream in self.streams.values():
                    if stream.live:
                        out.extend(stream.on_tick(tick, self.seen.get(stream.definition.topic, {})))


def hosted(definition: bytes) -> type[Stream]:
    """What keeps a stream of this definition in a slot."""
    return RecalcStream if compiled(definition).schedule is None else PeriodStream


def keyed(keys: list[bytes | None], table: Table) -> list[bytes]:
    """The tables' names of messages; a normal table's may have no key."""
    if None not in keys:
        return cast(list[bytes], keys)
    name = table.name.encode()
    return [name if key is None else key for key in keys]

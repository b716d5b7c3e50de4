"""A slot: a fixed share of all tables and groups, and everything that triggers in it.

:meth:`Slot.on_batch` takes what reached the slot in one micro-batch and says what to send. It is a pure
function of the slot's state and the batch, so that a batch that runs again says the same again, with the same
numbers and ids. Within a batch control records go first, then the messages of the WAL topics by (topic,
partition, offset), then regrouped rows. What is done for a stream is done under its name (``trigger.blame``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from millrace_core.errors import MillraceError
from millrace_core.model.revisions import revision_of
from millrace_core.model.schema import Child, Table
from millrace_core.trigger.definition import compiled, essence
from millrace_core.trigger.diagnosis import answer
from millrace_core.trigger.groups import Groups
from millrace_core.trigger.intake import Messages
from millrace_core.trigger.placing import Tags, describe, placed, read_for, with_operations
from millrace_core.trigger.recalc_slot import delete, deletes_in, on_record
from millrace_core.trigger.recalc_stream import RecalcStream
from millrace_core.trigger.records import about
from millrace_core.trigger.slot_state import NOBODY, SlotState, hosted, tell
from millrace_core.trigger.stream import Life, Output, Stream
from millrace_core.trigger.versions import passing
from millrace_core.wire import control, recalc, regroup, status
from millrace_core.wire.topics import CLOCK, CONTROL, HANDOVER, REGROUP, WAL_PREFIX, wal_topic

SERVICE = "trigger-svc"
NS_PER_MS = 1_000_000


class Slot(SlotState):
    """See the module."""

    # ------------------------------------------------------------------ a batch

    def on_batch(
        self, messages: Messages, aside: Mapping[int, str] = NOBODY, absent: Mapping[int, str] = NOBODY
    ) -> list[Output]:
        """Take in the messages of one micro-batch; what to send, in order. ``aside``: streams that fail in
        it, and why: they take no part; ``absent``: those of them that are not even hosted.

        :raises StreamsFail: if streams raise. The slot is good for nothing then.
        """
        out: list[Output] = []
        self._aside, self._absent = aside, absent
        self.refused.begin()
        for uid, cause in aside.items():
            self.set_aside(uid, cause, out)
        topics = messages.by_topic()
        if CONTROL.name in topics:
            self._on_control(topics[CONTROL.name], topics, out)
        for topic, mine in topics.items():
            if topic.startswith(WAL_PREFIX):
                self._on_rows(topic, mine, out)
        if REGROUP.name in topics:
            self._on_regrouped(topics[REGROUP.name], out)
        if HANDOVER.name in topics:
            self._on_handovers(topics[HANDOVER.name], out)
        if CLOCK.name in topics:
            self._on_ticks(topics[CLOCK.name], out)
        for stream in self.streams.values():
            with self.blame.of(stream.uid):
                out.extend(stream.take_outgoing())
                out.extend(stream.farewells(self.seen.get(stream.definition.topic, {})))
                stream.sweep()
                stream.passing = Groups()
                totals = stream.news(CLOCK.name in topics)
                if totals is not None:
                    tell(status.Counters(SERVICE, stream.uid, self.number, totals), out)
        # last: what came with the question is in the answer
        out += [answer(one, number, self.number, self.streams, self.failed) for number, one in self._asked]
        self._asked = []
        if self.refused.changed:
            tell(status.Counters(SERVICE, 0, self.number, self.refused.totals), out)
        self.blame.settle()
        return out

    # ------------------------------------------------------------------ control

    def _on_control(self, messages: Messages, topics: dict[str, Messages], out: list[Output]) -> None:
        before = self.control
        times = (messages.timestamp * NS_PER_MS).tolist()
        for place, record in self.refused.decoded(messages, control.decode_control):
            offset = int(messages.offset[place])
            if offset <= self.control:
                continue
            if isinstance(record, control.ChangeTable):
                self._judge_before(record.table, topics, out)
            try:
                with self.blame.of_all(about(record, self.streams)):
                    self._apply(record, times[place], out)
            except MemoryError:
                raise
            except Exception as error:  # no stream of this slot is concerned
                self.refused.pass_over("refused", messages, place, error)
            if isinstance(record, control.DiagnoseStream):
                self._asked.append((offset, record))
            self.control = offset
            for uid, cause in self._aside.items():
                if uid in self.streams and self.streams[uid].life.running:
                    self.set_aside(uid, cause, out)
        if self.number == 0 and self.control > before:
            tell(status.Applied(self.control), out)

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
            case control.DefineStream():
                self._define(record, at, out)
            case control.StopStream(uid=uid) | control.RecalculateStream(uid=uid) if uid in self.failed:
                return  # it has stopped, and remembers where
            case control.StopStream(uid=uid) if uid in self.streams:
                self.streams[uid].life.running = False
            case control.StartStream(uid=uid) if uid in self.streams or uid in self.feeds.of:
                self.make_well(uid, out)
                if not self._start(record, at):
                    return
            case control.DropStream(uid=uid):
                self.make_well(uid, out)
                self.unhosted.pop(uid, None)
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
        out.extend(on_record(record, self.streams, self.seen, self.inbox.taken, at))

    def _start(self, record: control.StartStream, at: int) -> bool:
        """Whether the stream begins anew here. One that failed in another slot may run in this one: it misses
        nothing, only its epoch is another."""
        stream = self.streams.get(record.uid)
        if stream is None:
            return False
        if stream.life.running:
            if not stream.life.holding and not stream.definition.table.virtual:
                stream.life.epoch = record.epoch
                return False
            self.halt(stream)
        stream.resume(record.live_from, record.epoch, at)
        return True

    def _know(self, child: Child) -> None:
        topic = wal_topic(child.db, child.table)
        family, name = self._family(topic), child.name.encode()
        family.know(child)
        for stream in self.streams.values():
            if stream.definition.topic == topic and not stream.life.gone:
                with self.blame.of(stream.uid):
                    stream.meet(name, family)

    def _define(self, record: control.DefineStream, at: int, out: list[Output]) -> None:
        spec = record.spec
        definition = essence(spec)
        try:
            meaning = compiled(definition)
        except MillraceError as error:
            self.failed[spec.uid] = error.message
            self.streams.pop(spec.uid, None)
            if self.number == 0:
                tell(status.StreamFailure(spec.uid, error.message, self.number), out)
            return
        if spec.uid in self._absent:
            return
        self.make_well(spec.uid, out)
        if meaning.reads_tags:
            self._family(meaning.topic).keep_tags = True
        known = self.streams.get(spec.uid)
        if known is not None and known.definition.table.uid == meaning.table.uid:
            known.redefine(definition)
            known.resume(record.live_from, record.epoch, at)
        elif meaning.concerns(self.number, self.slots):
            life = Life(definition, record.epoch, record.live_from, origins=record.origins)
            stream = hosted(definition)(life, self.number)
            self.streams[spec.uid] = stream
            stream.count("started", at)
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

    # ------------------------------------------------------------------ rows of tables

    def _on_rows(self, topic: str, messages: Messages, out: list[Output]) -> None:
        fed = [uid for uid, feed in self.feeds.of.items() if topic in feed.sources]
        with self.blame.of_all(fed):
            out.extend(self.feeds.forward(topic, messages))
        mine = [stream.uid for stream in self.streams.values() if stream.definition.topic == topic]
        with self.blame.of_all(mine):
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
            wanted = self._wanted(live, messages)
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
            for stream in live:
                with self.blame.of(stream.uid):
                    out.extend(delete(stream, messages, place, span, wanted, dict(self.seen[topic]), family))
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
        wanted = self._wanted(live, messages)
        return messages, {uid: mask & meant.get(uid, nothing) for uid, mask in wanted.items()}

    def _wanted(self, live: list[Stream], messages: Messages) -> dict[int, Any]:
        """bool[messages] by stream."""
        wanted: dict[int, Any] = {}
        for stream in live:
            with self.blame.of(stream.uid):
                wanted[stream.uid] = stream.wants(messages)
        return wanted

    def _judge(
        self, topic: str, streams: list[Stream], wanted: dict[int, Any], messages: Messages, out: list[Output]
    ) -> None:
        table = self._table(topic, streams)
        live = [stream for stream in streams if stream.uid in wanted]
        read_as = read_for(live, table, messages, self.blame)
        rows = next(iter(read_as.values()))
        names = keyed(messages.key, table)
        family = self._family(topic)
        held = np.bincount(rows.message, minlength=len(messages))
        takes = {uid: mask & (held > 0) for uid, mask in wanted.items()}
        tags: list[Tags] | None = [] if any(part.pending for part in read_as.values()) else None
        groups = placed(streams, takes, names, rows.operations, family, table, tags, self.blame)
        if tags is not None:
            describe(live, read_as, table, names, tags, self.blame)
        for stream in live:
            if not (wanted[stream.uid].any() or stream.life.awaited or len(stream.passing)):
                continue  # as with most streams that read one child of many
            with self.blame.of(stream.uid):
                mask, rows = wanted[stream.uid], read_as[stream.definition.table]
                stream.count("rows_read", int(held[takes[stream.uid]].sum()))
                if rows.bad:
                    stream.count("undecodable", int(mask[rows.bad].sum()))
                group = groups[stream.uid]
                stream.count("unknown_table", int(held[takes[stream.uid] & (group < 0)].sum()))
                mine, again = passing(stream, rows, group, messages)
                seen = dict(self.seen[topic])
                out.extend(stream.judge_table(mine, group, messages, seen))
                if isinstance(stream, RecalcStream):
                    out.extend(stream.lose_versions(again, messages, seen))

    # ------------------------------------------------------------------ regrouped rows

    def _on_regrouped(self, messages: Messages, out: list[Output]) -> None:
        received: dict[int, list[tuple[int, regroup.Regrouped]]] = {}
        for place, message in self.refused.decoded(messages, regroup.decode):
            received.setdefault(message.stream, []).append((int(messages.partition[place]), message))
        for uid in sorted(received):
            stream = self.streams.get(uid)
            if stream is not None and stream.live:
                with self.blame.of(uid):
                    out.extend(stream.judge_regrouped(received[uid]))

    def _on_handovers(self, messages: Messages, out: list[Output]) -> None:
        """What calc-svc tells of the past; every slot gets all of it."""
        for place, handover in self.refused.decoded(messages, recalc.decode_handover):
            stream = self.streams.get(handover.stream) if handover.slot == self.number else None
            if isinstance(stream, RecalcStream) and stream.live:
                seen = self.seen.get(stream.definition.topic, {})
                with self.blame.of(stream.uid):
                    out.extend(stream.take_past(handover, int(messages.timestamp[place]), seen))

    # ------------------------------------------------------------------ processing time

    def _on_ticks(self, messages: Messages, out: list[Output]) -> None:
        for _, tick in self.refused.decoded(messages, control.decode_tick):
            for stream in self.streams.values():
                if stream.live:
                    with self.blame.of(stream.uid):
                        out.extend(stream.on_tick(tick, self.seen.get(stream.definition.topic, {})))


def keyed(keys: list[bytes | None], table: Table) -> list[bytes]:
    """The tables' names of messages; a normal table's may have no key."""
    if None not in keys:
        return cast(list[bytes], keys)
    name = table.name.encode()
    return [name if key is None else key for key in keys]

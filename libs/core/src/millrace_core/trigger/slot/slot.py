"""A slot: a fixed share of all tables and groups, and everything that triggers in it.

:meth:`Slot.on_batch` takes what reached the slot in one micro-batch and says what to send. It is a pure
function of the slot's state and the batch, so that a batch that runs again says the same again, with the same
numbers and ids. Within a batch control records go first, then the messages of the WAL topics by (topic,
partition, offset), then regrouped rows. What is done for a stream is done under its name (``slot.blame``).
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np

from millrace_core.errors import MillraceError
from millrace_core.model.revisions import revision_of
from millrace_core.model.schema import Child, Table
from millrace_core.trigger.groups.groups import Groups
from millrace_core.trigger.rows.intake import Messages
from millrace_core.trigger.slot.diagnosis import answer
from millrace_core.trigger.slot.records import about
from millrace_core.trigger.slot.requests import on_record
from millrace_core.trigger.slot.rows import SlotRows
from millrace_core.trigger.slot.state import NOBODY, hosted, tell
from millrace_core.trigger.stream.definition import compiled, essence
from millrace_core.trigger.stream.history import RecalcStream
from millrace_core.trigger.stream.stream import Life, Output
from millrace_core.wire import control, recalc, regroup, status
from millrace_core.wire.topics import CLOCK, CONTROL, HANDOVER, REGROUP, WAL_PREFIX, wal_topic

SERVICE = "trigger-svc"
NS_PER_MS = 1_000_000


class Slot(SlotRows):
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
        self._begin(topics.keys(), out)
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
        self._end(CLOCK.name in topics, out)
        # last: what came with the question is in the answer
        out += [answer(one, number, self.number, self.streams, self.failed) for number, one in self._asked]
        self._asked = []
        out += self.refused.letters
        if self.refused.changed:
            tell(status.Counters(SERVICE, 0, self.number, self.refused.totals), out)
        self.blame.settle()
        return out

    def _begin(self, topics: Set[str], out: list[Output]) -> None:
        """All is judged that was put off, if a control record comes, or nothing but the time."""
        if self._aside or self._absent or topics & {CONTROL.name, REGROUP.name, HANDOVER.name}:
            self._touch(self.streams)
        if CONTROL.name in topics or topics == {CLOCK.name}:
            for topic in list(self.backlogs):
                self._catch_up(topic, out)

    def _end(self, ticked: bool, out: list[Output]) -> None:
        for uid, stream in self.streams.items():
            if uid in self.untouched and not (ticked and stream.life.untold):
                continue
            with self._changing(stream):
                out.extend(stream.take_outgoing())
                out.extend(stream.farewells(self.seen.get(stream.definition.topic, {})))
                stream.sweep()
                stream.passing = Groups()
                totals = stream.news(ticked)
                if totals is not None:
                    tell(status.Counters(SERVICE, uid, self.number, totals), out)

    # ------------------------------------------------------------------ control

    def _on_control(self, messages: Messages, topics: dict[str, Messages], out: list[Output]) -> None:
        before = self.control
        times = (messages.timestamp * NS_PER_MS).tolist()
        for place, record in self.refused.decoded(messages, control.RECORDS):
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
        # what says nothing (a record that was deleted) is in force too
        self.control = max(self.control, int(messages.offset.max()))
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

    # ------------------------------------------------------------------ regrouped rows

    def _on_regrouped(self, messages: Messages, out: list[Output]) -> None:
        received: dict[int, list[tuple[int, regroup.Regrouped]]] = {}
        for place, message in self.refused.decoded(messages, regroup.MESSAGES):
            received.setdefault(message.stream, []).append((int(messages.partition[place]), message))
        for uid in sorted(received):
            stream = self.streams.get(uid)
            if stream is not None and stream.live:
                with self.blame.of(uid):
                    out.extend(stream.judge_regrouped(received[uid]))

    def _on_handovers(self, messages: Messages, out: list[Output]) -> None:
        """What calc-svc tells of the past; every slot gets all of it."""
        for place, handover in self.refused.decoded(messages, recalc.HANDOVERS):
            stream = self.streams.get(handover.stream) if handover.slot == self.number else None
            if isinstance(stream, RecalcStream) and stream.live:
                seen = self.seen.get(stream.definition.topic, {})
                with self.blame.of(stream.uid):
                    out.extend(stream.take_past(handover, int(messages.timestamp[place]), seen))

    # ------------------------------------------------------------------ processing time

    def _on_ticks(self, messages: Messages, out: list[Output]) -> None:
        for _, tick in self.refused.decoded(messages, control.TICKS):
            for stream in self.streams.values():
                with self.blame.of(stream.uid):
                    if stream.live and stream.due <= tick.reach:
                        self._touch((stream.uid,))
                        out.extend(stream.on_tick(tick, self.seen.get(stream.definition.topic, {})))

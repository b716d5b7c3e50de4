"""What a slot does about control records: definitions, starts and stops, tables that change or go."""

from __future__ import annotations

from collections.abc import Mapping

from millrace_core.errors import MillraceError
from millrace_core.model.revisions import revision_of
from millrace_core.model.schema import Child, Table
from millrace_core.timeline.precision import NS_PER_MS
from millrace_core.trigger.rows.intake import Messages
from millrace_core.trigger.slot.contents import NOBODY, Contents, tell
from millrace_core.trigger.slot.failures import Failures
from millrace_core.trigger.slot.hosted import AnyStream, hosted
from millrace_core.trigger.slot.records import about
from millrace_core.trigger.slot.requests import on_record
from millrace_core.trigger.slot.rows import TableReader
from millrace_core.trigger.stream.definition import compiled, essence
from millrace_core.trigger.stream.state import Life
from millrace_core.trigger.stream.telling import Output
from millrace_core.wire import control, status
from millrace_core.wire.control import Offsets
from millrace_core.wire.topics import wal_topic


class ControlRecords:
    """Obeys control records, in order. ``aside``: streams that take no part in this batch, and why;
    ``absent``: those of them that are not even hosted."""

    def __init__(self, contents: Contents, failures: Failures, tables: TableReader) -> None:
        self.contents, self.failures, self.tables = contents, failures, tables
        self.aside: Mapping[int, str] = NOBODY
        self.absent: Mapping[int, str] = NOBODY
        self._asked: list[tuple[int, control.DiagnoseStream]] = []

    def take_questions(self) -> list[tuple[int, control.DiagnoseStream]]:
        """The questions asked in this batch, each with the offset of its record."""
        asked, self._asked = self._asked, []
        return asked

    def obey(self, messages: Messages, topics: dict[str, Messages], out: list[Output]) -> None:
        """Obey the control records of one batch; ``topics``: all messages of the batch, by topic."""
        slot = self.contents
        before = slot.control
        times = (messages.timestamp * NS_PER_MS).tolist()
        for place, record in slot.refused.decoded(messages, control.RECORDS):
            offset = int(messages.offset[place])
            if offset <= slot.control:
                continue
            if isinstance(record, control.ChangeTable):
                self._judge_before(record.table, topics, out)
            try:
                with slot.blame.of_all(about(record, slot.streams)):
                    self._apply(record, times[place], out)
            except MemoryError:
                raise
            except Exception as error:  # no stream of this slot is affected
                slot.refused.pass_over("refused", messages, place, error)
            if isinstance(record, control.DiagnoseStream):
                self._asked.append((offset, record))
            slot.control = offset
            for uid, cause in self.aside.items():
                if uid in slot.streams and slot.streams[uid].life.running:
                    self.failures.set_aside(uid, cause, out)
        # a record that says nothing (because it was deleted) counts as in force too
        slot.control = max(slot.control, int(messages.offset.max()))
        if slot.number == 0 and slot.control > before:
            tell(status.Applied(slot.control), out)

    def _judge_before(self, table: Table, topics: dict[str, Messages], out: list[Output]) -> None:
        """Rows from before an ALTER are evaluated by the table's old definition; they may come in the same
        batch as the record."""
        topic = wal_topic(table.db, table.name)
        if topic not in topics or not table.earlier:
            return
        mine = topics[topic]
        old = revision_of(table, mine.partition, mine.offset) < len(table.earlier)
        if old.any():
            self.tables.read(topic, mine.only(old), out)
            topics[topic] = mine.only(~old)

    def _apply(self, record: control.AnyControl, at: int, out: list[Output]) -> None:
        """``at``: when the record was written, ns."""
        slot = self.contents
        slot.fed.update(slot.feeds.begun_by(record, slot.number))
        slot.feeds.apply(record, slot.number)
        match record:
            case control.DefineStream():
                self._define(record, at, out)
            case control.StopStream(uid=uid) | control.RecalculateStream(uid=uid) if uid in slot.failed:
                return  # the stream has stopped already, and remembers where
            case control.StopStream(uid=uid) if uid in slot.streams:
                slot.streams[uid].life.running = False
            case control.StartStream(uid=uid) if uid in slot.streams or uid in slot.feeds.of:
                self.failures.make_well(uid, out)
                if not self._start(record, at):
                    return
            case control.DropStream(uid=uid):
                self.failures.make_well(uid, out)
                slot.unhosted.pop(uid, None)
                slot.inbox.leave(uid)
                if uid in slot.streams:
                    self._forget_tags(slot.streams.pop(uid).definition.topic)
            case control.ChangeTable(table=table):
                self._change(table)
            case control.DropTable(uid=uid, topic=topic):
                self._drop_table(uid, topic)
            case control.KnowChildren(slot=number, children=children) if number == slot.number:
                for child in children:
                    self._know(child)
            case _:
                pass  # about a stream that is not here, or about children in another slot
        out.extend(on_record(record, slot.streams, slot.seen, slot.inbox.taken, at, slot.family))

    def _start(self, record: control.StartStream, at: int) -> bool:
        """Start a stream; returns whether it begins anew here. A stream that failed in another slot may still
        run in this one: then it misses nothing, and only its epoch changes."""
        slot = self.contents
        stream = slot.streams.get(record.uid)
        if stream is None:
            return False
        was_running = stream.life.running
        if was_running:
            if not stream.life.holding and not stream.definition.table.virtual:
                stream.life.epoch = record.epoch
                return False
            self.failures.halt(stream)
        # a stream that was running has what came before, except for held rows that it lets go of and asks for
        # anew
        if not was_running or stream.lets_go:
            slot.begun.add(record.uid)
        self._begin_inbox(stream, record.origins)
        stream.resume(record.live_from, record.epoch, at)
        return True

    def _begin_inbox(self, stream: AnyStream, origins: Mapping[str, Offsets]) -> None:
        definition = stream.definition
        if definition.table.virtual:
            self.contents.inbox.begin(definition.topic, stream.uid, origins)

    def _know(self, child: Child) -> None:
        topic = wal_topic(child.db, child.table)
        family, name = self.contents.family(topic), child.name.encode()
        family.know(child)
        for stream in self.contents.streams.values():
            if stream.definition.topic == topic and not stream.life.gone:
                with self.contents.blame.of(stream.uid):
                    stream.meet(name, family)

    def _define(self, record: control.DefineStream, at: int, out: list[Output]) -> None:
        slot = self.contents
        spec = record.spec
        definition = essence(spec)
        try:
            meaning = compiled(definition)
        except MillraceError as error:
            slot.failed[spec.uid] = error.message
            slot.streams.pop(spec.uid, None)
            if slot.number == 0:
                tell(status.StreamFailure(spec.uid, error.message, slot.number), out)
            return
        if spec.uid in self.absent:
            return
        self.failures.make_well(spec.uid, out)
        if meaning.reads_tags:
            slot.family(meaning.topic).keep_tags = True
        known = slot.streams.get(spec.uid)
        if known is not None and known.definition.table.uid == meaning.table.uid:
            if not known.life.running:
                slot.begun.add(spec.uid)
            known.redefine(definition)
            self._begin_inbox(known, record.origins)
            known.resume(record.live_from, record.epoch, at)
        elif meaning.concerns(slot.number, slot.slots):
            life = Life(definition, record.epoch, record.live_from, origins=record.origins)
            stream = hosted(definition)(life, slot.number)
            slot.streams[spec.uid] = stream
            slot.touch((spec.uid,))
            slot.begun.add(spec.uid)
            self._begin_inbox(stream, record.origins)
            stream.count("started", at)
            stream.begin(slot.slots, at)

    def _change(self, table: Table) -> None:
        """Decode the table's messages by its new definition. Its streams keep their names for columns: to
        them, a column keeps the name that it had when the stream was created."""
        slot = self.contents
        topic = wal_topic(table.db, table.name)
        mine = [stream for stream in slot.streams.values() if stream.definition.table.uid == table.uid]
        if mine:  # otherwise a stream that is defined later brings the table with it
            slot.family(topic).reorder(slot.table(topic, mine).tags, table.tags)
            slot.tables[topic] = table

    def _drop_table(self, uid: int, topic: str) -> None:
        slot = self.contents
        slot.seen.pop(topic, None)
        slot.families.pop(topic, None)
        slot.tables.pop(topic, None)
        slot.inbox.forget(topic)
        for stream in slot.streams.values():
            if stream.definition.table.uid == uid:
                stream.lose_table()

    def _forget_tags(self, topic: str) -> None:
        """Stop keeping tags that no stream groups by any more."""
        slot = self.contents
        mine = [stream for stream in slot.streams.values() if stream.definition.topic == topic]
        if topic in slot.families and not any(stream.definition.reads_tags for stream in mine):
            slot.families[topic].keep_tags = False
            slot.families[topic].tags.clear()

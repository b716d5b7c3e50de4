"""What a slot does with the messages of tables: which streams evaluate which of them, and when.

Streams that have nothing to tell of a batch's rows put them off (``slot.backlog``); the others evaluate them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from millrace_core.model.schema import Table
from millrace_core.trigger.rows.intake import Messages, TableRows, came_before, present, read
from millrace_core.trigger.slot.backlog import FEW, MOST, Backlog, Calm, calm_of, joined, spans_of
from millrace_core.trigger.slot.contents import Contents
from millrace_core.trigger.slot.hosted import AnyStream
from millrace_core.trigger.slot.placing import Names, Tags, describe, placed, read_for, with_operations
from millrace_core.trigger.slot.requests import delete, deletes_in, heeds_changes, missed_by
from millrace_core.trigger.stream.telling import Output
from millrace_core.trigger.stream.versions import passing
from millrace_core.trigger.types.windower import NEVER_CALM, Span

Masks = Mapping[int, Any]
"""By stream, a value for each message."""


class Readers:
    """The streams that read one topic, ``every`` one of them."""

    def __init__(self, every: list[AnyStream]) -> None:
        self.every = every
        self.uids = [stream.uid for stream in every]
        self._of: dict[bytes | None, list[AnyStream]] = {}
        for stream in every:
            self._of.setdefault(stream.definition.child, []).append(stream)

    def of(self, keys: Iterable[bytes | None]) -> list[AnyStream]:
        """Those that take rows from one of these children, or from any."""
        own = [stream for key in keys if key is not None for stream in self._of.get(key, ())]
        return [*self._of.get(None, ()), *own]


class TableReader:
    """See the module."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self._readers: dict[str, Readers] = {}
        self._as_of = contents.control
        """The last control record in force when they were looked up; only such records change them."""

    def read(self, topic: str, messages: Messages, out: list[Output]) -> None:
        """Evaluate the messages of a WAL topic, or put them off."""
        slot = self.contents
        fed = [uid for uid, feed in slot.feeds.of.items() if topic in feed.sources]
        with slot.blame.of_all(fed):
            out.extend(slot.feeds.forward(topic, messages, slot.again.get(topic, {}), slot.fed))
        readers = self._readers_of(topic)
        if readers.every:
            with slot.blame.of_all(readers.uids):
                self._on_wal(topic, readers, messages, out)

    def _readers_of(self, topic: str) -> Readers:
        """The streams that the topic's messages may concern."""
        slot = self.contents
        if self._as_of != slot.control:
            self._readers, self._as_of = {}, slot.control
        found = self._readers.get(topic)
        if found is None:
            every = slot.streams.values()
            found = self._readers[topic] = Readers(
                [stream for stream in every if stream.definition.topic == topic and not stream.life.gone]
            )
        return found

    def _on_wal(self, topic: str, readers: Readers, messages: Messages, out: list[Output]) -> None:
        slot = self.contents
        before = dict(slot.seen.get(topic, {}))
        if any(stream.live for stream in readers.every):
            self._see(topic, messages)
        sorted_out = self._sort_out(topic, readers, messages)
        if sorted_out is None:
            self.catch_up(topic, out)
        streams, waiting = sorted_out or (readers.every, [])
        due = {stream.uid: stream for stream in streams}
        taken = self._taken(topic, streams)
        if waiting:
            slot.backlogs.setdefault(topic, Backlog(topic)).put_off(waiting, messages, before)
        for uids, earlier in taken:
            mine = [due.pop(uid) for uid in uids]
            self._judge_messages(topic, mine, joined(topic, [*earlier, messages]), out)
        self._judge_messages(topic, list(due.values()), messages, out)

    def _see(self, topic: str, messages: Messages) -> None:
        seen = self.contents.seen.setdefault(topic, {})
        for partition in present(messages.partition).tolist():
            last = int(messages.offset[messages.partition == partition].max())
            seen[partition] = max(last + 1, seen.get(partition, 0))

    # ------------------------------------------------------------------ what can wait

    def _sort_out(
        self, topic: str, readers: Readers, messages: Messages
    ) -> tuple[list[AnyStream], list[int]] | None:
        """The streams that must evaluate these messages, and the others for which they hold rows, which they
        may evaluate later; None: all must."""
        slot = self.contents
        backlog = slot.backlogs.get(topic) or Backlog(topic)
        many = len(messages) + len(backlog) > MOST
        if len(readers.every) < FEW or many or topic in slot.again:
            return None
        known = slot.calm
        streams = readers.of(messages.keys[place] for place in present(messages.key).tolist())
        calm = [known.get(stream.uid) or self._calmness(stream) for stream in streams]
        few = sum(one.span is not NEVER_CALM for one in calm) < FEW
        if few and len(streams) == len(readers.every):
            return None
        rows = read(slot.table(topic, readers.every), messages)
        if rows.bad or rows.operations or not len(rows.ts):
            return None
        overdue = backlog.overdue(int(messages.timestamp.max()))
        due, waiting = [slot.streams[uid] for uid in overdue if uid in slot.streams], list[int]()
        spans = spans_of(rows, messages)
        whole = Span(int(rows.ts.min()), int(rows.ts.max()))
        for stream, (live, child, span) in zip(streams, calm, strict=True):
            mine = None if not live else whole if child is None else spans.get(child)
            if mine is not None and stream.uid not in overdue:
                if not few and span.holds(mine):
                    waiting.append(stream.uid)
                else:
                    due.append(stream)
        return due, waiting

    def _calmness(self, stream: AnyStream) -> Calm:
        """Whether the stream can wait; it is asked again once it may have changed."""
        found = Calm(stream.live or heeds_changes(stream), stream.definition.child, NEVER_CALM)
        with self.contents.blame.of(stream.uid):
            if stream.live:
                found = found._replace(span=calm_of(stream.state))
        self.contents.calm[stream.uid] = found
        return found

    def _taken(self, topic: str, streams: Iterable[AnyStream]) -> list[tuple[set[int], list[Messages]]]:
        """What these streams have put off in a topic."""
        backlog = self.contents.backlogs.get(topic)
        if backlog is None:
            return []
        taken = backlog.take({stream.uid: stream.definition.child for stream in streams})
        if not len(backlog):
            del self.contents.backlogs[topic]
        return taken

    def catch_up(self, topic: str, out: list[Output]) -> None:
        """Evaluate everything that was put off in a topic."""
        backlog = self.contents.backlogs.get(topic)
        streams = self.contents.streams
        behind = [streams[uid] for uid in backlog.behind if uid in streams] if backlog else []
        for uids, earlier in self._taken(topic, behind):
            mine = [stream for uid, stream in streams.items() if uid in uids]
            with self.contents.blame.of_all(uids):
                self._judge_messages(topic, mine, joined(topic, earlier), out)

    # ------------------------------------------------------------------ evaluation

    def _judge_messages(
        self, topic: str, streams: list[AnyStream], messages: Messages, out: list[Output]
    ) -> None:
        """Evaluate messages; deletes take effect at their place among them."""
        slot = self.contents
        live = [stream for stream in streams if stream.live]
        if not streams:
            return
        wanted: Masks
        if streams[0].definition.table.virtual:
            messages, wanted = self._open(live, streams[0].definition.table, messages)
        else:
            wanted = self._wanted(live, messages)
        again = slot.again.get(topic, {})
        fresh = ~came_before(messages, again)
        missed: Masks = {uid: mask & fresh for uid, mask in missed_by(streams, messages).items()}
        needed = with_operations(streams, messages, [*wanted.values(), *missed.values()])
        if not needed.any():
            return
        if not needed.all():
            wanted, missed = _only(wanted, needed), _only(missed, needed)
            messages, fresh = messages.only(needed), fresh[needed]
        begin = 0
        told = [stream for stream in streams if stream.live or heeds_changes(stream)]
        for place, span in deletes_in(told, messages):
            self._judge_part(topic, streams, (wanted, missed), messages, (begin, place), out)
            family, seen = slot.family(topic), dict(slot.seen.get(topic, {}))
            for stream in told if fresh[place] else [one for one in told if _takes(wanted, one, place)]:
                with slot.changing(stream):
                    out.extend(delete(stream, messages, place, span, wanted, seen, family))
            begin = place
        self._judge_part(topic, streams, (wanted, missed), messages, (begin, len(messages)), out)

    def _told_at(
        self, place: int, topic: str, messages: Messages, streams: list[AnyStream]
    ) -> list[AnyStream]:
        """Those of the streams that the message at this place reaches for the first time."""
        slot = self.contents
        if int(messages.offset[place]) >= slot.again.get(topic, {}).get(int(messages.partition[place]), 0):
            return streams
        return [stream for stream in streams if stream.uid in slot.begun]

    def _judge_part(
        self, topic: str, streams: list[AnyStream], masks: tuple[Masks, Masks], messages: Messages,
        part: tuple[int, int], out: list[Output],
    ) -> None:  # fmt: skip
        begin, end = part
        wanted, missed = masks
        if (begin, end) != (0, len(messages)):
            wanted, missed = _only(wanted, slice(begin, end)), _only(missed, slice(begin, end))
            messages = messages.take(np.arange(begin, end))
        if end > begin:
            self._judge(topic, streams, wanted, missed, messages, out)

    def _open(
        self, live: list[AnyStream], table: Table, messages: Messages
    ) -> tuple[Messages, dict[int, Any]]:
        """The rows that the slots of a virtual table's sources sent, and which trigger which stream."""
        merge = any(stream.definition.signals for stream in live)
        messages, meant = self.contents.inbox.open(table, messages, merge)
        nothing = np.zeros(len(messages), dtype=bool)
        wanted = self._wanted(live, messages)
        return messages, {uid: mask & meant.get(uid, nothing) for uid, mask in wanted.items()}

    def _wanted(self, live: list[AnyStream], messages: Messages) -> dict[int, Any]:
        """bool[messages] by stream."""
        slot = self.contents
        wanted: dict[int, Any] = {}
        for stream in live:
            with slot.blame.of(stream.uid):
                wanted[stream.uid] = stream.wants(messages)
        for uid in wanted.keys() - slot.begun if slot.again else ():
            again = slot.again.get(slot.streams[uid].definition.topic, {})
            wanted[uid] &= ~came_before(messages, again)
        return wanted

    def _judge(
        self, topic: str, streams: list[AnyStream], wanted: Masks, missed: Masks, messages: Messages,
        out: list[Output],
    ) -> None:  # fmt: skip
        slot = self.contents
        table = slot.table(topic, streams)
        live = [stream for stream in streams if stream.uid in wanted]
        reading = [stream for stream in streams if stream.uid in wanted.keys() | missed.keys()]
        read_as = read_for(reading, table, messages, slot.blame)
        rows = next(iter(read_as.values()))
        names = Names.of_messages(messages, table)
        family = slot.family(topic)
        held = np.bincount(rows.message, minlength=len(messages))
        takes = {uid: mask & (held > 0) for uid, mask in _either(wanted, missed).items()}
        tags: list[Tags] | None = [] if any(part.pending for part in read_as.values()) else None
        if rows.operations:  # a child that comes or goes may concern any stream
            slot.touch(stream.uid for stream in streams)
        told = [
            (place, operation, self._told_at(place, topic, messages, streams))
            for place, operation in rows.operations
        ]
        groups = placed(streams, takes, names, told, family, table, tags, slot.blame)
        if tags is not None:
            describe(reading, read_as, table, names, tags, slot.blame)
        for stream in reading:
            if stream.uid in missed:
                self._miss(topic, stream, read_as, groups, missed, messages, out)
        for stream in live:
            if not (wanted[stream.uid].any() or stream.waits or len(stream.passing)):
                continue  # as with most streams that read one child among many
            with slot.changing(stream):
                mask, rows = wanted[stream.uid], read_as[stream.definition.table]
                mine = mask & (held > 0)
                stream.count("rows_read", int(held[mine].sum()))
                if rows.bad:
                    stream.count("undecodable", int(mask[rows.bad].sum()))
                group = np.where(mask, groups[stream.uid], -1)
                stream.count("unknown_table", int(held[mine & (group < 0)].sum()))
                passed = passing(stream.state, rows, group, messages)
                out.extend(stream.judge_versions(passed, messages, dict(slot.seen[topic])))

    def _miss(
        self, topic: str, stream: AnyStream, read_as: Mapping[Table, TableRows], groups: Masks, missed: Masks,
        messages: Messages, out: list[Output],
    ) -> None:  # fmt: skip
        """Rows that came while a stream was stopped are not evaluated here, but they may have rewritten
        others."""
        slot = self.contents
        if heeds_changes(stream):
            with slot.changing(stream):
                group = np.where(missed[stream.uid], groups[stream.uid], -1)
                passed = passing(stream.state, read_as[stream.definition.table], group, messages, missed=True)
                seen = dict(slot.seen.get(topic, {}))
                out.extend(stream.miss_versions(passed.versions, messages, seen))


def _takes(masks: Masks, stream: AnyStream, place: int) -> bool:
    return stream.uid in masks and bool(masks[stream.uid][place])


def _only(masks: Masks, some: Any) -> Masks:
    return {uid: mask[some] for uid, mask in masks.items()}


def _either(some: Masks, others: Masks) -> Masks:
    return {uid: some.get(uid, False) | others.get(uid, False) for uid in some.keys() | others.keys()}

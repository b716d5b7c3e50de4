"""A slot: a fixed share of all tables and groups, and everything that triggers in it.

:meth:`Slot.on_batch` takes what reached the slot in one micro-batch and returns what to send. It is a pure
function of the slot's state and the batch: a batch that runs again gives the same messages, with the same
numbers and ids. Within a batch, control records go first, then the messages of the WAL topics by (topic,
partition, offset), then regrouped rows. All work for a stream is done under its name (``slot.blame``).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import Self

from millrace_core.trigger.groups.groups import Groups
from millrace_core.trigger.rows.intake import Messages
from millrace_core.trigger.slot.contents import NOBODY, Contents, tell
from millrace_core.trigger.slot.control import ControlRecords
from millrace_core.trigger.slot.diagnosis import answer
from millrace_core.trigger.slot.failures import Failures
from millrace_core.trigger.slot.holdings import check
from millrace_core.trigger.slot.rows import TableReader
from millrace_core.trigger.slot.state import Snapshots, current, delays_due, due, heeds, restore
from millrace_core.trigger.slot.state import place as place_of
from millrace_core.trigger.stream.stream import Stream
from millrace_core.trigger.stream.telling import Output
from millrace_core.wire import control, recalc, regroup, status
from millrace_core.wire.control import Offsets
from millrace_core.wire.topics import CLOCK, CONTROL, HANDOVER, REGROUP, WAL_PREFIX

SERVICE = "trigger-svc"
NOTHING: Mapping[str, Offsets] = MappingProxyType({})


class Slot:
    """Its ``contents``, and the parts that work on them: ``tables`` reads the messages of tables, ``control``
    obeys control records, ``failures`` sets streams aside, ``snapshots`` makes bytes of it all."""

    def __init__(self, number: int, slots: int) -> None:
        self._consist_of(Contents(number, slots))

    def _consist_of(self, contents: Contents) -> None:
        self.contents = contents
        self.failures = Failures(contents)
        self.tables = TableReader(contents)
        self.control = ControlRecords(contents, self.failures, self.tables)
        self.snapshots = Snapshots(contents)

    # ------------------------------------------------------------------ state as bytes

    def snapshot(self) -> bytes:
        """As :meth:`Snapshots.take`."""
        return self.snapshots.take()

    @classmethod
    def restore(cls, blob: bytes, absent: Mapping[int, str] = NOBODY) -> Self:
        """The inverse of :meth:`snapshot`. ``absent``: streams that are not hosted until the next one."""
        slot = cls.__new__(cls)
        slot._consist_of(restore(blob, absent))
        return slot

    due = staticmethod(due)
    delays_due = staticmethod(delays_due)
    heeds = staticmethod(heeds)
    current = staticmethod(current)
    place = staticmethod(place_of)

    # ------------------------------------------------------------------ a batch

    def on_batch(
        self, messages: Messages, aside: Mapping[int, str] = NOBODY, absent: Mapping[int, str] = NOBODY,
        again: Mapping[str, Offsets] = NOTHING,
    ) -> list[Output]:  # fmt: skip
        """Take in the messages of one micro-batch; returns what to send, in order. ``aside``: streams that
        fail in it, and why; they take no part. ``absent``: those of them that are not even hosted.

        ``again``: WAL topic -> partition -> offset: messages of this batch that lie before the offset have
        come before. They are meant only for streams that begin in this batch (whose ``live_from`` lies before
        them).

        :raises StreamsFail: if streams raise. The slot must not be used any more then.
        """
        out: list[Output] = []
        slot = self.contents
        self.control.aside, self.control.absent = aside, absent
        slot.again, slot.begun, slot.fed, slot.touched = again, set(), set(), set()
        slot.refused.begin()
        for uid, cause in aside.items():
            self.failures.set_aside(uid, cause, out)
        topics = messages.by_topic()
        self._begin(topics.keys(), out)
        if CONTROL.name in topics:
            self.control.obey(topics[CONTROL.name], topics, out)
        for topic, mine in topics.items():
            if topic.startswith(WAL_PREFIX):
                self.tables.read(topic, mine, out)
        if REGROUP.name in topics:
            self._on_regrouped(topics[REGROUP.name], out)
        if HANDOVER.name in topics:
            self._on_handovers(topics[HANDOVER.name], out)
        if CLOCK.name in topics:
            self._on_ticks(topics[CLOCK.name], out)
        self._end(CLOCK.name in topics, out)
        # last, so that the answer includes what came together with the question
        asked = self.control.take_questions()
        out += [answer(one, number, slot.number, slot.streams, slot.failed) for number, one in asked]
        out += slot.refused.letters
        if slot.refused.changed:
            tell(status.Counters(SERVICE, 0, slot.number, slot.refused.totals), out)
        slot.blame.settle()
        return out

    def _begin(self, topics: Set[str], out: list[Output]) -> None:
        """Evaluate everything that was put off, if a control record comes; if nothing but ticks comes, what
        was put off before the tick before."""
        slot = self.contents
        if self.control.aside or self.control.absent or topics & {CONTROL.name, REGROUP.name, HANDOVER.name}:
            slot.touch(slot.streams)
        ticked = topics == {CLOCK.name}
        for topic, backlog in list(slot.backlogs.items()):
            if CONTROL.name in topics or (ticked and backlog.ticked):
                self.tables.catch_up(topic, out)
            backlog.ticked |= ticked

    def _end(self, ticked: bool, out: list[Output]) -> None:
        slot = self.contents
        changed = [
            stream
            for uid, stream in slot.streams.items()
            if uid in slot.touched or (ticked and stream.life.untold)
        ]
        for stream in changed:
            uid = stream.uid
            with slot.changing(stream):
                out.extend(stream.take_outgoing())
                out.extend(stream.farewells(slot.seen.get(stream.definition.topic, {})))
                stream.sweep()
                check(stream, slot.most_held)
                stream.passing = Groups()
                totals = stream.news(ticked)
                if totals is not None:
                    tell(status.Counters(SERVICE, uid, slot.number, totals), out)

    # ------------------------------------------------------------------ regrouped rows

    def _on_regrouped(self, messages: Messages, out: list[Output]) -> None:
        slot = self.contents
        received: dict[int, list[tuple[int, regroup.Regrouped]]] = {}
        for place, message in slot.refused.decoded(messages, regroup.MESSAGES):
            received.setdefault(message.stream, []).append((int(messages.partition[place]), message))
        for uid in sorted(received):
            stream = slot.streams.get(uid)
            if stream is not None and stream.live:
                with slot.changing(stream):
                    out.extend(stream.judge_regrouped(received[uid]))

    def _on_handovers(self, messages: Messages, out: list[Output]) -> None:
        """What calc-svc tells of the past. Every slot gets all of these messages."""
        slot = self.contents
        for place, handover in slot.refused.decoded(messages, recalc.HANDOVERS):
            stream = slot.streams.get(handover.stream) if handover.slot == slot.number else None
            if isinstance(stream, Stream) and stream.live:
                seen = slot.seen.get(stream.definition.topic, {})
                with slot.changing(stream):
                    out.extend(stream.take_past(handover, int(messages.timestamp[place]), seen))

    # ------------------------------------------------------------------ processing time

    def _on_ticks(self, messages: Messages, out: list[Output]) -> None:
        slot = self.contents
        for _, tick in slot.refused.decoded(messages, control.TICKS):
            for stream in slot.streams.values():
                with slot.blame.of(stream.uid):
                    if stream.live and stream.due <= tick.reach:
                        slot.touch((stream.uid,))
                        out.extend(stream.on_tick(tick, slot.seen.get(stream.definition.topic, {})))

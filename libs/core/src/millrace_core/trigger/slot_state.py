"""What a slot keeps between batches, as bytes too (decision 0006), and streams that fail."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

import msgspec

from millrace_core.model.schema import Table
from millrace_core.trigger.blame import Blame
from millrace_core.trigger.definition import compiled, uid_of
from millrace_core.trigger.delay import FAR
from millrace_core.trigger.family import Family
from millrace_core.trigger.intake import Messages
from millrace_core.trigger.period_stream import PeriodStream
from millrace_core.trigger.recalc_stream import RecalcStream
from millrace_core.trigger.records import Refused
from millrace_core.trigger.stream import Output, Stream
from millrace_core.trigger.virtual import Feeds, Inbox
from millrace_core.wire import control, status
from millrace_core.wire.control import Offsets
from millrace_core.wire.topics import CLOCK, STATUS

VERSION = 4
"""1 had no time behind the version byte, 2 not whether there are counters to tell, 3 no :meth:`delay_due`."""
_DUE = 8
_BEGINS = {1: 1, 2: 1 + _DUE, 3: 2 + _DUE, 4: 2 + 2 * _DUE}
"""Version -> where the state begins."""
NOBODY: Mapping[int, str] = MappingProxyType({})


class SlotState:
    """``number`` of ``slots``. ``control``: offset of the last control record in force, -1 before any."""

    def __init__(self, number: int, slots: int) -> None:
        self.number = number
        self.slots = slots
        self.control = -1
        self.streams: dict[int, Stream] = {}
        self.failed: dict[int, str] = {}
        """Streams that are set aside, or cannot be hosted at all, and why."""
        self.families: dict[str, Family] = {}
        self.tables: dict[str, Table] = {}
        """WAL topic -> the table as it is now, where it was altered under a stream."""
        self.seen: dict[str, Offsets] = {}
        self.feeds = Feeds()
        self.inbox = Inbox()
        self.unhosted: dict[int, Any] = {}
        """States of streams that take no part in this batch, as they were."""
        self.blame = Blame()
        self.refused = Refused(number == 0)
        self._aside: Mapping[int, str] = NOBODY
        self._absent: Mapping[int, str] = NOBODY
        self._asked: list[tuple[int, control.DiagnoseStream]] = []

    # ------------------------------------------------------------------ state as bytes

    def snapshot(self) -> bytes:
        """The state, to be kept until the next batch: a version byte, :meth:`due`, whether counters are still
        to be told, :meth:`delay_due`, then msgpack.

        :raises StreamsFail: if streams raise.
        """
        families = {topic: family.dump() for topic, family in self.families.items()}
        streams, due, delay_due, untold = list(self.unhosted.values()), FAR, FAR, False
        for stream in self.streams.values():
            with self.blame.of(stream.uid):
                streams.append(msgspec.Raw(msgspec.msgpack.encode(stream.dump())))
                due, untold = min(due, stream.due), untold or stream.life.untold
                if stream.definition.delay is not None:
                    delay_due = min(delay_due, stream.due)
        self.blame.settle()
        state = [self.number, self.slots, self.control, self.failed, families, self.seen, streams]
        state += [self.feeds.dump(), self.inbox.dump(), self.tables, self.refused.totals]
        head = bytes([VERSION]) + due.to_bytes(_DUE, "little") + bytes([untold])
        head += delay_due.to_bytes(_DUE, "little")
        return head + msgspec.msgpack.encode(state)

    @staticmethod
    def due(blob: bytes) -> int:
        """The first processing time (ns) at which a tick may mean something to the slot of this state."""
        return int.from_bytes(blob[1 : 1 + _DUE], "little") if blob[0] > 1 else 0

    @staticmethod
    def delay_due(blob: bytes) -> int:
        """When (ns) the next open window triggers by MAX_DELAY; FAR if none does."""
        return int.from_bytes(blob[2 + _DUE : 2 + 2 * _DUE], "little") if blob[0] > 3 else FAR

    @staticmethod
    def heeds(blob: bytes | None, messages: Messages) -> bool:
        """Whether these messages may mean something to the slot of this state (None: it has none yet)."""
        if any(topic != CLOCK.name for topic in messages.topic):
            return True
        if blob is None or (blob[0] > 2 and blob[1 + _DUE]):
            return blob is not None
        refused = Refused(True)
        ticks = [tick for _, tick in refused.decoded(messages, control.decode_tick)]
        return refused.changed or any(tick.now >= SlotState.due(blob) for tick in ticks)

    @classmethod
    def restore(cls, blob: bytes, absent: Mapping[int, str] = NOBODY) -> Self:
        """The inverse of :meth:`snapshot`. ``absent``: streams that are not hosted until the next one.

        :raises ValueError: if the state was written by a newer version.
        """
        if blob[0] > VERSION:
            raise ValueError(f"slot state of version {blob[0]}, this is version {VERSION}")
        state: list[Any] = msgspec.msgpack.decode(memoryview(blob)[_BEGINS[blob[0]] :])
        slot = cls(state[0], state[1])
        slot.control, slot.failed = state[2], state[3]
        slot.families = {topic: Family.load(family) for topic, family in state[4].items()}
        slot.seen = state[5]
        for data in state[6]:
            slot._host(data, absent)
        if len(state) > 7:  # a state from before there were virtual tables has neither
            slot.feeds.load(state[7])
            slot.inbox.load(state[8])
        if len(state) > 9:  # one from before tables could be altered has none
            slot.tables = msgspec.convert(state[9], dict[str, Table])
        if len(state) > 10:  # one from before messages were passed over has none
            slot.refused.totals = state[10]
        for topic, table in slot.tables.items():
            slot._family(topic).order = table.tags
        return slot

    def _host(self, data: Any, absent: Mapping[int, str]) -> None:
        uid = uid_of(data[0][0])
        if uid in absent:
            self.unhosted[uid] = data
            return
        with self.blame.of(uid):
            stream = hosted(data[0][0]).load(data, self.number)
            stream.life.running &= uid not in self.failed
            self.streams[uid] = stream

    def _family(self, topic: str) -> Family:
        return self.families.setdefault(topic, Family())

    # ------------------------------------------------------------------ streams that fail

    def set_aside(self, uid: int, cause: str, out: list[Output]) -> None:
        """The stream takes no part from here on, as if it had been stopped where it is."""
        stream = self.streams.get(uid)
        if stream is not None and stream.life.running:
            with self.blame.of(uid):
                self.halt(stream)
                stream.take_outgoing()
        self.feeds.apply(control.StopStream(uid), self.number)
        if self.failed.get(uid) != cause:
            self.failed[uid] = cause
            self.refused.remarks.append(f"stream {uid} failed: {cause}")
            tell(status.StreamFailure(uid, cause, self.number), out)

    def halt(self, stream: Stream) -> None:
        """The stream stops where it is."""
        topic = stream.definition.topic
        stream.stop(self.seen.get(topic, {}), stream.life.origins, self.inbox.taken.get(topic, {}))

    def make_well(self, uid: int, out: list[Output]) -> None:
        """A stream begins anew, or is gone."""
        if uid in self.failed:
            del self.failed[uid]
            tell(status.StreamFailure(uid, "", self.number), out)


def tell(news: status.AnyStatus, out: list[Output]) -> None:
    """Send a message to the topic ``status``."""
    out.append((STATUS.name, status.key(news), status.encode(news)))


def hosted(definition: bytes) -> type[Stream]:
    """What keeps a stream of this definition in a slot."""
    return RecalcStream if compiled(definition).schedule is None else PeriodStream

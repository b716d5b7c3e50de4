"""What a slot keeps between batches, as bytes too (decision 0006), and streams that fail."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Self

import msgspec
import numpy as np

from millrace_core.model.schema import Table
from millrace_core.trigger.groups.family import Family
from millrace_core.trigger.rows.intake import Messages
from millrace_core.trigger.rows.virtual import Feeds, Inbox
from millrace_core.trigger.slot.backlog import Backlog
from millrace_core.trigger.slot.blame import Blame, Watch
from millrace_core.trigger.slot.records import Refused
from millrace_core.trigger.stream.calm import Calm
from millrace_core.trigger.stream.definition import compiled, uid_of
from millrace_core.trigger.stream.delay import FAR, upcoming
from millrace_core.trigger.stream.history import RecalcStream
from millrace_core.trigger.stream.period import PeriodStream
from millrace_core.trigger.stream.stream import Output, Stream
from millrace_core.wire import control, status
from millrace_core.wire.control import Offsets
from millrace_core.wire.topics import CLOCK, STATUS

VERSION = 6
MIGRATIONS: dict[int, Callable[[bytes], bytes]] = {}
"""Version of a state -> what makes one of the next version of it. From version 6 on each is kept here, and a
state of each in the tests."""
_HEAD = struct.Struct("<BqBH")
"""Version, :meth:`SlotState.due`, whether any tick means something (counters are to be told, rows were put
off), how many times follow."""
_TIME = np.dtype("<i8")
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
        self.backlogs: dict[str, Backlog] = {}
        self.untouched: set[int] = set()
        """Streams that are as the last snapshot has them."""
        self._encoded: dict[int, tuple[msgspec.Raw, int, bool]] = {}
        self._calm: dict[int, Calm] = {}
        """Of those that were asked since they were touched."""
        self._aside: Mapping[int, str] = NOBODY
        self._absent: Mapping[int, str] = NOBODY
        self._asked: list[tuple[int, control.DiagnoseStream]] = []

    # ------------------------------------------------------------------ state as bytes

    def snapshot(self) -> bytes:
        """The state, to be kept until the next batch: a head, :meth:`delays_due`, then msgpack.

        :raises StreamsFail: if streams raise.
        """
        families = {topic: family.dump() for topic, family in self.families.items()}
        streams, due, untold = list(self.unhosted.values()), FAR, False
        delays = [np.empty(0, dtype=np.int64)]
        for uid, stream in self.streams.items():
            kept = self._encoded.get(uid) if uid in self.untouched else None
            if kept is None:
                with self.blame.of(uid):
                    kept = msgspec.Raw(msgspec.msgpack.encode(stream.dump())), stream.due, stream.life.untold
                if kept is None:
                    continue  # it raised
                self._encoded[uid] = kept
            streams.append(kept[0])
            due, untold = min(due, kept[1]), untold or kept[2]
            delay = stream.definition.delay
            if delay is not None and stream.live:
                with self.blame.of(uid):
                    delays.append(delay.all_due(stream.delays))
        self.blame.settle()
        self.untouched = set(self.streams)
        state = [self.number, self.slots, self.control, self.failed, families, self.seen, streams]
        state += [self.feeds.dump(), self.inbox.dump(), self.tables, self.refused.totals]
        state.append({topic: backlog.dump() for topic, backlog in self.backlogs.items()})
        times = upcoming(np.concatenate(delays)).astype(_TIME)
        head = _HEAD.pack(VERSION, due, untold or bool(self.backlogs), len(times))
        return head + times.tobytes() + msgspec.msgpack.encode(state)

    @staticmethod
    def due(blob: bytes) -> int:
        """The first processing time (ns) such that a tick that reaches it may mean something to this slot.

        :raises ValueError: if this is a state of another version, as from all that read states.
        """
        due, _, _ = _head(blob)
        return due

    @staticmethod
    def delays_due(blob: bytes) -> list[int]:
        """When (ns, ascending) the next open windows are due by MAX_DELAY, as :func:`upcoming` says."""
        _, _, count = _head(blob)
        times: list[int] = np.frombuffer(blob, _TIME, count, _HEAD.size).tolist()
        return times

    @staticmethod
    def heeds(blob: bytes | None, messages: Messages) -> bool:
        """Whether these messages may mean something to the slot of this state (None: it has none yet)."""
        if messages.named() - {CLOCK.name}:
            return True
        due, untold, _ = (FAR, False, 0) if blob is None else _head(blob)
        if untold:
            return True
        refused = Refused(True)
        ticks = [tick for _, tick in refused.decoded(messages, control.TICKS)]
        return refused.changed or any(tick.reach >= due for tick in ticks)

    @staticmethod
    def current(blob: bytes) -> bytes:
        """A state of this or an earlier version as one of this version.

        :raises ValueError: for one of another version, or none.
        """
        while blob and blob[0] in MIGRATIONS:
            blob = MIGRATIONS[blob[0]](blob)
        _head(blob)
        return blob

    @staticmethod
    def place(blob: bytes) -> tuple[int, int]:
        """(number of the slot, of how many) whose state this is; :raises ValueError: if it is none."""
        try:
            state: list[Any] = msgspec.msgpack.decode(_body(blob))
            return state[0], state[1]
        except (msgspec.DecodeError, TypeError, LookupError, struct.error) as error:
            raise ValueError(f"not a slot's state: {error}") from error

    @classmethod
    def restore(cls, blob: bytes, absent: Mapping[int, str] = NOBODY) -> Self:
        """The inverse of :meth:`snapshot`. ``absent``: streams that are not hosted until the next one."""
        state: list[Any] = msgspec.msgpack.decode(_body(blob))
        slot = cls(state[0], state[1])
        slot.control, slot.failed = state[2], state[3]
        slot.families = {topic: Family.load(family) for topic, family in state[4].items()}
        slot.seen = state[5]
        for data in state[6]:
            slot._host(data, absent)
        slot.feeds.load(state[7])
        slot.inbox.load(state[8])
        slot.tables = msgspec.convert(state[9], dict[str, Table])
        slot.refused.totals = state[10]
        slot.backlogs = {topic: Backlog.load(topic, data) for topic, data in state[11].items()}
        slot.untouched = set(slot.streams)
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

    def _touch(self, uids: Iterable[int]) -> None:
        """These streams may change."""
        for uid in uids:
            self.untouched.discard(uid)
            self._calm.pop(uid, None)

    def _changing(self, stream: Stream) -> Watch:
        """For what may change a stream: as :meth:`Blame.of`."""
        self._touch((stream.uid,))
        return self.blame.of(stream.uid)

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
        """The stream stops where it is; what it has put off lies behind that."""
        topic, seen = stream.definition.topic, None
        if topic in self.backlogs:
            seen = self.backlogs[topic].seen_by(stream.uid)
            self.backlogs[topic].take([stream.uid])
        seen = self.seen.get(topic, {}) if seen is None else seen
        stream.stop(seen, stream.life.origins, self.inbox.taken.get(topic, {}))

    def make_well(self, uid: int, out: list[Output]) -> None:
        """A stream begins anew, or is gone."""
        if uid in self.failed:
            del self.failed[uid]
            tell(status.StreamFailure(uid, "", self.number), out)


def _head(blob: bytes) -> tuple[int, bool, int]:
    """When a tick may matter (ns), whether any does, how many times follow the head.

    :raises ValueError: if the state is of another version.
    """
    if len(blob) < _HEAD.size:
        raise ValueError(f"not a slot's state: {len(blob)} bytes")
    if blob[0] != VERSION:
        raise ValueError(f"slot state of version {blob[0]}, this is version {VERSION}")
    _, due, untold, count = _HEAD.unpack_from(blob)
    return due, bool(untold), count


def _body(blob: bytes) -> memoryview:
    """What follows the head."""
    _, _, count = _head(blob)
    return memoryview(blob)[_HEAD.size + count * _TIME.itemsize :]


def tell(news: status.AnyStatus, out: list[Output]) -> None:
    """Send a message to the topic ``status``."""
    out.append((STATUS.name, status.key(news), status.encode(news)))


def hosted(definition: bytes) -> type[Stream]:
    """What keeps a stream of this definition in a slot."""
    return RecalcStream if compiled(definition).schedule is None else PeriodStream

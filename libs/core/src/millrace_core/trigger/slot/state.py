"""A slot's contents as bytes (decision 0006): a head that is read alone, then msgpack."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np

from millrace_core.model.schema import Table
from millrace_core.trigger.groups.family import Family
from millrace_core.trigger.rows.intake import Messages
from millrace_core.trigger.slot.backlog import Backlog
from millrace_core.trigger.slot.contents import NOBODY, Contents
from millrace_core.trigger.slot.hosted import hosted
from millrace_core.trigger.slot.records import Refused
from millrace_core.trigger.stream.definition import uid_of
from millrace_core.trigger.stream.delay import FAR, upcoming
from millrace_core.wire import control
from millrace_core.wire.topics import CLOCK

VERSION = 6
MIGRATIONS: dict[int, Callable[[bytes], bytes]] = {}
"""Version of a state -> the function that converts it to the next version. From version 6 on, each one is
kept here, and a state of each version is kept in the tests."""
_HEAD = struct.Struct("<BqBH")
"""Version, :func:`due`, whether every tick means something (because counters are to be told or rows were put
off), and how many times follow."""
_TIME = np.dtype("<i8")


class Snapshots:
    """States of one slot, batch after batch: streams that have not changed are not encoded again."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self._encoded: dict[int, tuple[msgspec.Raw, int, bool]] = {}

    def take(self) -> bytes:
        """The state, to be kept until the next batch: a head, :func:`delays_due`, then msgpack.

        :raises StreamsFail: if streams raise.
        """
        slot = self.contents
        families = {topic: family.dump() for topic, family in slot.families.items()}
        streams, due, untold = list(slot.unhosted.values()), FAR, False
        delays = [np.empty(0, dtype=np.int64)]
        for uid, stream in slot.streams.items():
            kept = self._encoded.get(uid) if uid in slot.untouched else None
            if kept is None:
                with slot.blame.of(uid):
                    kept = msgspec.Raw(msgspec.msgpack.encode(stream.dump())), stream.due, stream.life.untold
                if kept is None:
                    continue  # the stream raised
                self._encoded[uid] = kept
            streams.append(kept[0])
            due, untold = min(due, kept[1]), untold or kept[2]
            if stream.live:
                with slot.blame.of(uid):
                    delays.append(stream.state.all_due)
        slot.blame.settle()
        slot.untouched = set(slot.streams)
        state = [slot.number, slot.slots, slot.control, slot.failed, families, slot.seen, streams]
        state += [slot.feeds.dump(), slot.inbox.dump(), slot.tables, slot.refused.totals]
        state.append({topic: backlog.dump() for topic, backlog in slot.backlogs.items()})
        times = upcoming(np.concatenate(delays)).astype(_TIME)
        head = _HEAD.pack(VERSION, due, untold or bool(slot.backlogs), len(times))
        return head + times.tobytes() + msgspec.msgpack.encode(state)


def due(blob: bytes) -> int:
    """The first processing time (ns) such that a tick that reaches it may mean something to this slot.

    :raises ValueError: if this is a state of another version, as all functions that read states do.
    """
    due, _, _ = _head(blob)
    return due


def delays_due(blob: bytes) -> list[int]:
    """When (ns, ascending) the next open windows are due by MAX_DELAY, as :func:`upcoming` says."""
    _, _, count = _head(blob)
    times: list[int] = np.frombuffer(blob, _TIME, count, _HEAD.size).tolist()
    return times


def heeds(blob: bytes | None, messages: Messages) -> bool:
    """Whether these messages may mean something to the slot with this state (None: it has none yet)."""
    if messages.named() - {CLOCK.name}:
        return True
    due, untold, _ = (FAR, False, 0) if blob is None else _head(blob)
    return untold or _reached(messages, due)


def wanting(slot: Contents, messages: Messages) -> bool:
    """The same for a running slot."""
    if messages.named() - {CLOCK.name} or slot.backlogs:
        return True
    streams = slot.streams.values()
    if any(stream.life.untold for stream in streams):
        return True
    return _reached(messages, min((stream.due for stream in streams), default=FAR))


def _reached(ticks: Messages, due: int) -> bool:
    refused = Refused(True)
    found = [tick for _, tick in refused.decoded(ticks, control.TICKS)]
    return refused.changed or any(tick.reach >= due for tick in found)


def current(blob: bytes) -> bytes:
    """Converts a state of this or an earlier version to this version.

    :raises ValueError: for a state of another version, or what is not a state.
    """
    while blob and blob[0] in MIGRATIONS:
        blob = MIGRATIONS[blob[0]](blob)
    _head(blob)
    return blob


def place(blob: bytes) -> tuple[int, int]:
    """(the number of the slot whose state this is, of how many slots); :raises ValueError: if it is not a
    state."""
    try:
        state: list[Any] = msgspec.msgpack.decode(_body(blob))
        return state[0], state[1]
    except (msgspec.DecodeError, TypeError, LookupError, struct.error) as error:
        raise ValueError(f"not a slot's state: {error}") from error


def restore(blob: bytes, absent: Mapping[int, str] = NOBODY) -> Contents:
    """The inverse of :meth:`Snapshots.take`. ``absent``: streams that are not hosted until the next one."""
    state: list[Any] = msgspec.msgpack.decode(_body(blob))
    slot = Contents(state[0], state[1])
    slot.control, slot.failed = state[2], state[3]
    slot.families = {topic: Family.load(family) for topic, family in state[4].items()}
    slot.seen = state[5]
    for data in state[6]:
        _host(slot, data, absent)
    slot.feeds.load(state[7])
    slot.inbox.load(state[8])
    slot.tables = msgspec.convert(state[9], dict[str, Table])
    slot.refused.totals = state[10]
    slot.backlogs = {topic: Backlog.load(topic, data) for topic, data in state[11].items()}
    slot.untouched = set(slot.streams)
    for topic, table in slot.tables.items():
        slot.family(topic).order = table.tags
    return slot


def _host(slot: Contents, data: Any, absent: Mapping[int, str]) -> None:
    uid = uid_of(data[0][0])
    if uid in absent:
        slot.unhosted[uid] = data
        return
    with slot.blame.of(uid):
        stream = hosted(data[0][0]).load(data, slot.number)
        stream.life.running &= uid not in slot.failed
        slot.streams[uid] = stream


def _head(blob: bytes) -> tuple[int, bool, int]:
    """From when on a tick may matter (ns), whether every tick does, and how many times follow the head.

    :raises ValueError: if the state is of another version.
    """
    if len(blob) < _HEAD.size:
        raise ValueError(f"not a slot's state: {len(blob)} bytes")
    if blob[0] != VERSION:
        raise ValueError(f"the slot state has version {blob[0]}, but version {VERSION} is needed")
    _, due, untold, count = _HEAD.unpack_from(blob)
    return due, bool(untold), count


def _body(blob: bytes) -> memoryview:
    """What follows the head."""
    _, _, count = _head(blob)
    return memoryview(blob)[_HEAD.size + count * _TIME.itemsize :]

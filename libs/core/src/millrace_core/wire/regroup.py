"""Rows on their way from the slot of their table to the slot of their group.

Groups of several tables are groups by tags, and the single group of an ungrouped super table.

The slot of a child table cannot evaluate a group of several tables: it sends the rows on, through the
``regroup`` topic, under the group's key. ``number`` counts a sending slot's messages per stream, so that a
receiver recognizes a message that comes again after a restart.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count

import msgspec

from millrace_core.wire.events import Group
from millrace_core.wire.reading import Format, strictly, undecodable
from millrace_core.wire.topics import REGROUP, slot_of


class Regrouped(msgspec.Struct, frozen=True, array_like=True):
    """Rows of one table for one group of one stream.

    ``ts``: int64 little endian, ticks, in order of arrival; ``columns``: the other columns that the stream's
    trigger reads, as an Arrow IPC stream (empty where it reads none); ``seen``: as in TriggerBatch;
    ``written``: Kafka's timestamp of the newest message that the rows come from, ms.

    PERIOD evaluates no rows, and none are sent for it. ``change``: from here on the sending slot has tables
    of this group (1), or no longer has any (-1); ``news``: messages with rows, partition of the WAL topic ->
    (offset of the first, of the last). ``deleted``: the table's rows in this range of time are gone; with
    ``ts``: only what was there at these times, because it was rewritten and may belong elsewhere now;
    ``everyone``: it is not known which of the receiver's groups had the rows.
    """

    stream: int
    epoch: int
    slot: int
    number: int
    group: Group
    table: str
    seen: dict[int, int]
    written: int
    ts: bytes
    columns: bytes = b""
    change: int = 0
    news: dict[int, tuple[int, int]] = {}
    deleted: tuple[int, int] | None = None
    everyone: bool = False


def key(stream: int, group: int) -> bytes:
    """The key of the messages for a group: it decides on the group's slot."""
    return f"{stream}/{group}".encode()


@lru_cache(maxsize=4096)
def nobody_of(stream: int, slot: int, slots: int) -> int:
    """A group id that lies in this slot and that no group has, for a message to the slot itself."""
    return next(id_ for id_ in count(-1, -1) if slot_of(REGROUP.name, key(stream, id_), slots) == slot)


_encoder = msgspec.msgpack.Encoder()
_decode = strictly(msgspec.msgpack.Decoder(Regrouped).decode)


def encode(message: Regrouped) -> bytes:
    return _encoder.encode(message)


def decode(value: bytes) -> Regrouped:
    """:raises WireError: UNDECODABLE if it is not such a message."""
    message = _decode(value)
    if len(message.ts) % 8:
        raise undecodable(f"the value: the times have {len(message.ts)} bytes, which is not a multiple of 8")
    return message


MESSAGES = Format(REGROUP, decode, lambda message: key(message.stream, message.group.id))

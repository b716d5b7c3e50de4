"""The topic ``insert-triggers``: how far each of IoTDB's triggers has come, and its state at that point."""

from __future__ import annotations

import msgspec

from millrace_core.model.insert_trigger import DoneUpTo
from millrace_core.wire.reading import Format, strictly
from millrace_core.wire.topics import INSERT_TRIGGERS


class Deep(msgspec.Struct, frozen=True, array_like=True):
    """Rows that a trigger has written, and the number of triggers in the chain of writes behind them."""

    topic: str
    partition: int
    offset: int
    depth: int


class TriggerProgress(msgspec.Struct, frozen=True):
    """``places``: where an AFTER trigger goes on. ``state``: what the class kept at these places
    (MessagePack); None: nothing. ``deep``: rows it has written that triggers which watch them have not read
    yet. ``number``: counts these records; of two records of one trigger the higher number counts."""

    name: str
    uid: int
    number: int
    places: tuple[DoneUpTo, ...] = ()
    state: bytes | None = None
    deep: tuple[Deep, ...] = ()


def key_of(progress: TriggerProgress) -> bytes:
    return key(progress.name, progress.uid)


def key(name: str, uid: int) -> bytes:
    """The key of one trigger's record."""
    return f"{name}#{uid}".encode()


RECORDS = Format(INSERT_TRIGGERS, strictly(msgspec.msgpack.Decoder(TriggerProgress).decode), key_of)


def encode(progress: TriggerProgress) -> bytes:
    return msgspec.msgpack.encode(progress)

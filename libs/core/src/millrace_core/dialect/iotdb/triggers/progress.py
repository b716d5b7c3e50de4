"""The topic ``insert-triggers``: how far each trigger of IoTDB has come, with what it keeps at that point."""

from __future__ import annotations

import msgspec

from millrace_core.model.insert_trigger import DoneUpTo
from millrace_core.wire.reading import Format, strictly
from millrace_core.wire.topics import INSERT_TRIGGERS


class Deep(msgspec.Struct, frozen=True, array_like=True):
    """Rows that a trigger has written, and how many triggers' writes in a row they come of."""

    topic: str
    partition: int
    offset: int
    depth: int


class TriggerProgress(msgspec.Struct, frozen=True):
    """``places``: where an AFTER trigger goes on. ``state``: what the class kept when it stood there
    (MessagePack), None: nothing. ``deep``: what it has written behind the places of those who watch it.
    ``number``: counts these records; of two of one trigger the higher one counts."""

    name: str
    uid: int
    number: int
    places: tuple[DoneUpTo, ...] = ()
    state: bytes | None = None
    deep: tuple[Deep, ...] = ()


def key_of(progress: TriggerProgress) -> bytes:
    return key(progress.name, progress.uid)


def key(name: str, uid: int) -> bytes:
    """Of one trigger's record."""
    return f"{name}#{uid}".encode()


RECORDS = Format(INSERT_TRIGGERS, strictly(msgspec.msgpack.Decoder(TriggerProgress).decode), key_of)


def encode(progress: TriggerProgress) -> bytes:
    return msgspec.msgpack.encode(progress)

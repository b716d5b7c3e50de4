"""What calc-svc asks of the gateway, the catalog's only writer, in the topic ``registrations``.

A child table that a producer made (``model.schema.Child``), or the output table of a stream that was dropped
and is needed for a result.
"""

from __future__ import annotations

import msgspec

from millrace_core.model.schema import Child
from millrace_core.wire.topics import REGISTRATIONS


class OutputWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stream's output table does not exist, and a result is to be written."""

    stream: int


Registration = Child | OutputWanted
_DECODERS: tuple[msgspec.json.Decoder[Child] | msgspec.json.Decoder[OutputWanted], ...] = (
    msgspec.json.Decoder(Child), msgspec.json.Decoder(OutputWanted),
)  # fmt: skip


def encode(registration: Registration) -> tuple[str, bytes, bytes]:
    """(topic, key, value) of the message."""
    match registration:
        case Child(db=db, name=name):
            key = f"{db}.{name}"
        case OutputWanted(stream=uid):
            key = f"output/{uid}"
    return REGISTRATIONS.name, key.encode(), msgspec.json.encode(registration)


def decode(value: bytes | None) -> Registration | None:
    """The inverse; None for what a newer calc-svc may write."""
    for decoder in _DECODERS:
        try:
            return decoder.decode(value or b"")
        except msgspec.DecodeError:
            continue
    return None

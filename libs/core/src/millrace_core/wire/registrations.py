"""What calc-svc asks of the gateway, the catalog's only writer, in the topic ``registrations``.

A child table that a producer made (``model.schema.Child``), the output table of a stream that was dropped and
is needed for a result, or an output child table that is to go.
"""

from __future__ import annotations

from typing import Any

import msgspec

from millrace_core.model.schema import Child
from millrace_core.wire.topics import REGISTRATIONS


class OutputWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stream's output table does not exist, and a result is to be written."""

    stream: int


class OutputGone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """DELETE_OUTPUT_TABLE: a group's table was dropped; its output child table ``gone`` is to go too."""

    db: str
    table: str
    gone: str


Registration = Child | OutputWanted | OutputGone
_DECODERS: tuple[msgspec.json.Decoder[Any], ...] = tuple(
    msgspec.json.Decoder(kind) for kind in (Child, OutputWanted, OutputGone)
)


def encode(registration: Registration) -> tuple[str, bytes, bytes]:
    """(topic, key, value) of the message."""
    match registration:
        case Child(db=db, name=name):
            key = f"{db}.{name}"
        case OutputWanted(stream=uid):
            key = f"output/{uid}"
        case OutputGone(db=db, gone=name):
            key = f"{db}.{name}"  # behind the child's own registration
    return REGISTRATIONS.name, key.encode(), msgspec.json.encode(registration)


def decode(value: bytes | None) -> Registration | None:
    """The inverse; None for what a newer calc-svc may write."""
    for decoder in _DECODERS:
        try:
            found: Registration = decoder.decode(value or b"")
            return found
        except msgspec.DecodeError:
            continue
    return None

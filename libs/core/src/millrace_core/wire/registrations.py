"""What calc-svc asks the gateway to do, the catalog's only writer, in the topic ``registrations``.

It reports a child table that a producer created (``model.schema.Child``), the output table of a stream that
was dropped but is needed for a result, or an output child table that is to be dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from millrace_core.errors import WireError
from millrace_core.model.schema import Child
from millrace_core.wire.reading import Format, name_of, strictly, undecodable
from millrace_core.wire.topics import REGISTRATIONS


class OutputWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stream's output table does not exist, and a result is to be written."""

    stream: int


class OutputGone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """DELETE_OUTPUT_TABLE: a group's table was dropped; its output child table ``gone`` is to be dropped
    too."""

    db: str
    table: str
    gone: str


Registration = Child | OutputWanted | OutputGone
_DECODERS: tuple[Callable[[bytes], Any], ...] = tuple(
    strictly(msgspec.json.Decoder(kind).decode) for kind in (Child, OutputWanted, OutputGone)
)


def encode(registration: Registration) -> tuple[str, bytes, bytes]:
    """(topic, key, value) of the message."""
    return REGISTRATIONS.name, key_of(registration), msgspec.json.encode(registration)


def key_of(registration: Registration) -> bytes:
    match registration:
        case Child(db=db, name=name):
            return f"{db}.{name}".encode()
        case OutputWanted(stream=uid):
            return f"output/{uid}".encode()
        case OutputGone(db=db, gone=name):
            return f"{db}.{name}".encode()  # so that it comes after the child's own registration


def decode(value: bytes) -> Registration:
    """The inverse of :func:`encode`.

    :raises WireError: UNDECODABLE for anything else, as a newer calc-svc may write.
    """
    errors: list[str] = []
    for decoder in _DECODERS:
        try:
            found: Registration = decoder(value)
        except WireError as error:
            errors.append(error.message)
            continue
        if isinstance(found, Child):
            name_of(found.name.encode())
        return found
    raise undecodable(errors[0])  # most messages are about children


REGISTERED = Format(REGISTRATIONS, decode, key_of)

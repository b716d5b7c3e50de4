"""Operations of Millrace in a WAL topic, in one order with its rows; the first byte distinguishes them from
rows."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import msgspec

from millrace_core.wire.reading import MALFORMED, Int64

OPERATION_MARK = b"\x00"


class Register(msgspec.Struct, frozen=True, tag="create", tag_field="op"):
    """A child table of this key begins here, with these tags."""

    tags: dict[str, object]
    incarnation: Int64 = 0


class Drop(msgspec.Struct, frozen=True, tag="drop", tag_field="op"):
    """The table of this key ends here; its rows are gone."""


class Retag(msgspec.Struct, frozen=True, tag="retag", tag_field="op"):
    """The child table of this key has these tags from here on: all of them, by name."""

    tags: dict[str, object]


class Altered(msgspec.Struct, frozen=True, tag="altered", tag_field="op"):
    """Stands in each partition, under any key: to read on, the table's definition of this version is
    needed."""

    version: Int64


class Delete(msgspec.Struct, frozen=True, tag="delete", tag_field="op"):
    """Rows of the table of this key with ``first <= ts <= last`` are gone."""

    first: Int64
    last: Int64


Operation = Register | Drop | Delete | Retag | Altered
_operation: msgspec.json.Decoder[Operation] = msgspec.json.Decoder(Operation)


def encode_operation(operation: Operation) -> bytes:
    """The operation as a WAL value: 0x00, then JSON."""
    return OPERATION_MARK + msgspec.json.encode(operation)


def decode_operation(value: bytes) -> Operation:
    """Inverse of :func:`encode_operation`. :raises: one of :data:`MALFORMED`"""
    return _operation.decode(value[1:])


def operation_in(value: bytes | None) -> Operation | None:
    """The operation that a message holds; None for one with rows, and for a bad one."""
    if value is None or value[:1] != OPERATION_MARK:
        return None
    try:
        return decode_operation(value)
    except MALFORMED:
        return None


def versions_needed(values: Sequence[bytes | None]) -> list[tuple[int, int]]:
    """The WAL values that ask for a version of their table (:class:`Altered`): the place of each, and which
    version."""
    try:
        if OPERATION_MARK not in bytes(map(itemgetter(0), values)):  # type: ignore[arg-type]
            return []
    except (TypeError, IndexError):
        pass  # a value is null or empty
    marked = [place for place, value in enumerate(values) if value and not value[0]]
    found = ((place, operation_in(values[place])) for place in marked)
    return [(place, operation.version) for place, operation in found if isinstance(operation, Altered)]

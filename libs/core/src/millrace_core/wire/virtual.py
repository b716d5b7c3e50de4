"""Rows of source tables on their way to the virtual tables that they are rows of.

A virtual table has a WAL topic as every table has. Nobody writes rows there but the slots of trigger-svc:
where a stream triggers on the virtual table, each message of a source table is sent on with the columns that
are mapped, under the virtual table's key. calc-svc reads from the topic only how far the source tables must
have been read (:class:`Origin` of each message): the rows of a virtual table are read from its sources.
"""

from __future__ import annotations

import msgspec

from millrace_core.errors import ErrorCode, WireError
from millrace_core.wire.operations import MALFORMED


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """The message that rows came from: ``key`` and place in the WAL ``topic`` of the table ``uid``."""

    topic: str
    uid: int
    key: str
    partition: int
    offset: int

    @property
    def source(self) -> str:
        """What it comes from: offsets of one source only grow."""
        return f"{self.topic}/{self.uid}/{self.partition}/{self.key}"


class Forwarded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``rows``: a WAL value with the virtual table's columns; a row does not name those of other sources.
    ``deleted``: instead of rows: the source's rows of these times (first, last) were deleted.

    ``streams``: uids of the streams that these rows are for: those that ran, and were told of this source.
    """

    origin: Origin
    streams: tuple[int, ...]
    rows: msgspec.Raw = msgspec.Raw(b"[]")
    deleted: tuple[int, int] | None = None


class Link(msgspec.Struct, frozen=True, array_like=True):
    """Columns that a virtual table takes from one source table: ``source`` and ``target`` are the tables'
    names, which are their keys in the WAL; ``columns``: (identity of the source's column, own column)."""

    topic: str
    source: str
    target: str
    columns: tuple[tuple[str, str], ...]


_decoder = msgspec.json.Decoder(Forwarded)


def encode(message: Forwarded) -> bytes:
    return msgspec.json.encode(message)


def decode(value: bytes) -> Forwarded:
    """:raises WireError: UNDECODABLE for anything that :func:`encode` does not make."""
    try:
        return _decoder.decode(value)
    except MALFORMED as error:
        raise WireError(ErrorCode.UNDECODABLE, f"rows of a virtual table's source: {error}") from error

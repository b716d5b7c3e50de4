"""Rows of source tables on their way to the virtual tables that they belong to.

A virtual table has a WAL topic, as every table has. Only the slots of trigger-svc write rows there: if a
stream triggers on the virtual table, each message of a source table is sent on with the columns that are
mapped, under the virtual table's key. From this topic calc-svc only learns how far the source tables must
have been read (:class:`Origin` of each message): it reads the rows of a virtual table from its sources.
"""

from __future__ import annotations

import msgspec

from millrace_core.wire.reading import Int64, strictly


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """The message that rows came from: ``key`` and place in the WAL ``topic`` of the table ``uid``."""

    topic: str
    uid: int
    key: str
    partition: Int64
    offset: Int64

    @property
    def source(self) -> str:
        """The source that it comes from: offsets of one source only grow."""
        return f"{self.topic}/{self.uid}/{self.partition}/{self.key}"


class Forwarded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``rows``: a WAL value with the virtual table's columns; a row does not name those of other sources.
    ``deleted``: instead of rows: the source's rows of these times (first, last) were deleted.

    ``streams``: uids of the streams that these rows are for: those that were running and had been told of
    this source.
    """

    origin: Origin
    streams: tuple[int, ...]
    rows: msgspec.Raw = msgspec.Raw(b"[]")
    deleted: tuple[Int64, Int64] | None = None


class Link(msgspec.Struct, frozen=True, array_like=True):
    """Columns that a virtual table takes from one source table: ``source`` and ``target`` are the tables'
    names, which are their keys in the WAL; ``columns``: (identity of the source's column, the virtual table's
    column)."""

    topic: str
    source: str
    target: str
    columns: tuple[tuple[str, str], ...]


decode = strictly(msgspec.json.Decoder(Forwarded).decode)


def encode(message: Forwarded) -> bytes:
    return msgspec.json.encode(message)

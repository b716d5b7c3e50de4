"""Requests to cut windows again from stored rows, and what is handed over to a slot once history has been
read.

trigger-svc asks (topic ``recalc``): it knows which windows a late row, an update or a delete has touched, and
how far each group has come. calc-svc answers with trigger batches (topic ``triggers``), and tells a slot that
waits for history what came before its first live row (topic ``handover``).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from millrace_core.wire.events import Group
from millrace_core.wire.reading import Format, Int64, strictly
from millrace_core.wire.topics import HANDOVER, RECALC

Why = Literal["CHANGE", "MANUAL", "HISTORY", "UNTREATED", "ROWS"]
"""CHANGE: late rows, updates, deletes. MANUAL: RECALCULATE STREAM. HISTORY: rows older than the stream.
UNTREATED: rows written while it was stopped. ROWS: rows of which the slot knows only the time."""

Asked = dict[str, dict[int, int]]
"""Rows by their table's name and time, with the offset of the latest message that brought a part of each."""

Taken = dict[str, dict[str, int]]
"""The last offset of what came from the sources of virtual tables: name -> ``Origin.source`` -> offset."""


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Event times ``[first, last]`` of a group, in ticks. ``until``: T of the group at the time of the
    request: what closes later belongs to the live path. ``origin``: as in :meth:`Windower.origin_of`.
    ``open``: windows that have not closed by then are requested as well, as they are shown before they close;
    then ``last`` may lie after ``until``. ``lost``: only the stored rows know which windows are open.
    ``rewritten``: the part counts only if rows between these times (both included) have been overwritten.
    """

    group: Group
    first: Int64
    last: Int64
    until: Int64
    origin: Int64 | None = None
    open: bool = False
    lost: bool = False
    rewritten: tuple[Int64, Int64] | None = None


class Request(msgspec.Struct, frozen=True):
    """What one slot asks for one stream.

    ``slot`` of ``slots``: determine which groups are its own. ``parts``: those of groups that it knows;
    ``rest`` (first, last): its other groups as well, each up to its newest stored row. ``seen``: WAL offsets
    of the trigger table that the answer must have seen. ``localtime``: ns. ``written``, for HISTORY and
    UNTREATED: the stretches of the WAL (partition -> [from, to)) whose rows are meant; ``origins``: instead,
    for a virtual trigger table, the same for its source tables, by topic. ``taken``: only what lies after
    these offsets is meant. ``asked``, for MANUAL: the range that the user named; ``left_out``: with
    COUNT_WINDOW, the number of groups that have not come to the end of the range, and the latest T of them.
    ``rows``, for ROWS: the rows that are meant.
    """

    stream: int
    epoch: int
    slot: int
    slots: int
    why: Why
    seen: dict[int, int]
    localtime: Int64
    parts: list[Part] = []
    rest: tuple[Int64, Int64] | None = None
    written: dict[int, tuple[int, int]] = {}
    origins: dict[str, dict[int, tuple[int, int]]] = {}
    taken: Taken = {}
    asked: tuple[int, int] | None = None
    left_out: tuple[int, int] | None = None
    rows: Asked = {}


class Opened(msgspec.Struct, frozen=True, array_like=True):
    """A window that opened. ``detail``: as in :class:`millrace_core.wire.events.TriggerEvent`."""

    start: Int64
    end: Int64
    rownum: Int64
    detail: dict[str, object] | None = None


class Past(msgspec.Struct, frozen=True, array_like=True):
    """What lies before a group's live rows.

    ``memory``: its windower's memory (msgpack) after all rows up to T; ``newest``: its newest row. None: they
    stay as they are. ``ts``, ``columns``: rows to evaluate after that, in order: those that wait for T, or
    those written while the stream was stopped. ``upto``: rows up to this time are in this or an earlier
    message. ``opened``: the windows that are open, as they were when they opened: the slot tells of them.
    """

    group: Group
    ts: list[Int64]
    columns: dict[str, list[object]]
    upto: Int64
    newest: Int64 = 0
    memory: bytes | None = None
    opened: list[Opened] = []


class StoredRows(msgspec.Struct, frozen=True, array_like=True):
    """Rows of a table as they are stored, of one group, in order: their times, and the ``columns`` that the
    trigger reads."""

    table: str
    group: Group
    ts: list[Int64]
    columns: dict[str, list[object]]


class Handover(msgspec.Struct, frozen=True):
    """For the one slot that asked. ``done``: all has been told, and the slot evaluates its live rows.

    ``asked``: the rows requested under ROWS that are answered here; ``rows``: those of them that exist and
    that PRE_FILTER lets pass.
    """

    stream: int
    epoch: int
    slot: int
    groups: list[Past] = []
    done: bool = False
    asked: Asked = {}
    rows: list[StoredRows] = []


def key(stream: int, slot: int) -> bytes:
    """The key of requests and handovers, so that those of one slot stay in order."""
    return f"{stream}/{slot}".encode()


decode_request = strictly(msgspec.msgpack.Decoder(Request).decode)
decode_handover = strictly(msgspec.msgpack.Decoder(Handover).decode)
REQUESTS = Format(RECALC, decode_request, lambda request: key(request.stream, request.slot))
HANDOVERS = Format(HANDOVER, decode_handover, lambda message: key(message.stream, message.slot))


def encode(message: Request | Handover) -> bytes:
    return msgspec.msgpack.encode(message)

"""Requests to cut windows again from stored rows, and what a slot is handed once history has been read.

trigger-svc asks (topic ``recalc``): it knows which windows a late row, an update or a delete has touched, and
how far each group is. calc-svc answers with trigger batches (topic ``triggers``), and tells a slot that waits
for history what came before its first live row (topic ``handover``).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from millrace_core.wire.events import Group
from millrace_core.wire.reading import Format, Int64, strictly
from millrace_core.wire.topics import HANDOVER, RECALC

Why = Literal["CHANGE", "MANUAL", "HISTORY", "UNTREATED", "ROWS"]
"""CHANGE: late rows, updates, deletes. MANUAL: RECALCULATE STREAM. HISTORY: rows older than the stream.
UNTREATED: rows written while it was stopped. ROWS: of which the slot knows the time alone."""

Asked = dict[str, dict[int, int]]
"""Rows by their table's name and time, and the offset of the message in which a part of each came last."""

Taken = dict[str, dict[str, int]]
"""Of what came from the sources of virtual tables the last offset: name -> ``Origin.source`` -> offset."""


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Event times ``[first, last]`` of a group, in ticks. ``until``: T of the group when it was asked: what
    closes later belongs to the live path. ``origin``: as :meth:`Windower.origin_of` has it. ``open``:
    windows that have not closed by then are asked for as well, as they are shown before they close;
    ``last`` may lie behind ``until``. ``lost``: only the stored rows know which windows are open.
    ``rewritten``: only if rows between these times (both included) have been written over.
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

    ``slot`` of ``slots``: which groups are its own. ``parts``: those that it knows; ``rest`` (first, last):
    its other groups as well, each up to its newest stored row. ``seen``: WAL offsets of the trigger table
    that the answer must have seen. ``localtime``: ns. ``written``: HISTORY, UNTREATED: the stretches of the
    WAL (partition -> [from, to)) whose rows are meant; ``origins``: of a virtual trigger table the same of
    its source tables instead, by topic. ``taken``: what lies behind these offsets alone. ``asked``: MANUAL:
    the range that the user named; ``left_out``: of COUNT_WINDOW the groups that have not come to its end, and
    the latest T of them. ``rows``: ROWS: those that are meant.
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
    """A window that opened. ``detail``: as :class:`millrace_core.wire.events.TriggerEvent` has it."""

    start: Int64
    end: Int64
    rownum: Int64
    detail: dict[str, object] | None = None


class Past(msgspec.Struct, frozen=True, array_like=True):
    """What lies before a group's live rows.

    ``memory``: its windower's memory (msgpack) after all rows up to T, ``newest``: its newest row; None: as
    it is. ``ts``, ``columns``: rows to evaluate behind that, in order: those that wait for T, or those
    written while the stream was stopped. ``upto``: rows up to here are in this or an earlier message.
    ``opened``: the windows that are open, as they were when they opened: the slot tells of them.
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
    """For the one slot that asked. ``done``: all has been told; the slot evaluates its live rows.

    ``asked``: what was asked for under ROWS and is answered here, ``rows``: those of them that are there and
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
    """The key of requests and handovers: those of one slot stay in order."""
    return f"{stream}/{slot}".encode()


decode_request = strictly(msgspec.msgpack.Decoder(Request).decode)
decode_handover = strictly(msgspec.msgpack.Decoder(Handover).decode)
REQUESTS = Format(RECALC, decode_request, lambda request: key(request.stream, request.slot))
HANDOVERS = Format(HANDOVER, decode_handover, lambda message: key(message.stream, message.slot))


def encode(message: Request | Handover) -> bytes:
    return msgspec.msgpack.encode(message)

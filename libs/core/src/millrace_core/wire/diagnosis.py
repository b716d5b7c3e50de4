"""What a slot answers to DIAGNOSE STREAM: its part of a stream, in the topic ``status``.

Keys begin with :data:`PREFIX`, so that readers of the topic that have not asked can pass these records over.
The gateway deletes an answer (a null value) once it has read it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from millrace_core.wire.events import Group
from millrace_core.wire.reading import strictly

PREFIX = "diagnosis/"
"""How the keys of these records begin."""

What = Literal["row", "row_at", "state", "start", "end", "rows", "true_for", "again", "delay", "time", "data"]
"""What something waits for. row: any row. row_at: a row with a time of ``at`` or later. state: a row with a
state other than ``words``. start, end: a row that meets the condition. rows: ``at`` more rows. time, delay:
processing time ``at`` (ns), for PERIOD and MAX_DELAY. data: a row written by then (IGNORE_NODATA_TRIGGER).

Two of them do not end a window but say what becomes of it. true_for: it counts only if it lasts until ``at``.
again: it is cut again from the stored rows when it closes."""


class Wait(msgspec.Struct, frozen=True, array_like=True):
    what: What
    at: int = 0
    words: str = ""


class OpenWindow(msgspec.Struct, frozen=True, array_like=True):
    """A window that is open, or the next instant of SLIDING (``end``) with the one before it (``start``).
    None: not known. ``rows``: their number so far; -1: the table must be asked."""

    start: int | None
    end: int | None
    rows: int
    waits: list[Wait]


class GroupPart(msgspec.Struct, frozen=True, array_like=True):
    """A group. ``newest``: event time of its newest row, in ticks; ``until``: its T (None: it has no row).

    ``waiting``: how many rows wait for T; ``first_waiting``: the oldest one's time; ``held``: how many rows
    wait for history. ``windows``: the open windows, those that close first in front; ``more``: how many are
    left out. ``waits``: what the group waits for while no window is open.
    """

    group: Group
    newest: int | None = None
    until: int | None = None
    waiting: int = 0
    first_waiting: int = 0
    held: int = 0
    windows: list[OpenWindow] = []
    more: int = 0
    waits: list[Wait] = []


class Diagnosis(msgspec.Struct, frozen=True, tag="diagnosis", tag_field="about"):
    """A slot's part of a stream. ``control``: the number of the control record that asked for it.

    ``hosted``: whether the slot keeps the stream at all; if not, the rest is meaningless. ``failure``: why it
    cannot keep the stream, or why it has set it aside. ``gone``: its trigger table was dropped. ``holding``:
    live rows wait for history. ``totals``: counters by the names of ``wire.counters``. ``groups``: the newest
    of the ``total`` groups. ``windows``: the number of open windows, for types that may have several per
    group; ``waiting``: the number of rows that wait for T.
    """

    stream: int
    slot: int
    control: int
    hosted: bool = False
    failure: str = ""
    running: bool = False
    gone: bool = False
    holding: bool = False
    totals: dict[str, int] = {}
    total: int = 0
    groups: list[GroupPart] = []
    windows: int = 0
    waiting: int = 0


_encoder = msgspec.json.Encoder()
decode = strictly(msgspec.json.Decoder(Diagnosis).decode)


def key(stream: int, slot: int) -> bytes:
    """The key of a slot's part of a stream: an answer overwrites its predecessor."""
    return f"{PREFIX}{stream}/{slot}".encode()


def encode(part: Diagnosis) -> bytes:
    return _encoder.encode(part)


def size(part: GroupPart) -> int:
    """Bytes of a group in the message."""
    return len(_encoder.encode(part))

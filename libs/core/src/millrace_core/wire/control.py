"""Control records: definitions as data. They reach the slots through the same query as the rows do.

Their order is the order of the ``control`` topic; a record's offset there is its number, and an
acknowledgement (``wire.status``) names that number.
"""

from __future__ import annotations

import msgspec

from millrace_core.model.schema import Child, Table
from millrace_core.model.stream import StreamSpec
from millrace_core.model.triggers import read_trigger
from millrace_core.wire.reading import Format, Int64, strictly
from millrace_core.wire.topics import CLOCK, CONTROL
from millrace_core.wire.virtual import Link

Offsets = dict[Int64, Int64]
"""WAL offsets: partition -> the first offset that is *not* included (for an end) or that is included (for a
start)."""


class ControlRecord(msgspec.Struct, frozen=True, tag_field="op"):
    """The root of the control records. ``slot`` None: the record is for every slot; otherwise for that one
    only."""


class DefineStream(ControlRecord, frozen=True, tag="define"):
    """A stream is live for WAL messages of its trigger table from ``live_from`` on (partition -> offset).

    ``epoch`` grows with every START, so that events of different runs can be told apart. ``origins``, for a
    stream on a virtual table: ``live_from`` of its source tables, by topic; the same as in KnowOrigins.
    """

    spec: StreamSpec
    live_from: Offsets
    epoch: int = 0
    origins: dict[str, Offsets] = {}


class StopStream(ControlRecord, frozen=True, tag="stop"):
    """The stream no longer evaluates anything; its open windows stay. ``origins``, for a stream on a virtual
    table: the ends of its source tables' topics, a moment before."""

    uid: int
    origins: dict[str, Offsets] = {}


class StartStream(ControlRecord, frozen=True, tag="start"):
    """The stream evaluates again, from ``live_from`` on. ``origins``, for a stream on a virtual table: the
    same for its source tables, by topic. ``untreated``: what was written while it was stopped is history, and
    is treated as such."""

    uid: int
    live_from: Offsets
    epoch: int
    origins: dict[str, Offsets] = {}
    untreated: bool = False


class RecalculateStream(ControlRecord, frozen=True, tag="recalculate"):
    """RECALCULATE STREAM: event times ``[first, last]`` in ticks. ``last`` None: up to where each group has
    come."""

    uid: int
    first: Int64
    last: Int64 | None = None


class DiagnoseStream(ControlRecord, frozen=True, tag="diagnose"):
    """DIAGNOSE STREAM: each slot answers with its part (``wire.diagnosis``), with at most its ``limit``
    newest groups."""

    uid: int
    limit: int


class DropStream(ControlRecord, frozen=True, tag="drop"):
    """The stream and its state are gone."""

    uid: int


class ChangeTable(ControlRecord, frozen=True, tag="table"):
    """A trigger table's definition changed: messages are decoded by it from here on."""

    table: Table


class DropTable(ControlRecord, frozen=True, tag="drop_table"):
    """A table is gone; its topic may be deleted and made again."""

    uid: int
    topic: str


class KnowChildren(ControlRecord, frozen=True, tag="children"):
    """Child tables (with tags) that existed when a stream was defined, for the one slot that evaluates
    them."""

    slot: int
    children: tuple[Child, ...]


class KnowOrigins(ControlRecord, frozen=True, tag="origins"):
    """What the virtual ``table`` takes from other tables; for one slot that evaluates some of these. The slot
    sends their rows on for ``stream``, from ``live_from`` (topic -> offsets) on. ``sources``: the super and
    normal tables of the links."""

    slot: int
    stream: int
    table: Table
    sources: tuple[Table, ...]
    live_from: dict[str, Offsets]
    links: tuple[Link, ...]


AnyControl = (
    DefineStream | StopStream | StartStream | RecalculateStream | DiagnoseStream | DropStream
    | ChangeTable | DropTable | KnowChildren | KnowOrigins
)  # fmt: skip


class Tick(msgspec.Struct, frozen=True):
    """Processing time as data: nanoseconds since the epoch.

    ``since``: from then on the clock has watched without a break; instants planned up to that time were
    missed (by default: all). ``ends``: WAL topic -> its end offsets, read after ``now`` and before the tick
    was written, for the trigger tables of the PERIOD streams that are due. ``early``: nanoseconds; open
    windows with MAX_DELAY trigger if they are due within that time after ``now``.
    """

    now: Int64
    since: Int64 = (1 << 63) - 1
    ends: dict[str, Offsets] = {}
    early: Int64 = 0

    @property
    def reach(self) -> int:
        """The time (ns) up to which open windows with MAX_DELAY may be due to trigger on this tick."""
        return self.now + self.early


_encoder = msgspec.json.Encoder()
_control: msgspec.json.Decoder[AnyControl] = msgspec.json.Decoder(AnyControl, dec_hook=read_trigger)
decode_control = strictly(_control.decode)
decode_tick = strictly(msgspec.json.Decoder(Tick).decode)
RECORDS = Format(CONTROL, decode_control)
TICKS = Format(CLOCK, decode_tick)


def encode(record: AnyControl | Tick) -> bytes:
    return _encoder.encode(record)

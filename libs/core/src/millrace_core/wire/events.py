"""Trigger events: each says that the moment to calculate has come for a group of a stream, and what that
moment is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from millrace_core.model.schema import HASH_BYTES, SEPARATOR
from millrace_core.wire.reading import Format, Int64, strictly
from millrace_core.wire.topics import TRIGGERS

EventKind = Literal["OPEN", "CLOSE", "ON_TIME", "INVALID", "RETRACT", "GONE"]
"""INVALID: a window no longer exists. RETRACT: the group's results with keys in ``start..end`` (both
included), as far as they were told of before, are no longer valid; their replacements follow. GONE: the
group's table was dropped, and its output table is to go too (DELETE_OUTPUT_TABLE)."""
Cause = Literal["LIVE", "DELAY", "RECALC", "HISTORY"]
ROWNUM_FROM_STORE = -1


class Group(msgspec.Struct, frozen=True, array_like=True):
    """A group of a stream. ``key``: values of the grouping columns in order (empty when ungrouped);
    ``table``: the child or normal table's name if the group is one table, else None; ``id``: 0 when
    ungrouped, the table's uid when grouped by tbname, else a hash of stream and key."""

    id: Int64
    key: tuple[object, ...]
    table: str | None


class TriggerEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One event. Times are ticks of the trigger table's database, ``localtime`` is nanoseconds.

    Window triggers: ``start``/``end`` are ``_twstart``/``_twend``. SLIDING: they are
    ``_tprev_ts``/``_tcurrent_ts``; PERIOD: the previous and this instant, in ns; for both, ``next`` is the
    following instant. ``rownum`` is ``_twrownum``, or -1 if disorder makes it unsure: then the calculation
    counts the stored rows. ``detail``: fields of the notification that only the trigger knows (prevState,
    triggerCondition, …). ``written``: partition of the trigger table's WAL topic -> [from, to) offsets. For
    PERIOD: what was written since the trigger before; for a window that has closed: which part of these
    partitions counts in it (None: all).
    """

    id: str
    kind: EventKind
    cause: Cause
    group: Group
    start: Int64
    end: Int64
    rownum: Int64
    localtime: Int64
    next: Int64 = 0
    detail: dict[str, object] | None = None
    written: dict[int, tuple[int, int]] | None = None


ANSWERING, ANSWERED = -1, -2
"""Used in place of a slot in answers to requests that are still to be calculated, or are calculated
already."""


class TriggerBatch(msgspec.Struct, frozen=True):
    """The events of one stream from one slot, in order; the order within a group is binding.

    ``seen``: how far the trigger table's WAL had been read for these events (partition -> first offset not
    seen): a calculation must see at least as much. ``number`` grows by one per batch of (stream, epoch,
    slot): a batch that comes again after a restart has its old number.
    """

    stream: int
    epoch: int
    slot: int
    number: int
    seen: dict[int, int]
    events: list[TriggerEvent]


def trigger_id(stream: int, group: int, start: int) -> str:
    """The id of a window (or instant) of a group: the same after any replay, restart or recalculation."""
    return trigger_ids(stream, [group], [start])[0]


def trigger_ids(stream: int, groups: Sequence[int], starts: Sequence[int]) -> list[str]:
    """The ids of windows; ``groups[i]`` and ``starts[i]`` say which."""
    # each is ``stable_hash("trigger", stream, group, start)``, in hexadecimal. Every window needs one, so the
    # part that the windows of a group have in common is hashed only once
    digests: list[bytes] = []
    last, begun = None, hashlib.blake2b(digest_size=HASH_BYTES)
    for group, start in zip(groups, starts, strict=True):
        if group != last:
            text = SEPARATOR.join(("trigger", str(stream), str(group), ""))
            last, begun = group, hashlib.blake2b(text.encode(), digest_size=HASH_BYTES)
        one = begun.copy()
        one.update(b"%d" % start)
        digests.append(one.digest())
    numbers = np.frombuffer(b"".join(digests), dtype=">u8") >> np.uint64(1)
    digits = numbers.astype(">u8").tobytes().hex()
    return [digits[at : at + 2 * HASH_BYTES] for at in range(0, len(digits), 2 * HASH_BYTES)]


def answers_request(key: bytes | None) -> bool:
    """Whether a message of ``triggers`` with this key (``stream/slot``) has events of history or of a
    recalculation: these have negative numbers in place of a slot."""
    return b"/-" in (key or b"")


def is_calculated(key: bytes | None) -> bool:
    """Whether the message only serves as a record: its events were calculated before it was written."""
    return (key or b"").endswith(b"/%d" % ANSWERED)


def key_of(batch: TriggerBatch) -> bytes:
    """The key of a batch, so that the batches of one slot stay in order."""
    return f"{batch.stream}/{batch.slot}".encode()


_encoder = msgspec.json.Encoder()
decode = strictly(msgspec.json.Decoder(TriggerBatch).decode)
BATCHES = Format(TRIGGERS, decode, key_of)


def encode(batch: TriggerBatch) -> bytes:
    return _encoder.encode(batch)

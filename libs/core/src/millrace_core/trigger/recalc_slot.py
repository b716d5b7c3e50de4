"""What a slot does for streams that recalculate: records, deletes and handovers find their streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from millrace_core.trigger.family import Family
from millrace_core.trigger.intake import Messages
from millrace_core.trigger.recalc_stream import RecalcStream
from millrace_core.trigger.stream import Output, Stream
from millrace_core.wire import control, recalc
from millrace_core.wire.control import Offsets
from millrace_core.wire.rows import Delete, Drop, operation_in

FIRST, LAST = -(1 << 63), (1 << 63) - 1
"""What a dropped child takes along: all times."""


def on_record(
    record: control.AnyControl, streams: Mapping[int, Stream], seen: Mapping[str, Offsets], at: int
) -> Iterator[Output]:
    """A control record is in force since ``at`` (ns); ``seen``: what the slot has seen, by topic."""
    match record:
        case control.StopStream(uid=uid) | control.StartStream(uid=uid) | control.RecalculateStream(uid=uid):
            stream = streams.get(uid)
        case _:
            return
    if not isinstance(stream, RecalcStream) or stream.life.gone:
        return
    mine = seen.get(stream.definition.topic, {})
    match record:
        case control.StopStream():
            stream.stop(mine)
        case control.StartStream(untreated=untreated):
            stream.catch_up(untreated, at)
        case control.RecalculateStream(first=first, last=last):
            yield from stream.recalculate(first, last, mine, at)


def deletes_in(streams: Sequence[Stream], messages: Messages) -> list[tuple[int, tuple[int, int]]]:
    """The messages that delete rows, and which, where a stream wants to know (DELETE_RECALC)."""
    if not any(stream.definition.spec.options.delete_recalc for stream in streams):
        return []
    found = []
    for place, value in enumerate(messages.value):
        match operation_in(value):
            case Delete(first=first, last=last):
                found.append((place, (first, last)))
            case Drop():
                found.append((place, (FIRST, LAST)))
    return found


def delete(
    streams: Sequence[Stream], messages: Messages, place: int, span: tuple[int, int],
    wanted: Mapping[int, Any], seen: Offsets, family: Family,
) -> Iterator[Output]:  # fmt: skip
    """Tell the streams that take this message that it deletes rows."""
    name = messages.key[place]
    for stream in streams:
        if not isinstance(stream, RecalcStream) or not stream.definition.spec.options.delete_recalc:
            continue
        if stream.uid in wanted and wanted[stream.uid][place]:
            key = name if name is not None else stream.definition.table.name.encode()
            yield from stream.delete(key, span, int(messages.timestamp[place]), seen, family)


def on_handovers(
    messages: Messages, slot: int, streams: Mapping[int, Stream], seen: Mapping[str, Offsets]
) -> Iterator[Output]:
    """What calc-svc tells of the past; every slot gets all of it."""
    for value, at in zip(messages.value, messages.timestamp.tolist(), strict=True):
        handover = recalc.decode_handover(value) if value is not None else None
        stream = streams.get(handover.stream) if handover is not None and handover.slot == slot else None
        if handover is not None and isinstance(stream, RecalcStream) and stream.live:
            yield from stream.take_past(handover, at, seen.get(stream.definition.topic, {}))
